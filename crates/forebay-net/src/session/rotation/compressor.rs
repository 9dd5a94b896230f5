//! The thread that compresses finished files, with idle processor time.
//!
//! ```text
//!  NAME ──zstd──▶ NAME.zst.part ─▶ synced, as the policy asks ─▶ NAME.zst ─▶ folder synced ─▶ NAME removed
//! ```
//!
//! At any moment at least one of the two files is complete: a crash may leave both, but never none. The capture does not wait for
//! this thread. Files wait in [`Retention`]; if too many are waiting, further files stay uncompressed.

#[cfg(feature = "zstd")]
use super::super::compress::ZstdEncoder;
#[cfg(not(feature = "zstd"))]
use super::super::compress::missing;
use super::super::{
    disk_space::SpaceLimit,
    paths::{is_locked, packed, part, remove, sync_folder},
    retention::Retention,
};
use crate::control::Control;
use forebay::{Error, Result};
use std::{
    fs::{File, FileTimes, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    thread::JoinHandle,
    time::Duration,
};

/// Bytes per read.
const CHUNK: usize = 128 << 10;

pub(in crate::session) struct Compressor {
    retention: Retention,
    thread: Option<JoinHandle<()>>,
}

impl Compressor {
    /// Starts a thread that compresses the files of `retention` at this level.
    ///
    /// # Errors
    /// No memory or thread is available, or this build lacks zstd.
    pub(super) fn start(
        retention: Retention,
        space: Option<SpaceLimit>,
        level: i32,
        syncs: bool,
    ) -> Result<Self> {
        let failed = |cause| Error::new("compression", "starting it").because(cause);
        let mut worker = Worker {
            retention: retention.clone(),
            space,
            encoder: ZstdEncoder::new(level).map_err(failed)?,
            input: vec![0; CHUNK],
            syncs,
        };
        let thread = std::thread::Builder::new()
            .name("forebay-zstd".into())
            .spawn(move || worker.run())
            .map_err(failed)?;
        Ok(Compressor {
            retention,
            thread: Some(thread),
        })
    }

    /// Waits until the remaining files are compressed, or until another stop is requested. Reports the number of remaining files
    /// to `observe`.
    pub fn finish(mut self, control: &Control, observe: impl FnOnce(usize)) {
        let left = self.retention.end();
        let stops = control.stops();
        if left > 0 && !control.is_abandoned() {
            observe(left);
        }
        while self.thread.as_ref().is_some_and(|it| !it.is_finished()) {
            if control.is_abandoned() || control.stops() > stops {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.end();
    }

    fn end(&mut self) {
        self.retention.end();
        self.retention.give_up();
        if let Some(thread) = self.thread.take() {
            // The thread printed its own panic; the files are still present.
            let _ = thread.join();
        }
    }
}

impl Drop for Compressor {
    fn drop(&mut self) {
        self.end();
    }
}

struct Worker {
    retention: Retention,
    /// The free space to keep, if there is such a limit.
    space: Option<SpaceLimit>,
    encoder: ZstdEncoder,
    input: Vec<u8>,
    syncs: bool,
}

impl Worker {
    fn run(&mut self) {
        // For this thread only. If it is denied, compression competes with the capture.
        let _ = rustix::process::setpriority_process(None, 19);
        while let Some(path) = self.retention.next() {
            if let Err(cause) = self.pack(&path) {
                let error = Error::new(path.display().to_string(), "compressing it").because(cause);
                self.retention
                    .failed(&error.advise("The file is complete, and stays uncompressed"));
            }
        }
    }

    fn pack(&mut self, path: &Path) -> io::Result<()> {
        let name = packed(path);
        let part = part(&name);
        // The remainder of a killed compression was removed at the start. Another file of this name is a capture.
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        // The lock is held until the original is removed: see `leftovers`.
        let to = options.open(&part)?;
        // Nothing else can have locked a new file.
        is_locked(&to);
        let done = self.write(path, &to).and_then(|written| {
            let Some((before, len)) = written else {
                return Ok(());
            };
            if !self.retention.name(&part, &name)? {
                return Ok(());
            }
            let replaced = self.replace(&name, before, len);
            if replaced.is_err() {
                let _ = remove(&name);
            }
            replaced
        });
        // If the file was renamed, this name no longer exists.
        let _ = remove(&part);
        done
    }

    fn replace(&self, name: &Path, before: u64, len: u64) -> io::Result<()> {
        if self.syncs {
            sync_folder(name)?;
        }
        self.retention.replace(name, before, len)
    }

    /// Compresses `path` into `to`. Returns the numbers of bytes read and written; `None` if the file is no longer wanted, or if there is
    /// no room for it.
    fn write(&mut self, path: &Path, mut to: &File) -> io::Result<Option<(u64, u64)>> {
        let mut options = OpenOptions::new();
        let mut from = options
            .read(true)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)?;
        // The last frame may be incomplete.
        self.encoder.reset()?;
        let (mut before, mut after) = (0, 0);
        loop {
            let read = match from.read(&mut self.input) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            before += read as u64;
            if let Some(space) = &self.space
                && (space.make(2 * CHUNK as u64).is_err() || space.is_short())
            {
                self.retention.leave();
                return Ok(None);
            }
            after += self.encoder.put(&self.input[..read], &mut to)?;
            if !self.retention.is_wanted() {
                return Ok(None);
            }
            if read == 0 {
                break;
            }
        }
        // It is as old as its original: the oldest files are removed first.
        if let Ok(modified) = from.metadata().and_then(|about| about.modified()) {
            let _ = to.set_times(FileTimes::new().set_modified(modified));
        }
        if self.syncs {
            to.sync_data()?;
        }
        Ok(Some((before, after)))
    }
}

/// In a build without zstd, creating an encoder is an error.
#[cfg(not(feature = "zstd"))]
struct ZstdEncoder;

#[cfg(not(feature = "zstd"))]
impl ZstdEncoder {
    fn new(_level: i32) -> io::Result<Self> {
        Err(missing("zstd"))
    }

    fn reset(&mut self) -> io::Result<()> {
        Err(missing("zstd"))
    }

    fn put(&mut self, _input: &[u8], _to: &mut &File) -> io::Result<u64> {
        Err(missing("zstd"))
    }
}
