//! Decompresses gzip and zstd while reading, from files and pipes.
//!
//! ```text
//!  source ──▶ compressed bytes ──▶ gzip · zstd ──▶ the window
//! ```
//! Both decoders accept input in pieces of any size and keep their state between them, so a slow pipe needs no special case.
//! Consecutive gzip members and zstd frames are read as one stream, as `gzip` and `zstd` do. Memory is bounded: gzip needs a
//! window of 32 KiB, and zstd windows are limited to 128 MiB, the default limit of the `zstd` command.

mod decompressor;
#[cfg(feature = "gzip")]
mod gzip;
mod unpacked;
#[cfg(feature = "zstd")]
mod zstd;

pub(super) use decompressor::Failed;
pub use unpacked::Unpacked;

use super::source::{ByteSource, Read};
use decompressor::Decompressor;
use std::io;

const INPUT_BYTES: usize = 64 << 10;

/// The decompressor for a file that begins with these bytes, if it is compressed.
fn decompressor_for(first: &[u8]) -> Result<Option<Box<dyn Decompressor>>, Failed> {
    let name = match first {
        [0x1f, 0x8b, ..] => "gzip",
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => "zstd",
        _ => return Ok(None),
    };
    match name {
        #[cfg(feature = "gzip")]
        "gzip" => Ok(Some(Box::new(gzip::Gzip::new()))),
        #[cfg(feature = "zstd")]
        "zstd" => Ok(Some(Box::new(zstd::Zstd::new()?))),
        _ => Err(Failed::Data(format!(
            "is compressed with {name}, and this build cannot decompress that. \
             Decompress the file first, or enable the feature `{name}` of forebay-net"
        ))),
    }
}

/// The state of decompression.
struct Unpacking {
    decompressor: Option<Box<dyn Decompressor>>,
    compression: Option<&'static str>,
    /// Compressed input: `begin..end` is not yet consumed, and `begin` is at `offset` in the file.
    input: Vec<u8>,
    begin: usize,
    end: usize,
    offset: u64,
    is_inside: bool,
    /// The last output was filled, so there may be more without further input.
    is_full: bool,
    /// The offset after the last whole member or frame.
    whole: u64,
    /// The source ended inside a member or frame.
    is_torn: bool,
}

impl Unpacking {
    /// Of a file that begins with the bytes `first`.
    fn new(first: &[u8]) -> Result<Self, Failed> {
        let decompressor = decompressor_for(first)?;
        let is_compressed = decompressor.is_some();
        let mut input = Vec::new();
        if is_compressed {
            input.resize(INPUT_BYTES.max(first.len()), 0);
            input[..first.len()].copy_from_slice(first);
        }
        Ok(Unpacking {
            compression: decompressor.as_ref().map(|it| it.name()),
            decompressor,
            input,
            begin: 0,
            end: if is_compressed { first.len() } else { 0 },
            offset: 0,
            is_inside: false,
            is_full: false,
            whole: 0,
            is_torn: false,
        })
    }

    /// Reads decompressed bytes of what `read` reads.
    fn read(
        &mut self,
        into: &mut [u8],
        mut read: impl FnMut(&mut [u8]) -> io::Result<Read>,
    ) -> Result<Read, Failed> {
        let Some(decompressor) = &mut self.decompressor else {
            return read(into).map_err(Failed::System);
        };
        loop {
            while self.begin < self.end || (self.is_full && self.is_inside) {
                let input = &self.input[self.begin..self.end];
                let step = decompressor.step(input, into, self.offset, self.is_inside)?;
                if step.read + step.written == 0 && self.begin < self.end {
                    return Err(Failed::at(
                        decompressor.name(),
                        "does not go on",
                        self.offset,
                    ));
                }
                self.begin += step.read;
                self.offset += step.read as u64;
                self.is_inside = step.is_inside;
                if !step.is_inside {
                    self.whole = self.offset;
                }
                self.is_full = step.written > 0 && step.written == into.len();
                if step.written > 0 {
                    return Ok(Read::Bytes(step.written));
                }
            }
            match read(&mut self.input).map_err(Failed::System)? {
                Read::Bytes(n) => (self.begin, self.end) = (0, n),
                Read::NotNow => return Ok(Read::NotNow),
                Read::End if self.is_inside => {
                    self.is_torn = true;
                    return Err(Failed::at(
                        decompressor.name(),
                        "ends too early",
                        self.offset,
                    ));
                }
                Read::End => return Ok(Read::End),
            }
        }
    }
}

/// A source whose bytes are decompressed if necessary.
pub(super) struct Stream {
    source: ByteSource,
    unpacking: Unpacking,
}

impl Stream {
    /// A stream of `source`, from which the bytes `first` were already read. They show whether it is compressed. Only then
    /// the stream contains them, and the second result is true.
    pub fn new(source: ByteSource, first: &[u8]) -> Result<(Self, bool), Failed> {
        let unpacking = Unpacking::new(first)?;
        let is_compressed = unpacking.compression.is_some();
        Ok((Stream { source, unpacking }, is_compressed))
    }

    /// The file itself, if it is not compressed and can be read at any offset.
    pub fn into_plain_file(self) -> Option<std::fs::File> {
        let is_plain = self.unpacking.decompressor.is_none();
        self.source.into_regular().filter(|_| is_plain)
    }

    pub fn source(&self) -> &ByteSource {
        &self.source
    }

    pub fn source_mut(&mut self) -> &mut ByteSource {
        &mut self.source
    }

    /// The name of the compression.
    pub fn compression(&self) -> Option<&'static str> {
        self.unpacking.compression
    }

    /// The offset in the compressed file after the last member or frame that was read whole.
    pub fn whole(&self) -> u64 {
        self.unpacking.whole
    }

    /// Whether the file ends inside a member or frame.
    pub fn is_torn(&self) -> bool {
        self.unpacking.is_torn
    }

    /// Frees the memory that reading needs. Nothing is read after this.
    pub fn free_buffers(&mut self) {
        (self.unpacking.decompressor, self.unpacking.input) = (None, Vec::new());
    }

    /// Reads decompressed bytes.
    pub fn read(&mut self, into: &mut [u8]) -> Result<Read, Failed> {
        let source = &mut self.source;
        self.unpacking.read(into, |bytes| source.read(bytes))
    }
}

#[cfg(all(test, not(all(feature = "gzip", feature = "zstd"))))]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_this_build_cannot_decompress_is_an_error_that_names_the_feature() {
        for (name, is_included, first) in [
            ("gzip", cfg!(feature = "gzip"), [0x1f, 0x8b, 8, 0]),
            ("zstd", cfg!(feature = "zstd"), [0x28, 0xb5, 0x2f, 0xfd]),
        ] {
            match decompressor_for(&first) {
                Ok(found) => assert!(is_included && found.is_some(), "{name}"),
                Err(Failed::Data(what)) => {
                    assert!(
                        !is_included && what.contains(&format!("`{name}`")),
                        "{what}"
                    );
                }
                Err(Failed::System(error)) => panic!("{error}"),
            }
        }
    }
}
