//! Decompresses what any reader reads, for programs that have their own way of reading.

use super::{Failed, Read, Unpacking};
use std::io;

/// The bytes of a capture file, decompressed if it begins as gzip or zstd.
///
/// ```
/// use forebay_net::file::Unpacked;
/// use std::io::Read;
/// let (mut plain, is_compressed) = Unpacked::new(&b"the rest"[..], b"head")?;
/// let mut text = String::new();
/// plain.read_to_string(&mut text)?;
/// assert_eq!((text.as_str(), is_compressed), ("the rest", false));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Unpacked<R> {
    source: R,
    unpacking: Unpacking,
}

impl<R: io::Read> Unpacked<R> {
    /// Continues `source`, from which the bytes `first` were already read; four are enough. They show whether it is compressed. Only then the
    /// result contains them, decompressed, and the second value is true.
    ///
    /// # Errors
    /// This build cannot decompress it.
    pub fn new(source: R, first: &[u8]) -> io::Result<(Self, bool)> {
        let unpacking = Unpacking::new(first).map_err(error)?;
        let is_compressed = unpacking.compression.is_some();
        Ok((Unpacked { source, unpacking }, is_compressed))
    }

    /// The reader, which may be ahead of the decompressed bytes.
    pub fn source(&self) -> &R {
        &self.source
    }
}

impl<R: io::Read> io::Read for Unpacked<R> {
    /// Reads as the source does. An interruption loses nothing.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let source = &mut self.source;
        let read = self.unpacking.read(into, |bytes| {
            let n = source.read(bytes)?;
            Ok(if n == 0 { Read::End } else { Read::Bytes(n) })
        });
        match read.map_err(error)? {
            Read::Bytes(n) => Ok(n),
            Read::NotNow | Read::End => Ok(0),
        }
    }
}

fn error(failed: Failed) -> io::Error {
    match failed {
        Failed::System(error) => error,
        Failed::Data(what) => io::Error::new(io::ErrorKind::InvalidData, what),
    }
}
