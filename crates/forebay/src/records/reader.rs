//! Reads a record file up to the first byte that differs from what was written.

use super::block::{self, HEAD, Head, MAGIC, Shape};
use crate::{Error, Result};
use std::{
    fmt,
    io::{self, Read},
};

/// Why reading stopped before the end of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The file ends inside a block.
    Torn,
    /// Zeros: space for a block that was never written.
    Zeros,
    /// Not a block, or a block whose head is damaged.
    NoBlock,
    /// The head of a block is whole, but its content is not.
    Damaged,
    /// A whole block of another file.
    Foreign,
    /// A whole block, but its records are not the next ones.
    OutOfOrder {
        /// The record number that should follow.
        expected: u64,
        /// The record number found.
        found: u64,
    },
}

impl Fault {
    /// Its name for programs, such as `out_of_order`: the same in all versions.
    pub fn name(&self) -> &'static str {
        match self {
            Fault::Torn => "torn",
            Fault::Zeros => "zeros",
            Fault::NoBlock => "no_block",
            Fault::Damaged => "damaged",
            Fault::Foreign => "foreign",
            Fault::OutOfOrder { .. } => "out_of_order",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Torn => f.write_str("the file ends inside of a block"),
            Fault::Zeros => f.write_str("there are zeros where a block should be"),
            Fault::NoBlock => f.write_str("the bytes there are not a block"),
            Fault::Damaged => f.write_str("a block does not match its check sum"),
            Fault::Foreign => f.write_str("a block of another file follows"),
            Fault::OutOfOrder { expected, found } => {
                write!(
                    f,
                    "record {expected} should follow, but record {found} does"
                )
            }
        }
    }
}

/// The part of a file that cannot be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cut {
    /// Offset of its first byte.
    pub at: u64,
    /// Bytes from there to the end of the file.
    pub bytes: u64,
    /// What is wrong there.
    pub fault: Fault,
    /// Heads of blocks that were nevertheless found after it.
    pub later: Later,
}

/// Blocks after a fault, according to their heads. Their content was not checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Later {
    /// The number of blocks.
    pub blocks: u64,
    /// The number of records in them, according to their heads.
    pub records: u64,
}

/// The contents of a record file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovered {
    /// Whole blocks, in order.
    pub blocks: u64,
    /// Records in them.
    pub records: u64,
    /// The number of the first record, that is, how many records the store had accepted before it. `None`: there is no record.
    pub first: Option<u64>,
    /// Bytes up to the end of the last whole block.
    pub bytes: u64,
    /// The length of records, if there is one.
    pub shape: Option<Shape>,
    /// What follows these bytes; `None`: nothing.
    pub cut: Option<Cut>,
}

/// The whole records of one block, in place.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    head: Head,
    content: &'a [u8],
}

impl<'a> Block<'a> {
    /// The number of the first one.
    pub fn first(&self) -> u64 {
        self.head.first
    }

    /// The number of records.
    pub fn len(&self) -> usize {
        self.head.records as usize
    }

    /// Always false: a block has at least one record.
    pub fn is_empty(&self) -> bool {
        self.head.records == 0
    }

    /// The length of the records.
    pub fn shape(&self) -> Shape {
        self.head.shape
    }

    /// The bytes of each record, in order. Records of a fixed length are back to back, the first aligned to 8 bytes or more.
    pub fn records(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        block::spans(self.head.shape, self.content).flatten()
    }
}

/// Reads blocks in order, and stops before the first that is not whole, not in order, or not a block.
///
/// ```
/// use forebay::records::{Fault, Reader};
/// let mut reader = Reader::new(&b"this is no record file"[..]);
/// assert!(reader.next_block()?.is_none());
/// let cut = reader.finish()?.cut.expect("all of it");
/// assert_eq!((cut.at, cut.bytes, cut.fault), (0, 22, Fault::NoBlock));
/// # Ok::<(), forebay::Error>(())
/// ```
pub struct Reader<R> {
    input: R,
    /// The head and the body that were read last.
    head: Vec<u8>,
    body: Vec<u8>,
    /// The last whole block.
    last: Option<Head>,
    found: Recovered,
    fault: Option<Fault>,
    is_over: bool,
    /// The input could not be read, so the position in it is unknown.
    failed: Option<io::ErrorKind>,
}

impl<R: Read> Reader<R> {
    /// A reader that starts at the first byte. It reads whole blocks, so `input` needs no buffering.
    pub fn new(input: R) -> Self {
        Reader {
            input,
            head: Vec::with_capacity(HEAD),
            body: Vec::new(),
            last: None,
            found: Recovered::default(),
            fault: None,
            is_over: false,
            failed: None,
        }
    }

    /// The next block. `None`: the end of the file, or the rest cannot be relied on; [`finish`](Reader::finish) reports which.
    ///
    /// # Errors
    /// The input cannot be read, now or at an earlier call. From then on this and [`finish`](Reader::finish) return only errors.
    pub fn next_block(&mut self) -> Result<Option<Block<'_>>> {
        if let Some(kind) = self.failed {
            return Err(unread(kind.into()));
        }
        if self.is_over {
            return Ok(None);
        }
        let read = self.read_block();
        self.failed = read.as_ref().err().map(io::Error::kind);
        match read.map_err(unread)? {
            Ok(Some(head)) => {
                self.found.blocks += 1;
                self.found.records += u64::from(head.records);
                self.found.bytes += (HEAD + head.body()) as u64;
                self.found.first.get_or_insert(head.first);
                self.found.shape = Some(head.shape);
                self.last = Some(head);
                let content = &self.body[..head.content as usize];
                Ok(Some(Block { head, content }))
            }
            ended => {
                self.fault = ended.err();
                self.is_over = true;
                Ok(None)
            }
        }
    }

    /// `None` at the end.
    fn read_block(&mut self) -> io::Result<std::result::Result<Option<Head>, Fault>> {
        self.body.clear();
        fill(&mut self.input, &mut self.head, HEAD)?;
        if self.head.is_empty() {
            return Ok(Ok(None));
        }
        if self.head.iter().all(|&byte| byte == 0) {
            return Ok(Err(Fault::Zeros));
        }
        let begun = self.head.len().min(MAGIC.len());
        if self.head[..begun] != MAGIC[..begun] {
            return Ok(Err(Fault::NoBlock));
        }
        let Ok(head) = <&[u8; HEAD]>::try_from(&self.head[..]) else {
            return Ok(Err(Fault::Torn));
        };
        let Some(head) = Head::parse(head) else {
            return Ok(Err(Fault::NoBlock));
        };
        fill(&mut self.input, &mut self.body, head.body())?;
        Ok(self.judge(head).map(|()| Some(head)))
    }

    fn judge(&self, head: Head) -> std::result::Result<(), Fault> {
        if self.body.len() < head.body() {
            return Err(Fault::Torn);
        }
        let content = &self.body[..head.content as usize];
        let mut records = 0;
        let are_whole = block::spans(head.shape, content).all(|record| {
            records += 1;
            record.is_some()
        });
        if crc32c::crc32c(&self.body) != head.content_check || !are_whole || records != head.records
        {
            return Err(Fault::Damaged);
        }
        let Some(last) = &self.last else {
            return Ok(());
        };
        if (head.file, head.shape) != (last.file, last.shape) {
            return Err(Fault::Foreign);
        }
        if head.first != last.next() {
            return Err(Fault::OutOfOrder {
                expected: last.next(),
                found: head.first,
            });
        }
        Ok(())
    }

    /// Returns what was found. Reads the rest of the input, to report what it holds.
    ///
    /// # Errors
    /// The input cannot be read.
    pub fn finish(self) -> Result<Recovered> {
        Ok(self.finish_with_last()?.0)
    }

    /// As [`finish`](Reader::finish), with the head of the last whole block.
    pub(super) fn finish_with_last(mut self) -> Result<(Recovered, Option<Head>)> {
        while self.next_block()?.is_some() {}
        let Some(fault) = self.fault else {
            return Ok((self.found, self.last));
        };
        // Not from its first byte: the faulty block does not count as a later one.
        let begun = self.head.iter().chain(&self.body).skip(1);
        let mut window: Vec<u8> = begun.copied().collect();
        let mut cut = Cut {
            at: self.found.bytes,
            bytes: window.len() as u64 + 1,
            fault,
            later: Later::default(),
        };
        let mut chunk = vec![0; 1 << 16];
        loop {
            let seen = count_heads(&window, &mut cut.later);
            window.drain(..seen);
            match self.input.read(&mut chunk) {
                Ok(0) => break,
                Ok(len) => {
                    cut.bytes += len as u64;
                    window.extend_from_slice(&chunk[..len]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(unread(error)),
            }
        }
        self.found.cut = Some(cut);
        Ok((self.found, self.last))
    }
}

/// Counts the whole heads in `window`, and returns how many bytes need not be searched again.
fn count_heads(window: &[u8], later: &mut Later) -> usize {
    for candidate in window.windows(HEAD) {
        if candidate[..8] != MAGIC {
            continue;
        }
        let head = <&[u8; HEAD]>::try_from(candidate);
        if let Some(head) = head.ok().and_then(Head::parse) {
            later.blocks += 1;
            later.records = later.records.saturating_add(head.records.into());
        }
    }
    (window.len() + 1).saturating_sub(HEAD)
}

/// Reads `len` bytes into `target`, or up to the end. Memory grows with the bytes that arrive, not with the length that was
/// announced.
fn fill(input: &mut impl Read, target: &mut Vec<u8>, len: usize) -> io::Result<()> {
    target.clear();
    input.take(len as u64).read_to_end(target).map(drop)
}

fn unread(cause: io::Error) -> Error {
    Error::new("", "reading records").because(cause)
}
