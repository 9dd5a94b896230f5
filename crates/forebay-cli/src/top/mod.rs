//! `forebay top`: rates, losses and the busiest flows, hosts, ports and protocols, on a screen that is updated every second.
//!
//! ```text
//!  session's thread: each packet ─▶ tables     every interval: counts and a copy of the tables ─▶ latest update
//!  main thread:      keys, latest update ─▶ state ─▶ screen
//! ```
//! No packet waits for the terminal. The main thread skips a frame if the terminal accepts no output. If the terminal stops in
//! the middle of a frame, the main thread blocks, and a second stop signal ends the process.

mod attached;
mod once;
mod screen;
mod sketch;
mod state;
mod tables;
#[cfg(test)]
mod tests;

use crate::{
    args::Top as Flags,
    output, privileges,
    sandbox::{self, Needs},
    shares,
    signals::{self, Asked},
    usage::{self, Usage, refuse},
};
use anyhow::{Context, Result};
use attached::{Attached, Status, follow, of_capture, without_tables};
use forebay_net::{
    open::{self, Name, Opening, Options},
    session::{Control, Event, Output, Progress, Session, SessionConfig, Summary},
};
use ratatui::{
    DefaultTerminal,
    crossterm::{
        event::{self, Event as Input, KeyEventKind},
        terminal::{disable_raw_mode, is_raw_mode_enabled},
    },
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{retry_on_intr, write},
};
use state::{KindOfSource, State};
use std::{
    io::{IsTerminal, stderr, stdout},
    mem::ManuallyDrop,
    os::fd::AsFd,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};
use tables::{Snapshot, Tables};

/// Bytes of a packet that are looked at: all headers fit in.
const SNAPLEN: u32 = 256;
/// How often the fill level of the ring is checked.
const CHECK_EVERY: Duration = Duration::from_millis(250);
/// The longest wait for a key before the screen looks for new counts.
const KEY_WAIT: Duration = Duration::from_millis(100);
/// The longest wait for a terminal that accepts no output.
const TERMINAL_WAIT: Duration = Duration::from_millis(100);
/// Leaves the alternate screen and shows the cursor.
const LEAVE_SCREEN: &[u8] = b"\x1b[?1049l\x1b[?25h";

/// What the session's thread reports.
#[derive(Default)]
struct Update {
    status: Status,
    snapshot: Snapshot,
    /// No more packets arrive.
    ended: Option<String>,
}

/// The latest update. A newer one replaces it, so that memory stays fixed while nothing takes them.
struct Latest<T>(Mutex<Option<T>>);

impl<T> Latest<T> {
    fn new() -> Self {
        Latest(Mutex::new(None))
    }

    fn set(&self, update: T) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(update);
    }

    fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

pub fn run(flags: &Flags) -> Result<ExitCode> {
    let files = flags.read.iter().cloned().map(Name::File);
    let mut names: Vec<_> = flags.interfaces.iter().cloned().chain(files).collect();
    if names.is_empty() && flags.control.is_none() {
        return refuse(
            "no interface to watch. Name one with -i, such as -i eth0 or -i sim, a file with -r, or a capture with --control",
        );
    }
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    if !flags.once && (!stdout().is_terminal() || is_dumb) {
        return refuse(
            "standard output is no terminal to draw on. Use --once to print the tables as text, or --once --json",
        );
    }
    let filter = usage::filter(&flags.expression)?;
    let attached = flags.control.as_deref().map(Attached::new).transpose()?;
    if let Some(attached) = &attached {
        names.extend(attached.share.clone());
    }
    let needs = Needs {
        terminal: !flags.once,
        ..Needs::default()
    };
    let needs = needs.reading(&flags.read);
    if names.is_empty() {
        sandbox::enter(&flags.sandbox, &needs);
        return without_tables(flags, attached);
    }
    let clock = open::clock(&names).map_err(|error| Usage(error.to_string()))?;
    let options = Options {
        filter: filter.clone(),
        promiscuous: !flags.not_promiscuous,
        snaplen: SNAPLEN,
        take_traffic: flags.take_traffic,
        ..Options::default()
    };
    let begun = open::begin(&names, &options, &clock)?;
    privileges::shed(None)?;
    shares::look_up_owners(&begun);
    sandbox::enter(&flags.sandbox, &needs);
    let ports = begun.into_iter().map(Opening::finish);
    let ports = ports.collect::<forebay::Result<Vec<_>>>()?;
    let is_file = !flags.read.is_empty();
    let config = SessionConfig {
        snaplen: SNAPLEN,
        filter,
        stop_after: (flags.once && !is_file).then_some(flags.interval),
        progress_every: CHECK_EVERY.min(flags.interval),
        ..SessionConfig::default()
    };
    let control = Control::new()?;
    let session = Session::open(ports, Output::Count, config, clock, control.clone())?;
    if let Some(warning) = session.warning() {
        output::warning(warning);
    }
    let sources = session.info().0;
    let taps = sources.iter().filter(|source| source.got.overruns).count();
    let kind_of_source = match taps {
        0 => KindOfSource::Interfaces,
        _ if taps == sources.len() => KindOfSource::Taps,
        _ => KindOfSource::Both,
    };
    let sources: Vec<_> = sources.into_iter().map(|it| it.name).collect();
    let state = match &attached {
        Some(attached) => of_capture(attached),
        None => State {
            sources: output::plain(&sources.join(", ")).into(),
            is_file,
            kind_of_source,
            ..State::default()
        },
    };
    let heard = control.clone();
    let has_screen = !flags.once;
    signals::listen(&[], move |asked| match asked {
        Asked::Stop if has_screen && signals::stops() > 1 => end_now(),
        Asked::Stop => heard.stop(),
        Asked::Report | Asked::Flush | Asked::Rotate | Asked::Trigger => {}
    })?;
    let updates = Arc::new(Latest::new());
    let interval = flags.interval;
    match flags.once {
        true => {
            let summary = capture(session, None, &updates);
            let mut update = updates.take();
            if let (Some(mut attached), Some(update)) = (attached, &mut update) {
                update.status = attached.ask()?;
            }
            print_once(flags, state, update)?;
            print_error(&summary);
            Ok(exit_code(&summary))
        }
        false => {
            let is_attached = attached.is_some();
            let latest = match attached {
                None => updates.clone(),
                Some(attached) => {
                    let tables = Arc::new(Latest::new());
                    follow(attached, interval, tables.clone(), updates.clone())?;
                    tables
                }
            };
            let capturing = thread::Builder::new()
                .name("forebay-capture".into())
                .spawn(move || capture(session, Some(interval), &latest))
                .context("cannot start a thread for the capture")?;
            let shown = Terminal::with(|terminal| show(terminal, state, &updates));
            control.stop();
            let summary = match capturing.join() {
                Ok(summary) => summary,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            shown?;
            // Usually the same terminal.
            if is_writable(stderr(), TERMINAL_WAIT) && !is_attached {
                print_summary(&summary);
                print_error(&summary);
            }
            Ok(exit_code(&summary))
        }
    }
}

/// Runs the session and reports after every interval, if there is one, and at the end.
fn capture(session: Session, interval: Option<Duration>, updates: &Latest<Update>) -> Summary {
    let tables = Arc::new(Mutex::new(Tables::new()));
    let counting = tables.clone();
    let session = session.each(move |frame, interface| {
        let mut tables = counting.lock().unwrap_or_else(PoisonError::into_inner);
        tables.count(interface.link, frame.data, frame.wire_len, frame.time_ns);
        true
    });
    let snapshot = || {
        let mut tables = tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.snapshot()
    };
    let mut max_fill = 0.0_f64;
    let mut next = Instant::now();
    let mut last = Progress::default();
    let summary = session.run(&mut |event| {
        let Event::Progress(progress) = event else {
            return;
        };
        max_fill = max_fill.max(progress.ring_fill.unwrap_or(0.0));
        last = progress.clone();
        let Some(interval) = interval else {
            return;
        };
        if Instant::now() < next {
            return;
        }
        next = Instant::now() + interval - CHECK_EVERY.min(interval) / 2;
        updates.set(Update {
            status: Status::of(progress.clone(), max_fill),
            snapshot: snapshot(),
            ended: None,
        });
    });
    let snapshot = snapshot();
    let progress = Progress {
        elapsed: summary.elapsed,
        taken: summary.ledger.counted,
        ledger: summary.ledger,
        wire_bytes: summary.wire_bytes,
        modes: summary.modes,
        ..last
    };
    let ended = match &summary.port_error {
        Some(error) => format!("ended: {error}"),
        None => "ended".into(),
    };
    updates.set(Update {
        status: Status::of(progress, max_fill),
        snapshot,
        ended: Some(ended),
    });
    summary
}

/// A terminal in raw mode, on its alternate screen. It is restored when this is dropped, and before a panic is printed. If it
/// accepts no output, only raw mode ends: dropping the inner terminal would block.
struct Terminal(ManuallyDrop<DefaultTerminal>);

impl Terminal {
    fn with<T>(act: impl FnOnce(&mut DefaultTerminal) -> Result<T>) -> Result<T> {
        let terminal = ratatui::try_init().context("the terminal cannot be used")?;
        act(&mut Terminal(ManuallyDrop::new(terminal)).0)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore(TERMINAL_WAIT);
    }
}

/// Ends raw mode, and leaves the alternate screen if the terminal accepts output within `wait`.
fn restore(wait: Duration) {
    // It writes nothing.
    let _ = disable_raw_mode();
    if is_writable(stdout(), wait) {
        // Not through the lock of standard output: another thread may hold it.
        let _ = write(stdout(), LEAVE_SCREEN);
    }
}

/// Ends the process although the main thread may be blocked by the terminal.
fn end_now() {
    if is_raw_mode_enabled().unwrap_or(false) {
        restore(Duration::ZERO);
    }
    // Unlike `std::process::exit`, it flushes nothing to the terminal.
    signal_hook::low_level::exit(1);
}

/// Whether a write to `file` would not block, or becomes so within `wait`. A file that only returns errors is writable.
fn is_writable(file: impl AsFd, wait: Duration) -> bool {
    let wait = Timespec {
        tv_sec: 0,
        tv_nsec: wait.subsec_nanos().into(),
    };
    let ready = retry_on_intr(|| poll(&mut [PollFd::new(&file, PollFlags::OUT)], Some(&wait)));
    ready.is_ok_and(|files| files > 0)
}

/// Draws, until the user quits or a signal ends the program.
fn show(terminal: &mut DefaultTerminal, mut state: State, updates: &Latest<Update>) -> Result<()> {
    let mut waiting = None;
    let mut is_changed = true;
    loop {
        waiting = updates.take().or(waiting);
        if let Some(update) = waiting.take_if(|update| !state.is_paused || update.ended.is_some()) {
            state.update(update.status, &update.snapshot);
            state.ended = update.ended;
            is_changed = true;
        }
        if is_changed && is_writable(stdout(), TERMINAL_WAIT) {
            terminal
                .draw(|frame| screen::draw(frame, &state))
                .context("cannot draw on the terminal")?;
            is_changed = false;
        }
        if signals::stops() > 0 {
            return Ok(());
        }
        if event::poll(KEY_WAIT).context("cannot read keys")? {
            match event::read().context("cannot read keys")? {
                Input::Key(key) if key.kind != KeyEventKind::Release => {
                    is_changed = true;
                    if !state.key(key) {
                        return Ok(());
                    }
                }
                Input::Resize(..) => is_changed = true,
                _ => {}
            }
        }
    }
}

fn print_once(flags: &Flags, mut state: State, update: Option<Update>) -> Result<()> {
    if let Some(last) = update {
        state.update(last.status, &last.snapshot);
    }
    output::answer(&match flags.json {
        true => once::json(&mut state) + "\n",
        false => once::text(&mut state),
    })
}

fn print_summary(summary: &Summary) {
    let ledger = &summary.ledger;
    let lost = ledger.dropped.known() + ledger.interface_dropped.unwrap_or(0);
    let packets = output::packets(ledger.counted);
    output::note(format!("{packets} counted, {lost} lost"));
}

fn print_error(summary: &Summary) {
    if let Some(error) = &summary.port_error {
        output::error(error);
    }
}

fn exit_code(summary: &Summary) -> ExitCode {
    match summary.is_fine() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(1),
    }
}
