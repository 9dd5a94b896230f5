//! `pipe -d PID[:FD]`: how far a running process is in its files. Nothing is moved, and the process notices nothing.
//!
//! ```text
//!  /proc/PID/fdinfo/FD  position, and whether it is read    ┐
//!  /proc/PID/fd/FD      name, size                          ├─▶ a line for each file, until the process ends (pidfd)
//! ```

use super::screen;
use crate::{
    args::{Input, Pipe as Flags},
    output::{self, Fields, Layout, Stream, TimeLeft, clock, plain},
    sandbox::{self, Needs},
    signals,
    usage::refuse,
};
use anyhow::{Context, Result, bail};
use forebay::sync::Signal;
use forebay_io::pipe::Progress;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{AtFlags, Dir, FileType, Mode, OFlags, major, minor, openat, readlinkat, statat},
    io::Errno,
    process::{Pid, PidfdFlags, pidfd_open},
};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{IsTerminal, Read, stderr},
    os::fd::{AsFd, OwnedFd},
    process::ExitCode,
    sync::Arc,
    time::Instant,
};

/// Letters of a file's name in its line.
const NAME: usize = 20;

/// Displays until the process or its descriptor `fd` ends, or the user interrupts.
///
/// # Errors
/// There is no such process or descriptor, or no right to look at it.
pub fn run(flags: &Flags, pid: i32, fd: Option<i32>) -> Result<ExitCode> {
    let mut interval = flags.interval;
    for input in &flags.inputs {
        match input {
            Input::Interval(time) => interval = *time,
            Input::Place(_) => return refuse("-d moves no bytes: leave -i out"),
        }
    }
    let process = Process::open(pid)?;
    let mut watch = Watch {
        flags,
        only: fd,
        began: Instant::now(),
        files: BTreeMap::new(),
    };
    if !watch.look(&process)? {
        bail!(
            "process {pid} has no such descriptor. Its descriptors are listed by: ls -l /proc/{pid}/fd"
        );
    }
    sandbox::enter(
        &flags.sandbox,
        &Needs {
            processes: true,
            ..Needs::default()
        },
    );
    let interrupted = Arc::new(Signal::new()?);
    let interrupt = interrupted.clone();
    signals::listen(&[], move |_| {
        interrupt.raise();
    })?;
    output::start(flags.force)?;
    let is_shown = !flags.quiet && (flags.numeric || flags.force || stderr().is_terminal());
    let pause = Timespec::try_from(interval).unwrap_or(Timespec {
        tv_sec: i64::MAX,
        tv_nsec: 0,
    });
    let ended = loop {
        if !watch.look(&process)? {
            break Some(match fd {
                Some(fd) => format!("descriptor {fd} of process {pid} was closed"),
                None => format!("process {pid} ended"),
            });
        }
        if is_shown {
            watch.show(pid);
        }
        let ends = [process.ends.as_fd(), interrupted.as_fd()];
        let mut ends = ends.map(|it| PollFd::from_borrowed_fd(it, PollFlags::IN));
        let _ = poll(&mut ends, Some(&pause));
        let [process_ended, was_interrupted] = ends.map(|it| !it.revents().is_empty());
        if was_interrupted {
            break None;
        }
        if process_ended {
            break Some(format!("process {pid} ended"));
        }
    };
    output::keep();
    if let Some(ended) = ended.filter(|_| is_shown && !flags.numeric) {
        output::note(format_args!(
            "{ended}, after {}",
            clock(watch.began.elapsed())
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// A process, which stays the same one: its number may be given to another when it has ended.
struct Process {
    pid: i32,
    folder: OwnedFd,
    ends: OwnedFd,
}

/// A descriptor as it is now.
struct Open {
    identity: (u64, u64),
    path: String,
    position: u64,
    /// Of a file that is only read: one that is written grows.
    size: Option<u64>,
}

impl Process {
    fn open(pid: i32) -> Result<Process> {
        let missing = || format!("-d {pid}: there is no such process");
        let number = Pid::from_raw(pid).with_context(missing)?;
        let ends = pidfd_open(number, PidfdFlags::empty()).with_context(missing)?;
        let folder = File::open(format!("/proc/{pid}")).with_context(missing)?;
        Ok(Process {
            pid,
            folder: folder.into(),
            ends,
        })
    }

    /// # Errors
    /// There is no right to look at the process.
    fn may_look<T>(&self, found: rustix::io::Result<T>) -> Result<Option<T>> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(Errno::ACCESS | Errno::PERM) => bail!(
                "-d {}: no permission to look at its files. Run forebay as the user of that process, or as root",
                self.pid
            ),
            // Closed, or ended.
            Err(_) => Ok(None),
        }
    }

    fn file(&self, name: &str) -> Result<Option<File>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let opened = self.may_look(openat(&self.folder, name, flags, Mode::empty()))?;
        Ok(opened.map(File::from))
    }

    /// The numbers of its descriptors; none if it has ended.
    fn descriptors(&self) -> Result<Vec<i32>> {
        let Some(folder) = self.file("fd")? else {
            return Ok(Vec::new());
        };
        let entries = Dir::read_from(&folder)?.filter_map(|entry| entry.ok());
        let numbers = entries.filter_map(|it| it.file_name().to_str().ok()?.parse().ok());
        Ok(numbers.collect())
    }

    /// A descriptor; `None` if it is closed, and an inner `None` if it has no position, such as a pipe.
    fn look(&self, fd: i32) -> Result<Option<Option<Open>>> {
        let link = format!("fd/{fd}");
        let stat = self.may_look(statat(&self.folder, &*link, AtFlags::empty()))?;
        let name = self.may_look(readlinkat(&self.folder, &*link, Vec::new()))?;
        let info = self.file(&format!("fdinfo/{fd}"))?;
        let (Some(stat), Some(name), Some(info)) = (stat, name, info) else {
            return Ok(None);
        };
        let mut text = String::new();
        if info.take(1 << 16).read_to_string(&mut text).is_err() {
            return Ok(None);
        }
        let value = |key| {
            text.lines()
                .find_map(|line| line.strip_prefix(key))
                .map(str::trim)
        };
        let position = value("pos:").and_then(|it| it.parse().ok()).unwrap_or(0);
        let mode = value("flags:").and_then(|it| u32::from_str_radix(it, 8).ok());
        let size = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => u64::try_from(stat.st_size).ok(),
            FileType::BlockDevice => size_of_device(stat.st_rdev),
            _ => return Ok(Some(None)),
        };
        let name = name.to_string_lossy();
        let name = name.strip_suffix(" (deleted)").unwrap_or(&name);
        let is_read = mode
            .is_some_and(|mode| OFlags::from_bits_retain(mode) & OFlags::RWMODE == OFlags::RDONLY);
        Ok(Some(Some(Open {
            identity: (stat.st_dev, stat.st_ino),
            path: name.to_owned(),
            position,
            size: size.filter(|_| is_read),
        })))
    }
}

impl Open {
    /// Whether it is a file of the kernel or in memory, or the same one under another number. `seen` are those before it.
    fn is_noise(&self, seen: &mut Vec<((u64, u64), u64)>) -> bool {
        let place = (self.identity, self.position);
        let is_known = seen.contains(&place);
        seen.push(place);
        let kinds = ["/proc/", "/sys/", "/memfd:"];
        is_known || kinds.iter().any(|it| self.path.starts_with(it))
    }

    fn name(&self) -> String {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        let mut letters: Vec<_> = plain(name).chars().collect();
        if letters.len() > NAME {
            letters.splice(NAME / 2..letters.len() - NAME / 2 + 1, ['…']);
        }
        letters.into_iter().collect()
    }
}

fn size_of_device(device: u64) -> Option<u64> {
    let path = format!("/sys/dev/block/{}:{}/size", major(device), minor(device));
    let sectors: u64 = std::fs::read_to_string(path).ok()?.trim().parse().ok()?;
    sectors.checked_mul(512)
}

struct Watch<'a> {
    flags: &'a Flags,
    only: Option<i32>,
    began: Instant,
    files: BTreeMap<i32, Watched>,
}

struct Watched {
    identity: (u64, u64),
    layout: Layout,
    since: Instant,
    position: u64,
    looked: Instant,
    rate: f64,
    ticks: u64,
}

impl Watch<'_> {
    /// Looks at the files; false if the descriptor to watch is closed.
    fn look(&mut self, process: &Process) -> Result<bool> {
        let fds = match self.only {
            Some(fd) => vec![fd],
            None => process.descriptors()?,
        };
        let mut files = BTreeMap::new();
        let mut seen = Vec::new();
        for fd in fds {
            match process.look(fd)? {
                Some(Some(open)) if self.only.is_none() && open.is_noise(&mut seen) => {}
                Some(Some(open)) => {
                    let before = self
                        .files
                        .remove(&fd)
                        .filter(|it| it.identity == open.identity);
                    let mut file = before.unwrap_or_else(|| self.found(fd, &open));
                    file.moved(&open);
                    files.insert(fd, file);
                }
                Some(None) if self.only.is_some() => bail!(
                    "descriptor {fd} of process {} is no file, so its position is unknown",
                    process.pid
                ),
                _ => {}
            }
        }
        self.files = files;
        Ok(self.only.is_none() || !self.files.is_empty())
    }

    fn found(&self, fd: i32, open: &Open) -> Watched {
        let label = format!("{fd}:{}", open.name());
        let before = self.flags.name.iter().map(|name| format!("{name} "));
        let size = open.size.or(self.flags.size);
        let share = open.position as f64 / size.unwrap_or(0).max(1) as f64;
        let now = Instant::now();
        Watched {
            identity: open.identity,
            layout: Layout {
                fields: Fields {
                    buffer: false,
                    ..screen::fields(self.flags)
                },
                name: Some(before.chain([label]).collect()),
                already: open.position,
                left: TimeLeft::beginning_at(share),
                size,
                ..Layout::default()
            },
            since: now,
            position: open.position,
            looked: now,
            rate: 0.0,
            ticks: 0,
        }
    }

    fn show(&self, pid: i32) {
        let flags = self.flags;
        if flags.numeric {
            for (fd, file) in &self.files {
                let numbers = file.layout.numbers(&file.progress());
                let text = match self.only {
                    Some(_) => numbers,
                    None => format!("{fd} {numbers}"),
                };
                let _ = output::report(Stream::Error, &text);
            }
            return;
        }
        output::show(|columns| {
            let rows = output::rows_of_stderr();
            let lines = self
                .files
                .values()
                .map(|file| file.layout.line(&file.progress(), file.ticks, columns));
            let mut lines: Vec<_> = lines.collect();
            if lines.is_empty() {
                lines.push(format!("process {pid} has no file open"));
            }
            if lines.len() > rows {
                let more = lines.len() - (rows - 1);
                lines.truncate(rows - 1);
                lines.push(format!("and {more} more"));
            }
            lines.join("\n")
        });
    }
}

impl Watched {
    fn moved(&mut self, open: &Open) {
        let now = Instant::now();
        let seconds = now.duration_since(self.looked).as_secs_f64();
        if seconds > 0.0 {
            self.rate = open.position.saturating_sub(self.position) as f64 / seconds;
        }
        self.ticks += u64::from(open.position != self.position);
        self.layout.size = self
            .layout
            .size
            .map(|size| size.max(open.size.unwrap_or(0)));
        (self.position, self.looked) = (open.position, now);
    }

    fn progress(&self) -> Progress {
        Progress {
            elapsed: self.looked - self.since,
            bytes_written: self.position,
            bytes_per_second: self.rate,
            ..Progress::default()
        }
    }
}
