//! `forebay capture`: turns flags into a session, and its summary into text and an exit code.

mod dump;
mod json;
mod lines;
mod list;
mod on_files;
mod operate;
mod recording;
mod request;
mod sharing;
mod summary;
mod text;
mod threads;

pub use on_files::helper;

use crate::{
    args::Capture as Flags,
    notify::{Heartbeat, Manager},
    output::{self, Stream},
    signals::{self, Asked},
    verify,
};
use anyhow::Result;
use forebay::standard;
use forebay_net::{
    recorder::{Recorded, Trigger},
    session::{Control, Event, Progress, Source, Summary},
    verify::VerifyReport,
};
use lines::Lines;
use on_files::{Helper, Runner};
use operate::{About, Sockets};
use recording::Recording;
use request::Request;
use sharing::{Readers, Sharing};
use std::{process::ExitCode, time::Duration};
use text::Screen;

pub fn run(flags: &Flags) -> Result<ExitCode> {
    if flags.list {
        return list::print();
    }
    let request = Request::from_flags(flags)?;
    if flags.dump > 0 {
        return dump::print(&request, flags.dump);
    }
    if request.flags.json && request.json_stream() == Stream::Output {
        standard::output()?;
    }
    if flags.printing.list_data_link_types {
        output::answer(&request.link_types()?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let helper = flags.command.as_deref();
    let helper = helper.map(|program| Helper::start(program, request.user.as_ref()));
    let helper = helper.transpose()?;
    let manager = Manager::connect()?;
    let control = Control::new()?;
    let sockets = Sockets::bind(&request)?;
    // Before the interfaces are opened: clearing gigabytes takes a while, and packets would wait in the kernel.
    let mut sharing = Sharing::bind(&request, request.publisher()?)?;
    let (ports, sandbox) = request.open_ports(helper.as_ref().map(Helper::group))?;
    let mut config = request.config();
    if let Some(every) = manager.progress_every() {
        config.progress_every = config.progress_every.min(every);
    }
    let publisher = sharing.as_mut().and_then(Sharing::take_publisher);
    let (session, each) = request.sessions(ports, config, &control, publisher)?;
    // Until here signals end the process as usual: nothing is captured yet, and the open of a FIFO without a reader may block.
    let (heard, informed) = (control.clone(), manager.clone());
    let mut wanted = vec![Asked::Report, Asked::Flush];
    wanted.extend(flags.recording.recorder.map(|_| Asked::Trigger));
    wanted.extend(request.rotation.is_some().then_some(Asked::Rotate));
    signals::listen(&wanted, move |asked| match asked {
        Asked::Stop => {
            heard.stop();
            informed.stopping();
        }
        Asked::Report => heard.report(),
        Asked::Flush => heard.flush(),
        Asked::Rotate => heard.rotate(),
        Asked::Trigger => {
            heard.trigger();
        }
    })?;
    // From here on packets arrive, and no thread waits for a reader of the printed text.
    output::start(false)?;
    let runner = helper.map(Helper::listen).transpose()?;
    let screen = Screen::new(&request);
    screen.start(&session, &sandbox);
    if let Some(warning) = session.warning() {
        output::warning(warning);
    }
    let mut lines = None;
    let mut session = session;
    let source = sharing.as_ref().map(Sharing::source);
    let readers = sharing.map(|sharing| sharing.start(&request)).transpose()?;
    let queue = runner.as_ref().map(Runner::queue);
    let recording = Recording::start(&request, &session, source.as_ref(), &control, queue)?;
    let trigger = recording.as_ref().map(Recording::trigger);
    let mut watcher = recording.as_ref().and_then(Recording::watcher);
    let mut feeder = None;
    if request.prints() {
        let taps_several = |source: &Source| source.got.overruns && source.interfaces.len() > 1;
        let names_interfaces =
            request.captures_several() || session.info().0.iter().any(taps_several);
        let (printing, feeding) = Lines::start(&request, &control, names_interfaces)?;
        (lines, feeder) = (Some(printing), Some(feeding));
    }
    let verifying = request.verifying();
    let verifier = verifying.clone();
    if feeder.is_some() || watcher.is_some() || verifier.is_some() {
        session = session.each(move |frame, interface| {
            let is_taken = feeder.as_mut().is_none_or(|it| it.put(frame, interface));
            if let Some(watch) = watcher.as_mut().filter(|_| is_taken) {
                watch(frame, interface);
            }
            if let Some(verifier) = verifier.as_ref().filter(|_| is_taken) {
                verifier.see(frame, interface);
            }
            is_taken
        });
    }
    let mut reports = Reports::new(&request);
    let mut heartbeat = Heartbeat::new(manager.clone());
    let mut show = |event: Event<'_>| match event {
        Event::Behind(behind) => screen.warn_behind(behind),
        Event::Finishing(left) => {
            manager.ended();
            screen.finishing(left.pending_bytes, left.unsynced_bytes);
        }
        Event::Compressing { files } => {
            manager.ended();
            screen.compressing(files);
        }
        Event::Recovering => {
            manager.ended();
            screen.recovering();
        }
        Event::Recovered(file) => screen.recovered(file),
        Event::Finished { path } => runner.iter().for_each(|runner| runner.file(path)),
        Event::Outage { source, outages } => screen.outage(source, &outages),
        Event::Triggered => trigger.iter().for_each(Trigger::pull_now),
        Event::Progress(progress) => {
            heartbeat.beat(|| screen.status(progress));
            if progress.asked {
                let _ = screen.counts(progress);
            } else if let Some(report) = reports.due(progress) {
                let is_printed = match request.flags.json {
                    true => {
                        let object = output::json(&json::progress(&report));
                        output::report(request.json_stream(), &object)
                    }
                    false => screen.counts(&report),
                };
                reports.unprinted += u64::from(!is_printed);
            }
            match signals::stops() {
                1.. if progress.pending_bytes > 0 => screen.finishing(progress.pending_bytes, 0),
                _ => screen.progress(progress),
            }
        }
    };
    let about = About::of(&request, &session);
    let mut operate = sockets.serve(&request, about, control.clone())?;
    manager.ready();
    let mut observe = |event: Event<'_>| {
        if let Some(operate) = &mut operate {
            operate.publisher.event(&event);
        }
        show(event);
    };
    let summary = match each {
        None => session.run(&mut observe),
        Some(each) => each.run(session, &control, &mut observe)?,
    };
    manager.ended();
    let printed = lines.map(Lines::finish);
    let recorded = recording.map(|it| it.finish(&control, flags.quiet));
    let read = readers.map(Readers::finish);
    let verified = verifying.map(|it| (it.report(), it.window));
    let report = verified.as_ref().map(|(report, _)| report);
    let code = exit_code(&summary, &request, recorded.as_ref(), report);
    // With `| head`, nobody waits for a summary; only failures are reported.
    let is_silent = !request.has_output() && printed.as_ref().is_some_and(|it| it.reader_left);
    if let Some(printed) = printed.as_ref().filter(|_| !is_silent) {
        screen.printed(printed);
    }
    let ran = runner.map(|runner| runner.finish(|| screen.running()));
    match is_silent {
        false => screen.end(&summary, reports.unprinted),
        true => screen.end_silently(&summary, code != 0),
    }
    if let Some(ran) = &ran {
        screen.ran(ran);
    }
    if let Some((report, window)) = verified.as_ref().filter(|_| !is_silent) {
        screen.verified(report, *window);
    }
    if let Some(read) = &read {
        read.print(&request, summary.shared.unwrap_or(0));
    }
    let has_failed = printed.is_some_and(|printed| printed.error.is_some());
    let code = match has_failed || ran.as_ref().is_some_and(|ran| !ran.is_fine()) {
        true => 1,
        false => code,
    };
    if request.flags.json || operate.is_some() {
        let mut object = summary::object(
            &summary,
            &request,
            reports.unprinted,
            ran.as_ref(),
            read.as_ref(),
            &sandbox,
            recorded.as_ref(),
        );
        object["verify"] = verified
            .as_ref()
            .map(|(report, window)| verify::object(report, *window))
            .into();
        if request.flags.json {
            output::summary(request.json_stream(), &output::json(&object));
        }
        if let Some(operate) = operate {
            operate.finish(&summary, object, code);
        }
    }
    Ok(ExitCode::from(code))
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
    fn new(request: &Request<'_>) -> Self {
        Reports {
            every: request.flags.stats_interval,
            next: request.flags.stats_interval.unwrap_or_default(),
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

fn exit_code(
    summary: &Summary,
    request: &Request<'_>,
    recorded: Option<&Recorded>,
    verified: Option<&VerifyReport>,
) -> u8 {
    if !summary.is_fine() || recorded.is_some_and(|it| !it.is_fine()) {
        return 1;
    }
    let ledger = &summary.ledger;
    let lost = ledger.dropped.known()
        + ledger.interface_dropped.unwrap_or(0)
        + recorded.map_or(0, |it| it.lost);
    let has_lost = lost > 0 || verified.is_some_and(|it| !it.is_lossless());
    if request.flags.fail_on_drop && has_lost {
        return 3;
    }
    if summary.is_out_of_room {
        return 4;
    }
    0
}
