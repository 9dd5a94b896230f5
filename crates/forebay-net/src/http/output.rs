//! Where a body goes: standard output, or a file that gets its name when it is complete.
//!
//! ```text
//!   FILE.part ── write, write, … ──▶ finish ──▶ FILE       failed or killed on the way: FILE as it was, FILE.part stays
//! ```

use forebay::{Error, Result};
use rustix::event::{PollFd, PollFlags, poll};
use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, ErrorKind, Write},
    os::fd::AsFd,
    path::{Path, PathBuf},
};

/// Takes what a fetch writes. It is opened by the first byte, so an answer that is refused leaves no trace.
///
/// A path that is no regular file (a FIFO, a device) is written to as it is.
///
/// ```
/// use std::io::Write;
/// let folder = std::env::temp_dir().join(format!("forebay-output-{}", std::process::id()));
/// std::fs::create_dir_all(&folder).unwrap();
/// let mut output = forebay_net::http::Output::file(folder.join("name"));
/// output.write_all(b"hello").unwrap();
/// assert!(!folder.join("name").exists());
/// assert_eq!(output.unfinished(), Some(folder.join("name.part").as_path()));
/// output.finish()?;
/// assert_eq!(std::fs::read(folder.join("name")).unwrap(), b"hello");
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Debug)]
pub struct Output {
    to: To,
    file: Option<File>,
}

#[derive(Debug)]
enum To {
    Stdout,
    /// No regular file: there is nothing to rename.
    Device(PathBuf),
    File {
        part: PathBuf,
        name: PathBuf,
    },
}

impl Output {
    /// Standard output.
    pub fn stdout() -> Self {
        Output {
            to: To::Stdout,
            file: None,
        }
    }

    /// The file called `name`, by way of `name.part` beside it. What either holds is replaced. Behind a symbolic link, that is
    /// the file which the link names.
    pub fn file(name: impl Into<PathBuf>) -> Self {
        let name = name.into();
        let to = match fs::metadata(&name) {
            Ok(found) if !found.is_file() => To::Device(name),
            _ => {
                let name = fs::canonicalize(&name).unwrap_or(name);
                let mut part = OsString::from(&name);
                part.push(".part");
                To::File {
                    part: part.into(),
                    name,
                }
            }
        };
        Output { to, file: None }
    }

    /// All is written: the file gets its name. Where nothing was written, the file is empty.
    ///
    /// # Errors
    /// It cannot be created or renamed.
    pub fn finish(mut self) -> Result<()> {
        self.open()?;
        if let To::File { part, name } = &self.to {
            fs::rename(part, name).map_err(|e| {
                let what = format!("renaming it to {}", name.display());
                Error::new(part.display().to_string(), what).because(e)
            })?;
        }
        Ok(())
    }

    /// The file that holds what was written so far, if there is one.
    pub fn unfinished(&self) -> Option<&Path> {
        match &self.to {
            To::File { part, .. } if self.file.is_some() => Some(part),
            _ => None,
        }
    }

    fn open(&mut self) -> Result<&mut File> {
        let file = match self.file.take() {
            Some(file) => file,
            None => self.to.open()?,
        };
        Ok(self.file.insert(file))
    }
}

impl To {
    fn open(&self) -> Result<File> {
        let (name, opened) = match self {
            To::Stdout => {
                // A descriptor of our own, past the buffer of `Stdout`: what is written is written.
                let own = io::stdout().as_fd().try_clone_to_owned();
                return own
                    .map(File::from)
                    .map_err(|e| Error::new("standard output", "opening it").because(e));
            }
            To::Device(name) => (name, File::options().write(true).open(name)),
            To::File { part, .. } => (part, File::create(part)),
        };
        let on = format!("output {}", name.display());
        opened.map_err(|e| Error::new(on, "opening it to write").because(e))
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let file = self.open().map_err(io::Error::other)?;
        loop {
            match file.write(bytes) {
                // Somebody who shares the descriptor has told it not to block.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    poll(&mut [PollFd::new(&*file, PollFlags::OUT)], None)?;
                }
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
