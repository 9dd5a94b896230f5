//! From a regular file to a pipe, the kernel hands over the pages of its cache (`splice(2)`), and from a regular file to another one it copies
//! them (`copy_file_range(2)`). No byte passes through this process, and the buffer stays empty.
//!
//! ```text
//!   file ══ pages of the cache ══▶ the output's pipe      full? wait for room, then let more room gather (`pace`)
//!   file ══ a copy, or a reference to the same blocks ══▶ the output's file
//! ```
//!
//! A file can wait for its reader, so it needs no buffer: bytes that are read long before they are written only push other bytes out of
//! the processor's caches. The reading thread moves the bytes itself, while the stream and the intermediate pipes are empty.

use super::{
    config::PipeConfig, input::Input, kernel_pipe::is_large, output::Output, pace::Room,
    relay::moved,
};
use forebay::sync::Signal;
use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{copy_file_range, sendfile},
    io::Errno,
};
use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

#[derive(Debug)]
pub(super) struct Direct {
    output: OwnedFd,
    way: Way,
    room: Room,
    /// All bytes that went this way.
    given: u64,
}

/// How bytes get to the output.
#[derive(Clone, Copy, Debug)]
enum Way {
    Pipe,
    /// `copy_file_range(2)`: on some file systems both files then refer to the same blocks.
    File,
    /// `sendfile(2)`: to a file of another file system.
    FarFile,
}

impl Direct {
    /// The way from files in `inputs` to the only output, or `None` if that is neither a pipe nor a file, or `config` does not allow it.
    pub fn new(inputs: &[Input], outputs: &[Output], config: &PipeConfig) -> Option<Self> {
        let [output] = outputs else { return None };
        let way = match () {
            () if output.is_pipe() => Way::Pipe,
            () if output.is_regular() => Way::File,
            () => return None,
        };
        if !(config.passes_as_it_comes() && inputs.iter().any(Input::is_regular)) {
            return None;
        }
        Some(Direct {
            output: output.as_fd().try_clone_to_owned().ok()?,
            way,
            room: Room::default(),
            given: 0,
        })
    }

    /// Moves up to `most` bytes of `input`, without waiting for the reader of a pipe. `None`: the pipe is full. 0: the file has ended.
    ///
    /// # Errors
    /// The kernel does not move bytes between these two, reading or writing fails, or the reader has left.
    pub fn give(&mut self, input: &Input, most: usize) -> io::Result<Option<usize>> {
        let given = loop {
            let given = match self.way {
                Way::Pipe => moved(input, &self.output, most)?,
                Way::File => match copy_file_range(input, None, &self.output, None, most) {
                    Err(Errno::XDEV) => {
                        self.way = Way::FarFile;
                        continue;
                    }
                    Err(Errno::INTR) => continue,
                    copied => Some(copied?),
                },
                Way::FarFile => match sendfile(&self.output, input, None, most) {
                    Err(Errno::INTR) => continue,
                    sent => Some(sent?),
                },
            };
            break given;
        };
        self.given += given.unwrap_or(0) as u64;
        Ok(given)
    }

    /// Waits until the full pipe has room, or one of `ends` is raised.
    pub fn wait(&mut self, ends: [&Signal; 2]) {
        let [first, second] = ends.map(|end| PollFd::from_borrowed_fd(end.as_fd(), PollFlags::IN));
        let room = PollFd::new(&self.output, PollFlags::OUT);
        let mut fds = [first, second, room];
        // If something interrupts this or the pause, the caller tries again too early, which is harmless.
        let _ = poll(&mut fds, None);
        let pause = self.room.pause(self.given);
        let has_ended = fds[..2].iter().any(|it| !it.revents().is_empty());
        let is_open = fds[2].revents() == PollFlags::OUT;
        if is_open && !has_ended && is_large(&self.output) {
            let _ = poll(&mut fds[..2], Some(&pause));
        }
    }
}
