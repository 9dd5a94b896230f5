//! `-z CMD`: runs a program on each finished file.
//!
//! ```text
//!  capture                                    helper: no capability, started before the interfaces are opened
//!  session ─▶ names ─▶ thread ── NAME\0 ──▶ reads a name, runs CMD NAME, waits ──▶ ends? printed what?
//!                        └◀────────────────────────── one line of JSON ─────────────┘
//! ```
//! The names wait in memory, so a slow program delays nothing. One program runs at a time. The helper has a process group of its
//! own, which Ctrl-C does not reach, and only its three standard descriptors.

use crate::{
    output,
    privileges::{self, Identity},
    signals,
    usage::refuse,
};
use anyhow::{Context, Result};
use forebay::standard;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, Signal, kill_process_group},
};
use serde_json::{Value, json};
use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::PermissionsExt,
        process::{CommandExt, ExitStatusExt},
    },
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, ExitCode, ExitStatus, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{self, Receiver, Sender},
    },
    thread::JoinHandle,
    time::Duration,
};

/// The first argument of a helper.
const HELPER: &str = "--run-on-files";
/// Bytes and lines of a program's output that are reported.
const MAX_OUTPUT: usize = 4096;
const MAX_LINES: usize = 20;
/// Bytes that a pipe holds. More cannot have been printed before the program's end and still be unread.
const PIPE_CAPACITY: usize = 64 << 10;

/// The helper process, before the capture begins.
pub struct Helper {
    program: OsString,
    child: Child,
}

impl Helper {
    /// Starts the helper, which becomes `user` if there is one.
    ///
    /// # Errors
    /// There is no such program, or no process can be started.
    pub fn start(program: &OsStr, user: Option<&Identity>) -> Result<Helper> {
        let shown = program.display();
        if !is_program(program) {
            let advice = match program.as_bytes().contains(&b' ') {
                true => "It is the name of a program, without arguments: put them into a script",
                false => "Give the name of a program in PATH, or a path",
            };
            return refuse(format!("-z {shown}: there is no such program. {advice}"));
        }
        let failed = || format!("-z {shown}: the helper process cannot be started");
        standard::close_others_on_exec().with_context(failed)?;
        let mut helper = Command::new("/proc/self/exe");
        helper
            .arg0("forebay")
            .arg(HELPER)
            .arg(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // The programs are not the service.
            .env_remove("NOTIFY_SOCKET")
            .env_remove("WATCHDOG_USEC")
            .process_group(0);
        if let Some(user) = user {
            user.start_as(&mut helper);
        }
        Ok(Helper {
            program: program.to_owned(),
            child: helper.spawn().with_context(failed)?,
        })
    }

    /// The process group of the helper and of the programs that it runs.
    pub fn group(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Starts the thread that passes names to the helper. Privileges are dropped before.
    ///
    /// # Errors
    /// The system has no more threads.
    pub fn listen(mut self) -> Result<Runner> {
        let (names, waiting) = mpsc::channel();
        let (stdin, stdout) = (self.child.stdin.take(), self.child.stdout.take());
        let group = self.group();
        let gave_up = Arc::new(AtomicBool::new(false));
        let is_ended = gave_up.clone();
        let thread = std::thread::Builder::new().name("forebay-run".into());
        let thread = thread.spawn(move || match (stdin, stdout) {
            (Some(stdin), Some(stdout)) => {
                self.pass_on(&waiting, stdin, BufReader::new(stdout), &is_ended)
            }
            _ => Ran::default(),
        });
        Ok(Runner {
            names,
            group,
            gave_up,
            thread: thread.context("cannot start a thread for -z")?,
        })
    }

    fn pass_on(
        mut self,
        waiting: &Receiver<PathBuf>,
        mut stdin: ChildStdin,
        mut stdout: BufReader<ChildStdout>,
        gave_up: &AtomicBool,
    ) -> Ran {
        let mut ran = Ran::default();
        for path in waiting.iter() {
            if ran.is_dead {
                ran.left += 1;
                continue;
            }
            match ask(&mut stdin, &mut stdout, &path) {
                Ok(answer) => {
                    let is_fine = report(&self.program, &path, &answer);
                    ran.files += 1;
                    ran.failed += u64::from(!is_fine);
                }
                Err(_) => {
                    ran.is_dead = true;
                    ran.left += 1;
                    if !gave_up.load(Relaxed) {
                        let how = self.child.wait().map_or(String::new(), how_it_ended);
                        output::error(format_args!(
                            "-z {}: the helper process has ended ({how}): the program runs on no more files",
                            self.program.display()
                        ));
                    }
                }
            }
        }
        drop(stdin);
        let _ = self.child.wait();
        ran
    }
}

/// What became of the files.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ran {
    /// Files on which the program ran, and how often it failed.
    pub files: u64,
    pub failed: u64,
    /// Files on which it did not run.
    pub left: u64,
    is_dead: bool,
}

impl Ran {
    /// Whether the program ran on every file and never failed.
    pub fn is_fine(&self) -> bool {
        self.failed + self.left == 0
    }
}

/// The side of the capture while it runs.
pub struct Runner {
    names: Sender<PathBuf>,
    group: Pid,
    /// The user ended it. Relaxed: it publishes nothing but itself.
    gave_up: Arc<AtomicBool>,
    thread: JoinHandle<Ran>,
}

impl Runner {
    /// Queues a finished file.
    pub fn file(&self, path: &Path) {
        // It fails only if the thread is gone, which `finish` reports.
        let _ = self.names.send(path.into());
    }

    /// Queues the files that other threads finish.
    pub fn queue(&self) -> Sender<PathBuf> {
        self.names.clone()
    }

    /// Waits until the program ran on all files, or until the user interrupts that. `waits` is called if it takes a while.
    pub fn finish(self, waits: impl FnOnce()) -> Ran {
        let Runner {
            names,
            group,
            gave_up,
            thread,
        } = self;
        drop(names);
        let before = signals::stops();
        let mut waits = Some(waits);
        let mut steps = 0;
        while !thread.is_finished() {
            if signals::stops() > before {
                gave_up.store(true, Relaxed);
                let _ = kill_process_group(group, Signal::TERM);
            }
            steps += 1;
            if steps == 40
                && let Some(waits) = waits.take()
            {
                waits();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        thread.join().unwrap_or_default()
    }
}

fn is_program(program: &OsStr) -> bool {
    let is_executable = |path: &Path| {
        let metadata = fs::metadata(path);
        metadata.is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    };
    if program.as_bytes().contains(&b'/') {
        return is_executable(program.as_ref());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| is_executable(&folder.join(program)))
}

/// Runs the program on one file. Returns what became of it.
fn ask(stdin: &mut ChildStdin, stdout: &mut impl BufRead, path: &Path) -> io::Result<Value> {
    stdin.write_all(&[path.as_os_str().as_bytes(), b"\0"].concat())?;
    let mut line = String::new();
    stdout.read_line(&mut line)?;
    serde_json::from_str(&line).map_err(io::Error::other)
}

/// Prints what the program printed, and why it failed. Returns whether it did not.
fn report(program: &OsStr, path: &Path, answer: &Value) -> bool {
    let (program, path) = (program.display(), path.display());
    let printed = answer["output"].as_str().unwrap_or_default();
    for line in printed.lines().take(MAX_LINES) {
        output::note(format_args!("{program} {path}: {line}"));
    }
    if let Some(failure) = answer["failure"].as_str() {
        output::error(format_args!("-z {program} {path}: {failure}"));
    }
    answer["failure"].is_null()
}

fn how_it_ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no status".into(),
    }
}

/// The whole life of a helper, if this process was started as one.
pub fn helper() -> Option<ExitCode> {
    let mut words = env::args_os().skip(1);
    if words.next()? != HELPER {
        return None;
    }
    let program = words.next()?;
    // If it is denied, the programs compete with the capture.
    let _ = rustix::process::setpriority_process(None, 19);
    let is_ready = privileges::reject_setuid().and_then(|()| privileges::drop_all());
    let is_done = is_ready.is_ok() && serve(&program).is_ok();
    Some(ExitCode::from(u8::from(!is_done)))
}

fn serve(program: &OsStr) -> io::Result<()> {
    let mut names = BufReader::new(io::stdin());
    let mut answers = io::stdout();
    loop {
        let mut name = Vec::new();
        if names.read_until(0, &mut name)? == 0 {
            return Ok(());
        }
        name.pop();
        // A program would take it for a flag.
        if name.first() == Some(&b'-') {
            name.splice(..0, *b"./");
        }
        let answer = match run(program, &OsString::from_vec(name)) {
            Ok((status, printed)) => {
                let failure = (!status.success()).then(|| how_it_ended(status));
                json!({ "failure": failure, "output": String::from_utf8_lossy(&printed) })
            }
            Err(error) => json!({ "failure": format!("cannot be run: {error}") }),
        };
        writeln!(answers, "{answer}")?;
        answers.flush()?;
    }
}

/// Runs the program, and returns the beginning of what it printed.
fn run(program: &OsStr, path: &OsStr) -> io::Result<(ExitStatus, Vec<u8>)> {
    let (mut printed, theirs) = io::pipe()?;
    let mut command = Command::new(program);
    command
        .arg(path)
        .stdin(Stdio::null())
        .stdout(theirs.try_clone()?)
        .stderr(theirs);
    let mut child = command.spawn()?;
    // It holds the writing ends.
    drop(command);
    let mut begin = Vec::new();
    let mut drained = 0;
    let mut chunk = [0; MAX_OUTPUT];
    loop {
        // Checked first, so that everything printed before the end is read. A program that it started may keep the pipe open,
        // and print to it without end.
        let ended = child.try_wait()?;
        let wait = Timespec {
            tv_sec: 0,
            tv_nsec: if ended.is_some() { 0 } else { 20_000_000 },
        };
        let is_ready = poll(&mut [PollFd::new(&printed, PollFlags::IN)], Some(&wait))? > 0;
        let read = match is_ready {
            true => printed.read(&mut chunk)?,
            false => 0,
        };
        let room = MAX_OUTPUT - begin.len();
        begin.extend(&chunk[..read.min(room)]);
        match ended {
            Some(status) if read == 0 || drained + read >= PIPE_CAPACITY => {
                return Ok((status, begin));
            }
            Some(_) => drained += read,
            None if is_ready && read == 0 => return Ok((child.wait()?, begin)),
            _ => {}
        }
    }
}
