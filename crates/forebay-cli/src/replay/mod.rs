//! `forebay replay`: sends the packets of capture files on an interface.
//!
//! The work is done by [`forebay_net::replay`]; this turns flags into its configuration, and prints the result.

mod json;
mod text;

use crate::{
    args::Replay as Flags,
    output::{self, Stream},
    privileges,
    sandbox::{self, Needs},
    signals::{self, Asked},
    usage::refuse,
};
use anyhow::Result;
use forebay::{standard, time::Clock};
use forebay_net::{
    filter::Filter,
    open::{self, Name},
    replay::{Replay, ReplayConfig, ReplaySummary, Rewrite, Speed},
    session::Control,
    transmit::{TxBackend, TxConfig},
};
use std::{
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};
use text::Screen;

/// Replays, and prints the counts.
///
/// # Errors
/// A bad request, or the interface cannot be opened.
pub fn run(flags: &Flags) -> Result<ExitCode> {
    if matches!(flags.interface, Name::Sim(_) | Name::Tap(_) | Name::File(_)) {
        return refuse(
            "-i: packets can be sent only on an interface of this machine, such as eth0".into(),
        );
    }
    let config = config(flags)?;
    if flags.json {
        standard::output()?;
    }
    let to = TxConfig {
        backend: match flags.tx_ring {
            true => TxBackend::Ring,
            false => TxBackend::Messages,
        },
        bypass_qdisc: flags.bypass_qdisc,
        patience: flags.wait,
        ..TxConfig::default()
    };
    let mut port = open::transmit(&flags.interface, &to)?;
    privileges::shed(None)?;
    let needs = Needs {
        sends: true,
        ..Needs::default()
    };
    let sandbox = sandbox::enter(&flags.sandbox, &needs.reading(&flags.files));
    let control = Control::new()?;
    // Relaxed: it publishes nothing but itself.
    let wants_counts = Arc::new(AtomicBool::new(false));
    let (heard, asked_for_counts) = (control.clone(), wants_counts.clone());
    signals::listen(&[Asked::Report], move |asked| match asked {
        Asked::Stop => heard.stop(),
        Asked::Report => asked_for_counts.store(true, Relaxed),
        Asked::Flush | Asked::Rotate | Asked::Trigger => {}
    })?;
    output::start(false)?;
    let screen = Screen::new(flags, port.as_ref());
    screen.start();
    let replay = Replay::new(config, Clock::real(), control);
    let summary = replay.run(port.as_mut(), &mut |progress| {
        if wants_counts.swap(false, Relaxed) {
            screen.counts(progress);
        }
        screen.progress(progress);
    });
    screen.end(&summary, port.as_ref());
    if flags.json {
        let object = json::summary(&summary, flags, port.as_ref(), &sandbox);
        output::summary(Stream::Output, &output::json(&object));
    }
    Ok(exit_code(&summary))
}

fn config(flags: &Flags) -> Result<ReplayConfig> {
    let parsed = flags
        .filter
        .as_deref()
        .map(str::parse::<Filter>)
        .transpose();
    let filter = parsed.or_else(|error| refuse(error.to_string()))?;
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
        return refuse(
            "-l: standard input can be read only once. Add -K to keep it in memory".into(),
        );
    }
    Ok(ReplayConfig {
        files: flags.files.clone(),
        speed,
        rounds: (flags.loops > 0).then_some(flags.loops),
        limit: flags.limit,
        filter,
        rewrite,
        cut_frames: flags.cut,
        preload: flags.preload,
        progress_every: Duration::from_millis(250),
    })
}

fn exit_code(summary: &ReplaySummary) -> ExitCode {
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
