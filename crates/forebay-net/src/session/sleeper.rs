//! Sleeps until a descriptor is readable, a request arrives, or a deadline passes.

use super::output_reader::OutputReader;
use crate::{control::Control, port::Wake};
use forebay::{Error, Result, time::Clock};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// A port's descriptor. Ours is a duplicate: the port is polled again between arming and sleeping, so its borrowed descriptor
/// cannot be held.
struct Watched {
    theirs: RawFd,
    ours: OwnedFd,
    is_armed: bool,
}

pub(super) struct Sleeper {
    clock: Clock,
    control: Control,
    watched: Vec<Option<Watched>>,
    /// The earliest wake-up time that a port requested.
    at: Option<u64>,
    /// A port has frames already.
    is_ready: bool,
}

impl Sleeper {
    pub fn new(ports: usize, clock: Clock, control: Control) -> Self {
        Sleeper {
            clock,
            control,
            watched: (0..ports).map(|_| None).collect(),
            at: None,
            is_ready: false,
        }
    }

    /// Discards the requests of the ports.
    pub fn reset(&mut self) {
        self.at = None;
        self.is_ready = false;
        for watched in self.watched.iter_mut().flatten() {
            watched.is_armed = false;
        }
    }

    /// Records the wake-up that port number `port` requested; `false` means that the port has ended.
    pub fn note(&mut self, port: usize, wake: Wake<'_>) -> Result<bool> {
        match wake {
            Wake::Ready => self.is_ready = true,
            Wake::At(then) => self.wake_at(then),
            Wake::Fd(fd) => self.watch(port, fd)?,
            Wake::End => return Ok(false),
        }
        Ok(true)
    }

    /// Sleeps until `then` at the latest.
    pub fn wake_at(&mut self, then: u64) {
        self.at = Some(self.at.map_or(then, |at| at.min(then)));
    }

    fn watch(&mut self, port: usize, fd: BorrowedFd<'_>) -> Result<()> {
        match &mut self.watched[port] {
            Some(watched) if watched.theirs == fd.as_raw_fd() => watched.is_armed = true,
            place => {
                let ours = fd.try_clone_to_owned().map_err(|e| {
                    Error::new("session", "duplicating the interface's descriptor").because(e)
                })?;
                *place = Some(Watched {
                    theirs: fd.as_raw_fd(),
                    ours,
                    is_armed: true,
                });
            }
        }
        Ok(())
    }

    /// Sleeps until a wake-up, at the latest until `deadline`. If the reader of the output has left meanwhile, returns the error that a write
    /// would return.
    pub fn sleep(&mut self, deadline: u64, reader: Option<&OutputReader>) -> Result<Option<Error>> {
        if self.is_ready {
            return Ok(None);
        }
        let until = self.at.map_or(deadline, |at| at.min(deadline));
        if self.clock.is_virtual() {
            self.clock.sleep_until(until);
            return Ok(None);
        }
        let left = until.saturating_sub(self.clock.now());
        let timeout = Timespec {
            tv_sec: (left / 1_000_000_000) as i64,
            tv_nsec: (left % 1_000_000_000) as i64,
        };
        let wake_fd = self.control.wake_fd();
        let mut fds = vec![PollFd::from_borrowed_fd(wake_fd, PollFlags::IN)];
        let armed = self.watched.iter().flatten().filter(|w| w.is_armed);
        fds.extend(armed.map(|watched| PollFd::new(&watched.ours, PollFlags::IN)));
        fds.extend(reader.map(OutputReader::awaited));
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) => {
                if !fds[0].revents().is_empty() {
                    self.control.clear();
                }
                let last = fds[fds.len() - 1].revents();
                Ok(reader.and_then(|it| it.error(last)))
            }
            Err(Errno::INTR) => Ok(None),
            Err(e) => Err(Error::new("session", "waiting for packets").because(e)),
        }
    }
}
