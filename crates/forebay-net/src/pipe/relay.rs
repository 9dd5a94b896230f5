//! Beside the buffer: pages that `splice(2)` moves from the input's pipe into pipes of ours, and from there into the output's. No
//! byte is copied.
//!
//! ```text
//!                      ┌ pipe ┐
//!   input ══▶ splice ══▶ pipe ╞══ splice ══▶ output       the stream is empty, and a pipe of ours has room
//!     │        Intake  └ pipe ┘  Outlet        ▲
//!     │           └─ pieces ─▶ ─┘              │
//!     └──▶ read ──▶ stream ──▶ write ──────────┘          they are all full
//! ```
//!
//! The thread that fills fills one pipe after another, and says through a ring how many bytes went into which; the thread that
//! drains gives each pipe back through a second ring when it meets a piece of the next one.
//!
//! **In order.** Bytes go into the pipes only while the stream is empty: all that was ever in it is written then, since the
//! drainer pops bytes *behind* the write that got rid of them, and that pop is what the filler acquires as it sees it empty. So
//! where both have content, that of the pipes came first. A piece is pushed *before* what comes behind it is put into the stream:
//! the drainer looks at the stream first and at the pieces then, and writes from the stream only where there are none.
//!
//! **Where it is open.** Pages in a pipe belong to nobody else as a rule, so handing them on changes nothing for anyone. Pages of
//! a file do: who writes to the file would change what is under way. And writing to a file may wait, which holds up whatever else is
//! to be heard. So it goes from pipes to a pipe; and only where each byte may go as it comes: no other output, check sum, limit,
//! watermark or block size. The exception to the rule nobody can see from here: pages that the producer lent to the pipe
//! (`vmsplice`), and writes into again once the pipe is empty. For those there is [`Config::splice`].
//!
//! **How much.** As much as the buffer, beside it, and 64 MiB at most. Then the buffer is for pages with few bytes in them, which fill
//! the pipes too soon. The kernel counts what a user has in pipes, and whoever has too much gets small ones. So where it counts,
//! ours take a quarter of what it allows, and of the buffer, and the buffer is for the rest.

use super::{Config, Input, LARGE, Output, control::Flag};
use forebay::{
    ring::spsc::{Config as Ring, Consumer, Producer, ring, ring_with},
    sync::Park,
};
use rustix::{
    io::Errno,
    param::page_size,
    pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice},
    thread::{CapabilitySet, capabilities},
};
use std::{
    fs, io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
    time::Duration,
};

/// Most pipes: two descriptors each, and a MiB as a rule.
const MOST: usize = 64;

/// A pipe goes back when it is empty and the next one has something: there is one to be filled meanwhile.
const FEW: usize = 4;

/// So many bytes went into the pipe of this number.
#[derive(Clone, Copy, Debug)]
struct Piece {
    pipe: usize,
    bytes: usize,
}

/// The end where pages come in: the thread's that fills.
pub(super) struct Intake {
    ends: Vec<OwnedFd>,
    /// The pipe that is being filled, and whether anything was put into it.
    pipe: usize,
    has_some: bool,
    vacant: Consumer<usize, Park>,
    pieces: Producer<Piece>,
    bell: Arc<Flag>,
    /// It is as large as the buffer.
    is_whole: bool,
}

/// The end where they go out: the thread's that drains.
pub(super) struct Outlet {
    ends: Vec<OwnedFd>,
    /// The pipe that is being drained, and what is known to be in it.
    pipe: usize,
    left: usize,
    /// A piece of another pipe, behind that.
    next: Option<Piece>,
    vacant: Producer<usize, Park>,
    pieces: Consumer<Piece>,
    bell: Arc<Flag>,
    passed: u64,
}

/// Pipes that hold up to `bytes` between `inputs` and `outputs`, where `config` allows for any and the kernel has any; `None` where not.
pub(super) fn relay(
    inputs: &[Input],
    outputs: &[Output],
    config: &Config,
    bytes: usize,
) -> Option<(Intake, Outlet)> {
    let passes_as_it_comes = config.splice
        && config.block_bytes.is_none()
        && config.start_writing == 0
        && config.start_reading == 100
        && config.read_rate.is_none()
        && config.write_rate.is_none()
        && config.hash.is_none();
    let is_between_pipes =
        inputs.iter().any(Input::is_pipe) && matches!(outputs, [output] if output.is_pipe());
    if !(passes_as_it_comes && is_between_pipes) {
        return None;
    }
    let pipes = pipes(bytes);
    if pipes.len() < FEW {
        return None;
    }
    let slots: usize = pipes.iter().map(|pipe| pipe.slots).sum();
    let bell = Arc::new(Flag::new().ok()?);
    let (put, taken) = ring(slots).ok()?;
    let (mut give_back, vacant) = ring_with(&Ring {
        capacity: pipes.len(),
        ..Ring::default()
    })
    .ok()?;
    for pipe in 1..pipes.len() {
        give_back.push(pipe).ok()?;
    }
    let (outs, ins): (Vec<_>, Vec<_>) = pipes.into_iter().map(|it| (it.out, it.into)).unzip();
    let intake = Intake {
        ends: ins,
        pipe: 0,
        has_some: false,
        vacant,
        pieces: put,
        bell: bell.clone(),
        is_whole: slots * page_size() >= config.capacity_bytes / 2,
    };
    let outlet = Outlet {
        ends: outs,
        pipe: 0,
        left: 0,
        next: None,
        vacant: give_back,
        pieces: taken,
        bell,
        passed: 0,
    };
    Some((intake, outlet))
}

impl Intake {
    /// Moves up to `most` bytes out of `input`, none of which are waited for: `None` where no pipe of ours takes any now, or none
    /// are there. 0 is the input's end. Behind a `None` it may be worth while to [wait](Intake::wait).
    ///
    /// # Errors
    /// As `splice(2)`: the kernel does not, from this input.
    pub fn take(&mut self, input: &Input, most: usize) -> io::Result<Option<usize>> {
        loop {
            match moved(input, &self.ends[self.pipe], most)? {
                Some(bytes) => {
                    if bytes > 0 {
                        let piece = Piece {
                            pipe: self.pipe,
                            bytes,
                        };
                        let pushed = self.pieces.push(piece);
                        pushed.expect("a piece is a page of a pipe, or more");
                        self.has_some = true;
                        self.bell.raise();
                    }
                    return Ok(Some(bytes));
                }
                None if self.has_some => match self.vacant.pop() {
                    Some(pipe) => (self.pipe, self.has_some) = (pipe, false),
                    None => return Ok(None),
                },
                None => return Ok(None),
            }
        }
    }

    /// Whether it holds as much as the buffer does, where its pages are full.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Waits until a pipe is empty, where all were full, for `limit` (`None`: for ever); false if nobody empties any.
    pub fn wait(&mut self, limit: Option<Duration>) -> bool {
        match self.vacant.pop_wait(limit) {
            Ok(pipe) => (self.pipe, self.has_some) = (pipe, false),
            Err(_) => return false,
        }
        true
    }
}

impl Outlet {
    /// Whether pages wait. Asked behind a look at the stream, it says whether they go before what is there.
    pub fn has_some(&mut self) -> bool {
        while self.next.is_none() {
            match self.pieces.pop() {
                Some(piece) if piece.pipe == self.pipe => self.left += piece.bytes,
                Some(piece) => self.next = Some(piece),
                None => break,
            }
        }
        if self.left == 0
            && let Some(next) = self.next.take()
        {
            let pushed = self.vacant.push(self.pipe);
            pushed.expect("there are no more pipes than there is room for");
            (self.pipe, self.left) = (next.pipe, next.bytes);
        }
        self.left > 0
    }

    /// Whether it is known to: whoever did not get rid of it waits for the output.
    pub fn is_behind(&self) -> bool {
        self.left > 0
    }

    /// Moves what waits in a pipe on to `output`, as much as it takes now.
    ///
    /// # Errors
    /// As `splice(2)`: nobody reads it any more.
    pub fn give(&mut self, output: &Output) -> io::Result<usize> {
        let given = moved(&self.ends[self.pipe], output, self.left)?.unwrap_or(0);
        self.left -= given;
        self.passed += given as u64;
        Ok(given)
    }

    /// Bytes that it has moved.
    pub fn passed(&self) -> u64 {
        self.passed
    }

    /// What was heard so far is known: the next piece makes the descriptor readable again.
    pub fn listen(&self) {
        self.bell.take();
    }
}

impl AsFd for Outlet {
    /// Readable when pages have come since [`listen`](Outlet::listen).
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// Moves up to `most` bytes from pipe to pipe; `None` where there are none, or no room.
fn moved(from: impl AsFd, to: impl AsFd, most: usize) -> io::Result<Option<usize>> {
    let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
    match splice(from, None, to, None, most, flags) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(cause) => Err(cause.into()),
    }
}

/// A pipe of ours.
struct Held {
    out: OwnedFd,
    into: OwnedFd,
    /// How many pages it has room for.
    slots: usize,
}

/// Pipes that hold up to `bytes`; fewer where the kernel has no more.
fn pipes(bytes: usize) -> Vec<Held> {
    let size = (bytes / FEW).min(LARGE);
    if size < page_size() {
        return Vec::new();
    }
    let size = 1 << size.ilog2();
    let pipe = |_| {
        let (out, into) = pipe_with(PipeFlags::CLOEXEC).ok()?;
        let slots = fcntl_setpipe_size(&into, size).ok()? / page_size();
        Some(Held { out, into, slots })
    };
    (0..(bytes / size).min(MOST)).map_while(pipe).collect()
}

/// What pipes may hold beside a buffer of `capacity` bytes.
pub(super) fn bytes_beside(capacity: usize) -> usize {
    bytes_at_most(capacity, allowance())
}

/// The same, where a user may have `allowance` in all pipes.
fn bytes_at_most(capacity: usize, allowance: Option<usize>) -> usize {
    allowance.map_or(capacity, |it| it.min(capacity) / 4)
}

/// How many bytes the kernel lets this user have in pipes; `None` where it does not count them.
fn allowance() -> Option<usize> {
    let pages = fs::read_to_string("/proc/sys/fs/pipe-user-pages-soft").ok()?;
    let pages: usize = pages.trim().parse().ok()?;
    (pages > 0 && !is_privileged()).then(|| pages.saturating_mul(page_size()))
}

/// Whether the kernel counts this process's pipes for nothing: these rights, and not in a container of its own.
fn is_privileged() -> bool {
    let rights = CapabilitySet::SYS_RESOURCE | CapabilitySet::SYS_ADMIN;
    let has_rights = capabilities(None).is_ok_and(|sets| sets.effective.intersects(rights));
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    has_rights && map.split_whitespace().eq(["0", "0", "4294967295"])
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn pipes_take_as_much_as_the_buffer_or_a_quarter_of_what_a_user_may_have() {
        assert_eq!(bytes_at_most(64 * MIB, None), 64 * MIB);
        assert_eq!(bytes_at_most(64 * MIB, Some(64 * MIB)), 16 * MIB);
        assert_eq!(bytes_at_most(1024 * MIB, Some(64 * MIB)), 16 * MIB);
        assert_eq!(bytes_at_most(MIB, Some(64 * MIB)), MIB / 4);
    }

    #[test]
    fn there_are_as_many_pipes_as_hold_that() {
        let sizes = |bytes| {
            let of = |pipe: &Held| pipe.slots * page_size();
            pipes(bytes).iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(sizes(16 * MIB), [MIB; 16]);
        assert_eq!(sizes(7 * MIB), [MIB; 7]);
        assert_eq!(sizes(100_000), [16_384; 6]);
        assert_eq!(sizes(1024 * MIB).len(), MOST);
        assert!(sizes(3 * page_size()).is_empty());
        assert!(sizes(0).is_empty());
    }
}
