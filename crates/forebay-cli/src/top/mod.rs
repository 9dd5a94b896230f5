//! `forebay top`: rates, losses and the busiest flows, hosts, ports and protocols, on a screen that is updated every second.
//!
//! ```text
//!  session's thread: each packet ─▶ tables     every interval: counts and a copy of the tables ─▶ channel
//!  main thread:      keys, channel ─▶ state ─▶ screen
//! ```
//! A terminal that stands still blocks only the main thread: no packet waits for it.

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
    signals::{self, Asked},
    usage::{Usage, refuse},
};
use anyhow::{Context, Result};
use forebay_net::{
    open::{self, Name, Options},
    session::{Control, Event, Output, Progress, Session, SessionConfig, Summary},
};
use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event as Input, KeyEventKind},
};
use state::State;
use std::{
    io::IsTerminal,
    process::ExitCode,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, Sender, channel},
    },
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

/// What the session's thread reports.
struct Update {
    progress: Progress,
    max_fill: f64,
    snapshot: Snapshot,
    /// No more packets arrive.
    ended: Option<String>,
}

pub fn run(flags: &Flags) -> Result<ExitCode> {
    let files = flags.read.iter().cloned().map(Name::File);
    let names: Vec<_> = flags.interfaces.iter().cloned().chain(files).collect();
    if names.is_empty() {
        return refuse(
            "no interface to watch. Name one with -i, such as -i eth0 or -i sim, or a file with -r"
                .into(),
        );
    }
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    if !flags.once && (!std::io::stdout().is_terminal() || is_dumb) {
        return refuse(
            "standard output is no terminal to draw on. Use --once to print the tables as text, or --once --json"
                .into(),
        );
    }
    let expression = flags.expression.join(" ");
    let filter = match expression.trim() {
        "" => None,
        text => Some(
            text.parse()
                .or_else(|error: forebay_net::filter::Error| refuse(error.to_string()))?,
        ),
    };
    let clock = open::clock(&names).map_err(|error| Usage(error.to_string()))?;
    let options = Options {
        filter: filter.clone(),
        promiscuous: !flags.not_promiscuous,
        snaplen: SNAPLEN,
        ..Options::default()
    };
    let ports = open::ports(&names, &options, &clock)?;
    privileges::shed(None)?;
    let is_file = flags.interfaces.is_empty();
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
    let sources: Vec<_> = session.info().0.into_iter().map(|it| it.name).collect();
    let state = State {
        sources: output::plain(&sources.join(", ")).into(),
        is_file,
        ..State::default()
    };
    let heard = control.clone();
    signals::listen(&[], move |asked| match asked {
        Asked::Stop => heard.stop(),
        Asked::Report | Asked::Flush | Asked::Rotate => {}
    })?;
    let (sender, updates) = channel();
    let interval = flags.interval;
    match flags.once {
        true => {
            let summary = capture(session, interval, &sender);
            print_once(flags, state, &updates)?;
            Ok(end(&summary))
        }
        false => {
            let capturing = thread::Builder::new()
                .name("forebay-capture".into())
                .spawn(move || capture(session, interval, &sender))
                .context("cannot start a thread for the capture")?;
            let shown = Terminal::with(|terminal| show(terminal, state, &updates));
            control.stop();
            let summary = match capturing.join() {
                Ok(summary) => summary,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            shown?;
            print_summary(&summary);
            Ok(end(&summary))
        }
    }
}

/// Runs the session and reports to the other thread, which may be gone.
fn capture(session: Session, interval: Duration, updates: &Sender<Update>) -> Summary {
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
        if Instant::now() < next {
            return;
        }
        next = Instant::now() + interval - CHECK_EVERY.min(interval) / 2;
        let _ = updates.send(Update {
            progress: progress.clone(),
            max_fill,
            snapshot: snapshot(),
            ended: None,
        });
    });
    let snapshot = snapshot();
    let progress = Progress {
        elapsed: summary.elapsed,
        taken: summary.ledger.counted,
        filtered: summary.ledger.filtered,
        wire_bytes: snapshot.bytes,
        dropped: summary.ledger.dropped.kernel,
        interface_dropped: summary.ledger.interface_dropped,
        modes: summary.modes,
        ..last
    };
    let ended = match &summary.port_error {
        Some(error) => format!("ended: {error}"),
        None => "ended".into(),
    };
    let _ = updates.send(Update {
        progress,
        max_fill,
        snapshot,
        ended: Some(ended),
    });
    summary
}

/// A terminal in raw mode, on its alternate screen. It is restored when this is dropped, and before a panic is printed.
struct Terminal(DefaultTerminal);

impl Terminal {
    fn with<T>(act: impl FnOnce(&mut DefaultTerminal) -> Result<T>) -> Result<T> {
        let terminal = ratatui::try_init().context("the terminal cannot be used")?;
        act(&mut Terminal(terminal).0)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Draws, until the user quits or a signal ends the program.
fn show(
    terminal: &mut DefaultTerminal,
    mut state: State,
    updates: &Receiver<Update>,
) -> Result<()> {
    let mut waiting = None;
    let mut is_changed = true;
    loop {
        waiting = updates.try_iter().last().or(waiting);
        if let Some(update) = waiting.take_if(|update| !state.is_paused || update.ended.is_some()) {
            state.update(update.progress, update.max_fill, &update.snapshot);
            state.ended = update.ended;
            is_changed = true;
        }
        if is_changed {
            terminal
                .draw(|frame| screen::draw(frame, &state))
                .context("cannot draw on the terminal")?;
        }
        is_changed = false;
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

fn print_once(flags: &Flags, mut state: State, updates: &Receiver<Update>) -> Result<()> {
    if let Some(last) = updates.try_iter().last() {
        state.update(last.progress, last.max_fill, &last.snapshot);
    }
    output::answer(&match flags.json {
        true => once::json(&mut state) + "\n",
        false => once::text(&mut state),
    })
}

fn print_summary(summary: &Summary) {
    let ledger = &summary.ledger;
    let lost = ledger.dropped.known() + ledger.interface_dropped.unwrap_or(0);
    let plural = if ledger.counted == 1 { "" } else { "s" };
    output::note(format!(
        "{} packet{plural} counted, {lost} lost",
        ledger.counted
    ));
}

fn end(summary: &Summary) -> ExitCode {
    if let Some(error) = &summary.port_error {
        output::error(error);
    }
    match summary.is_fine() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(1),
    }
}
