//! The end of a capture: its text, its JSON object, and its exit code.

use super::{
    lines::Printed, on_files::Runner, operate::Operate, request::Request, sharing::Ended, summary,
    text::Screen,
};
use crate::{
    output::{self, Stream},
    sandbox::Sandbox,
    verify,
};
use forebay_net::{recorder::Recorded, session::Summary, verify::VerifyReport};
use std::process::ExitCode;

/// What became of a capture. Only the program of `-z` may still run.
pub struct Outcome {
    pub request: Request,
    pub sandbox: Sandbox,
    pub screen: Screen,
    pub summary: Summary,
    /// Reports of the counts that nobody read in time.
    pub unprinted: u64,
    pub printed: Option<Printed>,
    pub recorded: Option<Recorded>,
    pub read: Option<Ended>,
    /// The report of the verifier, and its window.
    pub verified: Option<(VerifyReport, u64)>,
    pub runner: Option<Runner>,
    pub operate: Option<Operate>,
}

impl Outcome {
    /// Prints everything, and waits for the program of `-z`.
    pub fn report(self) -> ExitCode {
        let Outcome {
            request,
            sandbox,
            screen,
            summary,
            unprinted,
            printed,
            recorded,
            read,
            verified,
            runner,
            operate,
        } = self;
        let report = verified.as_ref().map(|(report, _)| report);
        let code = exit_code(&summary, &request, recorded.as_ref(), report);
        // With `| head`, nobody waits for a summary; only failures are reported.
        let is_silent = !request.has_output() && printed.as_ref().is_some_and(|it| it.reader_left);
        if let Some(printed) = printed.as_ref().filter(|_| !is_silent) {
            screen.printed(printed);
        }
        let ran = runner.map(|runner| runner.finish(|| screen.running()));
        match is_silent {
            false => screen.end(&summary, unprinted),
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
        if request.prints_count() {
            let count = summary.ledger.written + summary.ledger.counted;
            output::summary(Stream::Output, &output::packets(count));
        }
        if request.prints_object || operate.is_some() {
            let mut object = summary::object(
                &summary,
                &request,
                unprinted,
                ran.as_ref(),
                read.as_ref(),
                &sandbox,
                recorded.as_ref(),
            );
            object["verify"] = verified
                .as_ref()
                .map(|(report, window)| verify::object(report, *window))
                .into();
            if request.prints_object {
                output::summary(request.json_stream(), &output::json(&object));
            }
            if let Some(operate) = operate {
                operate.finish(&summary, object, code);
            }
        }
        ExitCode::from(code)
    }
}

fn exit_code(
    summary: &Summary,
    request: &Request,
    recorded: Option<&Recorded>,
    verified: Option<&VerifyReport>,
) -> u8 {
    if request.is_unserved || !summary.is_fine() || recorded.is_some_and(|it| !it.is_fine()) {
        return 1;
    }
    let ledger = &summary.ledger;
    let lost = ledger.dropped.known()
        + ledger.interface_dropped.unwrap_or(0)
        + recorded.map_or(0, |it| it.lost);
    let has_lost = lost > 0 || verified.is_some_and(|it| !it.is_lossless());
    if request.fails_on_drop && has_lost {
        return 3;
    }
    if summary.is_out_of_room {
        return 4;
    }
    0
}
