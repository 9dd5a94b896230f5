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
//! watermark or block size. The exceptions to the rule nobody can see from here: pages that the producer lent to the pipe
//! (`vmsplice`), or that it spliced into it out of a file, and that are written again. For those there is [`Config::splice`].
//!
//! **How much.** As much as the buffer, and 64 MiB at most. Where full pages hold all that the buffer would, it is for pages with few
//! bytes in them, which fill the pipes too soon. The kernel counts what all processes of a user have in pipes, and beyond a
//! limit gives only small ones to those without certain rights. So without them, ours take a quarter of that limit, or of the buffer
//! if that is less, and the buffer is for the rest.

use super::{Config, Input, LARGE, Output, control::Flag};
use forebay::{
    ring::spsc::{Config as Ring, Consumer, Producer, ring, ring_with},
    sync::Park,
};
use rustix::{
    io::Errno,
    param::page_size,
    pipe::{PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice},
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

/// At least so many where pages allow: one that is being drained takes nothing, so that much of the whole may be vacant.
const PARTS: usize = 16;

/// The size of a pipe that nobody changed.
const DEFAULT: usize = 1 << 16;

/// How many pages a user may have in pipes where nobody changed that.
const USUAL_PAGES: usize = 16_384;

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
    /// So many bytes are held where its pipes are full, and so are their pages; `None` where the buffer would hold more.
    full_at: Option<u64>,
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
    // Descriptors that all of it needs, before those of which there may be fewer.
    let bell = Arc::new(Flag::new().ok()?);
    let (count, size) = dimensions(bytes);
    let (put, taken) = ring((count * slots(size.max(DEFAULT))).max(1)).ok()?;
    let (mut give_back, vacant) = ring_with(&Ring {
        capacity: count.max(1),
        ..Ring::default()
    })
    .ok()?;
    let pipes = pipes(count, size);
    if pipes.len() < FEW {
        return None;
    }
    for pipe in 1..pipes.len() {
        give_back.push(pipe).ok()?;
    }
    let held = pipes.iter().map(|pipe| pipe.size).sum::<usize>();
    let (outs, ins): (Vec<_>, Vec<_>) = pipes.into_iter().map(|it| (it.out, it.into)).unzip();
    let intake = Intake {
        ends: ins,
        pipe: 0,
        has_some: false,
        vacant,
        pieces: put,
        bell: bell.clone(),
        // All but the one that is being drained may be full.
        full_at: (held + size > config.capacity_bytes).then(|| (held - size) as u64),
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

    /// Whether its `held` bytes are as many as the buffer is to hold.
    pub fn is_full(&self, held: u64) -> bool {
        self.full_at.is_some_and(|full| held >= full)
    }

    /// Waits until there is an empty pipe, for `limit` (`None`: for ever); false if nobody empties any.
    pub fn wait(&mut self, limit: Option<Duration>) -> bool {
        if !self.has_some {
            return true;
        }
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
    loop {
        match splice(&from, None, &to, None, most, flags) {
            Ok(bytes) => return Ok(Some(bytes)),
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::INTR) => {}
            Err(cause) => return Err(cause.into()),
        }
    }
}

/// A pipe of ours.
struct Held {
    out: OwnedFd,
    into: OwnedFd,
    /// How many bytes it has room for, where its pages are full.
    size: usize,
}

/// How many pipes of which size hold up to `bytes`.
fn dimensions(bytes: usize) -> (usize, usize) {
    if bytes / FEW < page_size() {
        return (0, 0);
    }
    let size = 1 << (bytes / PARTS).clamp(page_size(), LARGE).ilog2();
    ((bytes / size).min(MOST), size)
}

/// `count` pipes of `size` bytes; smaller ones, and fewer, where the kernel has no others.
fn pipes(count: usize, size: usize) -> Vec<Held> {
    let pipe = |_| {
        let (out, into) = pipe_with(PipeFlags::CLOEXEC).ok()?;
        let size = fcntl_setpipe_size(&into, size).or_else(|_| fcntl_getpipe_size(&into));
        let size = size.ok()?;
        Some(Held { out, into, size })
    };
    let mut pipes: Vec<_> = (0..count).map_while(pipe).collect();
    if pipes.len() < count {
        // No descriptors are left: some are for whatever else this process does.
        pipes.truncate(pipes.len().saturating_sub(FEW));
    }
    pipes
}

/// Pages of a pipe of `size` bytes.
fn slots(size: usize) -> usize {
    size / page_size()
}

/// What pipes may hold beside a buffer of `capacity` bytes.
pub(super) fn bytes_beside(capacity: usize) -> usize {
    bytes_at_most(capacity, allowance())
}

/// The same, where a user may have `allowance` in all pipes.
fn bytes_at_most(capacity: usize, allowance: Option<usize>) -> usize {
    allowance.map_or(capacity, |it| it.min(capacity) / 4)
}

/// How many bytes the kernel lets this user have in pipes; `None` where that is not for this process.
fn allowance() -> Option<usize> {
    let pages = |limit| -> Option<usize> {
        let pages = fs::read_to_string(format!("/proc/sys/fs/pipe-user-pages-{limit}")).ok()?;
        pages.trim().parse().ok()
    };
    // 0 is no limit.
    let hard = pages("hard").filter(|&pages| pages > 0);
    let least = pages("soft").unwrap_or(USUAL_PAGES);
    let least = Some(least)
        .filter(|&pages| pages > 0)
        .into_iter()
        .chain(hard)
        .min()?;
    (!is_privileged()).then(|| least.saturating_mul(page_size()))
}

/// Whether this process gets large pipes beyond the limit: it has one of these rights, and not only in a container of its own.
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
        assert_eq!(dimensions(16 * MIB), (16, MIB));
        assert_eq!(dimensions(7 * MIB), (28, MIB / 4));
        assert_eq!(dimensions(1024 * MIB), (MOST, MIB));
        assert_eq!(dimensions(100_000), (24, 4096));
        assert_eq!(dimensions(3 * page_size()), (0, 0));
        let sizes: Vec<_> = pipes(3, 16_384).iter().map(|it| it.size).collect();
        assert_eq!(sizes, [16_384; 3]);
        assert!(pipes(0, 0).is_empty());
    }
}
