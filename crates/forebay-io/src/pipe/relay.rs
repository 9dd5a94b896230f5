//! A bypass of the buffer: `splice(2)` moves pages from the input's pipe into intermediate pipes, and from there into the
//! output's pipe. No byte is copied.
//!
//! ```text
//!                      ┌ pipe ┐
//!   input ══▶ splice ══▶ pipe ╞══ splice ══▶ output       the stream is empty, and a pipe of ours has room
//!     │        Intake  └ pipe ┘  Outlet        ▲
//!     │           └─ pieces ─▶ ─┘              │
//!     └──▶ read ──▶ stream ──▶ write ──────────┘          they are all full
//! ```
//!
//! The reading thread fills one pipe after another, and reports through a ring how many bytes went into which. The writing thread
//! returns each pipe through a second ring when it finds bytes of the next one.
//!
//! **Order.** Bytes go into the pipes only while the stream is empty. All earlier bytes of the stream are then written: the
//! writing thread pops bytes *after* the write that sent them, and the reading thread acquires that pop when it finds the stream
//! empty. So if both have content, that of the pipes came first. A piece is pushed *before* later bytes are put into the stream.
//! The writing thread checks the stream first and the pieces second, and writes from the stream only if there are no pieces.
//!
//! **When it is used.** Only from pipes to a single pipe, and only if each byte may go as it comes: no other output, checksum,
//! limit, watermark, block size or count of lines. Pages in a pipe normally have no other owner, so moving them on is not observable.
//! Writing to a file may block, which would delay all other events. There are exceptions to the rule that cannot be detected here: pages that the producer lent to the pipe (`vmsplice`)
//! or spliced into it from a file, and then overwrites. For those there is [`PipeConfig::splice`].
//!
//! **Capacity.** As much as the buffer, at most 64 MiB. If full pages hold as much as the buffer would, the buffer is for pages
//! with few bytes, which fill the pipes too early. The kernel counts the pages that all processes of a user have in pipes. Beyond
//! a limit, unprivileged processes get only small pipes. Without privilege, the intermediate pipes therefore take a quarter of
//! that limit, or a quarter of the buffer if that is less, and the buffer takes the rest.

use super::{config::PipeConfig, input::Input, kernel_pipe::LARGE, output::Output};
use forebay::{
    ring::spsc::{Consumer, Producer, RingConfig, ring, ring_with},
    sync::{Park, Signal},
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

/// Maximum number of pipes: two descriptors each, and normally 1 MiB.
const MOST: usize = 64;

/// A pipe is returned when it is empty and the next one has content. With this many there is one to fill meanwhile.
const FEW: usize = 4;

/// Minimum number of pipes, if pages allow: a pipe being drained accepts nothing, so that part of the whole may be unused.
const PARTS: usize = 16;

/// The default size of a pipe.
const DEFAULT: usize = 1 << 16;

/// The default number of pages that a user may have in pipes.
const USUAL_PAGES: usize = 16_384;

/// This many bytes went into the pipe with this number.
#[derive(Clone, Copy, Debug)]
struct Piece {
    pipe: usize,
    bytes: usize,
}

/// The receiving end, owned by the reading thread.
pub(super) struct Intake {
    ends: Vec<OwnedFd>,
    /// The pipe being filled, and whether it has content.
    pipe: usize,
    has_some: bool,
    vacant: Consumer<usize, Park>,
    pieces: Producer<Piece>,
    bell: Arc<Signal>,
    /// The number of bytes at which the pipes and their pages are full; `None` if the buffer would hold more.
    full_at: Option<u64>,
}

/// The sending end, owned by the writing thread.
pub(super) struct Outlet {
    ends: Vec<OwnedFd>,
    /// The pipe being drained, and the number of bytes known to be in it.
    pipe: usize,
    left: usize,
    /// A piece of another pipe, which follows.
    next: Option<Piece>,
    vacant: Producer<usize, Park>,
    pieces: Consumer<Piece>,
    bell: Arc<Signal>,
    passed: u64,
}

/// Creates pipes for up to `bytes` between `inputs` and `outputs`, or `None` if `config` does not allow it or the kernel has no
/// pipes.
pub(super) fn relay(
    inputs: &[Input],
    outputs: &[Output],
    config: &PipeConfig,
    bytes: usize,
) -> Option<(Intake, Outlet)> {
    let is_between_pipes =
        inputs.iter().any(Input::is_pipe) && matches!(outputs, [output] if output.is_pipe());
    if !(config.passes_as_it_comes() && is_between_pipes) {
        return None;
    }
    // Reserve the descriptors needed in any case before the pipes, which may be fewer.
    let bell = Arc::new(Signal::new().ok()?);
    let (count, size) = dimensions(bytes);
    let (put, taken) = ring((count * slots(size.max(DEFAULT))).max(1)).ok()?;
    let (mut give_back, vacant) = ring_with(&RingConfig {
        capacity: count.max(1),
        ..RingConfig::default()
    })
    .ok()?;
    let pipes = pipes(count, size);
    if pipes.len() < FEW {
        return None;
    }
    for pipe in 1..pipes.len() {
        give_back.try_push(pipe).ok()?;
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
        // All pipes except the one being drained may be full.
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
    /// Moves up to `most` bytes out of `input` without waiting. `None`: no intermediate pipe accepts bytes now, or the input has
    /// none. 0: the input has ended. After `None` the caller may [wait](Intake::wait).
    ///
    /// # Errors
    /// As `splice(2)`: the kernel does not splice from this input.
    pub fn take(&mut self, input: &Input, most: usize) -> io::Result<Option<usize>> {
        loop {
            match moved(input, &self.ends[self.pipe], most)? {
                Some(bytes) => {
                    if bytes > 0 {
                        let piece = Piece {
                            pipe: self.pipe,
                            bytes,
                        };
                        let pushed = self.pieces.try_push(piece);
                        pushed.expect("a piece is a page of a pipe, or more");
                        self.has_some = true;
                        self.bell.raise();
                    }
                    return Ok(Some(bytes));
                }
                None if self.has_some => match self.vacant.try_pop() {
                    Ok(pipe) => (self.pipe, self.has_some) = (pipe, false),
                    Err(_) => return Ok(None),
                },
                None => return Ok(None),
            }
        }
    }

    /// Whether the `held` bytes are as many as the buffer would hold.
    pub fn is_full(&self, held: u64) -> bool {
        self.full_at.is_some_and(|full| held >= full)
    }

    /// Waits until there is an empty pipe, for at most `limit` (`None`: no limit). False if there is none.
    pub fn wait(&mut self, limit: Option<Duration>) -> bool {
        if !self.has_some {
            return true;
        }
        let popped = match limit {
            Some(limit) => self.vacant.pop_timeout(limit).ok(),
            None => self.vacant.pop().ok(),
        };
        if let Some(pipe) = popped {
            (self.pipe, self.has_some) = (pipe, false);
        }
        popped.is_some()
    }
}

impl Outlet {
    /// Whether pages wait. When called after a check of the stream, it reports whether they precede the stream's content.
    pub fn has_some(&mut self) -> bool {
        while self.next.is_none() {
            match self.pieces.try_pop() {
                Ok(piece) if piece.pipe == self.pipe => self.left += piece.bytes,
                Ok(piece) => self.next = Some(piece),
                Err(_) => break,
            }
        }
        if self.left == 0
            && let Some(next) = self.next.take()
        {
            // There are no more pipes than there is room for; the reader of the input may have ended.
            let _ended = self.vacant.try_push(self.pipe);
            (self.pipe, self.left) = (next.pipe, next.bytes);
        }
        self.left > 0
    }

    /// Whether pages were still waiting after the last move: the caller then waits for the output.
    pub fn is_behind(&self) -> bool {
        self.left > 0
    }

    /// Moves waiting pages of a pipe to `output`, as many as it accepts now.
    ///
    /// # Errors
    /// As `splice(2)`: the output has no reader any more.
    pub fn give(&mut self, output: &Output) -> io::Result<usize> {
        let given = moved(&self.ends[self.pipe], output, self.left)?.unwrap_or(0);
        self.left -= given;
        self.passed += given as u64;
        Ok(given)
    }

    /// Total bytes moved.
    pub fn passed(&self) -> u64 {
        self.passed
    }

    /// Clears the notification: the next piece makes the descriptor readable again.
    pub fn listen(&self) {
        self.bell.clear();
    }
}

impl AsFd for Outlet {
    /// Readable when pages have arrived since [`listen`](Outlet::listen).
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// Moves up to `most` bytes into or out of a pipe; `None` if there are none, or no room.
pub(super) fn moved(from: impl AsFd, to: impl AsFd, most: usize) -> io::Result<Option<usize>> {
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

struct Held {
    out: OwnedFd,
    into: OwnedFd,
    /// Its capacity in bytes if its pages are full.
    size: usize,
}

/// The number and size of pipes that hold up to `bytes`.
fn dimensions(bytes: usize) -> (usize, usize) {
    if bytes / FEW < page_size() {
        return (0, 0);
    }
    let size = 1 << (bytes / PARTS).clamp(page_size(), LARGE).ilog2();
    ((bytes / size).min(MOST), size)
}

/// Creates `count` pipes of `size` bytes; smaller ones, or fewer, if the kernel provides no others.
fn pipes(count: usize, size: usize) -> Vec<Held> {
    let pipe = |_| {
        let (out, into) = pipe_with(PipeFlags::CLOEXEC).ok()?;
        let size = fcntl_setpipe_size(&into, size).or_else(|_| fcntl_getpipe_size(&into));
        let size = size.ok()?;
        Some(Held { out, into, size })
    };
    let mut pipes: Vec<_> = (0..count).map_while(pipe).collect();
    if pipes.len() < count {
        // No descriptors are left: leave some for the rest of this process.
        pipes.truncate(pipes.len().saturating_sub(FEW));
    }
    pipes
}

/// Pages of a pipe of `size` bytes.
fn slots(size: usize) -> usize {
    size / page_size()
}

/// The number of bytes that pipes may hold in addition to a buffer of `capacity` bytes.
pub(super) fn bytes_beside(capacity: usize) -> usize {
    bytes_at_most(capacity, allowance())
}

/// The same, if a user may have `allowance` bytes in all pipes.
fn bytes_at_most(capacity: usize, allowance: Option<usize>) -> usize {
    allowance.map_or(capacity, |it| it.min(capacity) / 4)
}

/// The number of bytes that the kernel lets this user have in pipes; `None` if the limit does not apply to this process.
fn allowance() -> Option<usize> {
    let pages = |limit| -> Option<usize> {
        let pages = fs::read_to_string(format!("/proc/sys/fs/pipe-user-pages-{limit}")).ok()?;
        pages.trim().parse().ok()
    };
    // 0 means no limit.
    let hard = pages("hard").filter(|&pages| pages > 0);
    let least = pages("soft").unwrap_or(USUAL_PAGES);
    let least = Some(least)
        .filter(|&pages| pages > 0)
        .into_iter()
        .chain(hard)
        .min()?;
    (!is_privileged()).then(|| least.saturating_mul(page_size()))
}

/// Whether this process gets large pipes beyond the limit: it has one of these capabilities, in the initial user namespace.
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
