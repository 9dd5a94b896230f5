//! File names of a series, in the schemes of tcpdump and dumpcap. Pure, except for the time zone.

use super::super::{compress::Compression, paths::behind};
use forebay::{Error, Result};
use jiff::{Timestamp, Zoned, fmt::strtime::BrokenDownTime, tz::TimeZone};
use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

/// How file names are derived from the given path.
///
/// | | `-w a.pcapng` becomes |
/// |---|---|
/// | `Numbered` | `a.pcapng`, `a.pcapng1`, `a.pcapng2`, …; in a ring of 24 files `a.pcapng00` to `a.pcapng23` and again |
/// | `Timed` | `a.pcapng` with strftime's `%` sequences replaced; further files of the same time get a number appended |
/// | `Dumpcap` | `a_00001_20261121143000.pcapng`, and so on |
///
/// The endings `.gz` and `.zst` stay at the end: `a.pcapng1.gz`. Times are local. Files of a ring replace each other, and numbered files replace those of an earlier capture. Names that
/// contain a time replace nothing: if the name is in use, the new file gets `.1`, `.2`, … appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Like `tcpdump -C`.
    Numbered,
    /// Like `tcpdump -G`.
    Timed,
    /// Like `dumpcap -b`.
    Dumpcap,
}

/// Returns the names of a series, in order.
pub(super) struct Namer {
    /// The path without the ending of a compression, which every name gets.
    path: PathBuf,
    ending: &'static str,
    names: Names,
    /// Names returned so far; with `Timed`, for the present time.
    given: u64,
    /// The number at which numbering restarts.
    ring: Option<u64>,
    /// The minimum number of digits. If it is not 0, the first file has a number, too.
    digits: usize,
    /// The time at which the files of the present period began.
    began_ns: u64,
    zone: TimeZone,
}

impl Namer {
    /// Names made of `path` in this scheme. `keep_files`: numbers of a ring begin again after this many files.
    pub fn new(path: &Path, names: Names, keep_files: Option<u64>) -> Self {
        let ring = keep_files.filter(|_| names == Names::Numbered);
        let (path, ending) = without_packing(path);
        Namer {
            path,
            ending,
            names,
            given: 0,
            ring,
            digits: ring.map_or(0, |files| digits(files - 1)),
            began_ns: 0,
            zone: TimeZone::system(),
        }
    }

    /// Starts again with the name of the first file, which begins at `wall_ns`.
    ///
    /// # Errors
    /// Those of [`next`](Self::next).
    pub fn first(&mut self, wall_ns: u64) -> Result<PathBuf> {
        self.given = 0;
        self.next(wall_ns, true)
    }

    /// Returns the name of the next file, which begins at `wall_ns`, because it is due (`by_time`) or for another reason.
    ///
    /// # Errors
    /// The path contains an invalid `%` sequence.
    pub fn next(&mut self, wall_ns: u64, by_time: bool) -> Result<PathBuf> {
        if by_time {
            self.began_ns = wall_ns;
            if self.names == Names::Timed {
                self.given = 0;
            }
        }
        let number = self.given;
        self.given += 1;
        let name = match self.names {
            Names::Numbered => {
                let number = self.ring.map_or(number, |files| number % files);
                self.numbered(self.path.clone(), number)
            }
            Names::Timed => self.numbered(self.timed()?, number),
            Names::Dumpcap => self.dumpcap(number + 1, wall_ns)?,
        };
        Ok(behind(&name, self.ending))
    }

    fn numbered(&self, path: PathBuf, number: u64) -> PathBuf {
        if number == 0 && self.digits == 0 {
            return path;
        }
        let digits = self.digits;
        behind(&path, format!("{number:0digits$}"))
    }

    fn timed(&self) -> Result<PathBuf> {
        let is_plain = !self.path.as_os_str().as_encoded_bytes().contains(&b'%');
        if is_plain {
            return Ok(self.path.clone());
        }
        let bad = |why: String| {
            Error::new(self.path.display().to_string(), why)
                .advise("Write %% for a % that is not part of a strftime sequence")
        };
        let Some(pattern) = self.path.to_str() else {
            return Err(bad("a name with a time must be UTF-8".into()));
        };
        let name = BrokenDownTime::from(&self.local(self.began_ns)).to_string(pattern);
        name.map(PathBuf::from)
            .map_err(|error| bad(error.to_string()))
    }

    fn dumpcap(&self, number: u64, wall_ns: u64) -> Result<PathBuf> {
        let part = |part: Option<&OsStr>| part.unwrap_or_default().to_owned();
        let mut name = part(self.path.file_stem());
        let time = self.local(wall_ns).strftime("%Y%m%d%H%M%S").to_string();
        name.push(format!("_{number:05}_{time}"));
        if let Some(extension) = self.path.extension() {
            name.push(".");
            name.push(extension);
        }
        Ok(self.path.with_file_name(name))
    }

    fn local(&self, wall_ns: u64) -> Zoned {
        let time = Timestamp::from_nanosecond(i128::from(wall_ns)).unwrap_or(Timestamp::MAX);
        time.to_zoned(self.zone.clone())
    }
}

/// Names that are made of `path` as [`Names::Dumpcap`] does, each for a file that begins at a time. Files may have them.
///
/// # Errors
/// No name can be made of it.
pub(crate) fn numbered_names(
    path: &Path,
) -> Result<impl FnMut(u64) -> Result<PathBuf> + Send + 'static> {
    let mut namer = Namer::new(path, Names::Dumpcap, None);
    Namer::new(path, Names::Dumpcap, None).next(0, true)?;
    Ok(move |wall_ns| namer.next(wall_ns, true))
}

/// Whether files of the series with this path have such names. `Some(true)`: it is that of a file which was compressed after it was finished.
pub(super) fn is_of_series(path: &Path, names: Names, file: &OsStr) -> Option<bool> {
    let (base, ending) = without_packing(path);
    let (base, file) = (base.file_name()?.to_str()?, file.to_str()?);
    let is_named = |name: &str| match names {
        Names::Numbered => is_numbered(base, name),
        Names::Timed => is_timed(base, name),
        Names::Dumpcap => is_dumpcap(base, name),
    };
    // A name that was in use has `.1`, `.2`, … at its end. A time may look so, too.
    let is_one = |name: &str| {
        let is = |name: &str| name.strip_suffix(ending).is_some_and(is_named);
        let first = name
            .rsplit_once('.')
            .filter(|(_, number)| is_number(number));
        let first = first.filter(|_| names != Names::Numbered);
        is(name) || first.is_some_and(|(name, _)| is(name))
    };
    match file.strip_suffix(".zst").filter(|_| ending.is_empty()) {
        Some(name) if is_one(name) => Some(true),
        _ => is_one(file).then_some(false),
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `a.pcap`, `a.pcap1`.
fn is_numbered(base: &str, name: &str) -> bool {
    name.strip_prefix(base)
        .is_some_and(|number| number.is_empty() || is_number(number))
}

/// The pattern with a time, and possibly a number. A time is one if it is written back as it was read.
fn is_timed(pattern: &str, name: &str) -> bool {
    if !pattern.contains('%') {
        return is_numbered(pattern, name);
    }
    let Ok((time, len)) = BrokenDownTime::parse_prefix(pattern, name) else {
        return false;
    };
    let (timed, number) = name.split_at(len);
    let is_same = time.to_string(pattern).is_ok_and(|again| again == timed);
    is_same && (number.is_empty() || is_number(number))
}

/// `a_00001_20261121143000.pcapng`.
fn is_dumpcap(base: &str, name: &str) -> bool {
    let base = Path::new(base);
    let stem = base.file_stem().and_then(OsStr::to_str).unwrap_or_default();
    let inner = || {
        let rest = name.strip_prefix(stem)?.strip_prefix('_')?;
        let rest = match base.extension().and_then(OsStr::to_str) {
            Some(extension) => rest.strip_suffix(extension)?.strip_suffix('.')?,
            None => rest,
        };
        rest.split_once('_')
    };
    inner().is_some_and(|(number, time)| {
        number.len() >= 5 && is_number(number) && time.len() == 14 && is_number(time)
    })
}

/// `path` without the ending that selects a compression, and that ending.
pub(super) fn without_packing(path: &Path) -> (PathBuf, &'static str) {
    match Compression::of_path(path) {
        None => (path.into(), ""),
        Some(Compression::Gzip) => (path.with_extension(""), ".gz"),
        Some(Compression::Zstd) => (path.with_extension(""), ".zst"),
    }
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(0, |log| log as usize + 1)
}
