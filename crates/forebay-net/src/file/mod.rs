//! Capture files as a port: pcap and pcapng, uncompressed or compressed with gzip or zstd, from disks and pipes.
//!
//! ```text
//!  source ──▶ compressed ──▶ window ──▶ Decoder ──▶ Burst
//!  read(2)    gzip, zstd      │ decoded │ whole records │ part │ free │
//!                                         frames, in place
//! ```
//! A file waits for its reader, so this port drops no packets: it counts as received exactly the packets that it handed out.
//! A file may record losses of the capture that wrote it: [`Frame::dropped_before`] is the loss before a frame, and
//! [`PortReport::file_statistics`](crate::port::PortReport::file_statistics) returns the totals.
//!
//! Files are read without blocking (private module `source`), decompressed (`compressed`), kept in memory (`window`), and decoded by
//! [`format::read`](crate::format::read). `by_time` reads only packets of a range of times. A very large file leaves the page cache as it is read (`eviction`). If there is a filter, [`parallel`] reads a large file with several threads.

mod by_time;
mod compressed;
mod counters;
mod eviction;
mod frames;
pub mod parallel;
mod plain;
mod source;
mod time_range;
mod window;

use crate::format::read::{Decoder, Kind, Section, Skipped, Step, Zeros, with_packets_read};
use crate::port::{
    Block, Burst, Counts, Frame, Frames, Interface, Port, PortInfo, PortReport, Wake,
};
pub use compressed::Unpacked;
use compressed::{Failed, Stream};
use counters::{Counters, SkippedPackets};
use forebay::{Error, Result};
use forebay::{error::Code, standard};
pub use plain::Plain;
use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{Mode, OFlags},
};
use source::{ByteSource, Read};
use std::{
    fmt,
    path::Path,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};
pub use time_range::TimeRange;
use window::Window;

/// Reads without a packet after which other ports get their turn. A file may hold gigabytes of other blocks.
const MAX_READS: usize = 64;

/// Bytes of blocks that one burst offers.
const MAX_OFFERED: usize = 128 << 10;

/// Opening a file stops searching for an interface after this number of bytes.
const MAX_BEFORE_INTERFACES: u64 = 32 << 20;

/// What failed if the system cannot read further.
const READING_ON: &str = "reading on";

/// The fault of a file whose last record is incomplete.
fn torn(unit: &str, offset: u64) -> String {
    format!("ends in the middle of a {unit} at byte {offset}")
}

/// The fault of a classic file that ends in space that was allocated and never written.
fn zeros(offset: u64) -> String {
    format!("has zeros in place of packets from byte {offset} on")
}

/// A capture file as a [`Port`].
///
/// Interfaces are numbered through all sections. A pcapng file may describe one at any place, so [`interfaces`](Port::interfaces)
/// grows. When [`receive`](Port::receive) returns, it contains the interfaces of all frames of the burst. It is empty only for a
/// pcapng file without packets.
///
/// ```
/// use forebay_net::{file::File, format::Format, port::{Frame, Interface, Port, Wake}};
///
/// let path = std::env::temp_dir().join(format!("doc-{}.pcap", std::process::id()));
/// # let frame = Frame {
/// #     data: &[7; 60], wire_len: 60, time_ns: 1, ..Frame::default()
/// # };
/// # let interface = Interface::default();
/// # let described = Format::Pcap.describe(&interface, 0);
/// # let mut bytes = Format::Pcap.interface(&interface, &described, 262_144);
/// # bytes.resize(24 + 76, 0);
/// # Format::Pcap.put_frame(&mut bytes[24..], &frame, &described, 262_144);
/// # std::fs::write(&path, bytes).unwrap();
/// let mut file = File::open(&path)?;
/// let mut bytes = 0;
/// while !matches!(file.arm()?, Wake::End) {
///     let mut burst = file.receive(64)?;
///     while let Some(frame) = burst.next_frame() {
///         bytes += frame.data.len();
///     }
/// }
/// assert_eq!((file.counts().received, bytes), (1, 60));
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), forebay::Error>(())
/// ```
pub struct File {
    name: String,
    stream: Stream,
    window: Window,
    decoder: Decoder,
    /// Only packets of these times are handed out.
    times: TimeRange,
    counters: Counters,
    /// Why nothing more can be read, until it was reported.
    failure: Option<Error>,
    /// Read to the end, stopped, or a fault was reported.
    has_ended: bool,
    /// The fault is that the file ends inside a record.
    is_torn: bool,
    /// Blocks that precede the frames of the present burst in a copy.
    offered: Vec<Block>,
    skipped: SkippedPackets,
}

/// The result of looking for the next packet.
#[derive(PartialEq, Eq)]
enum Ahead {
    Packet,
    /// Nothing is available now: a pipe is empty, or a worker has not finished.
    NotNow,
    /// No packet within the limit of one call. There is more to read.
    NotYet,
    /// Nothing more can be read, for the reason in `failure`.
    Failure,
    End,
}

/// Why nothing is read after this number of packets.
fn failure(name: &str, what: &str, packets: u64, cause: Option<std::io::Error>) -> Error {
    let error = Error::new(name, with_packets_read(what, packets));
    match cause {
        Some(cause) => error.because(cause),
        None => error.of_kind(std::io::ErrorKind::InvalidData),
    }
}

impl File {
    /// Opens a capture file or a named pipe, and reads up to its first packet.
    ///
    /// # Errors
    /// It cannot be opened, is empty, is not a capture file, or its header is malformed. Later faults are reported by
    /// [`receive`](Port::receive).
    pub fn open(path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
        match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(fd) => File::from_stream(fd.into(), name),
            Err(e) => Err(Error::new(name, "opening it").because(e)),
        }
    }

    /// Reads an open file or pipe, such as standard input; messages call it `name`.
    ///
    /// Waits until a pipe has delivered the description of the first interface.
    ///
    /// # Errors
    /// As [`open`](File::open); or a signal arrived while it waited.
    pub fn from_stream(stream: std::fs::File, name: impl Into<String>) -> Result<File> {
        let name = name.into();
        let mut file = File::start(stream, name.clone())?;
        loop {
            match file.find_packet() {
                // If anything is known of the file, the first burst reports the fault instead.
                Ahead::Failure if file.interfaces().is_empty() && file.sections().is_empty() => {
                    return Err(file.failure.take().expect("a failure has a reason"));
                }
                Ahead::Failure | Ahead::Packet | Ahead::End => return Ok(file),
                Ahead::NotNow if !file.interfaces().is_empty() => return Ok(file),
                Ahead::NotNow => file.stream.source().wait().map_err(|e| {
                    Error::new(name.clone(), "waiting for its beginning").because(e)
                })?,
                // Blocks stay in memory until they are taken.
                Ahead::NotYet if file.has_enough_blocks() => return Ok(file),
                Ahead::NotYet => {}
            }
        }
    }

    fn has_enough_blocks(&self) -> bool {
        let is_far = self.window.offset() > MAX_BEFORE_INTERFACES;
        self.decoder.has_blocks() && (is_far || !self.interfaces().is_empty())
    }

    /// Reads standard input.
    ///
    /// # Errors
    /// As [`from_stream`](File::from_stream).
    pub fn stdin() -> Result<File> {
        File::from_stream(standard::input()?, "standard input")
    }

    /// Like [`from_stream`](File::from_stream), but all faults after the first bytes are left to [`receive`](Port::receive).
    pub(crate) fn start(stream: std::fs::File, name: String) -> Result<File> {
        File::start_up_to(stream, name, u64::MAX)
    }

    /// Like [`start`](File::start), for the first `limit` bytes of the file.
    pub(crate) fn start_up_to(stream: std::fs::File, name: String, limit: u64) -> Result<File> {
        File::begin(stream, name.clone(), limit).map_err(|failed| match failed {
            Failed::System(e) => Error::new(name, "reading its beginning").because(e),
            Failed::Data(what) => Error::coded(Code::Damaged, name, what),
        })
    }

    /// Reads enough to determine the format.
    fn begin(stream: std::fs::File, name: String, limit: u64) -> std::result::Result<File, Failed> {
        let mut source = ByteSource::new(stream, limit).map_err(Failed::System)?;
        let mut window = Window::new();
        while window.data().len() < 4 {
            match source.read(window.room(0)).map_err(Failed::System)? {
                Read::Bytes(n) => window.end += n,
                Read::NotNow => source.wait().map_err(Failed::System)?,
                Read::End if window.data().is_empty() => {
                    return Err(Failed::Data("is empty, not even a header".into()));
                }
                Read::End => break,
            }
        }
        let (mut stream, is_compressed) = Stream::new(source, window.data())?;
        if is_compressed {
            window.end = 0;
        }
        let decoder = loop {
            let bytes = window.data();
            let len = bytes.len();
            match Decoder::begin(bytes) {
                Ok(Some(decoder)) => break decoder,
                Ok(None) => {}
                Err(fault) => return Err(Failed::Data(fault.what().into())),
            }
            match stream.read(window.room(0))? {
                Read::Bytes(n) => window.end += n,
                Read::NotNow => stream.source().wait().map_err(Failed::System)?,
                Read::End => {
                    let what = format!("has {len} bytes, too few for a capture file");
                    return Err(Failed::Data(what));
                }
            }
        };
        Ok(File {
            name,
            stream,
            window,
            decoder,
            times: TimeRange::default(),
            counters: Counters::default(),
            failure: None,
            has_ended: false,
            is_torn: false,
            offered: Vec::new(),
            skipped: SkippedPackets::default(),
        })
    }

    /// Reads until the next record is a packet that is completely in memory, if that is possible now.
    fn find_packet(&mut self) -> Ahead {
        if self.failure.is_some() {
            return Ahead::Failure;
        }
        if self.has_ended {
            return Ahead::End;
        }
        for _ in 0..MAX_READS {
            let begin = self.window.begin;
            let record = loop {
                match self.decoder.next(self.window.data()) {
                    Ok(Step::Packet(frame, _)) if self.times.contains(frame.time_ns) => {
                        return Ahead::Packet;
                    }
                    Ok(Step::Packet(frame, len)) => {
                        let is_empty = frame.data.is_empty();
                        self.pass_over(len, is_empty);
                    }
                    Ok(Step::Other(len) | Step::Described(len)) => {
                        self.window.begin += len;
                        // A burst offers them; they stay in memory until then.
                        if self.decoder.has_blocks() && self.window.begin - begin > MAX_OFFERED {
                            return Ahead::NotYet;
                        }
                    }
                    Ok(Step::More(record)) => break record,
                    Ok(Step::Zeros) => match self.decoder.classify_zeros(self.window.data(), false)
                    {
                        Zeros::Packets => {}
                        Zeros::End => return self.fail_at_zeros(),
                        Zeros::More(bytes) => break bytes,
                    },
                    Err(fault) => {
                        let what = fault.at(self.window.offset());
                        let Some(len) = fault.skip() else {
                            return self.fail(&what, None);
                        };
                        self.skipped.add(what);
                        self.window.begin += len;
                    }
                }
            };
            match self.stream.read(self.window.room(record)) {
                Ok(Read::Bytes(n)) => self.window.end += n,
                Ok(Read::NotNow) => return Ahead::NotNow,
                Ok(Read::End) if self.window.data().is_empty() => {
                    self.finish();
                    return Ahead::End;
                }
                Ok(Read::End) if self.ends_in_zeros() => return self.fail_at_zeros(),
                Ok(Read::End) if self.has_packet() => return Ahead::Packet,
                Ok(Read::End) => {
                    self.is_torn = true;
                    let what = torn(self.decoder.unit(), self.window.offset());
                    return self.fail(&what, None);
                }
                Err(Failed::Data(what)) => return self.fail(&what, None),
                Err(Failed::System(e)) => return self.fail(READING_ON, Some(e)),
            }
        }
        Ahead::NotYet
    }

    /// Passes over a packet that is not handed out.
    fn pass_over(&mut self, record_len: usize, is_empty: bool) {
        self.window.begin += record_len;
        if is_empty {
            self.decoder.took_empty();
        }
    }

    /// Whether only zeros are left, at the end of the file.
    fn ends_in_zeros(&mut self) -> bool {
        let data = self.window.data();
        matches!(self.decoder.next(data), Ok(Step::Zeros))
            && self.decoder.classify_zeros(data, true) == Zeros::End
    }

    fn has_packet(&mut self) -> bool {
        matches!(self.decoder.next(self.window.data()), Ok(Step::Packet(..)))
    }

    #[cold]
    fn fail_at_zeros(&mut self) -> Ahead {
        self.fail(&zeros(self.window.offset()), None)
    }

    /// Frees what reading needs. Other files may be read after this one.
    fn finish(&mut self) {
        self.has_ended = true;
        self.stream.free_buffers();
    }

    #[cold]
    fn fail(&mut self, what: &str, cause: Option<std::io::Error>) -> Ahead {
        self.failure = Some(failure(&self.name, what, self.counters.packets, cause));
        Ahead::Failure
    }

    /// The format of the file.
    pub fn kind(&self) -> Kind {
        self.decoder.kind()
    }

    /// The compression: `gzip`, `zstd`.
    pub fn compression(&self) -> Option<&'static str> {
        self.stream.compression()
    }

    /// Whether packets of some times are left out.
    fn leaves_out_times(&self) -> bool {
        !self.times.is_all()
    }

    /// Drops at this interface that the packets handed out so far record.
    pub fn recorded_drops(&self, interface: usize) -> u64 {
        self.counters.drops.get(interface).copied().unwrap_or(0)
    }

    /// The sections read so far; the classic format has none.
    pub fn sections(&self) -> &[Section] {
        self.decoder.sections()
    }

    /// Calls `each` with every frame, up to the end or a fault. Waits for a pipe. Adds the bytes read to `work`.
    pub(crate) fn each_frame(
        &mut self,
        work: &AtomicU64,
        mut each: impl FnMut(&Frame<'_>),
    ) -> Result<()> {
        let mut before = 0;
        loop {
            let now = self.stream.source().bytes_read();
            work.fetch_add(now - before, Relaxed); // it publishes nothing but itself
            before = now;
            self.begin_burst(usize::MAX)?;
            loop {
                // By reference: a move would load the frame right after its parts were stored.
                let next = self.next_frame();
                let Some(frame) = &next else {
                    break;
                };
                each(frame);
            }
            self.release();
            match self.arm()? {
                Wake::End => return Ok(()),
                Wake::Fd(fd) => {
                    // Only a signal makes this fail, and then the file is polled again.
                    let _ = poll(&mut [PollFd::new(&fd, PollFlags::IN)], None);
                }
                Wake::Ready | Wake::At(_) => {}
            }
        }
    }

    /// Makes the next packets available, up to `budget`.
    fn begin_burst(&mut self, budget: usize) -> Result<()> {
        self.counters.record_len = 0;
        self.counters.budget = match self.find_packet() {
            Ahead::Packet => budget,
            _ => 0,
        };
        // Blocks before a fault come first, and the error with the next call.
        if !self.decoder.has_blocks()
            && let Some(error) = self.failure.take()
        {
            self.finish();
            return Err(error);
        }
        if self.decoder.has_blocks() {
            self.offered = self.decoder.take_blocks();
        }
        Ok(())
    }

    /// Leaves what is read in the page cache, also of a very large file: another reader needs it, too.
    pub(crate) fn keep_cached(&mut self) {
        self.stream.source_mut().keep_cached();
    }

    /// The offset up to which the decompressed bytes were decoded. After a fault was reported: the end of the last whole record.
    pub(crate) fn offset(&self) -> u64 {
        self.window.offset()
    }

    /// Whether the only fault is that the file ends too early, inside a record or a compressed piece.
    pub(crate) fn is_torn(&self) -> bool {
        self.is_torn || self.stream.is_torn()
    }

    /// The offset in a compressed file after the last gzip member or zstd frame that was read whole.
    pub(crate) fn whole_compressed(&self) -> u64 {
        self.stream.whole()
    }

    /// Blocks skipped so far, by kind.
    pub fn skipped(&self) -> Skipped {
        self.decoder.skipped()
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("File");
        shown.field("name", &self.name);
        shown.field("packets", &self.counters.packets);
        shown.finish_non_exhaustive()
    }
}

impl Port for File {
    fn interfaces(&self) -> &[Interface] {
        self.decoder.interfaces()
    }

    fn name(&self) -> &str {
        &self.name
    }

    /// A fault of the file is reported once, after all packets before it were taken.
    fn receive(&mut self, budget: usize) -> Result<Burst<'_>> {
        self.begin_burst(budget)?;
        Ok(Burst::new(self))
    }

    /// Never fails: a fault makes it return `Ready`, and [`receive`](Port::receive) reports it.
    fn arm(&mut self) -> Result<Wake<'_>> {
        Ok(match self.find_packet() {
            Ahead::Packet | Ahead::NotYet | Ahead::Failure => Wake::Ready,
            _ if self.decoder.has_blocks() => Wake::Ready,
            Ahead::NotNow => Wake::Fd(self.stream.source().fd()),
            Ahead::End => Wake::End,
        })
    }

    /// Ends the port at once: packets that were not handed out do not count as received.
    fn stop(&mut self) -> Result<()> {
        self.finish();
        self.failure = None;
        self.decoder.take_blocks();
        Ok(())
    }

    /// Packets handed out. A file loses nothing, whatever losses it records.
    fn counts(&mut self) -> Counts {
        Counts {
            received: self.counters.packets,
            dropped: Some(0),
            interface_dropped: Some(0),
            filtered: Some(0),
        }
    }

    /// With the counts in each interface's last statistics block so far.
    fn report(&self) -> PortReport<'_> {
        PortReport {
            file_statistics: match self.leaves_out_times() {
                true => &[],
                false => self.decoder.recorded(),
            },
            reading: self.stream.source().reading(),
            unreadable: self.skipped.report(),
            ..PortReport::default()
        }
    }

    fn info(&self) -> PortInfo {
        PortInfo {
            backend: "file",
            copy: match self.compression() {
                Some("gzip") => "read, gzip",
                Some(_) => "read, zstd",
                None => "read",
            },
            waits: true,
            in_turn: true,
            timestamps: "as recorded",
            ..PortInfo::default()
        }
    }
}
