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
    watched: Option<Watched>,
}

/// A descriptor that it also reports.
enum Watched {
    /// The number of a descriptor that its port has open for as long as the device, and a duplicate: the port's own may also be in a child.
    Port(RawFd, OwnedFd),
    /// A timer has no number that it could be known by later.
    Timer(OwnedFd),
}

impl AsFd for Watched {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Watched::Port(_, fd) | Watched::Timer(fd) => fd.as_fd(),
        }
    }
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
        let number = fd.map(|fd| fd.as_raw_fd());
        let is_watched = match &self.watched {
            Some(Watched::Port(watched, _)) => number == Some(*watched),
            Some(Watched::Timer(_)) => false,
            None => number.is_none(),
        };
        if is_watched {
            return Ok(());
        }
        self.replace(match fd {
            Some(fd) => Some(Watched::Port(fd.as_raw_fd(), fd.try_clone_to_owned()?)),
            None => None,
        })
    }

    fn replace(&mut self, new: Option<Watched>) -> io::Result<()> {
        if let Some(earlier) = self.watched.take() {
            epoll::delete(&self.epoll, &earlier)?;
        }
        if let Some(new) = new {
            self.add(new.as_fd())?;
            self.watched = Some(new);
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
        self.replace(Some(Watched::Timer(timer)))
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

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};

    impl Selectable {
        fn is_readable(&self) -> bool {
            let mut fds = [PollFd::new(&self.epoll, PollFlags::IN)];
            poll(&mut fds, Some(&timespec(0))).unwrap() == 1
        }
    }

    #[test]
    fn a_descriptor_with_the_number_of_an_earlier_timer_is_another_one() {
        let mut selectable = Selectable::new().unwrap();
        // Another test may take the number meanwhile, but not each time.
        for _ in 0..8 {
            selectable.watch_timer(3_600_000_000_000).unwrap();
            let other = Flag::new().unwrap();
            selectable.watch(Some(other.as_fd())).unwrap();
            assert!(!selectable.is_readable());
            other.set();
            assert!(selectable.is_readable());
        }
    }
}
