//! `-C -G -W`, `-b` and `-a`: when a file and when the capture ends; `--compress`: what happens to finished files.
//!
//! tcpdump's letters name files as tcpdump does, and `-b` names them as dumpcap does, so the two cannot be mixed. `-a` works with
//! either.

use crate::{
    args::{Capture as Flags, Criterion},
    usage::refuse,
};
use anyhow::Result;
use forebay_net::{
    session::{Names, Rotation},
    units,
};
use std::{path::Path, time::Duration};

/// The parsed flags for the end of files and of the capture.
#[derive(Default)]
pub struct Limits {
    pub rotation: Option<Rotation>,
    pub stop_after: Option<Duration>,
    pub file_bytes: Option<u64>,
    pub packets: Option<u64>,
}

/// The criteria of `-b` or of `-a`, each at most once.
#[derive(Default)]
struct Criteria {
    duration: Option<Duration>,
    interval: Option<Duration>,
    filesize: Option<u64>,
    packets: Option<u64>,
    files: Option<u64>,
    total: Option<u64>,
}

impl Limits {
    pub fn from_flags(flags: &Flags) -> Result<Self> {
        let ends = collected("-b", &flags.ring_buffer)?;
        let stop = collected("-a", &flags.autostop)?;
        let mut limits = Limits {
            stop_after: stop.duration,
            file_bytes: stop.filesize,
            packets: stop.packets,
            rotation: None,
        };
        let has_letters = flags.file_size.is_some() || flags.rotate_seconds.is_some();
        let path = match &flags.write {
            Some(path) if has_letters || !flags.ring_buffer.is_empty() => path,
            _ => return Ok(limits),
        };
        let mut rotation = match has_letters {
            true => tcpdump(flags, path),
            false => dumpcap(ends, path, limits.file_bytes)?,
        };
        limits.file_bytes = None;
        rotation.stop_after = rotation.stop_after.into_iter().chain(stop.files).min();
        rotation.compress = flags.compress;
        if let Err(error) = rotation.validate() {
            return refuse(error.to_string());
        }
        limits.rotation = Some(rotation);
        Ok(limits)
    }
}

/// `-C`, `-G` and `-W`. A time makes the name; a size only adds a number.
fn tcpdump(flags: &Flags, path: &Path) -> Rotation {
    let (bytes, every, files) = (flags.file_size, flags.rotate_seconds, flags.file_count);
    let names = match every {
        Some(_) => Names::Timed,
        None => Names::Numbered,
    };
    Rotation {
        every,
        steady: true,
        bytes,
        keep_files: files.filter(|_| every.is_none()),
        stop_after: files.filter(|_| every.is_some()),
        ..Rotation::of(path, names)
    }
}

/// `-b`. As with dumpcap, `-a filesize` is then one of these criteria.
fn dumpcap(ends: Criteria, path: &Path, filesize: Option<u64>) -> Result<Rotation> {
    let bytes = ends.filesize.or(filesize);
    if let Some(all) = ends.total
        && bytes.is_none_or(|each| each > all / 2)
    {
        return refuse("-b total needs room for two files: give -b filesize, at most half of it");
    }
    Ok(Rotation {
        every: ends.duration,
        interval: ends.interval,
        bytes,
        packets: ends.packets,
        keep_files: ends.files,
        keep_bytes: ends.total,
        ..Rotation::of(path, Names::Dumpcap)
    })
}

/// Collects the criteria of a flag.
fn collected(flag: &str, given: &[Criterion]) -> Result<Criteria> {
    let mut all = Criteria::default();
    for criterion in given {
        let (key, was_given) = match *criterion {
            Criterion::Duration(time) => ("duration", all.duration.replace(time).is_some()),
            Criterion::Interval(time) => ("interval", all.interval.replace(time).is_some()),
            Criterion::FileSize(bytes) => ("filesize", all.filesize.replace(bytes).is_some()),
            Criterion::Packets(count) => ("packets", all.packets.replace(count).is_some()),
            Criterion::Files(count) => ("files", all.files.replace(count).is_some()),
            Criterion::Total(bytes) => ("total", all.total.replace(bytes).is_some()),
        };
        if was_given {
            return refuse(format!("{flag} {key} was given twice. Use one"));
        }
    }
    Ok(all)
}

/// The parsed request as text: `a new file every 60s or at 64 MB, the newest 24 are kept, compressed with zstd:3`.
pub fn described(rotation: &Rotation) -> String {
    let size = |bytes| format!("{}B", units::scaled(bytes as f64));
    let ends = [
        rotation.every.map(|every| format!("every {every:?}")),
        rotation
            .interval
            .map(|of| format!("at each multiple of {of:?}")),
        rotation.bytes.map(|bytes| format!("at {}", size(bytes))),
        rotation
            .packets
            .map(|packets| format!("at {packets} packets")),
    ];
    let ends: Vec<_> = ends.into_iter().flatten().collect();
    let more = [
        rotation
            .keep_files
            .map(|files| format!("the newest {files} are kept")),
        rotation
            .keep_bytes
            .map(|bytes| format!("{} are kept", size(bytes))),
        rotation
            .stop_after
            .map(|files| format!("stop after {files}")),
        rotation
            .compress
            .map(|level| format!("compressed with zstd:{level}")),
    ];
    let mut text = format!("a new file {}", ends.join(" or "));
    for more in more.into_iter().flatten() {
        text += &format!(", {more}");
    }
    text
}
