//! Sleeping until a descriptor is readable, the outside calls, or a time comes.

use super::Control;
use crate::port::Wake;
use forebay::{Error, Result, time::Clock};
use rustix::{
    event::{Timespec, epoll},
    io::Errno,
};
use std::os::fd::OwnedFd;

/// The key of the control's descriptor; ports have the keys from 0.
const CONTROL: u64 = u64::MAX;

pub(super) struct Sleeper {
    epoll: OwnedFd,
    clock: Clock,
    control: Control,
    /// Ports whose descriptors are watched already.
    watched: Vec<bool>,
    /// The earliest time that a port asked to be woken at.
    at: Option<u64>,
    /// A port has something to see already.
    ready: bool,
}

fn failed(e: Errno) -> Error {
    Error::new("session", "waiting for packets").because(e)
}

impl Sleeper {
    pub fn new(ports: usize, clock: Clock, control: Control) -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
        let key = epoll::EventData::new_u64(CONTROL);
        epoll::add(&epoll, control.wake_fd(), key, epoll::EventFlags::IN).map_err(failed)?;
        Ok(Sleeper {
            epoll,
            clock,
            control,
            watched: vec![false; ports],
            at: None,
            ready: false,
        })
    }

    /// Forgets what ports asked for.
    pub fn reset(&mut self) {
        self.at = None;
        self.ready = false;
    }

    /// Notes what port number `port` asked for; `false` means that it has ended.
    pub fn note(&mut self, port: usize, wake: Wake<'_>) -> Result<bool> {
        match wake {
            Wake::Ready => self.ready = true,
            Wake::At(then) => self.at = Some(self.at.map_or(then, |at| at.min(then))),
            Wake::Fd(fd) => {
                if !self.watched[port] {
                    let key = epoll::EventData::new_u64(port as u64);
                    epoll::add(&self.epoll, fd, key, epoll::EventFlags::IN).map_err(failed)?;
                    self.watched[port] = true;
                }
            }
            Wake::End => return Ok(false),
        }
        Ok(true)
    }

    /// Sleeps, until `deadline` at the latest.
    pub fn sleep(&mut self, deadline: u64) -> Result<()> {
        if self.ready {
            return Ok(());
        }
        let until = self.at.map_or(deadline, |at| at.min(deadline));
        if self.clock.is_virtual() {
            self.clock.sleep_until(until);
            return Ok(());
        }
        let left = until.saturating_sub(self.clock.now());
        if left == 0 {
            return Ok(());
        }
        let timeout = Timespec {
            tv_sec: (left / 1_000_000_000) as i64,
            tv_nsec: (left % 1_000_000_000) as i64,
        };
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }; 8];
        match epoll::wait(&self.epoll, &mut events, Some(&timeout)) {
            Ok(woken) => {
                if events[..woken].iter().any(|e| { e.data }.u64() == CONTROL) {
                    self.control.clear();
                }
                Ok(())
            }
            Err(Errno::INTR) => Ok(()),
            Err(e) => Err(failed(e)),
        }
    }
}
