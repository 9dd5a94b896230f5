//! Capture files that break off: up to where one is whole, and the cut there.
//!
//! ```text
//!  FILE   │ header │ packet │ packet │ packet │ pac      a crash, a full disk, zeros allocated ahead
//!                                             ╵
//!  FILE   │ header │ packet │ packet │ packet │
//!  FILE.cut                                   │ pac      unless that is nothing but zeros
//! ```
//! One pass with the reader that captures are read with: what it takes for whole stays. Imports `port`,
//! `file` and `sys`. Read next: [`crate::file`], which finds the place.

use crate::{file::File, port::Port, sys};
use forebay::{
    Error, Result,
    store::{lock_output, open_existing},
};
use std::{
    fs,
    io::{self, Read, Seek, SeekFrom},
    os::{
        fd::AsFd,
        unix::fs::{MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

/// What is whole in a capture file.
///
/// ```
/// use forebay_net::{open, repair::Examined, session::{Config, Control, Output, Session}};
///
/// let path = std::env::temp_dir().join(format!("repair-{}.pcapng", std::process::id()));
/// # let names = ["sim:clock=virtual,count=10".parse()?];
/// # let clock = open::clock(&names)?;
/// # let ports = open::ports(&names, &Default::default(), &clock)?;
/// # let output = Output::File(path.clone());
/// # Session::open(ports, output, Config::default(), clock, Control::new()?)?.run(&mut |_| {});
/// let mut bytes = std::fs::read(&path).unwrap(); // ten packets of 60 bytes, and statistics
/// bytes.truncate(bytes.len() - 150);
/// std::fs::write(&path, bytes).unwrap();
///
/// let torn = Examined::of(&path)?;
/// assert!(torn.packets < 10 && !torn.is_whole());
/// let rest = torn.cut()?.expect("more than zeros");
/// assert!(Examined::of(&path)?.is_whole());
/// assert_eq!(std::fs::metadata(&rest).unwrap().len(), torn.bytes - torn.whole_bytes);
/// # std::fs::remove_file(path).unwrap();
/// # std::fs::remove_file(rest).unwrap();
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Debug)]
pub struct Examined {
    /// The file.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
    /// Bytes up to the end of its last whole block, or packet.
    pub whole_bytes: u64,
    /// Whole packets.
    pub packets: u64,
    /// What is wrong behind them, and at which byte.
    pub fault: Option<Error>,
    version: Version,
    /// It is not ours, and we are not told whether somebody is writing it.
    is_untold: bool,
}

/// A file as it was at a moment: device, inode, length, and when it was changed last, in seconds and nanoseconds.
type Version = (u64, u64, u64, i64, i64);

fn version(about: &fs::Metadata) -> Version {
    let (seconds, nanoseconds) = (about.mtime(), about.mtime_nsec());
    (about.dev(), about.ino(), about.len(), seconds, nanoseconds)
}

impl Examined {
    /// Reads a file to its end, or to where it breaks off.
    ///
    /// # Errors
    /// It cannot be read; it is no regular file, packed, or no capture file; somebody has it open for
    /// writing.
    pub fn of(path: &Path) -> Result<Examined> {
        let name = path.display().to_string();
        let failed = |what: &'static str| {
            let name = name.clone();
            move |cause: io::Error| Error::new(name, what).because(cause)
        };
        // Not blocking: a FIFO without a writer is refused, not waited for.
        let mut options = fs::OpenOptions::new();
        options.read(true).custom_flags(libc::O_NONBLOCK);
        let handle = options.open(path).map_err(failed("opening it"))?;
        let about = handle.metadata().map_err(failed("looking at it"))?;
        if !about.is_file() {
            return Err(Error::new(
                name,
                "is no regular file: nothing can be cut there",
            ));
        }
        let is_untold = match sys::has_writers(handle.as_fd()) {
            Ok(true) => {
                return Err(Error::new(name, "somebody is writing it").advise("Stop that first"));
            }
            Ok(false) => false,
            // Where there are no leases, nobody is ever told.
            Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
        };
        let mut file = File::start(handle, name.clone())?;
        if let Some(packing) = file.packing() {
            let what = format!("is packed with {packing}");
            return Err(Error::new(name, what).advise("Unpack it first, as far as that goes"));
        }
        let read = file.each_frame(|_| {});
        let fault = read.err();
        if let Some(cause) = fault.as_ref().and_then(Error::cause) {
            let cause = io::Error::new(cause.kind(), cause.to_string());
            return Err(failed("reading it")(cause));
        }
        let whole_bytes = file.offset();
        if whole_bytes == 0 {
            return Err(Error::new(
                name,
                "has not even a whole header: nothing can be saved",
            ));
        }
        Ok(Examined {
            path: path.to_owned(),
            bytes: about.len(),
            whole_bytes,
            packets: file.counts().received,
            fault,
            version: version(&about),
            is_untold,
        })
    }

    /// Whether nothing is to be cut.
    pub fn is_whole(&self) -> bool {
        self.fault.is_none()
    }

    /// Cuts the file to what is whole in it. What lay behind is put beside it first, and its path
    /// returned, unless it is all zeros; all of that is durable when this returns.
    ///
    /// # Errors
    /// Somebody has it open. It is somebody else's, of which only they and root can see that nobody is writing it; it changed since, or the name has another one; there is a file with the name of the rest; writing fails.
    /// Then the file is as it was.
    pub fn cut(&self) -> Result<Option<PathBuf>> {
        let failed = |what: &'static str| {
            move |cause: io::Error| Error::new(self.path.display().to_string(), what).because(cause)
        };
        if self.is_untold {
            let name = self.path.display().to_string();
            let what = "is another user's: whether somebody is writing it cannot be seen";
            return Err(Error::new(name, what).advise("Run this as that user, or as root"));
        }
        let mut options = fs::OpenOptions::new();
        let file = open_existing(&self.path, options.read(true).write(true));
        let mut file = file.map_err(failed("opening it for writing"))?;
        lock_output(&file).map_err(failed("locking it"))?;
        // From here on whoever opens it waits until the file is closed; where there are no leases, nobody does.
        if let Err(cause) = sys::keep_others_out(file.as_fd())
            && cause.kind() == io::ErrorKind::WouldBlock
        {
            let name = self.path.display().to_string();
            return Err(Error::new(name, "somebody has it open").advise("Close it there first"));
        }
        let about = file.metadata().map_err(failed("looking at it"))?;
        if version(&about) != self.version {
            let name = self.path.display().to_string();
            return Err(Error::new(name, "has changed meanwhile: it was left alone"));
        }
        let seek = file.seek(SeekFrom::Start(self.whole_bytes));
        seek.map_err(failed("finding the place"))?;
        let rest = match is_zero(&file).map_err(failed("reading it"))? {
            true => None,
            false => Some(self.save(&mut file)?),
        };
        file.set_len(self.whole_bytes)
            .map_err(failed("cutting it"))?;
        file.sync_all().map_err(failed("making the cut durable"))?;
        Ok(rest)
    }

    /// Copies what lies behind the whole part into a file of its own.
    fn save(&self, file: &mut fs::File) -> Result<PathBuf> {
        let mut name = self.path.clone().into_os_string();
        name.push(".cut");
        let path = PathBuf::from(name);
        let mut options = fs::OpenOptions::new();
        let made = options.write(true).create_new(true).mode(0o600).open(&path);
        let saved = made.and_then(|mut rest| {
            file.seek(SeekFrom::Start(self.whole_bytes))?;
            let copied = io::copy(file, &mut rest).and_then(|_| rest.sync_all());
            // The name as well: else a power cut might leave neither the rest nor where it was.
            let named = copied.and_then(|()| fs::File::open(folder_of(&path))?.sync_all());
            named.inspect_err(|_| drop(fs::remove_file(&path)))
        });
        match saved {
            Ok(()) => Ok(path),
            Err(cause) => {
                let tried = "keeping what would be cut off";
                let advice = match cause.kind() {
                    io::ErrorKind::AlreadyExists => "It is of an earlier repair: move it away",
                    _ => "",
                };
                let error = Error::new(path.display().to_string(), tried);
                Err(error.because(cause).advise(advice))
            }
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// Whether there is nothing but zeros from here to the end.
fn is_zero(mut file: &fs::File) -> io::Result<bool> {
    let mut bytes = vec![0; 64 << 10];
    loop {
        match file.read(&mut bytes) {
            Ok(0) => return Ok(true),
            Ok(n) if bytes[..n].iter().all(|&byte| byte == 0) => {}
            Ok(_) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_took_the_name_meanwhile_is_left_alone() {
        let path = std::env::temp_dir().join(format!("repair-swap-{}.pcap", std::process::id()));
        let mut torn = vec![0xD4, 0xC3, 0xB2, 0xA1, 2, 0, 4, 0];
        torn.resize(16, 0);
        torn.extend([0, 0, 4, 0, 1, 0, 0, 0]); // snapshot length, link type
        torn.extend([1; 30]);
        fs::write(&path, &torn).unwrap();
        let examined = Examined::of(&path).unwrap();
        assert_eq!((examined.packets, examined.whole_bytes), (0, 24));
        let other = path.with_extension("other");
        let whole = vec![7; torn.len()];
        fs::write(&other, &whole).unwrap();
        fs::rename(&other, &path).unwrap();
        let refused = examined.cut().unwrap_err().to_string();
        assert!(refused.contains("changed meanwhile"), "{refused}");
        assert_eq!(fs::read(&path).unwrap(), whole);
        fs::remove_file(&path).unwrap();
    }
}
