//! A descriptor by which a program waits for the packets of a device.

use rustix::{
    event::{
        EventfdFlags,
        epoll::{self, EventData, EventFlags},
        eventfd,
    },
    io::{read, write},
    time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    },
};
use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    sync::Arc,
};

/// A descriptor of two: it is readable while a flag is set, or while a descriptor of the port is readable.
pub struct Selectable {
    epoll: OwnedFd,
    pub flag: Arc<Flag>,
    /// The number of the port's descriptor, and a duplicate.
    watched: Option<(RawFd, OwnedFd)>,
}

impl Selectable {
    pub fn new() -> io::Result<Selectable> {
        let selectable = Selectable {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            flag: Arc::new(Flag::new()?),
            watched: None,
        };
        selectable.add(selectable.flag.as_fd())?;
        Ok(selectable)
    }

    fn add(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        epoll::add(&self.epoll, fd, EventData::new_u64(0), EventFlags::IN)?;
        Ok(())
    }

    /// Has it report this descriptor of the port instead of an earlier one; or none.
    pub fn watch(&mut self, fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let number = |fd: BorrowedFd<'_>| fd.as_raw_fd();
        if fd.map(number) == self.watched.as_ref().map(|&(number, _)| number) {
            return Ok(());
        }
        if let Some((_, earlier)) = self.watched.take() {
            epoll::delete(&self.epoll, &earlier)?;
        }
        if let Some(fd) = fd {
            let duplicate = fd.try_clone_to_owned()?;
            self.add(duplicate.as_fd())?;
            self.watched = Some((fd.as_raw_fd(), duplicate));
        }
        Ok(())
    }

    /// Has it become readable in this time, instead of reporting a descriptor of the port.
    pub fn watch_timer(&mut self, ns: u64) -> io::Result<()> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let once = Itimerspec {
            it_interval: timespec(0),
            it_value: timespec(ns.max(1)),
        };
        timerfd_settime(&timer, TimerfdTimerFlags::empty(), &once)?;
        // An earlier timer may have had the same number.
        self.watch(None)?;
        self.watch(Some(timer.as_fd()))
    }

    /// Its number, for the program.
    pub fn descriptor(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }
}

/// A descriptor that is readable while it is set (`eventfd`).
pub struct Flag(OwnedFd);

impl Flag {
    pub fn new() -> io::Result<Flag> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Flag(eventfd(0, flags)?))
    }

    pub fn set(&self) {
        let _ = write(&self.0, &1_u64.to_ne_bytes());
    }

    pub fn clear(&self) {
        let _ = read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Flag {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A time in nanoseconds.
pub const fn timespec(ns: u64) -> Timespec {
    Timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    }
}
