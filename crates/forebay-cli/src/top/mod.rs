//! `forebay top`: rates, losses and the busiest flows, hosts, ports and protocols, on a screen that is updated every second.
//!
//! ```text
//!  session's thread: each packet ─▶ tables     every interval: counts and a copy of the tables ─▶ latest update
//!  main thread:      keys, latest update ─▶ state ─▶ screen
//! ```
//! No packet waits for the terminal. The main thread skips a frame if the terminal accepts no output. If the terminal stops in
//! the middle of a frame, the main thread blocks, and a second stop signal ends the process.

mod attached;
mod averages;
mod details;
mod flow_file;
mod flow_writer;
mod graph;
mod help;
mod host_names;
mod keys;
mod latest;
mod locked;
mod numbers;
mod once;
mod screen;
mod sketch;
mod state;
mod tables;
mod terminal;
#[cfg(test)]
mod tests;
mod timeline;
mod width;

use crate::{
    args::Top as Flags,
    output, privileges,
    sandbox::{self, Needs},
    shares,
    signals::{self, Asked},
    usage::{self, Usage, refuse},
};
use anyhow::{Context, Result};
use attached::{Attached, follow, of_capture, without_tables};
use flow_writer::{FlowWriter, Slot, offer};
use forebay_net::{
    filter::{Filter, read_services},
    open::{self, Name, Opening, Options},
    port::DEFAULT_SNAPLEN,
    session::{Control, Event, Output, Progress, Session, SessionConfig, Summary},
};
use host_names::HostNames;
use latest::{Latest, Update};
use locked::locked;
use state::{KindOfSource, State, Status};
use std::{
    io::{IsTerminal, stderr, stdout},
    process::ExitCode,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};
use tables::Tables;
use terminal::{TERMINAL_WAIT, Terminal, heed, is_writable, show};

/// Bytes of a packet that are looked at: all headers fit in.
const SNAPLEN: u32 = 256;
/// The same with `--names`: answers of DNS usually fit in.
const NAMES_SNAPLEN: u32 = 2048;
/// How often the fill level of the ring is checked.
const CHECK_EVERY: Duration = Duration::from_millis(250);
pub fn run(flags: &Flags) -> Result<ExitCode> {
    let (mut names, expression) = flags.sources();
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    if !flags.once && (!stdout().is_terminal() || is_dumb) {
        return refuse(
            "standard output is no terminal to draw on. Use --once to print the tables as text, or --once --json",
        );
    }
    let filter = usage::filter(expression)?;
    details::zone();
    let attached = flags.control.as_deref().map(Attached::new).transpose()?;
    if let Some(attached) = &attached {
        names.extend(attached.share.clone());
    }
    let needs = Needs {
        terminal: !flags.once,
        ..Needs::default()
    };
    let mut needs = needs.reading(names.iter().filter_map(Name::file));
    if let Some(folder) = &flags.write_flows {
        if !folder.is_dir() {
            return refuse(format!(
                "--write-flows {}: this is no folder. The key w makes a file in it for each flow",
                folder.display()
            ));
        }
        needs.new_files.push(folder.clone());
    }
    if names.is_empty() {
        sandbox::enter(&flags.sandbox, &needs);
        return without_tables(flags, attached);
    }
    let control = Control::new()?;
    if flags.names {
        // The sandbox hides the file.
        read_services();
    }
    let writer = (flags.write_flows.as_deref())
        .map(|folder| FlowWriter::new(folder, &names, filter.clone()));
    let session = open_session(flags, &names, filter, &needs, &control)?;
    if let Some(warning) = session.warning() {
        output::warning(warning);
    }
    let state = match &attached {
        Some(attached) => of_capture(attached),
        None => of_sources(&session, !names.iter().any(Name::is_live)),
    };
    let state = State {
        names: (flags.names).then(|| Arc::new(Mutex::new(HostNames::new()))),
        ..state
    };
    let heard = control.clone();
    if flags.once {
        signals::listen(&[], move |_| heard.stop())?;
    } else {
        let wanted = [Asked::Suspend, Asked::Resume];
        signals::listen(&wanted, move |asked| heed(asked, || heard.stop()))?;
    }
    match flags.once {
        true => run_once(flags, session, attached, state),
        false => {
            let interval = flags.interval;
            run_on_screen(interval, session, &control, attached, state, writer)
        }
    }
}

/// Opens the ports, gives up privileges, enters the sandbox, and opens the session.
fn open_session(
    flags: &Flags,
    names: &[Name],
    filter: Option<Filter>,
    needs: &Needs,
    control: &Control,
) -> Result<Session> {
    let clock = open::clock(names).map_err(|error| Usage(error.to_string()))?;
    let snaplen = match (&flags.write_flows, flags.names) {
        (Some(_), _) => DEFAULT_SNAPLEN,
        (None, true) => NAMES_SNAPLEN,
        (None, false) => SNAPLEN,
    };
    let options = Options {
        filter: filter.clone(),
        reader_filters: true,
        promiscuous: !flags.not_promiscuous,
        snaplen,
        take_traffic: flags.take_traffic,
        ..Options::default()
    };
    let begun = open::begin(names, &options, &clock)?;
    privileges::shed(None)?;
    shares::look_up_owners(&begun);
    sandbox::enter(&flags.sandbox, needs);
    let ports = begun.into_iter().map(Opening::finish);
    let ports = ports.collect::<forebay::Result<Vec<_>>>()?;
    if flags.write_flows.is_none() {
        privileges::drop_files()?;
    }
    let config = SessionConfig {
        snaplen,
        filter,
        stop_after: (flags.once && names.iter().any(Name::is_live)).then_some(flags.interval),
        progress_every: CHECK_EVERY.min(flags.interval),
        ..SessionConfig::default()
    };
    Ok(Session::open(
        ports,
        Output::Count,
        config,
        clock,
        control.clone(),
    )?)
}

/// The screen of the session's own sources.
fn of_sources(session: &Session, is_file: bool) -> State {
    let sources = session.info().0;
    let taps = sources.iter().filter(|source| source.got.overruns).count();
    let kind_of_source = match taps {
        0 => KindOfSource::Interfaces,
        _ if taps == sources.len() => KindOfSource::Taps,
        _ => KindOfSource::Both,
    };
    let sources: Vec<_> = sources.into_iter().map(|it| it.name).collect();
    State {
        sources: output::plain(&sources.join(", ")).into(),
        is_file,
        kind_of_source,
        ..State::default()
    }
}

/// `--once`: captures for one interval, and prints the tables.
fn run_once(
    flags: &Flags,
    session: Session,
    attached: Option<Attached>,
    state: State,
) -> Result<ExitCode> {
    let updates = Latest::new();
    let beside = (None, state.names.clone());
    let summary = capture(session, state.is_file, None, &updates, beside);
    let mut update = updates.take();
    if let (Some(mut attached), Some(update)) = (attached, &mut update) {
        update.status = attached.ask()?;
    }
    once::print(flags, state, update)?;
    print_error(&summary);
    Ok(exit_code(&summary))
}

/// Captures on a separate thread, and draws until the user quits.
fn run_on_screen(
    interval: Duration,
    session: Session,
    control: &Control,
    attached: Option<Attached>,
    state: State,
    mut writer: Option<FlowWriter>,
) -> Result<ExitCode> {
    let updates = Arc::new(Latest::new());
    let beside = (writer.as_ref().map(FlowWriter::slot), state.names.clone());
    let (is_attached, is_file) = (attached.is_some(), state.is_file);
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
        .spawn(move || {
            let latest = &latest;
            privileges::drop_files()
                .map(|()| capture(session, is_file, Some(interval), latest, beside))
        })
        .context("cannot start a thread for the capture")?;
    let shown = Terminal::with(|terminal| show(terminal, state, &updates, &mut writer));
    control.stop();
    let summary = match capturing.join() {
        Ok(summary) => summary?,
        Err(panic) => std::panic::resume_unwind(panic),
    };
    if let Some(writer) = writer {
        writer.finish();
    }
    shown?;
    // Usually the same terminal.
    if is_writable(stderr(), TERMINAL_WAIT) && !is_attached {
        print_summary(&summary);
        print_error(&summary);
    }
    Ok(exit_code(&summary))
}

/// Runs the session, shows its packets to what is beside the tables, and reports after every interval, if there is one, and at the end.
fn capture(
    session: Session,
    is_file: bool,
    interval: Option<Duration>,
    updates: &Latest<Update>,
    (slot, names): (Option<Slot>, Option<Arc<Mutex<HostNames>>>),
) -> Summary {
    let tables = Arc::new(Mutex::new(Tables::new(is_file)));
    let counting = tables.clone();
    let session = session.each(move |frame, interface| {
        let flow = locked(&counting).count(interface.link, frame);
        if let Some(names) = &names
            && HostNames::are_in(&flow)
        {
            locked(names).learn(frame, interface);
        }
        if let Some(slot) = &slot {
            offer(slot, flow, frame, interface);
        }
        true
    });
    let snapshot = || locked(&tables).snapshot();
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
