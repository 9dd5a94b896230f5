//! Shared by the live tests of the port: the laboratory, a sender, and a reader.

#![allow(unused_imports)] // each test program uses some

pub use forebay_testing::{
    lab::{carries, ip, lab, skip, tool},
    sender,
};

use forebay_net::port::{Frame, Port, Wake};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Waits until the descriptor is ready; `false` if it was not in time.
pub fn wait(fd: BorrowedFd<'_>, time: Duration) -> bool {
    let time = Timespec::try_from(time).expect("a short time");
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    poll(&mut fds, Some(&time)).is_ok_and(|ready| ready > 0)
}

/// How a [`pump`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The port ended.
    End,
    /// `each` returned `false`.
    Enough,
    /// No frame arrived within the given time.
    Silent,
}

/// Reads as a session does: in bursts while there are frames, and sleeping while there are none.
pub fn pump(
    port: &mut impl Port,
    silence: Duration,
    mut each: impl FnMut(&Frame<'_>) -> bool,
) -> forebay::Result<Ended> {
    loop {
        let (mut some, mut enough) = (false, false);
        let mut burst = port.receive(256)?;
        while let Some(frame) = burst.next_frame() {
            some = true;
            if !each(&frame) {
                enough = true;
                break;
            }
        }
        drop(burst);
        if enough {
            return Ok(Ended::Enough);
        }
        if !some {
            match port.arm()? {
                Wake::End => return Ok(Ended::End),
                Wake::Fd(fd) if !wait(fd, silence) => return Ok(Ended::Silent),
                _ => {}
            }
            port.disarm();
        }
    }
}
