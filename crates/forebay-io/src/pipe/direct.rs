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
//!
//! `splice(2)` locks the output's pipe while it waits for a page: for the time of a slow disk or server, the reader could neither read what
//! is in the pipe nor be killed. So pages go to a pipe only if the cache seems to have them already. Others are read into the buffer.

use super::{
    config::PipeConfig, input::Input, kernel_pipe::is_large, output::Output, pace::Room,
    relay::moved,
};
use forebay::sync::Signal;
use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{FsWord, SeekFrom, copy_file_range, fstat, fstatfs, seek, sendfile},
    io::{Errno, ReadWriteFlags, preadv2},
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

/// How bytes of a file get to the output.
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
    /// `WouldBlock`: the next bytes of the file have to be waited for. Otherwise the kernel does not move bytes between these two, reading or writing fails, or the reader has left.
    pub fn give(&mut self, input: &Input, most: usize) -> io::Result<Option<usize>> {
        if matches!(self.way, Way::Pipe) && !is_at_hand(input, most)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
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
        if is_open && !has_ended && is_large(&self.output) && pause.is_some() {
            let _ = poll(&mut fds[..2], pause.as_ref());
        }
    }
}

/// Whether the next `most` bytes of the file, or those up to its end, are in the kernel's cache: asked for the first and the last of them. File
/// systems without such an answer, such as those of a network, count as slow.
fn is_at_hand(input: impl AsFd, most: usize) -> io::Result<bool> {
    let input = input.as_fd();
    let position = seek(input, SeekFrom::Current(0))?;
    let rest = (fstat(input)?.st_size as u64).saturating_sub(position);
    let last = (most as u64).min(rest).saturating_sub(1);
    let is_cached = |offset| {
        let mut byte = [0];
        let bytes = &mut [io::IoSliceMut::new(&mut byte)];
        preadv2(input, bytes, offset, ReadWriteFlags::NOWAIT).is_ok()
    };
    let is_there = is_cached(position) && is_cached(position + last);
    Ok(is_there || fstatfs(input)?.f_type == TMPFS)
}

/// `TMPFS_MAGIC` (linux/magic.h): its files are in memory, and it does not know `RWF_NOWAIT`.
const TMPFS: FsWord = 0x0102_1994;

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_testing::folder::Folder;
    use rustix::fs::{Advice, MemfdFlags, fadvise, memfd_create};
    use std::{
        fs::File,
        io::{Read, Seek, Write},
    };

    #[test]
    fn what_is_not_in_the_cache_is_not_at_hand() {
        let folder = Folder::new();
        let path = folder.file("source", vec![7; 4 << 20]);
        let mut file = File::options().read(true).write(true).open(path).unwrap();
        file.sync_all().unwrap();
        let on_tmpfs = fstatfs(&file).unwrap().f_type == TMPFS;
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        assert_eq!(is_at_hand(&file, 1 << 20).unwrap(), on_tmpfs);
        let mut byte = [0];
        file.read_exact(&mut byte).unwrap();
        assert_eq!(
            is_at_hand(&file, 4 << 20).unwrap(),
            on_tmpfs,
            "the end is missing"
        );
    }

    #[test]
    fn a_file_in_memory_is_at_hand() {
        let mut file = File::from(memfd_create("memory", MemfdFlags::CLOEXEC).unwrap());
        file.write_all(&[7; 100]).unwrap();
        file.rewind().unwrap();
        assert!(is_at_hand(&file, 1 << 20).unwrap());
        file.read_to_end(&mut Vec::new()).unwrap();
        assert!(is_at_hand(&file, 1 << 20).unwrap(), "its end");
    }
}
