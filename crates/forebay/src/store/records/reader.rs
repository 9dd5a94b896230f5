//! Reads a record file up to the first byte that is not as it was written.

use super::block::{self, HEAD, Head, MAGIC, Shape};
use crate::{Error, Result};
use std::{
    fmt,
    io::{self, Read},
};

/// Why a file was not read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It ends inside of a block.
    Torn,
    /// What is there are zeros: room for a block that never arrived.
    Zeros,
    /// It is no block, or its head was damaged.
    NoBlock,
    /// The head of a block is whole, but not its content.
    Damaged,
    /// A whole block of another file.
    Foreign,
    /// A whole block whose records are not those that come next.
    OutOfOrder {
        /// The number that should come.
        expected: u64,
        /// The one that does.
        found: u64,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Torn => f.write_str("the file ends inside of a block"),
            Fault::Zeros => f.write_str("zeros stand where a block should"),
            Fault::NoBlock => f.write_str("what is there is no block"),
            Fault::Damaged => f.write_str("a block does not match its check sum"),
            Fault::Foreign => f.write_str("a block of another file follows"),
            Fault::OutOfOrder { expected, found } => {
                write!(f, "record {expected} should follow, and {found} does")
            }
        }
    }
}

/// What of a file cannot be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Where it begins.
    pub at: u64,
    /// Bytes from there to the end.
    pub bytes: u64,
    /// What is wrong there.
    pub fault: Fault,
    /// Heads of blocks that lie behind it all the same.
    pub later: Later,
}

/// Blocks behind a fault, by what their heads say; nobody has looked at their content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Later {
    /// How many.
    pub blocks: u64,
    /// How many records they say they hold.
    pub records: u64,
}

/// What a record file holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Whole blocks, in order.
    pub blocks: u64,
    /// Records in them.
    pub records: u64,
    /// The number of the first record: how many the store had accepted before it. `None`: there is no record.
    pub first: Option<u64>,
    /// Bytes up to the end of the last whole block.
    pub bytes: u64,
    /// How long records are, where there is one.
    pub shape: Option<Shape>,
    /// What lies behind these bytes; `None`: nothing.
    pub cut: Option<Cut>,
}

/// Whole records, as they lie in one block.
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

    /// How many.
    pub fn len(&self) -> usize {
        self.head.records as usize
    }

    /// Never: a block has records.
    pub fn is_empty(&self) -> bool {
        self.head.records == 0
    }

    /// How long they are.
    pub fn shape(&self) -> Shape {
        self.head.shape
    }

    /// Each record's bytes, in order. Those of one length lie back to back, the first one aligned to 8 bytes or more.
    pub fn records(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        block::spans(self.head.shape, self.content).flatten()
    }
}

/// Reads blocks in order, and stops in front of the first that is not whole, not in order, or not one.
///
/// ```
/// use forebay::store::records::{Fault, Reader};
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
    /// The input could not be read; where it goes on nobody knows.
    failed: Option<io::ErrorKind>,
}

impl<R: Read> Reader<R> {
    /// A reader from the first byte on. It reads whole blocks: no need for a buffer.
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

    /// The next block; `None`: that was all, or the rest cannot be relied on: [`finish`](Reader::finish) says which.
    ///
    /// # Errors
    /// The input cannot be read, now or before: then this and [`finish`](Reader::finish) say nothing else any more.
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

    /// What was found; reads what is left, to say what was cut.
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
        // Not from its first byte: the block that is at fault is not a later one.
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

/// Counts the heads that lie whole in `window`, and says how many bytes need no second look.
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

/// Reads `len` bytes into `target`, or as many as there are. Its memory grows with what arrives, not with what is promised.
fn fill(input: &mut impl Read, target: &mut Vec<u8>, len: usize) -> io::Result<()> {
    target.clear();
    input.take(len as u64).read_to_end(target).map(drop)
}

fn unread(cause: io::Error) -> Error {
    Error::new("", "reading records").because(cause)
}
