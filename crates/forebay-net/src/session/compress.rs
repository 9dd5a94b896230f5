//! Compresses an output while it is written, on the thread that writes.
//!
//! ```text
//!  a buffer of whole records ─▶ one gzip member or zstd frame ─▶ the output
//! ```
//! A buffer counts as written when its whole frame is. After `kill -9` every frame before the last is readable, and a frame that
//! the disk did not take completely is cut off. Frames follow each other, which `gzip` and `zstd` read as one file.

use super::reports::Reports;
use forebay::{Error, Result, store::Sink};
use std::{collections::VecDeque, io, path::Path};

/// How an output is compressed.
///
/// ```
/// use forebay_net::session::Compression;
/// assert_eq!(Compression::of_path("a.pcap.gz"), Some(Compression::Gzip));
/// assert_eq!(Compression::of_path("a.pcapng"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// `.gz`, at level 6.
    Gzip,
    /// `.zst`, at level 3.
    Zstd,
}

impl Compression {
    /// The compression of a file with this name: gzip for `.gz`, zstd for `.zst`.
    pub fn of_path(path: impl AsRef<Path>) -> Option<Self> {
        let ending = path.as_ref().extension()?.to_str()?;
        match ending {
            _ if ending.eq_ignore_ascii_case("gz") => Some(Compression::Gzip),
            _ if ending.eq_ignore_ascii_case("zst") => Some(Compression::Zstd),
            _ => None,
        }
    }

    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
        }
    }
}

impl Compression {
    /// Compresses one input after the other.
    ///
    /// # Errors
    /// There is no memory for it, or this build lacks the feature.
    pub fn encoder(self) -> io::Result<FrameEncoder> {
        encoder(self).map(FrameEncoder)
    }
}

/// Compresses each input as one gzip member or zstd frame. Those that follow each other are one file.
///
/// ```
/// use forebay_net::session::Compression;
/// let mut encoder = Compression::Gzip.encoder()?;
/// let mut file = Vec::new();
/// encoder.append(b"first", &mut file)?;
/// encoder.append(b"second", &mut file)?;
/// assert_eq!(file[..2], [0x1f, 0x8b]);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct FrameEncoder(Box<dyn Encode>);

impl FrameEncoder {
    /// Appends `input` to `output`, compressed.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn append(&mut self, input: &[u8], output: &mut Vec<u8>) -> io::Result<()> {
        self.0.frame(input, output)
    }
}

impl std::fmt::Debug for FrameEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrameEncoder").finish_non_exhaustive()
    }
}

/// Compresses whole inputs.
trait Encode: Send {
    /// Appends `input` to `output`, compressed, as one member or frame.
    fn frame(&mut self, input: &[u8], output: &mut Vec<u8>) -> io::Result<()>;
}

fn encoder(compression: Compression) -> io::Result<Box<dyn Encode>> {
    match compression {
        #[cfg(feature = "gzip")]
        Compression::Gzip => Ok(Box::new(Gzip)),
        #[cfg(feature = "zstd")]
        Compression::Zstd => Ok(Box::new(ZstdEncoder::new(3)?)),
        #[cfg(not(all(feature = "gzip", feature = "zstd")))]
        other => Err(missing(other.name())),
    }
}

/// The error of a build that lacks a feature.
#[cfg(not(all(feature = "gzip", feature = "zstd")))]
pub(super) fn missing(name: &str) -> io::Error {
    let what = format!(
        "this build cannot compress with {name}: enable the feature `{name}` of forebay-net"
    );
    io::Error::new(io::ErrorKind::Unsupported, what)
}

#[cfg(feature = "gzip")]
struct Gzip;

#[cfg(feature = "gzip")]
impl Encode for Gzip {
    fn frame(&mut self, input: &[u8], output: &mut Vec<u8>) -> io::Result<()> {
        let level = flate2::Compression::default();
        let mut member = flate2::write::GzEncoder::new(output, level);
        io::Write::write_all(&mut member, input)?;
        member.finish().map(drop)
    }
}

/// A zstd compressor, which ends each frame with a checksum.
#[cfg(feature = "zstd")]
pub(super) struct ZstdEncoder {
    context: zstd_safe::CCtx<'static>,
    output: Vec<u8>,
}

#[cfg(feature = "zstd")]
impl ZstdEncoder {
    /// A compressor with this level.
    pub fn new(level: i32) -> io::Result<Self> {
        use zstd_safe::{CCtx, CParameter};
        let no_memory = || io::Error::from(io::ErrorKind::OutOfMemory);
        let mut context = CCtx::try_create().ok_or_else(no_memory)?;
        for parameter in [
            CParameter::CompressionLevel(level),
            CParameter::ChecksumFlag(true),
        ] {
            context.set_parameter(parameter).map_err(zstd_error)?;
        }
        let output = vec![0; CCtx::out_size()];
        Ok(ZstdEncoder { context, output })
    }

    /// Discards a frame that was begun and not ended.
    pub fn reset(&mut self) -> io::Result<()> {
        let reset = self.context.reset(zstd_safe::ResetDirective::SessionOnly);
        reset.map(drop).map_err(zstd_error)
    }

    /// Compresses `input` to `to`, or ends the frame if there is none. Returns the number of compressed bytes.
    pub fn put(&mut self, input: &[u8], to: &mut impl io::Write) -> io::Result<u64> {
        use zstd_safe::{InBuffer, OutBuffer, zstd_sys::ZSTD_EndDirective as Then};
        let (then, len) = match input.len() {
            0 => (Then::ZSTD_e_end, 0),
            len => (Then::ZSTD_e_continue, len),
        };
        let mut input = InBuffer::around(input);
        let mut written = 0;
        loop {
            let mut output = OutBuffer::around(&mut self.output[..]);
            let left = self
                .context
                .compress_stream2(&mut output, &mut input, then)
                .map_err(zstd_error)?;
            let some = output.as_slice();
            to.write_all(some)?;
            written += some.len() as u64;
            if len == 0 && left == 0 || len > 0 && input.pos() == len {
                return Ok(written);
            }
        }
    }
}

#[cfg(feature = "zstd")]
impl Encode for ZstdEncoder {
    fn frame(&mut self, input: &[u8], output: &mut Vec<u8>) -> io::Result<()> {
        self.reset()?;
        self.put(input, output)?;
        self.put(&[], output).map(drop)
    }
}

#[cfg(feature = "zstd")]
fn zstd_error(code: usize) -> io::Error {
    io::Error::other(zstd_safe::get_error_name(code).to_lowercase())
}

/// Frame boundaries that are kept: under `SyncPolicy::Always` a failed sync writes a buffer again.
const MAX_BOUNDARIES: usize = 64;

/// A boundary between frames: bytes before it, uncompressed and compressed.
#[derive(Clone, Copy, Default)]
struct Boundary {
    plain: u64,
    packed: u64,
}

/// A sink that compresses what is written to it. Offsets are those of the uncompressed bytes.
pub(super) struct CompressedSink {
    inner: Box<dyn Sink>,
    encoder: Box<dyn Encode>,
    reports: Reports,
    /// The last frame boundaries, in order; the last one is the end.
    boundaries: VecDeque<Boundary>,
    /// The frame after the last boundary, while it is being written: bytes of its input, the frame, and what is written of it.
    frame: Option<(usize, usize)>,
    bytes: Vec<u8>,
}

impl CompressedSink {
    /// A sink for an output named `path`: `inner`, or one that compresses if the name asks for it.
    ///
    /// # Errors
    /// This build cannot compress so.
    pub fn over(inner: Box<dyn Sink>, path: &Path, reports: &Reports) -> Result<Box<dyn Sink>> {
        let Some(compression) = Compression::of_path(path) else {
            return Ok(inner);
        };
        let encoder = encoder(compression)
            .map_err(|cause| Error::new(inner.name(), "compressing it").because(cause))?;
        Ok(Box::new(CompressedSink {
            inner,
            encoder,
            reports: reports.clone(),
            boundaries: VecDeque::from([Boundary::default()]),
            frame: None,
            bytes: Vec::new(),
        }))
    }

    fn end(&self) -> Boundary {
        self.boundaries.back().copied().unwrap_or_default()
    }

    /// Goes back to the boundary at `plain` bytes; `false`: there is none.
    fn go_back(&mut self, plain: u64) -> bool {
        let Some(at) = self.boundaries.iter().position(|it| it.plain == plain) else {
            return false;
        };
        if at + 1 < self.boundaries.len() {
            self.boundaries.truncate(at + 1);
            self.frame = None;
        }
        true
    }
}

impl Sink for CompressedSink {
    /// Takes all of `bytes`, or none.
    fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<usize> {
        if !self.go_back(at) {
            return Err(io::Error::other("the bytes before these are not written"));
        }
        let end = self.end();
        let mut done = match self.frame {
            Some((len, done)) if len == bytes.len() => done,
            _ => {
                self.bytes.clear();
                self.encoder.frame(bytes, &mut self.bytes)?;
                0
            }
        };
        while done < self.bytes.len() {
            self.frame = Some((bytes.len(), done));
            match self
                .inner
                .write(&self.bytes[done..], end.packed + done as u64)
            {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(taken) => done += taken,
                Err(error) => {
                    let is_passing = matches!(
                        error.kind(),
                        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
                    );
                    // A part of a frame is of no use.
                    if !is_passing && self.inner.cut(end.packed).is_ok_and(|is_cut| is_cut) {
                        self.frame = Some((bytes.len(), 0));
                    }
                    return Err(error);
                }
            }
        }
        self.frame = None;
        self.boundaries.push_back(Boundary {
            plain: end.plain + bytes.len() as u64,
            packed: end.packed + self.bytes.len() as u64,
        });
        if self.boundaries.len() > MAX_BOUNDARIES {
            self.boundaries.pop_front();
        }
        Ok(bytes.len())
    }

    fn inner(&self) -> Option<&dyn Sink> {
        Some(&*self.inner)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn Sink> {
        Some(&mut *self.inner)
    }

    /// What is written has no whole blocks.
    fn is_direct(&self) -> bool {
        false
    }

    /// Cuts at a frame boundary. A frame that was begun is cut off, too.
    fn cut(&mut self, len: u64) -> io::Result<bool> {
        if !self.go_back(len) {
            return Ok(false);
        }
        self.frame = None;
        self.inner.cut(self.end().packed)
    }

    fn complete(&mut self) -> Result<()> {
        self.inner.complete()?;
        let end = self.end();
        if end.plain > 0 {
            self.reports.packed(end.plain, end.packed);
        }
        Ok(())
    }
}

#[cfg(all(test, feature = "gzip", feature = "zstd"))]
mod tests {
    use super::*;
    use forebay_testing::dice::Dice;
    use std::{
        io::Read,
        sync::{Arc, Mutex},
    };

    /// An output in memory that takes at most `step` bytes at a time, and fails with each of `failures` one after another.
    struct Memory {
        bytes: Arc<Mutex<Vec<u8>>>,
        step: usize,
        failures: VecDeque<Option<i32>>,
        can_cut: bool,
    }

    impl Sink for Memory {
        fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<usize> {
            if let Some(Some(failure)) = self.failures.pop_front() {
                return Err(io::Error::from_raw_os_error(failure));
            }
            let mut memory = self.bytes.lock().unwrap();
            assert!(memory.len() as u64 >= at, "a hole");
            memory.truncate(at as usize);
            let taken = bytes.len().min(self.step);
            memory.extend(&bytes[..taken]);
            Ok(taken)
        }

        fn cut(&mut self, len: u64) -> io::Result<bool> {
            if self.can_cut {
                self.bytes.lock().unwrap().truncate(len as usize);
            }
            Ok(self.can_cut)
        }
    }

    fn sink(
        name: &str,
        failures: &[Option<i32>],
        can_cut: bool,
    ) -> (Box<dyn Sink>, Arc<Mutex<Vec<u8>>>) {
        let bytes = Arc::default();
        let memory = Memory {
            bytes: Arc::clone(&bytes),
            step: 100,
            failures: failures.iter().copied().collect(),
            can_cut,
        };
        let reports = Reports::default();
        let sink = CompressedSink::over(Box::new(memory), name.as_ref(), &reports).unwrap();
        (sink, bytes)
    }

    fn unpacked(name: &str, bytes: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        match Compression::of_path(name).unwrap() {
            Compression::Gzip => {
                let mut reader = flate2::read::MultiGzDecoder::new(bytes);
                reader.read_to_end(&mut plain).unwrap();
            }
            Compression::Zstd => {
                let mut context = zstd_safe::DCtx::create();
                let mut input = zstd_safe::InBuffer::around(bytes);
                let mut some = vec![0; 1 << 16];
                while input.pos() < bytes.len() {
                    let mut output = zstd_safe::OutBuffer::around(&mut some[..]);
                    context.decompress_stream(&mut output, &mut input).unwrap();
                    plain.extend(output.as_slice());
                }
            }
        }
        plain
    }

    fn noise(seed: u64) -> Vec<u8> {
        Dice(seed).bytes(5000)
    }

    const NAMES: [&str; 2] = ["a.pcap.gz", "a.pcapng.zst"];

    #[test]
    fn what_is_read_is_what_was_written_whatever_the_output_refuses_meanwhile() {
        let (again, full) = (Some(libc::EAGAIN), Some(libc::ENOSPC));
        for name in NAMES {
            for can_cut in [true, false] {
                let failures = [None, again, None, None, full, full, None, None, again];
                let (mut sink, bytes) = sink(name, &failures, can_cut);
                let mut at = 0;
                for seed in 0..3 {
                    let input = noise(seed);
                    while sink.write(&input, at).is_err() {}
                    at += input.len() as u64;
                }
                let written = bytes.lock().unwrap().clone();
                let expected = [noise(0), noise(1), noise(2)].concat();
                assert!(unpacked(name, &written) == expected, "{name} {can_cut}");
            }
        }
    }

    #[test]
    fn a_frame_that_did_not_fit_is_cut_off() {
        for name in NAMES {
            let failures: Vec<_> = (0..60).map(|n| (n == 59).then_some(libc::ENOSPC)).collect();
            let (mut sink, bytes) = sink(name, &failures, true);
            assert_eq!(sink.write(&noise(1), 0).unwrap(), 5000);
            assert!(sink.write(&noise(2), 5000).is_err());
            let written = bytes.lock().unwrap().clone();
            assert!(unpacked(name, &written) == noise(1), "{name}");
        }
    }

    #[test]
    fn a_buffer_may_be_written_again_after_a_failed_sync() {
        for name in NAMES {
            let (mut sink, bytes) = sink(name, &[], true);
            for (seed, at) in [(1, 0), (2, 5000), (3, 10_000), (4, 5000), (5, 10_000)] {
                assert_eq!(sink.write(&noise(seed), at).unwrap(), 5000);
            }
            assert!(!sink.cut(7000).unwrap(), "not a boundary");
            assert!(sink.write(&noise(6), 7000).is_err());
            assert!(sink.cut(10_000).unwrap());
            let written = bytes.lock().unwrap().clone();
            let expected = [noise(1), noise(4)].concat();
            assert!(unpacked(name, &written) == expected, "{name}");
        }
    }
}
