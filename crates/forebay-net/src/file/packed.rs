//! Unpacking gzip and zstd on the way, of files and of pipes.
//!
//! ```text
//!  source ──▶ packed bytes ──▶ inflate · zstd ──▶ the window
//! ```
//! Both are fed whatever has come and keep their state when no more comes, so a pipe that is slow
//! is no special case. Members and frames that follow each other are read as one stream, as `gzip`
//! and `zstd` do. Memory is bounded: inflate has a window of 32 KiB, zstd the 128 MiB that its own
//! command takes at most unless told otherwise.

use super::source::Source;
use flate2::{Decompress, FlushDecompress, Status};
use std::io;
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

const PACKED_ROOM: usize = 64 << 10;
const LARGEST_WINDOW_LOG2: u32 = 27;
const TOO_WIDE: &str = "was packed with a window above 128 MiB, unpack it with `zstd -d --long=31`";

/// What reading gave.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    Bytes(usize),
    /// Nothing now, more may come.
    NotNow,
    End,
}

/// Why nothing more can be read.
#[derive(Debug)]
pub(super) enum Broken {
    System(io::Error),
    /// What is wrong with the packed bytes.
    Packed(String),
}

enum Codec {
    None,
    Gzip(Decompress),
    Zstd(Box<DCtx<'static>>),
}

/// A source whose bytes are unpacked if they have to be.
pub(super) struct Stream {
    source: Source,
    copy: &'static str,
    codec: Codec,
    packed: Vec<u8>,
    begin: usize,
    end: usize,
    /// Where `packed[begin]` lies in the file.
    offset: u64,
    /// Inside a gzip member or zstd frame.
    is_inside: bool,
    /// The last output was filled, so there may be more without more input.
    is_full: bool,
}

impl Stream {
    /// `first` were read from `source` already; they tell whether it is packed. They are taken only
    /// if it is: the answer says so.
    pub fn new(source: Source, first: &[u8]) -> Result<(Self, bool), Broken> {
        let codec = match first {
            [0x1f, 0x8b, ..] => Codec::Gzip(Decompress::new_gzip(15)),
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
                let mut context = DCtx::create();
                context
                    .set_parameter(DParameter::WindowLogMax(LARGEST_WINDOW_LOG2))
                    .map_err(zstd_failed)?;
                Codec::Zstd(Box::new(context))
            }
            _ => Codec::None,
        };
        let is_packed = !matches!(codec, Codec::None);
        let mut packed = Vec::new();
        if is_packed {
            packed.resize(PACKED_ROOM.max(first.len()), 0);
            packed[..first.len()].copy_from_slice(first);
        }
        let stream = Stream {
            source,
            copy: match codec {
                Codec::None => "read",
                Codec::Gzip(_) => "read, gzip",
                Codec::Zstd(_) => "read, zstd",
            },
            codec,
            packed,
            begin: 0,
            end: if is_packed { first.len() } else { 0 },
            offset: 0,
            is_inside: false,
            is_full: false,
        };
        Ok((stream, is_packed))
    }

    /// The file itself, if it is one that can be read at any place and is not packed.
    pub fn into_plain_file(self) -> Option<std::fs::File> {
        let is_plain = matches!(self.codec, Codec::None);
        self.source.into_regular().filter(|_| is_plain)
    }

    pub fn source(&self) -> &Source {
        &self.source
    }

    /// How bytes reach us, in words.
    pub fn copy(&self) -> &'static str {
        self.copy
    }

    /// Gives memory back that reading takes: nothing more will be read.
    pub fn let_go(&mut self) {
        (self.codec, self.packed) = (Codec::None, Vec::new());
    }

    /// Reads on, unpacked.
    pub fn read(&mut self, into: &mut [u8]) -> Result<Read, Broken> {
        if matches!(self.codec, Codec::None) {
            return self.source.read(into).map_err(Broken::System);
        }
        loop {
            if self.begin < self.end || (self.is_full && self.is_inside) {
                let made = self.unpack(into)?;
                self.is_full = made == into.len();
                if made > 0 {
                    return Ok(Read::Bytes(made));
                }
                if self.begin < self.end {
                    continue;
                }
            }
            let read = self.source.read(&mut self.packed).map_err(Broken::System)?;
            match read {
                Read::Bytes(n) => (self.begin, self.end) = (0, n),
                Read::NotNow => return Ok(Read::NotNow),
                Read::End if self.is_inside => return Err(self.broken("ends too early")),
                Read::End => return Ok(Read::End),
            }
        }
    }

    fn broken(&self, what: &str) -> Broken {
        let kind = match self.codec {
            Codec::Gzip(_) => "gzip",
            _ => "zstd",
        };
        Broken::Packed(format!("the {kind} data {what} at byte {}", self.offset))
    }

    /// One step, from `packed` to `into`; the bytes it made.
    fn unpack(&mut self, into: &mut [u8]) -> Result<usize, Broken> {
        let input = &self.packed[self.begin..self.end];
        let (used, made, is_inside) = match &mut self.codec {
            Codec::None => (0, 0, false),
            Codec::Gzip(inflate) => {
                if !self.is_inside && self.offset > 0 {
                    // Tapes and block devices pad with zeros.
                    let zeros = input.iter().take_while(|&&byte| byte == 0).count();
                    if zeros > 0 {
                        self.begin += zeros;
                        self.offset += zeros as u64;
                        return Ok(0);
                    }
                    *inflate = Decompress::new_gzip(15);
                }
                let (read, written) = (inflate.total_in(), inflate.total_out());
                match inflate.decompress(input, into, FlushDecompress::None) {
                    Ok(status) => (
                        (inflate.total_in() - read) as usize,
                        (inflate.total_out() - written) as usize,
                        status != Status::StreamEnd,
                    ),
                    Err(_) if !self.is_inside && self.offset > 0 => {
                        return Err(self.broken("is followed by something else"));
                    }
                    Err(_) => return Err(self.broken("is damaged")),
                }
            }
            Codec::Zstd(context) => {
                let mut input = InBuffer::around(input);
                let mut output = OutBuffer::around(into);
                match context.decompress_stream(&mut output, &mut input) {
                    Ok(hint) => (input.pos(), output.pos(), hint != 0),
                    Err(code) => {
                        let why = zstd_safe::get_error_name(code).to_lowercase();
                        if why.contains("too much memory") {
                            return Err(Broken::Packed(TOO_WIDE.into()));
                        }
                        return Err(self.broken(&format!("is damaged ({why})")));
                    }
                }
            }
        };
        if used + made == 0 && self.begin < self.end {
            return Err(self.broken("does not go on"));
        }
        self.begin += used;
        self.offset += used as u64;
        self.is_inside = is_inside;
        Ok(made)
    }
}

fn zstd_failed(code: usize) -> Broken {
    Broken::Packed(zstd_safe::get_error_name(code).to_lowercase())
}
