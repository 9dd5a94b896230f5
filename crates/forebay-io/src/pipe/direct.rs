//! From a regular file to a pipe, the kernel hands over the pages of its cache (`splice(2)`). No byte is copied, and the buffer stays
//! empty.
//!
//! ```text
//!   file ══ pages of the cache ══▶ the output's pipe      full? wait for room, then let more room gather
//! ```
//!
//! A file can wait for its reader, so it needs no buffer: bytes that are read long before they are written only push other bytes out of
//! the processor's caches. The reading thread moves the pages itself, while the stream and the intermediate pipes are empty.
//!
//! The reader of a full pipe wakes its writer after every read. On few cores that costs more than moving the bytes. So after the first
//! room, the thread pauses: as long as the reader probably needs for a part of what the pipe still holds.

use super::{
    config::PipeConfig,
    input::Input,
    kernel_pipe::{LARGE, is_large},
    output::Output,
    pace::PAUSE,
    relay::moved,
};
use forebay::sync::Signal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

/// A pause in which a stalled reader may start to read fast again.
const LONGEST_PAUSE: Duration = Duration::from_millis(2);

/// The reader should take this much of a large pipe during a pause, and not more than that.
const PART: usize = LARGE / 8;
const MORE: usize = LARGE / 2;

#[derive(Debug)]
pub(super) struct Direct {
    output: OwnedFd,
    /// The pause before the last pages, and the bytes that went since.
    pause: Duration,
    given: usize,
}

impl Direct {
    /// The way from files in `inputs` to the only output, or `None` if that is no pipe or `config` does not allow it.
    pub fn new(inputs: &[Input], outputs: &[Output], config: &PipeConfig) -> Option<Self> {
        let [output] = outputs else { return None };
        let is_for_files = output.is_pipe() && inputs.iter().any(Input::is_regular);
        if !(config.passes_as_it_comes() && is_for_files) {
            return None;
        }
        Some(Direct {
            output: output.as_fd().try_clone_to_owned().ok()?,
            pause: PAUSE,
            given: 0,
        })
    }

    /// Moves up to `most` bytes of `input` without waiting for the output's reader. `None`: its pipe is full. 0: the file has ended.
    ///
    /// # Errors
    /// As `splice(2)`: the kernel does not splice from this file, reading fails, or the reader has left.
    pub fn give(&mut self, input: &Input, most: usize) -> io::Result<Option<usize>> {
        let given = moved(input, &self.output, most)?;
        self.given += given.unwrap_or(0);
        Ok(given)
    }

    /// Waits until the full pipe has room, or one of `ends` is raised.
    pub fn wait(&mut self, ends: [&Signal; 2]) {
        let [first, second] = ends.map(|end| PollFd::from_borrowed_fd(end.as_fd(), PollFlags::IN));
        let room = PollFd::new(&self.output, PollFlags::OUT);
        let mut fds = [first, second, room];
        // If something interrupts this or the pause, the caller tries again too early, which is harmless.
        let _ = poll(&mut fds, None);
        match std::mem::take(&mut self.given) {
            0..PART => self.pause = (2 * self.pause).min(LONGEST_PAUSE),
            MORE.. => self.pause = (self.pause / 2).max(PAUSE),
            _ => {}
        }
        let has_ended = fds[..2].iter().any(|it| !it.revents().is_empty());
        let is_open = fds[2].revents() == PollFlags::OUT;
        if is_open && !has_ended && is_large(&self.output) {
            let pause = Timespec {
                tv_sec: 0,
                tv_nsec: self.pause.as_nanos() as i64,
            };
            let _ = poll(&mut fds[..2], Some(&pause));
        }
    }
}
