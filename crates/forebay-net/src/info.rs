//! Summarizes a capture file in numbers: the values that `capinfos` prints, and losses.
//!
//! One pass reads the file as a port. If checksums of the file's bytes are requested, a second thread computes them: that takes longer
//! than reading.

use crate::{
    file::File,
    format::{
        copied::left_of_packet,
        read::{Kind, Section, Skipped},
    },
    port::{Frame, Interface, Odd, Port, Statistics},
};
use forebay::{Error, Result, error::Code};
use std::{fs, path::Path, sync::atomic::AtomicU64, thread};

/// Summary of a capture file.
///
/// ```
/// use forebay_net::{info::Info, open, session::{SessionConfig, Control, Output, Session}};
///
/// let path = std::env::temp_dir().join(format!("info-{}.pcapng", std::process::id()));
/// let names = ["sim:clock=virtual,count=1000".parse()?];
/// let clock = open::clock(&names)?;
/// let ports = open::ports(&names, &Default::default(), &clock)?;
/// let output = Output::File(path.clone());
/// Session::open(ports, output, SessionConfig::default(), clock, Control::new()?)?.run(&mut |_| {});
///
/// let info = Info::of(&path)?;
/// assert_eq!((info.all.packets, info.all.wire_bytes, info.in_order), (1000, 60_000, Some(true)));
/// assert_eq!(info.all.nanoseconds(), Some(999 * 672)); // line rate
/// assert_eq!(info.interfaces[0].interface.name, "sim");
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Info {
    /// The file format.
    pub kind: Kind,
    /// The compression: `gzip`, `zstd`.
    pub compression: Option<&'static str>,
    /// The length of the file, compressed or not; `None` for a pipe.
    pub bytes: Option<u64>,
    /// SHA-256 of the file, compressed or not; `None` for a pipe, or if it was not requested.
    pub sha256: Option<[u8; 32]>,
    /// SHA-1 of the same, likewise.
    pub sha1: Option<[u8; 20]>,
    /// All packets together.
    pub all: Tally,
    /// Whether no packet is older than the one before it; `None` if some have no time.
    pub in_order: Option<bool>,
    /// The interfaces, each with its packets.
    pub interfaces: Vec<OneInterface>,
    /// The sections of a pcapng file.
    pub sections: Vec<Section>,
    /// Blocks that are not packets, by kind.
    pub skipped: Skipped,
    /// Packets whose record was corrected while reading, and blocks with a malformed option.
    pub odd: Odd,
    /// Comments on packets. Those on sections, interfaces and statistics are counted in [`Section::comments`].
    pub comments: u64,
    /// Why the file could not be read to its end, or completely. All other fields cover the part that was read.
    pub error: Option<Error>,
}

/// An interface of a capture file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OneInterface {
    /// The interface.
    pub interface: Interface,
    /// Its packets.
    pub tally: Tally,
    /// Losses that its packets record.
    pub recorded_drops: u64,
    /// The statistics at the end of the file.
    pub recorded: Option<Statistics>,
}

/// Packet counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// Number of packets.
    pub packets: u64,
    /// Number of packets that were truncated when captured.
    pub cut: u64,
    /// Bytes in the file.
    pub captured_bytes: u64,
    /// Bytes on the wire.
    pub wire_bytes: u64,
    /// The earliest and the latest time, in nanoseconds since the Unix epoch. Packets without a time are not included.
    pub span_ns: Option<(u64, u64)>,
}

impl Tally {
    fn add(&mut self, frame: &Frame<'_>) {
        self.packets += 1;
        self.captured_bytes += frame.data.len() as u64;
        self.wire_bytes += u64::from(frame.wire_len);
        self.cut += u64::from(frame.wire_len as usize > frame.data.len());
        if frame.time_ns > 0 {
            let (first, last) = self.span_ns.unwrap_or((u64::MAX, 0));
            self.span_ns = Some((first.min(frame.time_ns), last.max(frame.time_ns)));
        }
    }

    fn of_all(tallies: &[Tally]) -> Tally {
        let mut all = Tally::default();
        for one in tallies {
            all.packets += one.packets;
            all.cut += one.cut;
            all.captured_bytes += one.captured_bytes;
            all.wire_bytes += one.wire_bytes;
            if let Some((first, last)) = one.span_ns {
                let (so_far, to) = all.span_ns.unwrap_or((u64::MAX, 0));
                all.span_ns = Some((so_far.min(first), to.max(last)));
            }
        }
        all
    }

    /// The time between the earliest and the latest packet, in nanoseconds.
    pub fn nanoseconds(&self) -> Option<u64> {
        self.span_ns.map(|(first, last)| last - first)
    }
}

impl Info {
    /// Reads the capture file at `path`, or standard input where that is `-`. Computes no checksums.
    ///
    /// # Errors
    /// The file cannot be opened, or is broken before its first packet. Later faults are reported in [`error`](Info::error).
    pub fn of(path: impl AsRef<Path>) -> Result<Info> {
        Info::with(path.as_ref(), &InfoConfig::default(), &AtomicU64::new(0))
    }

    /// Like [`of`](Info::of), with the checksums that `config` requests. Each thread adds the bytes that it has read to `work`, for a
    /// display: it reaches [`InfoConfig::work_per_byte`] times the length of the file.
    ///
    /// # Errors
    /// As [`of`](Info::of).
    pub fn with(path: &Path, config: &InfoConfig, work: &AtomicU64) -> Result<Info> {
        if path == Path::new("-") {
            return Ok(read(File::stdin()?, work));
        }
        let mut file = File::open(path)?;
        let sums = config.sha256 || config.sha1;
        if sums && cfg!(not(feature = "hashes")) {
            let error = Error::coded(
                Code::Unsupported,
                file.name(),
                "computing the sums of the file",
            );
            return Err(error.advise("Enable the feature `hashes` of forebay-net"));
        }
        if sums {
            file.keep_cached();
        }
        thread::scope(|scope| {
            let summing = sums.then(|| scope.spawn(|| check_sum(path, config, work)));
            let mut info = read(file, work);
            info.bytes = length(path);
            let sums = summing.and_then(|summing| summing.join().unwrap_or_default());
            if let Some((sha256, sha1, bytes)) = sums {
                (info.sha256, info.sha1, info.bytes) = (sha256, sha1, Some(bytes));
            }
            Ok(info)
        })
    }
}

/// Which checksums are computed; by default none. Without the feature `hashes`, requesting one is an error.
#[derive(Clone, Copy, Debug, Default)]
pub struct InfoConfig {
    /// SHA-256.
    pub sha256: bool,
    /// SHA-1, which other programs still print.
    pub sha1: bool,
}

impl InfoConfig {
    /// How often each byte is read.
    pub fn work_per_byte(&self) -> u64 {
        1 + u64::from(self.sha256 || self.sha1)
    }
}

/// The length of a regular file.
fn length(path: &Path) -> Option<u64> {
    let metadata = fs::metadata(path).ok()?;
    metadata.is_file().then_some(metadata.len())
}

#[cfg(feature = "hashes")]
use hashes::check_sum;

#[cfg(not(feature = "hashes"))]
fn check_sum(_: &Path, _: &InfoConfig, _: &AtomicU64) -> Option<Sums> {
    unreachable!("refused before")
}

/// The sums of a regular file, and the bytes that they cover: while it is being written, its length changes.
type Sums = (Option<[u8; 32]>, Option<[u8; 20]>, u64);

#[cfg(feature = "hashes")]
mod hashes {
    use super::{InfoConfig, Sums, length};
    use sha1::Sha1;
    use sha2::{Digest, Sha256};
    use std::{
        fs,
        io::{self, Read as _},
        path::Path,
        sync::atomic::{AtomicU64, Ordering::Relaxed},
    };

    pub fn check_sum(path: &Path, config: &InfoConfig, work: &AtomicU64) -> Option<Sums> {
        // Checked before opening, because opening a FIFO waits for a writer.
        length(path)?;
        let mut file = fs::File::open(path).ok()?;
        let mut sha256 = config.sha256.then(Sha256::new);
        let mut sha1 = config.sha1.then(Sha1::new);
        let mut buffer = vec![0; 64 << 10];
        let mut len = 0;
        loop {
            let bytes = match file.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => &buffer[..read],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return None,
            };
            sha256.iter_mut().for_each(|sum| sum.update(bytes));
            sha1.iter_mut().for_each(|sum| sum.update(bytes));
            len += bytes.len() as u64;
            work.fetch_add(bytes.len() as u64, Relaxed); // it publishes nothing but itself
        }
        Some((
            sha256.map(|sum| sum.finalize().into()),
            sha1.map(|sum| sum.finalize().into()),
            len,
        ))
    }
}

#[derive(Default)]
struct Counting {
    by_interface: Vec<Tally>,
    odd: Odd,
    comments: u64,
    last_ns: u64,
    goes_back: bool,
    lacks_time: bool,
}

impl Counting {
    fn add(&mut self, frame: &Frame<'_>) {
        let at = frame.interface as usize;
        if self.by_interface.len() <= at {
            self.by_interface.resize(at + 1, Tally::default());
        }
        self.by_interface[at].add(frame);
        self.lacks_time |= frame.time_ns == 0;
        self.goes_back |= frame.time_ns < self.last_ns;
        self.last_ns = frame.time_ns;
        if !frame.marks.is_empty() || !frame.options.is_empty() {
            self.odd.count(frame.marks);
            self.comments += left_of_packet(frame, false).comments;
        }
    }
}

fn read(mut file: File, work: &AtomicU64) -> Info {
    let mut counting = Counting::default();
    let error = file.each_frame(work, |frame| counting.add(frame)).err();
    let unreadable = file.report().unreadable;
    let interfaces = file.interfaces().iter().enumerate();
    let of_one = |(at, interface): (usize, &Interface)| OneInterface {
        interface: interface.clone(),
        tally: counting.by_interface.get(at).copied().unwrap_or_default(),
        recorded_drops: file.recorded_drops(at),
        recorded: (file.report().file_statistics.get(at).copied()).flatten(),
    };
    Info {
        kind: file.kind(),
        compression: file.compression(),
        bytes: None,
        sha256: None,
        sha1: None,
        all: Tally::of_all(&counting.by_interface),
        in_order: (!counting.lacks_time).then_some(!counting.goes_back),
        interfaces: interfaces.map(of_one).collect(),
        sections: file.sections().to_vec(),
        skipped: file.skipped(),
        odd: Odd {
            broken_options: counting.odd.broken_options + file.skipped().broken_options,
            unknown_interfaces: unreadable.packets,
            ..counting.odd
        },
        comments: counting.comments,
        error: error.or_else(|| unreadable.error(file.name())),
    }
}
