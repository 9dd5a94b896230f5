//! Other processes, rivals and ourselves in a role: each with a time limit, its processor time, and what it said.
//!
//! ```text
//!   start ─▶ on the processors it is given ─▶ wait: exit code, processor time, what it said
//!               └─ it lasts too long, we are through with it, or we die: asked to end (SIGTERM); if it does not, and we live: killed
//! ```
//! It is asked first because shared memory and semaphores (`buffer` has them) outlive a killed program. Its output goes to a file in
//! memory, so that it need not be read while the program runs, and no full pipe can block it.
#![allow(unsafe_code)]

use super::processors::{keep_on, processors};
use anyhow::{Context, Result, bail, ensure};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{MemfdFlags, memfd_create},
    process::{
        Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal, set_parent_process_death_signal,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    env,
    fs::{self, File},
    io,
    os::{
        fd::OwnedFd,
        unix::{
            fs::FileExt,
            process::{CommandExt, ExitStatusExt},
        },
    },
    path::Path,
    process::{Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

/// The argument that makes this program play the role that follows.
pub const ROLE: &str = "--role";

/// Where programs are looked for that only administrators have in their path.
const MORE_FOLDERS: &str = ":/usr/sbin:/sbin";

/// This program, as a process that plays `role` of a room.
pub fn in_role(room: &str, role: &impl Serialize) -> Result<Command> {
    let mut command = Command::new(env::current_exe().context("looking for this program")?);
    command.args([ROLE, room, &serde_json::to_string(role)?]);
    Ok(command)
}

/// Prints a role's result for the program that waits for it.
pub fn tell(what: &impl Serialize) -> Result<()> {
    eprintln!("{}", serde_json::to_string(what)?);
    Ok(())
}

/// A program of the system's.
pub fn program(name: &str, debian: &str) -> Result<Command> {
    let folders = env::var("PATH").unwrap_or_default() + MORE_FOLDERS;
    let is_there = |folder| Path::new(folder).join(name).is_file();
    ensure!(folders.split(':').any(is_there), "needs Debian's {debian}");
    let mut command = Command::new(name);
    command.env("PATH", folders);
    Ok(command)
}

/// What a program calls itself, up to its version; `None` where it does not say.
pub fn version(mut program: Command) -> Option<String> {
    program.arg("--version").stdin(Stdio::null());
    let running = Running::start("a program", program, None, &processors().ok()?, Fate::Dies);
    let running = running.ok()?;
    running.ends_within(Duration::from_secs(10)).ok()?; // netsniff-ng does so with an error
    let said = running.said().ok()?;
    let has_digit = |word: &str| word.contains(|c: char| c.is_ascii_digit());
    let words: Vec<_> = said.lines().next()?.split_whitespace().collect();
    let version = words.iter().position(|word| has_digit(word))?;
    Some(words[..=version].join(" "))
}

/// What becomes of a process when we end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is asked to end, as `kill` does (SIGTERM).
    Dies,
    /// It sees its standard input end, has something to do then, and ends; our terminal's signals are not for it.
    CleansUp,
}

/// A process that runs; when dropped it is asked to end, and killed if it does not.
#[derive(Debug)]
pub struct Running {
    name: String,
    pid: Pid,
    ends: OwnedFd,
    stdin: Option<std::process::ChildStdin>,
    said: File,
    fate: Fate,
    is_over: bool,
}

/// How long a process may clean up that we are through with.
const CLEANING: Duration = Duration::from_secs(10);

/// How long one may take to end that is asked to.
const ENDING: Duration = Duration::from_secs(2);

/// A process that ended as it should.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Processor time of all its threads, and of the processes that it waited for.
    pub cpu: Duration,
    /// Its standard output, if it was not sent elsewhere, and its standard error.
    pub said: String,
}

impl Ended {
    /// Its last result.
    pub fn result<T: DeserializeOwned>(&self) -> Result<T> {
        let last = self.said.lines().last().unwrap_or_default();
        serde_json::from_str(last).with_context(|| format!("a process said {:?}", self.said))
    }
}

impl Running {
    /// Starts it on `cpus`. Its standard input is what `command` says; a pipe ends when we say so. Its standard output goes to
    /// `stdout`, or else to what it said.
    pub fn start(
        name: &str,
        mut command: Command,
        stdout: Option<OwnedFd>,
        cpus: &[usize],
        fate: Fate,
    ) -> Result<Running> {
        let starting = || format!("starting {name}");
        let said = memfd_create(c"said", MemfdFlags::CLOEXEC).with_context(starting)?;
        let said = File::from(said);
        let copy = || said.try_clone().map(Stdio::from).with_context(starting);
        command.stderr(copy()?);
        command.stdout(match stdout {
            Some(stdout) => stdout.into(),
            None => copy()?,
        });
        let cpus = cpus.to_vec();
        let prepare = move || {
            match fate {
                Fate::Dies => set_parent_process_death_signal(Some(Signal::TERM))?,
                Fate::CleansUp => {}
            }
            keep_on(&cpus).map_err(io::Error::other)
        };
        // SAFETY: between fork and exec it makes two system calls; it allocates only for an error that ends the child.
        unsafe { command.pre_exec(prepare) };
        if fate == Fate::CleansUp {
            command.process_group(0);
        }
        let mut child = command.spawn().with_context(starting)?;
        let pid = Pid::from_child(&child);
        let ends = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(ends) => ends,
            Err(error) => {
                let _ = child.kill().and_then(|()| child.wait()); // the first error is reported
                return Err(error).with_context(starting);
            }
        };
        Ok(Running {
            name: name.into(),
            pid,
            ends,
            stdin: child.stdin.take(),
            said,
            fate,
            is_over: false,
        })
    }

    /// Its number.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Asks it to end, as Ctrl-C does.
    pub fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    /// Ends its standard input.
    pub fn end_input(&mut self) {
        self.stdin = None;
    }

    /// Nanoseconds that all its threads, also those that ended, were on a processor so far.
    pub fn cpu_ns(&self) -> Result<u64> {
        let mut clock = 0;
        // SAFETY: the clock's number is ours.
        let error = unsafe { libc::clock_getcpuclockid(self.pid.as_raw_pid(), &raw mut clock) };
        ensure!(
            error == 0,
            "the processor time of {}: {}",
            self.name,
            io::Error::from_raw_os_error(error)
        );
        // SAFETY: a plain C structure, for which zeros are values.
        let mut time: libc::timespec = unsafe { std::mem::zeroed() };
        // SAFETY: the time is ours.
        let answer = unsafe { libc::clock_gettime(clock, &raw mut time) };
        ensure!(
            answer == 0,
            "the processor time of {}: {}",
            self.name,
            io::Error::last_os_error()
        );
        Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }

    /// Whether one of its threads runs, would run if it had a processor, or waits for a disk.
    pub fn has_work(&self) -> Result<bool> {
        let threads = format!("/proc/{}/task", self.pid.as_raw_pid());
        for thread in fs::read_dir(&threads).with_context(|| format!("reading {threads}"))? {
            // A thread may have ended since.
            let state = fs::read_to_string(thread?.path().join("stat")).unwrap_or_default();
            // The state follows the program's name, which is in parentheses and may have any character.
            let state = state.rsplit_once(") ").map_or("", |(_, state)| state);
            if state.starts_with(['R', 'D']) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Comes back when it has said `word`.
    pub fn hear(&mut self, word: &str, limit: Duration) -> Result<()> {
        let begun = Instant::now();
        while !self.said()?.contains(word) {
            if self.ends_within(Duration::from_millis(2))? {
                let (status, _) = self.reap()?;
                bail!("{} ended ({status}){}", self.name, self.quote()?);
            }
            if begun.elapsed() > limit {
                bail!(
                    "{} did not say {word:?} within {limit:?}{}",
                    self.name,
                    self.quote()?
                );
            }
        }
        Ok(())
    }

    /// Waits for its end, and brings it about when it does not come within `limit`.
    pub fn wait(mut self, limit: Duration) -> Result<Ended> {
        let is_over = self.ends_within(limit)?;
        if !is_over {
            self.kill();
        }
        let (status, cpu) = self.reap()?;
        let said = self.said()?;
        if !is_over {
            bail!(
                "{} lasted longer than {limit:?}{}",
                self.name,
                self.quote()?
            );
        }
        ensure!(
            status.success(),
            "{} failed ({status}){}",
            self.name,
            self.quote()?
        );
        Ok(Ended { cpu, said })
    }

    fn ends_within(&self, limit: Duration) -> Result<bool> {
        let begun = Instant::now();
        loop {
            let left = limit.saturating_sub(begun.elapsed());
            let left = Timespec::try_from(left).context("a limit beyond all time")?;
            let mut ends = [PollFd::new(&self.ends, PollFlags::IN)];
            match poll(&mut ends, Some(&left)) {
                Err(rustix::io::Errno::INTR) => {}
                ended => return Ok(ended.context("waiting for a process")? > 0),
            }
        }
    }

    /// Asks it to end, and kills it when it does not.
    fn kill(&self) {
        self.signal(Signal::TERM);
        if !self.ends_within(ENDING).unwrap_or(false) {
            self.signal(Signal::KILL);
        }
    }

    fn signal(&self, signal: Signal) {
        let _ = pidfd_send_signal(&self.ends, signal); // if it has ended, that is what was wanted
    }

    /// Waits for it, once; how it ended, and its processor time.
    fn reap(&mut self) -> Result<(ExitStatus, Duration)> {
        let mut status = 0;
        // SAFETY: a plain C structure, for which zeros are values.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        let pid = self.pid.as_raw_pid();
        // SAFETY: our child, not waited for yet; status and usage are ours.
        let ended = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
        ensure!(
            ended == pid,
            "{}: {}",
            self.name,
            io::Error::last_os_error()
        );
        self.is_over = true;
        let of =
            |time: libc::timeval| Duration::new(time.tv_sec as u64, 1000 * time.tv_usec as u32);
        Ok((
            ExitStatus::from_raw(status),
            of(usage.ru_utime) + of(usage.ru_stime),
        ))
    }

    /// What it has said so far.
    fn said(&self) -> Result<String> {
        let mut said = vec![0; self.said.metadata()?.len() as usize];
        self.said.read_exact_at(&mut said, 0)?;
        Ok(String::from_utf8_lossy(&said).into_owned())
    }

    /// The end of that, for an error.
    fn quote(&self) -> Result<String> {
        let said = self.said()?;
        let lines: Vec<_> = said
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        let last = &lines[lines.len().saturating_sub(2)..];
        Ok(match last {
            [] => String::new(),
            last => format!(": {}", last.join(" / ")),
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        self.end_input();
        let has_ended = self.fate == Fate::CleansUp && self.ends_within(CLEANING).unwrap_or(false);
        if !has_ended {
            self.kill();
        }
        // Whatever it ended with is of no interest any more.
        let _ = self.reap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(text: &str) -> Running {
        let mut command = program("sh", "dash").unwrap();
        command.args(["-c", text]).stdin(Stdio::null());
        Running::start("a shell", command, None, &processors().unwrap(), Fate::Dies).unwrap()
    }

    #[test]
    fn a_process_is_heard_and_its_time_is_known() {
        let mut shell =
            shell("echo begun; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo 7 >&2");
        shell.hear("begun", LONG).unwrap();
        let ended = shell.wait(LONG).unwrap();
        assert_eq!(ended.said, "begun\n7\n");
        assert_eq!(ended.result::<u64>().unwrap(), 7);
        assert!(ended.cpu > Duration::ZERO);
    }

    #[test]
    fn a_process_has_work_while_it_computes_and_none_while_it_waits() {
        let begun = Instant::now();
        let until = |running: &Running, has_work| {
            while running.has_work().unwrap() != has_work {
                assert!(begun.elapsed() < LONG);
            }
        };
        until(&shell("while :; do :; done"), true);
        until(&shell("exec sleep 60"), false);
    }

    #[test]
    fn a_process_that_fails_says_why() {
        let error = shell("echo no disk >&2; exit 3").wait(LONG).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("exit status: 3") && error.ends_with(": no disk"),
            "{error}"
        );
        let mut shell = shell("exit 4");
        let error = shell.hear("ready", LONG).unwrap_err().to_string();
        assert!(error.contains("exit status: 4"), "{error}");
    }

    #[test]
    fn a_process_that_lasts_too_long_is_killed_and_so_is_one_that_is_dropped() {
        let is_there = |pid: Pid| Path::new(&format!("/proc/{}", pid.as_raw_pid())).exists();
        let running = shell("exec sleep 60");
        let pid = running.pid();
        let error = running.wait(Duration::from_millis(50)).unwrap_err();
        assert!(error.to_string().contains("lasted longer"), "{error}");
        assert!(!is_there(pid));
        let running = shell("exec sleep 60");
        let pid = running.pid();
        assert!(is_there(pid));
        drop(running);
        assert!(!is_there(pid));
    }

    #[test]
    fn a_process_may_clean_up_and_is_killed_if_it_does_not_end() {
        let mut polite =
            shell("trap 'echo removed; exit 0' TERM; echo ready; while :; do sleep 0.01; done");
        polite.hear("ready", LONG).unwrap();
        polite.kill();
        polite.hear("removed", LONG).unwrap();
        let mut stubborn = shell("trap '' TERM; echo ready; while :; do sleep 0.01; done");
        stubborn.hear("ready", LONG).unwrap();
        let error = stubborn.wait(Duration::ZERO).unwrap_err().to_string();
        assert!(error.contains("lasted longer"), "{error}");
    }

    #[test]
    fn a_program_that_is_not_there_names_its_package() {
        let error = program("no-such-program-anywhere", "such-a-package").unwrap_err();
        assert_eq!(error.to_string(), "needs Debian's such-a-package");
        let version = version(program("cat", "coreutils").unwrap()).unwrap();
        assert!(version.starts_with("cat "), "{version}");
    }
}
