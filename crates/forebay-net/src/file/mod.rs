//! Capture files as a port: pcap and pcapng, plain or packed with gzip or zstd, from disks and pipes.
//!
//! ```text
//!  source ──▶ packed ──▶ window ──▶ Decoder ──▶ Burst
//!  read(2)    gz, zst     │ decoded │ whole records │ part │ free │
//!                                       frames lie here
//! ```
//! A file waits for us, so nothing of it is ever dropped: what this port counts as received is what
//! it handed out. Losses that the file itself tells of are another matter: they come with the frames
//! ([`Frame::dropped_before`]), and [`Port::recorded`] has the sums its writer left.
//!
//! `source` reads without blocking, `packed` unpacks, `window` keeps the bytes in memory;
//! [`format::read`](crate::format::read) decodes. [`parallel`] reads a large file with several threads, where
//! only what passes a filter is wanted. Imports `port`, `format` and `filter`.

mod compressed;
pub mod parallel;
mod source;
mod window;

use crate::format::{
    Format,
    read::{Decoder, Section, Skipped, Step, Zeros, up_to_there},
};
use crate::port::{
    Block, Burst, Counts, Frame, Frames, Interface, Port, PortInfo, Statistics, Wake,
};
use compressed::{Failed, Read, Stream};
use forebay::standard;
use forebay::{Error, Result};
use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{Mode, OFlags},
};
use source::Source;
use std::{fmt, path::Path};
use window::Window;

/// Reads without a frame before others get their turn: a file may hold gigabytes of other blocks.
const MAX_READS: usize = 64;

/// Bytes of blocks that a burst offers at once.
const MAX_OFFERED: usize = 128 << 10;

/// Where opening a file stops to wait for a description of an interface.
const MAX_BEFORE_INTERFACES: u64 = 32 << 20;

/// What failed where the system would not read.
const READING_ON: &str = "reading on";

/// What is wrong with a file whose last record is not all there.
fn torn(unit: &str, offset: u64) -> String {
    format!("ends in the middle of a {unit} at byte {offset}")
}

/// What is wrong with a classic file that ends in room that was never written.
fn zeros(offset: u64) -> String {
    format!("has zeros in place of packets from byte {offset} on")
}

/// A capture file as a [`Port`].
///
/// Interfaces are numbered through all sections. A pcapng file may describe one at any place, so
/// [`interfaces`](Port::interfaces) grows; whatever the frames of a burst are of was there when
/// [`receive`](Port::receive) returned. Empty is the list only of a pcapng file without packets.
///
/// ```
/// use forebay_net::{file::File, format::Format, port::{Frame, Interface, Port, Wake}};
///
/// let path = std::env::temp_dir().join(format!("doc-{}.pcap", std::process::id()));
/// # let frame = Frame {
/// #     data: &[7; 60], wire_len: 60, time_ns: 1, interface: 0, direction: Default::default(), dropped_before: 0, ..Frame::default()
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
    books: Books,
    /// Why nothing more can be read, until it was told.
    failure: Option<Error>,
    /// Read to its end, stopped, or broken and said so.
    is_over: bool,
    /// Blocks that belong into a copy before the frames of the burst under way.
    offered: Vec<Block>,
}

/// What was handed out, and what taking the last frame back needs.
#[derive(Default)]
struct Books {
    /// Frames the budget still allows.
    left: usize,
    packets: u64,
    /// The drops that packets told of, by interface.
    drops: Vec<u64>,
    /// Of the last frame: the length of its record, its interface, the drops it told of.
    record_len: usize,
    interface: u32,
    dropped_before: u64,
}

impl Books {
    #[inline(always)]
    fn take(&mut self, frame: &Frame<'_>, record_len: usize) {
        self.left -= 1;
        self.packets += 1;
        self.record_len = record_len;
        self.interface = frame.interface;
        self.dropped_before = frame.dropped_before;
        if frame.dropped_before > 0 {
            self.tell_drops();
        }
    }

    #[cold]
    fn tell_drops(&mut self) {
        let interface = self.interface as usize;
        if self.drops.len() <= interface {
            self.drops.resize(interface + 1, 0);
        }
        // Wrapping, so that taking a frame back is exact whatever a broken file tells.
        self.drops[interface] = self.drops[interface].wrapping_add(self.dropped_before);
    }

    fn put_back(&mut self) {
        self.left = 0;
        self.packets -= 1;
        if self.dropped_before > 0 {
            let sum = &mut self.drops[self.interface as usize];
            *sum = sum.wrapping_sub(self.dropped_before);
        }
    }
}

/// What a look found.
enum Look {
    Frame,
    /// A pipe has nothing now.
    NotNow,
    /// Only other blocks so far, there is more.
    Again,
    /// The file breaks off here, for the reason in `failure`.
    Failed,
    End,
}

impl File {
    /// Opens a capture file or a named pipe, and reads up to its first packet.
    ///
    /// # Errors
    /// It cannot be opened, is empty, is no capture file, or is broken before its header ends. If it is broken after that,
    /// [`receive`](Port::receive) says so.
    pub fn open(path: &Path) -> Result<File> {
        let name = path.display().to_string();
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
        match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(fd) => File::from_stream(fd.into(), name),
            Err(e) => Err(Error::new(name, "opening it").because(e)),
        }
    }

    /// Reads what was opened elsewhere, such as standard input; messages call it `name`.
    ///
    /// Of a pipe it waits for the beginning, up to the first interface: without it nothing is known.
    ///
    /// # Errors
    /// As [`open`](File::open); a signal came while it waited.
    pub fn from_stream(stream: std::fs::File, name: impl Into<String>) -> Result<File> {
        let name = name.into();
        let mut file = File::start(stream, name.clone())?;
        loop {
            match file.look() {
                // Broken before anything is known of it. Otherwise the first burst reports it, and what is known stays.
                Look::Failed if file.interfaces().is_empty() && file.sections().is_empty() => {
                    return Err(file.failure.take().expect("a failed look says why"));
                }
                Look::Failed | Look::Frame | Look::End => return Ok(file),
                Look::NotNow if !file.interfaces().is_empty() => return Ok(file),
                Look::NotNow => file.stream.source().wait().map_err(|e| {
                    Error::new(name.clone(), "waiting for its beginning").because(e)
                })?,
                // Blocks that nobody takes yet stay in memory.
                Look::Again if file.has_enough_blocks() => return Ok(file),
                Look::Again => {}
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

    /// As [`from_stream`](File::from_stream), and leaves all that may be wrong behind the first bytes for
    /// [`receive`](Port::receive) to say.
    pub(crate) fn start(stream: std::fs::File, name: String) -> Result<File> {
        File::begin(stream, name.clone()).map_err(|failed| match failed {
            Failed::System(e) => Error::new(name, "reading its beginning").because(e),
            Failed::Data(what) => Error::new(name, what),
        })
    }

    /// Reads as much as tells what it is.
    fn begin(stream: std::fs::File, name: String) -> std::result::Result<File, Failed> {
        let mut source = Source::new(stream).map_err(Failed::System)?;
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
            let there = bytes.len();
            match Decoder::begin(bytes) {
                Ok(Some(decoder)) => break decoder,
                Ok(None) => {}
                Err(fault) => return Err(Failed::Data(fault.what().into())),
            }
            match stream.read(window.room(0))? {
                Read::Bytes(n) => window.end += n,
                Read::NotNow => stream.source().wait().map_err(Failed::System)?,
                Read::End => {
                    let what = format!("has {there} bytes, too few for a capture file");
                    return Err(Failed::Data(what));
                }
            }
        };
        Ok(File {
            name,
            stream,
            window,
            decoder,
            books: Books::default(),
            failure: None,
            is_over: false,
            offered: Vec::new(),
        })
    }

    /// Makes sure that the next record is a packet, wholly in memory, as far as that can be had.
    fn look(&mut self) -> Look {
        if self.failure.is_some() {
            return Look::Failed;
        }
        if self.is_over {
            return Look::End;
        }
        for _ in 0..MAX_READS {
            let begin = self.window.begin;
            let record = loop {
                match self.decoder.next(self.window.data()) {
                    Ok(Step::Packet(..)) => return Look::Frame,
                    Ok(Step::Other(len) | Step::Described(len)) => {
                        self.window.begin += len;
                        // As many as a burst may offer: they are in memory until then.
                        if self.decoder.has_blocks() && self.window.begin - begin > MAX_OFFERED {
                            return Look::Again;
                        }
                    }
                    Ok(Step::More(record)) => break record,
                    Ok(Step::Zeros) => match self.decoder.judge_zeros(self.window.data(), false) {
                        Zeros::Packets => {}
                        Zeros::End => return self.fail_at_zeros(),
                        Zeros::More(bytes) => break bytes,
                    },
                    Err(fault) => {
                        return self
                            .fail(fault.tell(self.window.offset(), self.books.packets), None);
                    }
                }
            };
            match self.stream.read(self.window.room(record)) {
                Ok(Read::Bytes(n)) => self.window.end += n,
                Ok(Read::NotNow) => return Look::NotNow,
                Ok(Read::End) if self.window.data().is_empty() => {
                    self.finish();
                    return Look::End;
                }
                Ok(Read::End) if self.ends_in_zeros() => return self.fail_at_zeros(),
                Ok(Read::End) if self.has_packet() => return Look::Frame,
                Ok(Read::End) => {
                    let what = torn(self.decoder.unit(), self.window.offset());
                    return self.fail(up_to_there(&what, self.books.packets), None);
                }
                Err(Failed::Data(what)) => {
                    return self.fail(up_to_there(&what, self.books.packets), None);
                }
                Err(Failed::System(e)) => {
                    let read = up_to_there(READING_ON, self.books.packets);
                    return self.fail(read, Some(e));
                }
            }
        }
        Look::Again
    }

    /// Whether all that is left is zeros, at the end of the file.
    fn ends_in_zeros(&mut self) -> bool {
        let data = self.window.data();
        matches!(self.decoder.next(data), Ok(Step::Zeros))
            && self.decoder.judge_zeros(data, true) == Zeros::End
    }

    fn has_packet(&mut self) -> bool {
        matches!(self.decoder.next(self.window.data()), Ok(Step::Packet(..)))
    }

    #[cold]
    fn fail_at_zeros(&mut self) -> Look {
        let what = zeros(self.window.offset());
        self.fail(up_to_there(&what, self.books.packets), None)
    }

    /// Nothing more comes; others may be read after this one, so it keeps no more than it has told.
    fn finish(&mut self) {
        self.is_over = true;
        self.stream.free_buffers();
    }

    #[cold]
    fn fail(&mut self, what: String, cause: Option<std::io::Error>) -> Look {
        let error = Error::new(self.name.clone(), what);
        self.failure = Some(match cause {
            Some(cause) => error.because(cause),
            None => error,
        });
        Look::Failed
    }

    /// Which format the file has.
    pub fn format(&self) -> Format {
        self.decoder.format()
    }

    /// The compression: `gzip`, `zstd`.
    pub fn compression(&self) -> Option<&'static str> {
        self.stream.compression()
    }

    /// Drops that the packets handed out so far told of, of the interface with this number.
    pub fn drops_told(&self, interface: usize) -> u64 {
        self.books.drops.get(interface).copied().unwrap_or(0)
    }

    /// The sections so far; the classic format has none.
    pub fn sections(&self) -> &[Section] {
        self.decoder.sections()
    }

    /// Shows every frame to `each`, to the end or to a fault; a pipe is waited for.
    pub(crate) fn each_frame(&mut self, mut each: impl FnMut(&Frame<'_>)) -> Result<()> {
        loop {
            let mut burst = self.receive(4096)?;
            while let Some(frame) = burst.next_frame() {
                each(&frame);
            }
            drop(burst);
            match self.arm()? {
                Wake::End => return Ok(()),
                Wake::Fd(fd) => {
                    // Nothing but a signal can fail here, and then we look again.
                    let _ = poll(&mut [PollFd::new(&fd, PollFlags::IN)], None);
                }
                Wake::Ready | Wake::At(_) => {}
            }
        }
    }

    /// Up to where it was decoded, in bytes that are no longer packed: behind the last whole record,
    /// once it has said that it breaks off.
    pub(crate) fn offset(&self) -> u64 {
        self.window.offset()
    }

    /// Blocks passed over so far.
    pub fn skipped(&self) -> Skipped {
        self.decoder.skipped()
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("File");
        shown.field("name", &self.name);
        shown.field("packets", &self.books.packets);
        shown.finish_non_exhaustive()
    }
}

impl Frames for File {
    #[inline]
    fn next_frame(&mut self) -> Option<Frame<'_>> {
        if self.books.left == 0 {
            return None;
        }
        loop {
            let bytes = &self.window.bytes[self.window.begin..self.window.end];
            if let Some((frame, len)) = self.decoder.packet(bytes) {
                self.window.begin += len;
                self.books.take(&frame, len);
                return Some(frame);
            }
            match self.decoder.next(bytes) {
                Ok(Step::Packet(frame, len)) => {
                    self.window.begin += len;
                    if frame.data.is_empty() {
                        self.decoder.took_empty();
                    }
                    self.books.take(&frame, len);
                    return Some(frame);
                }
                Ok(Step::Other(len)) => {
                    self.window.begin += len;
                    // The next burst offers it before its frames.
                    if self.decoder.has_blocks() {
                        break;
                    }
                }
                // A burst has only frames of interfaces that were there when it began.
                Ok(Step::Described(len)) => {
                    self.window.begin += len;
                    break;
                }
                // The next look finds the same, and reads or complains.
                Ok(Step::More(_) | Step::Zeros) | Err(_) => break,
            }
        }
        self.books.left = 0;
        None
    }

    fn put_back(&mut self) {
        self.window.begin -= self.books.record_len;
        self.books.put_back();
    }

    fn take_blocks(&mut self) -> Vec<Block> {
        std::mem::take(&mut self.offered)
    }

    fn release(&mut self) {
        self.books.left = 0;
        self.offered.clear();
    }
}

impl Port for File {
    fn interfaces(&self) -> &[Interface] {
        self.decoder.interfaces()
    }

    fn name(&self) -> &str {
        &self.name
    }

    /// One look. A file that breaks off says so once everything before was taken, and once only.
    fn receive(&mut self, budget: usize) -> Result<Burst<'_>> {
        self.books.left = match self.look() {
            Look::Frame => budget,
            _ => 0,
        };
        // Blocks before the place where it breaks off come first, and the error with the next look.
        if !self.decoder.has_blocks()
            && let Some(error) = self.failure.take()
        {
            self.finish();
            return Err(error);
        }
        if self.decoder.has_blocks() {
            self.offered = self.decoder.take_blocks();
        }
        Ok(Burst::new(self))
    }

    /// Never an error: that is kept for [`receive`](Port::receive), and `Ready` until then.
    fn arm(&mut self) -> Result<Wake<'_>> {
        Ok(match self.look() {
            Look::Frame | Look::Again | Look::Failed => Wake::Ready,
            _ if self.decoder.has_blocks() => Wake::Ready,
            Look::NotNow => Wake::Fd(self.stream.source().fd()),
            Look::End => Wake::End,
        })
    }

    fn disarm(&mut self) {}

    /// The end, at once: what was not read is not received.
    fn stop(&mut self) -> Result<()> {
        self.finish();
        self.failure = None;
        self.decoder.take_blocks();
        Ok(())
    }

    /// What was handed out. A file loses nothing, whatever it records.
    fn counts(&mut self) -> Counts {
        Counts {
            received: self.books.packets,
            dropped: Some(0),
            interface_dropped: Some(0),
            filtered: Some(0),
        }
    }

    /// What its statistics block says, of which the last one so far counts.
    fn recorded(&self, interface: u32) -> Option<Statistics> {
        *self.decoder.recorded().get(interface as usize)?
    }

    fn info(&self) -> PortInfo {
        PortInfo {
            backend: "file",
            copy: match self.compression() {
                Some("gzip") => "read, gzip",
                Some(_) => "read, zstd",
                None => "read",
            },
            ring_bytes: 0,
            ring_frames: 0,
            waits: true,
            filters: false,
            in_turn: true,
            reads_ahead: false,
            timestamps: "as recorded",
        }
    }
}
