//! Settings for a series of files.

use super::{
    super::compress::Compression,
    names::{Namer, Names, is_of_series},
};
use crate::repair::folder_of;
use forebay::{Error, Result, error::Code};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// Settings for a capture to several files.
///
/// A file ends when the first of `every`, `interval`, `bytes` and `packets` is reached; at least one of them is required. The two
/// times apply without traffic, too. If all sources are files, the times of their packets decide, from the first packet that passes the
/// filter, and are in the names. A file's name ends in `.part` until the file is complete.
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
/// assert!(never.validate().unwrap_err().to_string().contains("no condition ends a file"));
/// ```
#[derive(Clone, Debug)]
pub struct Rotation {
    /// The base name of the files. Its extension selects the format, and `.gz` or `.zst` compression: sizes of files then count
    /// bytes before compression.
    pub path: PathBuf,
    /// How file names are derived from `path`.
    pub names: Names,
    /// Begin the next file after this time, measured on the monotonic clock.
    pub every: Option<Duration>,
    /// If set, a file begun for another reason does not restart that time.
    pub steady: bool,
    /// Begin the next file when the wall clock reaches a multiple of this time since 1970.
    pub interval: Option<Duration>,
    /// A file of at least this size in bytes gets no more packets.
    pub bytes: Option<u64>,
    /// Maximum number of packets in a file.
    pub packets: Option<u64>,
    /// Maximum number of files that are kept, including the one being written. The oldest is removed for the next one.
    pub keep_files: Option<u64>,
    /// Maximum total bytes that are kept, with `bytes` reserved for the file being written: at least twice `bytes`.
    pub keep_bytes: Option<u64>,
    /// Stop the capture after this many files.
    pub stop_after: Option<u64>,
    /// Compress finished files with zstd at this level, 1 to 19, in a separate thread: `NAME.zst` replaces `NAME`.
    pub compress: Option<i32>,
}

impl Rotation {
    /// Files named after `path`, without any condition that ends a file.
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

    /// Checks that the settings are consistent.
    ///
    /// # Errors
    /// No condition ends a file, a limit is 0, the sizes contradict each other, or a name cannot be formed.
    pub fn validate(&self) -> Result<()> {
        let bad = |what: &str, advice: &str| {
            Err(Error::coded(Code::Invalid, "rotation", what).advise(advice))
        };
        let times = [self.every, self.interval];
        let limits = [self.bytes, self.packets];
        if times.iter().all(Option::is_none) && limits.iter().all(Option::is_none) {
            return bad(
                "no condition ends a file",
                "Give a time, a size or a count of packets",
            );
        }
        let counts = [self.keep_files, self.keep_bytes, self.stop_after];
        let is_zero = |limit: &Option<u64>| *limit == Some(0);
        if times.contains(&Some(Duration::ZERO)) || limits.iter().chain(&counts).any(is_zero) {
            return bad("a limit of 0 allows nothing", "Use 1 or more");
        }
        if self
            .compress
            .is_some_and(|level| !(1..=19).contains(&level))
        {
            return bad("the compression level is out of range", "Use 1 to 19");
        }
        if self.compress.is_some() && Compression::of_path(&self.path).is_some() {
            return bad(
                "files that are compressed while they are written are not compressed again",
                "Leave out .gz or .zst at the end of the name",
            );
        }
        if let Some(all) = self.keep_bytes
            && self.bytes.is_none_or(|each| each > all / 2)
        {
            return bad(
                "the total size must have room for two files",
                "Limit each file's size to at most half of the total",
            );
        }
        self.namer().next(0, true).map(drop)
    }

    /// Whether a file of this series may replace `path`, or the file's `.part` or `.zst` may. With numbered names, files are
    /// replaced whether they existed before or not.
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
    pub fn replaces(&self, path: impl AsRef<Path>) -> bool {
        let folder = folder_of(&self.path).canonicalize();
        let (Ok(folder), Ok(mut path)) = (folder, path.as_ref().canonicalize()) else {
            return false;
        };
        if path.extension().is_some_and(|it| it == "part") {
            path.set_extension("");
        }
        let is_named = |name| is_of_series(&self.path, self.names, name).is_some();
        self.names == Names::Numbered
            && path.parent() == Some(&folder)
            && path.file_name().is_some_and(is_named)
    }

    /// Returns the names of its files.
    /// After how many days the names of files that begin at a time repeat, at most a year, as those of `a-%H.pcap` do after a day. `None`: they do
    /// not, or they have no times. A file whose name is in use gets `.1`, `.2`, … appended, so the number of files has no bound.
    ///
    /// ```
    /// use forebay_net::session::{Names, Rotation};
    /// let repeat = |path: &str| Rotation::of(path, Names::Timed).repeat_after_days(1_790_000_000_000_000_000);
    /// assert_eq!((repeat("a-%H.pcap"), repeat("a-%a.pcap"), repeat("a-%F.pcap")), (Some(1), Some(7), None));
    /// ```
    pub fn repeat_after_days(&self, wall_ns: u64) -> Option<u64> {
        const DAY_NS: u64 = 86_400_000_000_000;
        let has_times = self.path.as_os_str().as_encoded_bytes().contains(&b'%');
        if self.names != Names::Timed || !has_times {
            return None;
        }
        let name = |days: u64| {
            let then = wall_ns.saturating_add(days * DAY_NS);
            self.namer().next(then, true).ok()
        };
        let first = name(0)?;
        (1..=366).find(|&days| name(days).as_ref() == Some(&first))
    }

    pub(super) fn namer(&self) -> Namer {
        Namer::new(&self.path, self.names, self.keep_files)
    }
}
