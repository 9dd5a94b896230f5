//! A descriptor by which a program waits for the packets of a device.

use rustix::{
    event::{
        Timespec,
        epoll::{self, EventData, EventFlags},
    },
    io::Errno,
    time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create,
        timerfd_settime,
    },
};
use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
};

/// A descriptor of several: it is readable if one of them is.
pub struct Selectable {
    epoll: OwnedFd,
    timer: OwnedFd,
}

impl Selectable {
    pub fn new() -> io::Result<Selectable> {
        let selectable = Selectable {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            timer: timerfd_create(
                TimerfdClockId::Monotonic,
                TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
            )?,
        };
        selectable.watch(selectable.timer.as_fd())?;
        Ok(selectable)
    }

    /// Has it report this descriptor, too.
    pub fn watch(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        match epoll::add(&self.epoll, fd, EventData::new_u64(0), EventFlags::IN) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes it readable after this time in nanoseconds, and not before. `None`: not because of the time.
    pub fn fire_after(&self, ns: Option<u64>) -> io::Result<()> {
        let value = match ns {
            None => Timespec::default(),
            Some(ns) => timespec(ns.max(1)),
        };
        let timer = Itimerspec {
            it_interval: Timespec::default(),
            it_value: value,
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &timer)?;
        Ok(())
    }

    /// Its number, for the program.
    pub fn descriptor(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }
}

/// A time in nanoseconds.
pub fn timespec(ns: u64) -> Timespec {
    Timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    }
}
