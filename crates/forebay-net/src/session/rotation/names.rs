//! What files are called: as tcpdump does it, and as dumpcap does it. Pure, but for the time zone.

use super::Rotation;
use forebay::{Error, Result};
use jiff::{Timestamp, Zoned, fmt::strtime::BrokenDownTime, tz::TimeZone};
use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

/// How names are made of the path that was given.
///
/// | | `-w a.pcapng` becomes |
/// |---|---|
/// | `Numbered` | `a.pcapng`, `a.pcapng1`, `a.pcapng2`, …; in a ring of 24 files `a.pcapng00` to `a.pcapng23` and again |
/// | `Timed` | `a.pcapng` with strftime's `%` replaced, and a number for all but the first file of a time, where there may be several |
/// | `Dumpcap` | `a_00001_20261121143000.pcapng`, and so on |
///
/// Times are local ones. Files of a ring replace each other, and numbered ones replace those of an earlier capture; a name
/// made of a time replaces nothing: where a file has it already, the new one is called so with `.1`, `.2`, … behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// As `tcpdump -C`.
    Numbered,
    /// As `tcpdump -G`.
    Timed,
    /// As `dumpcap -b`.
    Dumpcap,
}

/// Gives the names of a series, in order.
pub(super) struct Namer {
    path: PathBuf,
    names: Names,
    /// Names given so far; for timed ones, to files of the same time.
    given: u64,
    /// Behind it the numbers begin anew.
    ring: Option<u64>,
    /// Digits that a number has at least; where there are any, the first file has a number as well.
    digits: usize,
    /// When the files of now began.
    began_ns: u64,
    zone: TimeZone,
}

impl Namer {
    pub fn new(rotation: &Rotation) -> Self {
        let ring = rotation
            .keep_files
            .filter(|_| rotation.names == Names::Numbered);
        Namer {
            path: rotation.path.clone(),
            names: rotation.names,
            given: 0,
            ring,
            digits: ring.map_or(0, |files| digits(files - 1)),
            began_ns: 0,
            zone: TimeZone::system(),
        }
    }

    /// The name of the next file, which begins at `wall_ns`, because it is time or for another reason.
    ///
    /// # Errors
    /// The path has a `%` that means nothing.
    pub fn next(&mut self, wall_ns: u64, by_time: bool) -> Result<PathBuf> {
        if by_time {
            self.began_ns = wall_ns;
            if self.names == Names::Timed {
                self.given = 0;
            }
        }
        let number = self.given;
        self.given += 1;
        match self.names {
            Names::Numbered => {
                let number = self.ring.map_or(number, |files| number % files);
                Ok(self.numbered(self.path.clone(), number))
            }
            Names::Timed => Ok(self.numbered(self.timed()?, number)),
            Names::Dumpcap => self.dumpcap(number + 1, wall_ns),
        }
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
                .advise("Write a % that is none of strftime's as %%")
        };
        let Some(pattern) = self.path.to_str() else {
            return Err(bad("a name with a time has to be UTF-8".into()));
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

fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(0, |log| log as usize + 1)
}

/// `path` with `more` directly behind it.
pub(super) fn behind(path: &Path, more: impl AsRef<OsStr>) -> PathBuf {
    let mut name: OsString = path.into();
    name.push(more);
    name.into()
}

/// Where `path` lies.
pub(super) fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}
