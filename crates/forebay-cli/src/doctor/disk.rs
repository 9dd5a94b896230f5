//! The disk that captures go to: room, direct writes, and speed.

use super::finding::{Finding, Findings, State};
use forebay_net::units;
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};
use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::Path,
    time::{Duration, Instant},
};

/// Bytes of a write, and alignment of its memory.
const PIECE: usize = 4 << 20;
const ALIGNMENT: usize = 4096;
/// The test ends at this size, or after this time.
const MAX_BYTES: u64 = 256 << 20;
const MAX_TIME: Duration = Duration::from_secs(1);
/// Less room than this does not hold a capture.
const FEW_ROOM: u64 = 64 << 20;
/// A disk slower than 100 Mb/s cannot take what any network brings.
const SLOW: f64 = 12.5e6;

pub fn check(folder: &Path) -> Vec<Finding> {
    let mut found = Findings::about(format!("disk of {}", folder.display()));
    let room = match rustix::fs::statvfs(folder) {
        Ok(about) => about.f_bavail * about.f_frsize,
        Err(error) => {
            found.put(State::Loss, format!("cannot be examined: {error}"), None);
            return found.list;
        }
    };
    let text = format!("{}B are free", units::scaled(room as f64));
    found.put(State::loss_if(room < FEW_ROOM), text, None);
    // A full disk is not to be made fuller.
    if room < FEW_ROOM {
        return found.list;
    }
    match measure(folder, MAX_BYTES.min(room / 4)) {
        Err(error) if has_no_unnamed_files(&error) => {
            found.note("its speed is not measured: this file system has no files without a name");
        }
        Ok((rate, is_direct)) => {
            let how = match is_direct {
                true => "past the page cache",
                false => "through the page cache: this file system has no direct writes",
            };
            let text = format!(
                "writes {}B/s, {how}; that is {}b/s of traffic",
                units::scaled(rate),
                units::scaled(rate * 8.0)
            );
            found.put(State::loss_if(rate < SLOW), text, None);
        }
        Err(error) => found.put(State::Loss, format!("cannot be written: {error}"), None),
    }
    found.list
}

fn has_no_unnamed_files(error: &io::Error) -> bool {
    let errors = [Errno::OPNOTSUPP, Errno::ISDIR, Errno::NOENT];
    errors
        .iter()
        .any(|it| error.raw_os_error() == Some(it.raw_os_error()))
}

/// Writes to a file without a name, which is gone when it is closed. Returns bytes per second, and whether the page cache was
/// bypassed.
fn measure(folder: &Path, bytes: u64) -> io::Result<(f64, bool)> {
    let open = |more: OFlags| {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC | more;
        rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR)
    };
    let (fd, is_direct) = match open(OFlags::DIRECT) {
        Ok(fd) => (fd, true),
        Err(Errno::INVAL) => (open(OFlags::empty())?, false),
        Err(error) => return Err(error.into()),
    };
    let file = File::from(fd);
    // Not zeros, which a file system may leave out.
    let memory: Vec<u8> = (0..PIECE + ALIGNMENT)
        .map(|at| ((at * 167) >> 3) as u8)
        .collect();
    let skip = memory.as_ptr().align_offset(ALIGNMENT);
    let piece = &memory[skip..skip + PIECE];
    let began = Instant::now();
    let mut at = 0;
    while at + PIECE as u64 <= bytes.max(PIECE as u64) && began.elapsed() < MAX_TIME {
        file.write_all_at(piece, at)?;
        at += PIECE as u64;
    }
    file.sync_data()?;
    Ok((at as f64 / began.elapsed().as_secs_f64(), is_direct))
}
