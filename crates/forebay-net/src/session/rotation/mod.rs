//! Several files, one after another: when the next one begins, what it is called, and what is kept.
//!
//! ```text
//!  session's thread                                 writer's thread
//!  turns: is it time? ─▶ names: what is it called? ─▶ shelf: NAME.part ─ written ─▶ NAME ─▶ kept ─▶ removed
//!           │                       └────────────── register ──────────────┘
//!           └─▶ end of this file │ order │ beginning of the next        (in the store's buffers)
//!                                                  compressor's thread:  NAME ─▶ NAME.zst
//! ```
//! [`Rotation`] is what was asked for. `turns` and `names` are pure arithmetic on times and numbers; the `course` has them
//! and knows what belongs between the last packet of one file and the first of the next. Only the `shelf` touches files,
//! between two buffers, so a file system that takes its time stops nobody but the writer; the `register` is between them.
//! What is complete is `kept`, until a newer file takes its place, and the `compressor` makes less of it.

mod compressor;
mod course;
mod kept;
mod names;
mod register;
mod shelf;
#[cfg(test)]
mod tests;
mod turns;

pub use names::Names;
pub use register::{Compressed, Files};

pub(super) use compressor::Compressor;
pub(super) use course::{Course, Step};
pub(super) use register::Register;
use shelf::Shelf;

use kept::Kept;
use names::Namer;
use turns::Turns;

use forebay::{Error, Result, store::SyncPolicy};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// A capture in several files.
///
/// A file is over when the first of `every`, `interval`, `bytes` and `packets` says so; at least one of them is needed.
/// The two times hold without traffic, too. A file has its name with `.part` behind it until it is complete.
///
/// ```
/// use forebay_net::session::{Names, Rotation};
/// use std::time::Duration;
/// let hourly = Rotation {
///     every: Some(Duration::from_secs(3600)),
///     keep_files: Some(24),
///     ..Rotation::of("day.pcapng", Names::Dumpcap)
/// };
/// assert!(hourly.validate().is_ok());
/// let never = Rotation::of("day.pcapng", Names::Dumpcap);
/// assert!(never.validate().unwrap_err().to_string().contains("when"));
/// ```
#[derive(Clone, Debug)]
pub struct Rotation {
    /// What the files are called after; its extension chooses the format.
    pub path: PathBuf,
    /// How names are made of it.
    pub names: Names,
    /// The next file begins after this time, which jumps of the clock do not change.
    pub every: Option<Duration>,
    /// A file that was begun for another reason does not begin that time anew.
    pub steady: bool,
    /// The next file begins when the wall clock shows a multiple of this time since 1970.
    pub interval: Option<Duration>,
    /// A file that has this many bytes gets no more packets.
    pub bytes: Option<u64>,
    /// Most packets in a file.
    pub packets: Option<u64>,
    /// Most files that are kept, the one being written included: for the next one the oldest is removed.
    pub keep_files: Option<u64>,
    /// Most bytes that are kept, with `bytes` for the file being written: at least twice as many.
    pub keep_bytes: Option<u64>,
    /// The capture stops behind so many files.
    pub stop_after: Option<u64>,
    /// Finished files are compressed with zstd at this level, 1 to 19, by a thread of its own: `NAME.zst` takes the place
    /// of `NAME`.
    pub compress: Option<i32>,
}

impl Rotation {
    /// Files called after `path`, without saying when one is over.
    pub fn of(path: impl Into<PathBuf>, names: Names) -> Self {
        Rotation {
            path: path.into(),
            names,
            every: None,
            steady: false,
            interval: None,
            bytes: None,
            packets: None,
            keep_files: None,
            keep_bytes: None,
            stop_after: None,
            compress: None,
        }
    }

    /// Checks that it makes sense.
    ///
    /// # Errors
    /// Nothing says when a file is over, a limit is 0, the sizes contradict each other, or a name cannot be made.
    pub fn validate(&self) -> Result<()> {
        let bad = |what: &str, advice: &str| Err(Error::new("rotation", what).advise(advice));
        let times = [self.every, self.interval];
        let limits = [self.bytes, self.packets];
        if times.iter().all(Option::is_none) && limits.iter().all(Option::is_none) {
            return bad(
                "nothing says when the next file begins",
                "Give a time, a size or a count of packets",
            );
        }
        let counts = [self.keep_files, self.keep_bytes, self.stop_after];
        let is_zero = |limit: &Option<u64>| *limit == Some(0);
        if times.contains(&Some(Duration::ZERO)) || limits.iter().chain(&counts).any(is_zero) {
            return bad("a limit of 0 leaves nothing", "Use 1 or more");
        }
        if self
            .compress
            .is_some_and(|level| !(1..=19).contains(&level))
        {
            return bad("the compression level is out of range", "Use 1 to 19");
        }
        if let Some(all) = self.keep_bytes
            && self.bytes.is_none_or(|each| each > all / 2)
        {
            return bad(
                "all files together have to have room for two",
                "Give each file a size, at most half of all",
            );
        }
        Namer::new(self).next(0, true).map(drop)
    }

    /// Whether a file of this series may take the place of `path`, or its `.part` or `.zst` may: where names are numbered,
    /// what is there already does not matter.
    ///
    /// ```
    /// use forebay_net::session::{Names, Rotation};
    /// let folder = std::env::temp_dir().join(format!("forebay-doc-replaces-{}", std::process::id()));
    /// std::fs::create_dir_all(&folder).unwrap();
    /// let seventh = folder.join("a.pcap7");
    /// std::fs::write(&seventh, "packets").unwrap();
    /// let of = |names| Rotation::of(folder.join("a.pcap"), names);
    /// assert!(of(Names::Numbered).replaces(&seventh) && !of(Names::Timed).replaces(&seventh));
    /// # std::fs::remove_dir_all(&folder).unwrap();
    /// ```
    pub fn replaces(&self, path: &Path) -> bool {
        let folder = names::folder(&self.path).canonicalize();
        let (Some(name), Ok(folder), Ok(path)) =
            (self.path.file_name(), folder, path.canonicalize())
        else {
            return false;
        };
        let file = path.file_name().unwrap_or_default().as_encoded_bytes();
        let Some(mut rest) = file.strip_prefix(name.as_encoded_bytes()) else {
            return false;
        };
        for suffix in [&b".part"[..], b".zst"] {
            rest = rest.strip_suffix(suffix).unwrap_or(rest);
        }
        self.names == Names::Numbered
            && path.parent() == Some(&folder)
            && rest.iter().all(u8::is_ascii_digit)
    }
}

/// What stands where a series is written, and the thread that compresses what is finished, if that is asked for.
///
/// # Errors
/// Another capture writes there, or that thread cannot be had.
pub(super) fn shelf(
    rotation: &Rotation,
    register: Register,
    sync: SyncPolicy,
) -> Result<(Shelf, Option<Compressor>)> {
    shelf::refuse_another(rotation)?;
    let syncs = sync != SyncPolicy::None;
    let is_ring = rotation.keep_files.or(rotation.keep_bytes).is_some();
    let kept = Kept::new(register.clone(), is_ring, rotation.compress.is_some());
    let start = |level| Compressor::start(kept.clone(), level, syncs);
    let compressor = rotation.compress.map(start).transpose()?;
    Ok((Shelf::new(rotation, register, kept, syncs), compressor))
}
