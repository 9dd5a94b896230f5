//! `forebay replay`: sends the packets of capture files on an interface.
//!
//! The work is done by [`forebay_net::replay`]; this turns flags into its configuration, and prints the result.

mod json;
mod text;

use crate::{
    args::Replay as Flags,
    output::{self, Stream},
    sending::Sender,
    usage::{self, refuse, refuses_filter},
};
use anyhow::Result;
use forebay::time::Clock;
use forebay_net::{
    filter::Filter,
    replay::{Replay, ReplayConfig, ReplaySummary, Rewrite, Speed},
};
use std::{path::PathBuf, process::ExitCode, time::Duration};
use text::Notices;

/// Replays, and prints the counts.
///
/// # Errors
/// A bad request, or the interface cannot be opened.
pub fn run(flags: &Flags) -> Result<ExitCode> {
    let config = config(flags)?;
    let mut sender = Sender::open(&flags.interface, &flags.sending, &flags.files)?;
    let notices = Notices::new(flags, sender.port.as_ref());
    notices.start();
    let wants_counts = sender.counts_requests();
    let replay = Replay::new(config, Clock::real(), sender.control.clone());
    let summary = replay.run(sender.port.as_mut(), &mut |progress| {
        if wants_counts() {
            notices.counts(progress);
        }
        notices.progress(progress);
    });
    notices.end(&summary, sender.port.as_ref());
    if flags.sending.json {
        let object = json::summary(&summary, flags, &sender);
        output::summary(Stream::Output, &output::json(&object));
    }
    Ok(exit_code(&summary))
}

fn config(flags: &Flags) -> Result<ReplayConfig> {
    refuse_filter_as_files(&flags.files)?;
    let filter = usage::filter(flags.filter.as_slice())?;
    let speed = match (flags.multiplier, flags.pps, flags.mbps) {
        (Some(factor), ..) => Speed::Recorded(factor),
        (_, Some(rate), _) => Speed::Packets(rate),
        (.., Some(rate)) => Speed::Bits(rate),
        _ if flags.topspeed => Speed::Top,
        _ => Speed::Recorded(1.0),
    };
    let mut rewrite = Rewrite::default();
    for changes in &flags.rewrite {
        rewrite.extend(changes.clone());
    }
    let reads_input = flags.files.iter().any(|path| path.as_os_str() == "-");
    if reads_input && flags.loops != 1 && !flags.preload {
        return refuse("-l: standard input can be read only once. Add -K to keep it in memory");
    }
    Ok(ReplayConfig {
        files: flags.files.clone(),
        speed,
        max_gap: flags.max_gap,
        rounds: (flags.loops > 0).then_some(flags.loops),
        limit: flags.limit,
        filter,
        rewrite,
        cut_frames: flags.cut,
        preload: flags.preload,
        progress_every: Duration::from_millis(250),
    })
}

/// `capture` takes a filter at the end of the line.
fn refuse_filter_as_files(files: &[PathBuf]) -> Result<()> {
    let is_missing = |path: &PathBuf| path.as_os_str() != "-" && path.symlink_metadata().is_err();
    let Some(at) = files.iter().position(is_missing) else {
        return Ok(());
    };
    let words = files[at..].iter().map(|path| path.to_string_lossy());
    let words: Vec<_> = words.collect();
    let text = words.join(" ");
    match [&text, words[0].as_ref()]
        .iter()
        .any(|it| it.parse::<Filter>().is_ok())
    {
        true => refuse(format!(
            "there is no file '{}'. Write the filter with -f: -f '{text}'",
            words[0]
        )),
        false => Ok(()),
    }
}

fn exit_code(summary: &ReplaySummary) -> ExitCode {
    if summary.error.as_ref().is_some_and(refuses_filter) {
        return ExitCode::from(2);
    }
    if summary.error.is_some() || summary.law().is_err() {
        return ExitCode::from(1);
    }
    let failed = summary.counts.sent.failed;
    // A second stop asks for it.
    match failed.total() > failed.abandoned {
        true => ExitCode::from(3),
        false => ExitCode::SUCCESS,
    }
}
