//! What a session tells: while it runs, and at its end.
//!
//! All of it is plain data; the command's `text` and `json` turn it into lines.

use super::Files;
use crate::{
    ledger::Ledger,
    port::{Got, Interface, Left, LinkType, Odd, Outages},
};
use forebay::{Error, poll::Modes, store};
use std::time::Duration;

/// Something to tell while a session runs.
///
/// ```
/// use forebay_net::{open, session::{Config, Control, Event, Output, Session}};
/// let names = ["sim:clock=virtual,count=1M".parse()?];
/// let clock = open::clock(&names)?;
/// let ports = open::ports(&names, &Default::default(), &clock)?;
/// let session = Session::open(ports, Output::Count, Config::default(), clock, Control::new()?)?;
/// let mut rates = Vec::new();
/// session.run(&mut |event| match event {
///     Event::Progress(progress) => rates.push(progress.packets_per_second),
///     Event::Behind(behind) => eprintln!("{:.0} % full", behind.fill * 100.0),
///     Event::Finishing(totals) => eprintln!("{} bytes left", totals.pending_bytes),
///     Event::Compressing { files } => eprintln!("{files} files to compress"),
///     Event::Outage { source, outages } => eprintln!("{source}: {outages:?}"),
/// });
/// assert_eq!(rates.len(), 2); // a quarter and a half of a virtual second
/// assert!(rates.iter().all(|rate| (rate - 1_488_095.0).abs() < 2_000.0), "{rates:?}");
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Debug)]
pub enum Event<'a> {
    /// The counts so far.
    Progress(&'a Progress),
    /// The writer falls behind; drops will follow.
    Behind(&'a Behind),
    /// The capture has ended, and the output is written to its end and synced: the store's counts, every 100 ms until that is done.
    /// Show `pending_bytes` and, once `is_syncing`, `unsynced_bytes`. The next [`Control::stop`](super::Control::stop) gives up.
    Finishing(&'a store::Totals),
    /// A source's interface went down, or is up again; several short outages may come as one event.
    Outage {
        /// The source's name.
        source: &'a str,
        /// All of its outages so far.
        outages: Outages,
    },
    /// The capture is over and written, and so many finished files are still to be compressed: the session ends when they
    /// are, or at the next [`Control::stop`](super::Control::stop).
    Compressing {
        /// How many.
        files: usize,
    },
}

/// The counts so far.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Time since the start.
    pub elapsed: Duration,
    /// [`Control::report`](super::Control::report) asked for it.
    pub asked: bool,
    /// Packets taken from the sources, and kept or counted.
    pub taken: u64,
    /// Packets that our filter rejected.
    pub filtered: u64,
    /// Bytes that those taken had on the wire.
    pub wire_bytes: u64,
    /// Packets a second in the last two seconds, or since the report before if that is longer ago.
    pub packets_per_second: f64,
    /// Bits of these a second.
    pub bits_per_second: f64,
    /// Packets that the sources dropped; `None`: one of them cannot tell.
    pub dropped: Option<u64>,
    /// Packets whose every byte is written.
    pub written: u64,
    /// Bytes up to the end of the last of these.
    pub written_bytes: u64,
    /// Of those written, how many a power cut cannot take any more.
    pub durable: u64,
    /// Bytes up to the end of the last of these.
    pub durable_bytes: u64,
    /// Bytes that wait in the store to be written.
    pub pending_bytes: u64,
    /// Bytes composed.
    pub accepted_bytes: u64,
    /// The file that packets go to, 1 first; 0 where there are not several.
    pub file: u64,
    /// How full the store is, measured against its limit, 0 to 1.
    pub fill: f64,
    /// Bytes that still fit.
    pub vacant_bytes: u64,
}

/// The store is near its limit: it passed the high watermark.
#[derive(Clone, Debug)]
pub struct Behind {
    /// How full they are, 0 to 1.
    pub fill: f64,
    /// How much faster packets come than they are written.
    pub bytes_per_second: f64,
    /// How long the room that is left will do at that rate.
    pub room_for: Option<Duration>,
}

/// A port of the session: its interfaces and what was got.
#[derive(Clone, Debug)]
pub struct Source {
    /// How messages call it.
    pub name: String,
    /// Its interfaces.
    pub interfaces: Vec<Interface>,
    /// What was got.
    pub got: Got,
    /// How often its interface was down, and how long: packets of that time are not in the ledger.
    pub outages: Outages,
}

impl Source {
    /// The link types of its interfaces, each once, in the order they are met with.
    pub fn link_types(&self) -> Vec<LinkType> {
        let mut links = Vec::new();
        for interface in &self.interfaces {
            if !links.contains(&interface.link) {
                links.push(interface.link);
            }
        }
        links
    }
}

/// How a session ended. [`Ledger::check`] tells whether the law holds,
/// [`is_fine`](Summary::is_fine) whether all went well.
///
/// ```
/// # use forebay_net::{open, session::{Config, Control, Output, Session}};
/// # let names = ["sim:clock=virtual,count=10".parse()?];
/// # let clock = open::clock(&names)?;
/// # let ports = open::ports(&names, &Default::default(), &clock)?;
/// # let session = Session::open(ports, Output::Count, Config::default(), clock, Control::new()?)?;
/// let summary = session.run(&mut |_| {});
/// assert!(summary.is_fine());
/// assert_eq!(summary.sources[0].got.backend, "sim");
/// assert!(summary.store.is_none() && !summary.durable); // nothing was written
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Debug)]
pub struct Summary {
    /// Where every packet went.
    pub ledger: Ledger,
    /// A source filters for itself (the kernel does), and what that rejects is outside the law:
    /// nobody counts it.
    pub filters_uncounted: bool,
    /// Whether all that was written is durable.
    pub durable: bool,
    /// Bytes written, up to the last whole record, in all files.
    pub bytes: u64,
    /// All that the store counted; zeros where there was no output.
    pub totals: store::Totals,
    /// The files.
    pub files: Files,
    /// From the first look to the last packet taken, on the session's clock.
    pub elapsed: Duration,
    /// Processor time of all threads, closing included.
    pub cpu: Duration,
    /// Time in each mode of the poller.
    pub modes: Modes,
    /// Gaps in the sources' packets that are marked in the file.
    pub gaps: u64,
    /// Packets of files that were not taken quite as the files have them.
    pub odd: Odd,
    /// What files that were read say beyond their packets, and the output does not.
    pub left: Left,
    /// The ports.
    pub sources: Vec<Source>,
    /// The store, where there was an output.
    pub store: Option<store::Got>,
    /// Packets were given up by a second stop.
    pub abandoned: bool,
    /// The last sync was given up by a second stop: everything is written, and a power cut may still take it.
    pub sync_abandoned: bool,
    /// A source that broke. Everything above is true nevertheless.
    pub port_error: Option<Error>,
    /// An output that broke.
    pub store_error: Option<Error>,
}

impl Summary {
    /// Whether the reader of the output went away, which is an end like any other.
    pub fn reader_left(&self) -> bool {
        let errno = self.store_error.as_ref().and_then(Error::raw_os_error);
        errno == Some(libc::EPIPE)
    }

    /// Whether the capture did what it was asked to.
    pub fn is_fine(&self) -> bool {
        let store_is_fine = self.store_error.is_none() || self.reader_left();
        let is_compressed = self.files.compressed.failed == 0;
        store_is_fine
            && is_compressed
            && self.port_error.is_none()
            && !self.abandoned
            && !self.sync_abandoned
            && self.ledger.check().is_ok()
    }
}
