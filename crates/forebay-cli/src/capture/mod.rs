//! `forebay capture`: from flags to a session, and from its summary to lines and an exit code.

mod dump;
mod json;
mod list;
mod request;
mod rotation;
mod text;

use crate::{
    args::Capture as Flags,
    signals::{self, Asked},
};
use anyhow::Result;
use forebay_net::session::{Control, Event, Session, Summary};
use request::Request;
use std::process::ExitCode;
use text::Screen;

pub fn run(flags: &Flags) -> Result<ExitCode> {
    if flags.list {
        return list::print();
    }
    let request = Request::from_flags(flags)?;
    if flags.dump > 0 {
        return dump::print(&request, flags.dump);
    }
    let control = Control::new()?;
    let ports = request.open_ports()?;
    let (output, config) = (request.output()?, request.config());
    let session = Session::open(ports, output, config, request.clock(), control.clone())?;
    // Until here a signal ends us, as it does anyone: nothing is captured yet, and a FIFO without a
    // reader may be waiting to be opened.
    let heard = control.clone();
    let mut wanted = vec![Asked::Report, Asked::Flush];
    wanted.extend(request.rotation.is_some().then_some(Asked::Rotate));
    signals::listen(&wanted, move |asked| match asked {
        Asked::Stop => heard.stop(),
        Asked::Report => heard.report(),
        Asked::Flush => heard.flush(),
        Asked::Rotate => heard.rotate(),
    })?;
    let screen = Screen::new(&request);
    screen.start(&session);
    if let Some(warning) = session.warning() {
        screen.warn(warning);
    }
    let mut reports = Reports::new(&request);
    let summary = session.run(&mut |event| match event {
        Event::Behind(behind) => screen.warn_behind(behind),
        Event::Finishing(_) => {}
        Event::Compressing { files } => screen.compressing(files),
        Event::Outage { source, outages } => screen.outage(source, &outages),
        Event::Progress(progress) => {
            if progress.asked {
                screen.counts(progress);
            } else if reports.are_due(progress.elapsed) {
                if request.json {
                    // What cannot be written now is an error at the end.
                    let _ = json::print(&json::progress(progress), &request);
                } else {
                    screen.counts(progress);
                }
            }
            screen.progress(progress);
        }
    });
    screen.end(&summary);
    if request.json {
        json::print(&json::summary(&summary, &request), &request)?;
    }
    Ok(exit_code(&summary, &request))
}

/// When `--stats-interval` wants a report.
struct Reports {
    every: Option<std::time::Duration>,
    next: std::time::Duration,
}

impl Reports {
    fn new(request: &Request) -> Self {
        Reports {
            every: request.stats_interval,
            next: request.stats_interval.unwrap_or_default(),
        }
    }

    fn are_due(&mut self, elapsed: std::time::Duration) -> bool {
        let Some(every) = self.every else {
            return false;
        };
        let due = elapsed >= self.next;
        while self.next <= elapsed {
            self.next += every;
        }
        due
    }
}

fn exit_code(summary: &Summary, request: &Request) -> ExitCode {
    if !summary.is_fine() {
        return ExitCode::from(1);
    }
    let ledger = &summary.ledger;
    let lost = ledger.dropped.known() + ledger.interface_dropped.unwrap_or(0);
    if request.fail_on_drop && lost > 0 {
        return ExitCode::from(3);
    }
    ExitCode::SUCCESS
}
