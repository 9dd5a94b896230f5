//! Where entries go: a file that is written over and over, in the file system or in memory, or nowhere.

use super::entry::ENTRIES;
use anyhow::{Context, Result};
use forebay::store::Sink;
use std::{
    env, fmt,
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// In the folder for temporary files, through the page cache.
    File,
    /// In shared memory.
    Memory,
    /// `/dev/null`.
    Null,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Target::File => "a file",
            Target::Memory => "/dev/shm",
            Target::Null => "/dev/null",
        })
    }
}

/// Counts written bytes; clones share the count. Relaxed: it is read when no thread writes.
#[derive(Clone, Default)]
pub struct Flushes(Arc<(AtomicU64, AtomicU64)>);

impl Flushes {
    /// How many writes there were.
    pub fn get(&self) -> u64 {
        self.0.0.load(Relaxed)
    }

    /// Bytes written.
    #[cfg(test)]
    pub fn bytes(&self) -> u64 {
        self.0.1.load(Relaxed)
    }
}

/// A file that begins again when an iteration's entries are in it.
pub struct Rewound {
    file: File,
    at: u64,
    len: u64,
    flushes: Flushes,
}

impl Target {
    pub const ALL: [Target; 3] = [Target::File, Target::Memory, Target::Null];

    /// A file without a name, for entries of this size.
    pub fn open(self, entry_bytes: usize) -> Result<(Rewound, Flushes)> {
        let folder = match self {
            Target::File => env::temp_dir(),
            Target::Memory => PathBuf::from("/dev/shm"),
            Target::Null => PathBuf::new(),
        };
        let mut open = OpenOptions::new();
        open.write(true);
        let file = match self {
            Target::Null => open.open("/dev/null"),
            Target::File | Target::Memory => {
                let path = folder.join(format!("forebay-texts-append-{}", std::process::id()));
                let file = open.create(true).truncate(true).open(&path);
                // It lives as long as it is open.
                file.inspect(|_| drop(std::fs::remove_file(&path)))
            }
        };
        let flushes = Flushes::default();
        let rewound = Rewound {
            file: file.with_context(|| format!("making {self}"))?,
            at: 0,
            len: ENTRIES * entry_bytes as u64,
            flushes: flushes.clone(),
        };
        Ok((rewound, flushes))
    }
}

impl Rewound {
    fn put(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write_at(bytes, self.at)?;
        self.at += written as u64;
        if self.at >= self.len {
            self.at = 0;
        }
        self.flushes.0.0.fetch_add(1, Relaxed);
        self.flushes.0.1.fetch_add(written as u64, Relaxed);
        Ok(written)
    }
}

impl io::Write for Rewound {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.put(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for Rewound {
    fn write(&mut self, bytes: &[u8], _at: u64) -> io::Result<usize> {
        self.put(bytes)
    }
}
