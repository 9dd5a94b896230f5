//! The capture itself: what happens with each packet, and with each event of the session.

use super::{
    json,
    lines::{Feeder, Lines},
    on_files::Runner,
    opening::Opened,
    operate::About,
    outcome::Outcome,
    recording::Recording,
    request::Request,
    sharing::{Readers, Sharing},
    text::Screen,
};
use crate::{
    notify::{Heartbeat, Manager},
    output, privileges, signals,
    verify::Verifying,
};
use anyhow::Result;
use forebay_net::{
    port::{Frame, Interface},
    recorder::Trigger,
    session::{Control, Event, Progress, Session, Source},
};
use std::{path::Path, time::Duration};

/// Captures until the end, and waits for the threads that print, record and serve.
///
/// # Errors
/// A thread cannot be started.
pub fn run(opened: Opened) -> Result<Outcome> {
    let Opened {
        request,
        manager,
        control,
        sockets,
        sharing,
        sandbox,
        mut session,
        per_thread,
        runner,
    } = opened;
    let screen = Screen::new(&request);
    screen.start(&session, &sandbox);
    if let Some(warning) = session.warning() {
        output::warning(warning);
    }
    if let Some(days) = request.names_repeat_after_days() {
        output::warning(format_args!(
            "the names of the files repeat after {}: then they get .1, .2, … appended, and no file is removed. Use --keep-free, or -b interval:SECONDS -b files:N",
            output::counted(days, "day", "days"),
        ));
    }
    let source = sharing.as_ref().map(Sharing::source);
    let start = |sharing: Sharing| privileges::start_without(|| sharing.start(&request));
    let readers = sharing.map(start).transpose()?;
    let queue = runner.as_ref().map(Runner::queue);
    let recording = Recording::start(&request, &session, source.as_ref(), &control, queue)?;
    let (lines, feeder) = start_printing(&request, &session, &control)?.unzip();
    let verifying = request.verifying();
    let watcher = recording.as_ref().and_then(Recording::watcher);
    session = with_viewers(session, feeder, watcher, verifying.clone());
    let about = About::of(&request, &session);
    let mut operate = sockets.serve(&request, about, control.clone())?;
    manager.ready();
    let mut observer = Observer {
        request: &request,
        screen: &screen,
        manager: &manager,
        runner: runner.as_ref(),
        trigger: recording.as_ref().map(Recording::trigger),
        heartbeat: Heartbeat::new(manager.clone()),
        reports: Reports::new(&request),
        repeats: request.names_repeat_after_days().is_some(),
    };
    let mut observe = |event: Event<'_>| {
        if let Some(operate) = &mut operate {
            operate.publisher.event(&event);
        }
        observer.see(event);
    };
    let summary = match per_thread {
        None => session.run(&mut observe),
        Some(per_thread) => per_thread.run(session, &control, &mut observe)?,
    };
    manager.ended();
    let unprinted = observer.reports.unprinted;
    let printed = lines.map(Lines::finish);
    let recorded = recording.map(|it| it.finish(&control, request.is_quiet));
    let read = readers.map(Readers::finish);
    Ok(Outcome {
        verified: verifying.map(|it| (it.report(), it.window)),
        request,
        sandbox,
        screen,
        summary,
        unprinted,
        printed,
        recorded,
        read,
        runner,
        operate,
    })
}

/// Starts the thread that prints packets, if they are printed.
fn start_printing(
    request: &Request,
    session: &Session,
    control: &Control,
) -> Result<Option<(Lines, Feeder)>> {
    let Some(printing) = &request.printing else {
        return Ok(None);
    };
    let taps_several = |source: &Source| source.got.overruns && source.interfaces.len() > 1;
    let names_interfaces = request.captures_several() || session.info().0.iter().any(taps_several);
    output::settle();
    Lines::start(request, printing, control, names_interfaces).map(Some)
}

/// Shows each packet that is taken to the thread that prints, to the recorder and to the verifier. A packet for which there is no room to
/// print is offered again.
fn with_viewers(
    session: Session,
    mut feeder: Option<Feeder>,
    mut watcher: Option<impl FnMut(&Frame<'_>, &Interface) + Send + 'static>,
    verifier: Option<Verifying>,
) -> Session {
    if feeder.is_none() && watcher.is_none() && verifier.is_none() {
        return session;
    }
    session.each(move |frame, interface| {
        let is_taken = feeder.as_mut().is_none_or(|it| it.put(frame, interface));
        if let Some(watch) = watcher.as_mut().filter(|_| is_taken) {
            watch(frame, interface);
        }
        if let Some(verifier) = verifier.as_ref().filter(|_| is_taken) {
            verifier.see(frame, interface);
        }
        is_taken
    })
}

/// Sees the events of the session.
struct Observer<'a> {
    request: &'a Request,
    screen: &'a Screen,
    manager: &'a Manager,
    runner: Option<&'a Runner>,
    trigger: Option<Trigger>,
    heartbeat: Heartbeat,
    reports: Reports,
    /// Names repeat, nothing bounds the number of files, and no file has got another name for that yet.
    repeats: bool,
}

impl Observer<'_> {
    fn warn_of_number(&mut self, path: &Path) {
        let number = path
            .extension()
            .and_then(|it| it.to_str()?.parse::<u64>().ok());
        if self.repeats && number.is_some() {
            self.repeats = false;
            output::note_wrapped(format_args!(
                "warning: {} has a number because a file had its name. There will be more of them, and none is removed: use --keep-free, or -b interval:SECONDS -b files:N",
                path.display()
            ));
        }
    }

    fn see(&mut self, event: Event<'_>) {
        let screen = self.screen;
        match event {
            Event::Behind(behind) => screen.warn_behind(behind),
            Event::Finishing(left) => {
                self.manager.ended();
                screen.finishing(left.pending_bytes, left.unsynced_bytes);
            }
            Event::Compressing { files } => {
                self.manager.ended();
                screen.compressing(files);
            }
            Event::Recovering => {
                self.manager.ended();
                screen.recovering();
            }
            Event::Recovered(file) => screen.recovered(file),
            Event::Finished { path } => {
                self.warn_of_number(path);
                self.runner.iter().for_each(|runner| runner.file(path));
            }
            Event::Outage { source, outages } => screen.outage(source, &outages),
            Event::Triggered => self.trigger.iter().for_each(Trigger::pull_now),
            Event::Progress(progress) => self.progress(progress),
            _ => {}
        }
    }

    fn progress(&mut self, progress: &Progress) {
        let screen = self.screen;
        self.heartbeat.beat(|| screen.status(progress));
        if progress.asked {
            let _ = screen.counts(progress);
        } else if let Some(report) = self.reports.due(progress) {
            let is_printed = match self.request.object_stream() {
                Some(stream) => output::report(stream, &output::json(&json::progress(&report))),
                None => screen.counts(&report),
            };
            self.reports.unprinted += u64::from(!is_printed);
        }
        match signals::stops() {
            1.. if progress.pending_bytes > 0 => screen.finishing(progress.pending_bytes, 0),
            _ => screen.progress(progress),
        }
    }
}

/// The reports of `--stats-interval`.
struct Reports {
    every: Option<Duration>,
    /// When the next report is due.
    next: Duration,
    last: Progress,
    /// Reports that nobody read in time.
    unprinted: u64,
}

impl Reports {
    fn new(request: &Request) -> Self {
        Reports {
            every: request.report_every,
            next: request.report_every.unwrap_or_default(),
            last: Progress::default(),
            unprinted: 0,
        }
    }

    /// The report that is due, if there is one, with the rates since the last one.
    fn due(&mut self, progress: &Progress) -> Option<Progress> {
        let every = self.every?;
        if progress.elapsed < self.next {
            return None;
        }
        while self.next <= progress.elapsed {
            self.next += every;
        }
        let mut report = progress.clone();
        let seconds = (report.elapsed - self.last.elapsed).as_secs_f64();
        let packets = report.taken - self.last.taken;
        let wire_bytes = report.wire_bytes - self.last.wire_bytes;
        report.packets_per_second = packets as f64 / seconds;
        report.bits_per_second = wire_bytes as f64 * 8.0 / seconds;
        self.last = report.clone();
        Some(report)
    }
}
