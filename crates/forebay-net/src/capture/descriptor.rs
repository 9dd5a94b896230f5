//! One descriptor for all that a capture waits for: its port, the time of the port's next frame, and a request to stop.

use forebay::sync::Signal;
use rustix::{
    event::epoll::{self, EventData, EventFlags},
    time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    },
};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

/// An epoll instance.
#[derive(Debug)]
pub(super) struct Descriptor {
    epoll: OwnedFd,
    timer: OwnedFd,
    /// A duplicate of the port's descriptor.
    watched: Option<OwnedFd>,
    has_stop: bool,
}

impl Descriptor {
    /// It is readable once `stop` is raised, and stays so until [`forget_stop`](Descriptor::forget_stop).
    pub fn new(stop: &Signal) -> io::Result<Descriptor> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let descriptor = Descriptor {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            timer: timerfd_create(TimerfdClockId::Monotonic, flags)?,
            watched: None,
            has_stop: true,
        };
        descriptor.add(descriptor.timer.as_fd())?;
        descriptor.add(stop.as_fd())?;
        Ok(descriptor)
    }

    fn add(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        epoll::add(&self.epoll, fd, EventData::new_u64(0), EventFlags::IN)?;
        Ok(())
    }

    /// Has it be readable while `fd` is.
    pub fn watch(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        // The port may close its own at any time, and another one may then have the number.
        let duplicate = fd.try_clone_to_owned()?;
        self.add(duplicate.as_fd())?;
        self.watched = Some(duplicate);
        Ok(())
    }

    /// Has it be readable after this time.
    pub fn watch_timer(&self, left: Duration) -> io::Result<()> {
        self.set_timer(left.max(Duration::from_nanos(1))) // 0 would mean never
    }

    /// The capture has noticed the stop, so it waits for the rest of its packets only.
    pub fn forget_stop(&mut self, stop: &Signal) -> io::Result<()> {
        if std::mem::take(&mut self.has_stop) {
            epoll::delete(&self.epoll, stop)?;
        }
        Ok(())
    }

    /// Forgets the descriptor and the time.
    pub fn clear(&mut self) -> io::Result<()> {
        if let Some(watched) = self.watched.take() {
            epoll::delete(&self.epoll, &watched)?;
        }
        self.set_timer(Duration::ZERO)
    }

    fn set_timer(&self, left: Duration) -> io::Result<()> {
        // A time beyond the kernel's range never comes.
        let once = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec::try_from(left).unwrap_or_default(),
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
