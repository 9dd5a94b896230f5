//! Several members that begin at once, as threads or as processes, and the time until the last one is done.
//!
//! ```text
//!   member:  open its end ─▶ all here? ─▶ connect ─▶ all here? ─▶ note the time ─▶ work ─▶ note the time
//!            ─▶ all done? ─▶ close its end
//!   us:      wait for all of them ─▶ latest end − earliest begin
//! ```
//!
//! Times and counts are on a board that all see.
#![allow(unsafe_code)]

use crate::method::processors::keep_on;
use anyhow::{Context, Result, anyhow, ensure};
use std::{
    io,
    ops::Deref,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::{self, NonNull},
    sync::atomic::{
        AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
    thread,
    time::Duration,
};

/// What members are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Threads of this process.
    Threads,
    /// Processes forked from this one.
    Processes,
}

impl Kind {
    /// As tables name them.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Threads => "threads",
            Kind::Processes => "processes",
        }
    }
}

/// Words that all members see, whatever they are; zeros at first.
#[derive(Debug)]
pub struct Board {
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: atomics, which any thread may use.
unsafe impl Send for Board {}
// SAFETY: as above.
unsafe impl Sync for Board {}

impl Board {
    /// This number of words.
    pub fn new(words: usize) -> Result<Board> {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice disturbs nobody.
        let start = unsafe { libc::mmap(ptr::null_mut(), words * 8, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error()).context("mapping memory for several processes");
        }
        let start = NonNull::new(start.cast()).context("the kernel mapped nothing")?;
        Ok(Board { start, words })
    }
}

impl Deref for Board {
    type Target = [AtomicU64];
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: they are mapped as long as we exist; any bytes are valid words.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        // SAFETY: ours, and nobody borrows it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.words * 8) };
    }
}

/// The clock that all processes share, in nanoseconds.
pub fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Where members meet.
pub struct Meeting<'a> {
    board: &'a [AtomicU64],
    members: u64,
}

/// What is on the meeting's board.
const HERE: usize = 0;
const ABSENT: usize = 1;
const BEGUN: usize = 2;
const ENDED: usize = 3;
const DONE: usize = 4;

impl Meeting<'_> {
    /// Calls `connect` when all are here, and returns when all have done so.
    pub fn begin(&self, connect: impl FnOnce()) -> Result<()> {
        self.gather(self.members)?;
        connect();
        self.gather(2 * self.members)?;
        self.board[BEGUN].fetch_min(now(), AcqRel);
        Ok(())
    }

    /// Waits until members have come here `times` times, all together.
    fn gather(&self, times: u64) -> Result<()> {
        self.board[HERE].fetch_add(1, AcqRel);
        let any_failed = || self.board[ABSENT].load(Acquire) > 0;
        while self.board[HERE].load(Acquire) < times && !any_failed() {
            thread::yield_now();
        }
        ensure!(!any_failed(), "another member failed");
        Ok(())
    }

    /// Notes that a member's work is done, and waits until that of all others is, so that no member closes its end while
    /// another one still needs it. Neither the waiting nor the closing is counted.
    pub fn end(&self) {
        self.board[ENDED].fetch_max(now(), AcqRel);
        self.board[DONE].fetch_add(1, AcqRel);
        let all_done = || self.board[DONE].load(Acquire) == self.members;
        while !all_done() && self.board[ABSENT].load(Acquire) == 0 {
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn hold(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let done = catch_unwind(AssertUnwindSafe(work));
        let done = done.unwrap_or_else(|_| Err(anyhow!("a member panicked")));
        if done.is_err() {
            self.board[ABSENT].store(1, Release);
        }
        done
    }
}

/// Runs `members` of a kind, each on the processors that `place` says; `work` gets the member's number, and calls
/// [`Meeting::begin`] when it is ready and [`Meeting::end`] when it is done. Returns the nanoseconds from the first begin
/// to the last end.
pub fn run(
    kind: Kind,
    members: usize,
    place: &(dyn Fn(usize) -> Vec<usize> + Sync),
    work: &(dyn Fn(usize, &Meeting<'_>) -> Result<()> + Sync),
) -> Result<f64> {
    let board = Board::new(5)?;
    board[BEGUN].store(u64::MAX, Relaxed); // Relaxed: nobody else is there yet
    let meeting = Meeting {
        board: &board,
        members: members as u64,
    };
    let member = |number| {
        meeting.hold(|| {
            keep_on(&place(number))?;
            work(number, &meeting)
        })
    };
    match kind {
        Kind::Threads => in_threads(members, &member)?,
        Kind::Processes => in_processes(members, &member)?,
    }
    let (begun, ended) = (board[BEGUN].load(Acquire), board[ENDED].load(Acquire));
    Ok(ended.saturating_sub(begun) as f64)
}

fn in_threads(members: usize, member: &(dyn Fn(usize) -> Result<()> + Sync)) -> Result<()> {
    thread::scope(|scope| {
        let all: Vec<_> = (0..members)
            .map(|number| scope.spawn(move || member(number)))
            .collect();
        // All are joined by the scope, whatever the first one that failed says.
        all.into_iter().try_for_each(|one| {
            let panicked = |_| anyhow!("a member panicked");
            one.join().map_err(panicked)?
        })
    })
}

/// Only while this process has one thread: a fork has no others.
fn in_processes(members: usize, member: &dyn Fn(usize) -> Result<()>) -> Result<()> {
    let mut children = Vec::new();
    for number in 0..members {
        // SAFETY: nothing else runs in this process, so the child's memory is whole; it never comes back from here.
        let child = unsafe { libc::fork() };
        match child {
            -1 => {
                let error = io::Error::last_os_error();
                end(&children);
                return Err(error).context("forking");
            }
            0 => {
                let done = member(number);
                if let Err(error) = &done {
                    eprintln!("{error:#}");
                }
                let code = i32::from(done.is_err());
                // SAFETY: it only ends the child, and runs nothing of ours.
                unsafe { libc::_exit(code) }
            }
            child => children.push(child),
        }
    }
    while let Some(&first) = children.first() {
        let mut status = 0;
        // SAFETY: a child of ours; the status is ours.
        let ended = unsafe { libc::waitpid(first, &raw mut status, 0) };
        if ended == first {
            children.remove(0);
        }
        if status != 0 {
            end(&children);
            return Err(anyhow!("a process failed"));
        }
    }
    Ok(())
}

/// Ends children that would wait for one that is gone.
fn end(children: &[libc::pid_t]) {
    for &child in children {
        // SAFETY: a child of ours that nobody has waited for.
        unsafe { libc::kill(child, libc::SIGKILL) };
        // SAFETY: as above; what it ended with is of no interest.
        unsafe { libc::waitpid(child, ptr::null_mut(), 0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_begin_together_and_are_all_waited_for() {
        for kind in [Kind::Threads, Kind::Processes] {
            let board = Board::new(3).unwrap();
            let anywhere = |_| crate::method::processors::processors().unwrap();
            let work = |number: usize, meeting: &Meeting<'_>| {
                board[number].store(1, Release);
                meeting.begin(|| ())?;
                assert!(board.iter().all(|word| word.load(Acquire) > 0));
                board[number].fetch_add(1, Release);
                meeting.end();
                Ok(())
            };
            let ns = run(kind, 3, &anywhere, &work).unwrap();
            assert!(ns > 0.0);
            assert!(board.iter().all(|word| word.load(Acquire) == 2), "{kind:?}");
        }
    }

    #[test]
    fn no_member_closes_its_end_before_all_are_done() {
        for kind in [Kind::Threads, Kind::Processes] {
            let board = Board::new(1).unwrap();
            let anywhere = |_| crate::method::processors::processors().unwrap();
            let work = |number: usize, meeting: &Meeting<'_>| {
                meeting.begin(|| ())?;
                thread::sleep(Duration::from_millis(5 * number as u64));
                board[0].fetch_add(1, Release);
                meeting.end();
                assert_eq!(board[0].load(Acquire), 3);
                Ok(())
            };
            run(kind, 3, &anywhere, &work).unwrap();
        }
    }

    /// Not with threads: a thread that prints its panic holds a lock, which the children of other tests would inherit.
    #[test]
    fn a_member_that_panics_keeps_nobody_waiting() {
        let anywhere = |_| crate::method::processors::processors().unwrap();
        let work = |number: usize, meeting: &Meeting<'_>| {
            meeting.begin(|| ())?;
            assert_ne!(number, 1, "as planned");
            meeting.end();
            Ok(())
        };
        assert!(run(Kind::Processes, 3, &anywhere, &work).is_err());
    }

    #[test]
    fn a_member_that_fails_keeps_nobody_waiting() {
        for kind in [Kind::Threads, Kind::Processes] {
            let anywhere = |_| crate::method::processors::processors().unwrap();
            let work = |number: usize, meeting: &Meeting<'_>| {
                ensure!(number != 1, "cannot come");
                meeting.begin(|| ())
            };
            assert!(run(kind, 3, &anywhere, &work).is_err());
        }
    }
}
