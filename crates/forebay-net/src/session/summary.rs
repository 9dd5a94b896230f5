//! Reports of a session: events while it runs, and a summary at its end.
//!
//! All types are plain data; the command's `text` and `json` modules format them.

use super::reports::{Files, Recovered};
use crate::{
    ledger::{Ledger, add_thread},
    port::{Counts, Interface, Left, LinkType, Odd, Outages, PortInfo, ThreadCounts},
};
use forebay::{Error, poll::Modes, store};
use std::{path::Path, time::Duration};

/// An event of a running session.
///
/// ```
/// use forebay_net::{open, session::{SessionConfig, Control, Event, Output, Session}};
/// let names = ["sim:clock=virtual,count=1M".parse()?];
/// let clock = open::clock(&names)?;
/// let ports = open::ports(&names, &Default::default(), &clock)?;
/// let session = Session::open(ports, Output::Count, SessionConfig::default(), clock, Control::new()?)?;
/// let mut rates = Vec::new();
/// session.run(&mut |event| match event {
///     Event::Progress(progress) => rates.push(progress.packets_per_second),
///     Event::Behind(it) => eprintln!("{:.0} % full", it.fill * 100.0),
///     Event::Finishing(totals) => eprintln!("{} bytes left", totals.pending_bytes),
///     Event::Compressing { files } => eprintln!("{files} files to compress"),
///     Event::Recovering => eprintln!("a file is still being finished"),
///     Event::Recovered(it) => eprintln!("{} has {} packets", it.path.display(), it.packets),
///     Event::Finished { path } => eprintln!("{} is complete", path.display()),
///     Event::Outage { source, outages } => eprintln!("{source}: {outages:?}"),
///     Event::Triggered => eprintln!("a recorder is to write its packets"),
///     _ => {}
/// });
/// assert_eq!(rates.len(), 2); // a quarter and a half of a virtual second
/// assert!(rates.iter().all(|rate| (rate - 1_488_095.0).abs() < 2_000.0), "{rates:?}");
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The counts so far.
    Progress(&'a Progress),
    /// The writer is too slow; packets will be dropped soon.
    Behind(&'a Behind),
    /// The capture has ended, and the output is being written and synced. Carries the store's counts, every 100 ms until that is
    /// done. Show `pending_bytes` and, once `is_syncing`, `unsynced_bytes`. The next [`Control::stop`](super::Control::stop)
    /// gives up.
    Finishing(&'a store::Totals),
    /// A source's interface went down, or is up again. Several short outages may arrive as one event.
    Outage {
        /// The source's name.
        source: &'a str,
        /// Totals of its outages so far.
        outages: Outages,
    },
    /// The capture has ended and is written, but finished files remain to be compressed. The session ends when they are
    /// compressed, or at the next [`Control::stop`](super::Control::stop).
    Compressing {
        /// Number of files that remain.
        files: usize,
    },
    /// The capture has ended, and a file that a killed capture left is still being finished. The session ends when it is finished,
    /// or at the next [`Control::stop`](super::Control::stop).
    Recovering,
    /// A file that a killed capture of the same series left was finished, or could not be.
    Recovered(&'a Recovered),
    /// [`Control::trigger`](super::Control::trigger) was called: for the [recorder](crate::recorder) of the capture.
    Triggered,
    /// A file is complete, and compressed if that was requested. Reported within [`SessionConfig::progress_every`].
    ///
    /// [`SessionConfig::progress_every`]: super::SessionConfig::progress_every
    Finished {
        /// Its final name.
        path: &'a Path,
    },
}

/// The counts so far.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Time since the start.
    pub elapsed: Duration,
    /// [`Control::report`](super::Control::report) requested it.
    pub asked: bool,
    /// Packets taken from the sources, written or only counted.
    pub taken: u64,
    /// The accounting so far. Received packets that wait in a source or in the store are in no other column yet, so
    /// [`Ledger::check`] fails while packets wait.
    pub ledger: Ledger,
    /// As in [`Summary::filters_uncounted`].
    pub filters_uncounted: bool,
    /// Wire length of the packets taken, in bytes.
    pub wire_bytes: u64,
    /// Packets taken with fewer bytes than they had on the wire: cut to the snapshot length, or cut already in the source.
    pub cut: u64,
    /// Packets per second in the last two seconds, or since the previous report if that is longer ago.
    pub packets_per_second: f64,
    /// Wire length of the packets, in bits per second.
    pub bits_per_second: f64,
    /// The share of the fullest source's ring that is filled now, 0 to 1; `None`: no source has a ring, or knows its fill level.
    pub ring_fill: Option<f64>,
    /// Time spent in each mode of the poller.
    pub modes: Modes,
    /// Bytes up to the end of the last written packet.
    pub written_bytes: u64,
    /// Written packets that are durable, so that a power failure cannot lose them.
    pub durable: u64,
    /// Bytes up to the end of the last durable packet.
    pub durable_bytes: u64,
    /// Bytes in the store that wait to be written.
    pub pending_bytes: u64,
    /// The most bytes that waited at any time, to the nearest buffer.
    pub high_water_bytes: u64,
    /// Bytes composed.
    pub accepted_bytes: u64,
    /// The number of the current file, from 1; 0 if there is only one output.
    pub file: u64,
    /// Completed files of a series.
    pub files_written: u64,
    /// Files removed for newer ones.
    pub files_removed: u64,
    /// Files removed for free space.
    pub files_removed_for_space: u64,
    /// Fill level of the store relative to its limit, 0 to 1.
    pub fill: f64,
    /// Bytes of free space in the store.
    pub vacant_bytes: u64,
    /// If all sources are regular files: the bytes that are read of them, and their lengths.
    pub reading: Option<(u64, u64)>,
}

impl Progress {
    /// Adds the counts of another thread, which reads the same interface into another output.
    pub(crate) fn add_thread(&mut self, other: &Progress) {
        let Progress {
            elapsed,
            asked: _,
            taken,
            ledger,
            filters_uncounted,
            wire_bytes,
            cut,
            packets_per_second,
            bits_per_second,
            ring_fill,
            modes,
            written_bytes,
            durable,
            durable_bytes,
            pending_bytes,
            high_water_bytes,
            accepted_bytes,
            file,
            files_written,
            files_removed,
            files_removed_for_space,
            fill,
            vacant_bytes,
            reading: _,
        } = other;
        self.elapsed = self.elapsed.max(*elapsed);
        self.taken += taken;
        let is_uncounted = [self.filters_uncounted, *filters_uncounted];
        self.ledger.add_thread(ledger, is_uncounted);
        self.filters_uncounted |= filters_uncounted;
        self.wire_bytes += wire_bytes;
        self.cut += cut;
        self.packets_per_second += packets_per_second;
        self.bits_per_second += bits_per_second;
        let fills = [self.ring_fill, *ring_fill].into_iter().flatten();
        self.ring_fill = fills.reduce(f64::max);
        self.modes += *modes;
        self.written_bytes += written_bytes;
        self.durable += durable;
        self.durable_bytes += durable_bytes;
        self.pending_bytes += pending_bytes;
        self.high_water_bytes += high_water_bytes;
        self.accepted_bytes += accepted_bytes;
        self.file = self.file.max(*file);
        self.files_written += files_written;
        self.files_removed += files_removed;
        self.files_removed_for_space += files_removed_for_space;
        self.fill = self.fill.max(*fill);
        self.vacant_bytes += vacant_bytes;
    }
}

/// The store passed its high watermark.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Behind {
    /// Fill level of the buffers, 0 to 1.
    pub fill: f64,
    /// The difference between the rates of bytes composed and bytes written.
    pub bytes_per_second: f64,
    /// How long the free space will last at that rate.
    pub room_for: Option<Duration>,
}

/// A port of the session: its interfaces and its properties.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Source {
    /// The name used in messages.
    pub name: String,
    /// Its interfaces.
    pub interfaces: Vec<Interface>,
    /// The properties of the open port.
    pub got: PortInfo,
    /// Outages of its interface. Packets of these times are not in the ledger.
    pub outages: Outages,
    /// Its own counters.
    pub counts: Counts,
    /// Packets taken from it: written or only counted.
    pub taken: u64,
    /// Its packets that the session's filter rejected.
    pub filtered: u64,
    /// Of the packets handed out by it, those with a time of the hardware, if that was chosen.
    pub hardware_times: Option<u64>,
    /// Its packets in [`Ledger::unread`].
    pub unread: u64,
    /// Its packets that could not be taken because the output had failed.
    pub refused: u64,
    /// The counts of each thread, if several threads read it; otherwise empty.
    pub threads: Vec<ThreadCounts>,
}

impl Source {
    /// The distinct link types of its interfaces, in order of first occurrence.
    pub fn link_types(&self) -> Vec<LinkType> {
        let mut links = Vec::new();
        for interface in &self.interfaces {
            if !links.contains(&interface.link) {
                links.push(interface.link);
            }
        }
        links
    }

    /// Adds the counts of another port of the same interface.
    fn add_thread(&mut self, other: &Source) {
        let Source {
            name: _,
            interfaces: _,
            got,
            outages: _,
            counts,
            taken,
            filtered,
            unread,
            hardware_times: _,
            refused: _,
            threads: _,
        } = other;
        self.got.ring_bytes += got.ring_bytes;
        self.got.ring_frames += got.ring_frames;
        self.taken += taken;
        self.filtered += filtered;
        self.unread += unread;
        add_thread(&mut self.counts, counts);
    }
}

/// The result of a session. [`Ledger::check`] checks the accounting equation, [`is_fine`](Summary::is_fine) whether the capture
/// succeeded.
///
/// ```
/// # use forebay_net::{open, session::{SessionConfig, Control, Output, Session}};
/// # let names = ["sim:clock=virtual,count=10".parse()?];
/// # let clock = open::clock(&names)?;
/// # let ports = open::ports(&names, &Default::default(), &clock)?;
/// # let session = Session::open(ports, Output::Count, SessionConfig::default(), clock, Control::new()?)?;
/// let summary = session.run(&mut |_| {});
/// assert!(summary.is_fine());
/// assert_eq!(summary.sources[0].got.backend, "sim");
/// assert!(summary.store.is_none() && !summary.durable); // nothing was written
/// # Ok::<(), forebay::Error>(())
/// ```
#[non_exhaustive]
#[derive(Debug)]
pub struct Summary {
    /// The accounting of all packets.
    pub ledger: Ledger,
    /// A source filters for itself, as the kernel does. Packets that it rejects are not counted, and not part of the accounting.
    pub filters_uncounted: bool,
    /// Whether all written data is durable.
    pub durable: bool,
    /// Bytes written, up to the last whole record, in all files.
    pub bytes: u64,
    /// Wire length of the packets taken, in bytes.
    pub wire_bytes: u64,
    /// Packets taken with fewer bytes than they had on the wire: cut to the snapshot length, or cut already in the source.
    pub cut: u64,
    /// All counts of the store; zeros without an output.
    pub totals: store::Totals,
    /// The files.
    pub files: Files,
    /// From the first poll to the last packet taken, on the session's clock.
    pub elapsed: Duration,
    /// Processor time of all threads, including the time for closing.
    pub cpu: Duration,
    /// Time spent in each mode of the poller.
    pub modes: Modes,
    /// Gaps in the sources' packets that are marked in the file.
    pub gaps: u64,
    /// Packets that differ from the contents of their files.
    pub odd: Odd,
    /// Metadata of the files read that the output lacks.
    pub left: Left,
    /// The ports.
    pub sources: Vec<Source>,
    /// Packets published to the readers of a share; `None` without one.
    pub shared: Option<u64>,
    /// The store, if there is an output.
    pub store: Option<store::StoreInfo>,
    /// All sources have ended by themselves: files are read to their ends, for example.
    pub sources_ended: bool,
    /// Packets that a second stop gave up. Those that arrived after the packet limit was reached are only unread.
    pub abandoned: u64,
    /// A second stop gave up the last sync: everything is written, but a power failure may lose it.
    pub sync_abandoned: bool,
    /// The capture ended because otherwise less space than [`SessionConfig::keep_free`](super::SessionConfig::keep_free) would have
    /// been left, and no older file of the series could be removed.
    pub is_out_of_room: bool,
    /// The first error of a source. All other fields are valid nevertheless.
    pub port_error: Option<Error>,
    /// The first error of the output.
    pub store_error: Option<Error>,
}

impl Summary {
    /// Adds the result of another thread, which read the same interface into another output.
    pub(crate) fn add_thread(&mut self, other: Summary) {
        let Summary {
            ledger,
            filters_uncounted,
            durable,
            bytes,
            wire_bytes,
            cut,
            totals,
            files,
            elapsed,
            cpu,
            modes,
            gaps,
            odd,
            left,
            sources,
            shared: _,
            store,
            sources_ended,
            abandoned,
            sync_abandoned,
            is_out_of_room,
            port_error,
            store_error,
        } = other;
        let is_uncounted = [self.filters_uncounted, filters_uncounted];
        self.ledger.add_thread(&ledger, is_uncounted);
        self.filters_uncounted |= filters_uncounted;
        self.durable &= durable;
        self.bytes += bytes;
        self.wire_bytes += wire_bytes;
        self.cut += cut;
        self.totals += totals;
        self.files += files;
        self.elapsed = self.elapsed.max(elapsed);
        // Of all threads of the process already.
        self.cpu = self.cpu.max(cpu);
        self.modes += modes;
        self.gaps += gaps;
        self.odd += odd;
        self.left += left;
        self.sources_ended &= sources_ended;
        self.abandoned += abandoned;
        self.sync_abandoned |= sync_abandoned;
        self.is_out_of_room |= is_out_of_room;
        self.port_error = self.port_error.take().or(port_error);
        self.store_error = self.store_error.take().or(store_error);
        if let (Some(all), Some(store)) = (&mut self.store, store) {
            all.bytes += store.bytes;
            all.limit_bytes += store.limit_bytes;
        }
        for (source, other) in self.sources.iter_mut().zip(&sources) {
            source.add_thread(other);
        }
    }

    /// Whether the reader of the output closed it, which ends a capture normally.
    pub fn reader_left(&self) -> bool {
        let errno = self.store_error.as_ref().and_then(Error::raw_os_error);
        errno == Some(libc::EPIPE)
    }

    /// Whether the capture succeeded.
    pub fn is_fine(&self) -> bool {
        let store_is_fine = self.store_error.is_none() || self.reader_left();
        let is_compressed = self.files.compressed.failed == 0;
        store_is_fine
            && is_compressed
            && self.port_error.is_none()
            && self.abandoned == 0
            && !self.sync_abandoned
            && self.ledger.check().is_ok()
    }
}
