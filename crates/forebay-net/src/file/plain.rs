//! Reads the bytes of a file, without decoding them.

use super::{
    compressed::{Failed, Stream},
    source::{ByteSource, Read},
};
use std::{
    fmt,
    io::{self, Read as _},
};

/// The uncompressed bytes of a capture file, for programs that copy its records as they are.
///
/// ```
/// use std::io::Read;
/// let path = std::env::temp_dir().join(format!("plain-{}.pcap", std::process::id()));
/// std::fs::write(&path, "any bytes")?;
/// let mut bytes = String::new();
/// forebay_net::file::Plain::new(std::fs::File::open(&path)?)?.read_to_string(&mut bytes)?;
/// assert_eq!(bytes, "any bytes");
/// # std::fs::remove_file(path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Plain {
    stream: Stream,
    /// The first bytes, if they are not compressed.
    first: io::Cursor<Vec<u8>>,
}

impl Plain {
    /// Reads a file, which may be compressed with gzip or zstd, from its present position.
    ///
    /// # Errors
    /// It cannot be read, or this build cannot decompress it.
    pub fn new(file: std::fs::File) -> io::Result<Plain> {
        let mut first = Vec::new();
        io::Read::take(&file, 4).read_to_end(&mut first)?;
        let source = ByteSource::new(file, u64::MAX)?;
        let (stream, is_compressed) = Stream::new(source, &first).map_err(into_io)?;
        if is_compressed {
            first.clear();
        }
        Ok(Plain {
            stream,
            first: io::Cursor::new(first),
        })
    }
}

impl fmt::Debug for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plain").finish_non_exhaustive()
    }
}

impl io::Read for Plain {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let first = self.first.read(into)?;
        if first > 0 || into.is_empty() {
            return Ok(first);
        }
        loop {
            match self.stream.read(into).map_err(into_io)? {
                Read::Bytes(n) => return Ok(n),
                Read::End => return Ok(0),
                Read::NotNow => self.stream.source().wait()?,
            }
        }
    }
}

fn into_io(failed: Failed) -> io::Error {
    match failed {
        Failed::System(error) => error,
        Failed::Data(what) => io::Error::other(what),
    }
}
