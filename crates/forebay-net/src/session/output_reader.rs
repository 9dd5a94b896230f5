//! The reader of an output that is a pipe or socket.

use forebay::Error;
use rustix::{event::PollFd, event::PollFlags, fs::FileType, io::Errno};
use std::os::fd::{AsFd, OwnedFd};

/// Notices while nothing is written that the reader has left. Otherwise the next write would, on a quiet interface hours later.
pub(super) struct OutputReader {
    /// A duplicate of the output's descriptor.
    output: OwnedFd,
    name: String,
}

impl OutputReader {
    /// `None`: the output is neither a pipe nor a socket, or it cannot be watched.
    pub fn of(output: impl AsFd, name: &str) -> Option<Self> {
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&output).ok()?.st_mode);
        if !matches!(kind, FileType::Fifo | FileType::Socket) {
            return None;
        }
        Some(OutputReader {
            output: output.as_fd().try_clone_to_owned().ok()?,
            name: name.to_owned(),
        })
    }

    /// For poll(2), which always reports errors and the end of the other side.
    pub fn awaited(&self) -> PollFd<'_> {
        PollFd::new(&self.output, PollFlags::empty())
    }

    /// The error that the next write would return, if the poll reported that the reader has left.
    pub fn error(&self, reported: PollFlags) -> Option<Error> {
        let has_left = reported.intersects(PollFlags::ERR | PollFlags::HUP);
        has_left.then(|| Error::new(&self.name, "writing").because(Errno::PIPE))
    }
}
