//! A wait for the packets of a device, during which nothing is held: other threads, and signal handlers, can use the handle.

use crate::{
    failure::Failure,
    selectable::{Flag, timespec},
};
use forebay::time::Clock;
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::{Errno, read},
};
use std::{
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

pub struct Wait {
    /// A duplicate of the port's descriptor.
    pub port: Option<Arc<OwnedFd>>,
    /// Set when the watcher's thread has found a packet, or a call in another thread.
    pub flag: Option<Arc<Flag>>,
    /// When to look again.
    pub until: Option<u64>,
    pub clock: Clock,
}

impl Wait {
    /// Waits until there may be packets, or until `wake` is written to.
    pub fn poll(&self, wake: &OwnedFd) -> Result<(), Failure> {
        let port = self.port.as_ref().map(|port| port.as_fd());
        let flag = self.flag.as_ref().map(|flag| flag.as_fd());
        let fds = [Some(wake.as_fd()), port, flag].into_iter().flatten();
        let mut fds: Vec<_> = fds
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let left = self
            .until
            .map(|until| until.saturating_sub(self.clock.now()));
        match poll(&mut fds, left.map(timespec).as_ref()) {
            Ok(_) => {
                // The request to stop was stored before this write. If it stayed readable, every later wait would end at once.
                if !fds[0].revents().is_empty() {
                    let _ = read(wake, &mut [0; 8]);
                }
                Ok(())
            }
            Err(Errno::INTR) => Ok(()),
            Err(error) => Err(format!("can't wait for packets: {error}").into()),
        }
    }
}
