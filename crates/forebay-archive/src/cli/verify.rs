//! `verify`, as it is run and printed.

use super::{args, job, text};
use anyhow::{Error, Result};
use forebay_archive::{
    archive::Archive,
    find,
    verify::{self, Verified, VerifyConfig},
};
use forebay_net::units;
use serde_json::{Value, json};
use std::{
    io::{self, IsTerminal, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// How often the line on a terminal changes.
const INTERVAL: Duration = Duration::from_millis(200);

/// Verifies, and returns the exit code.
///
/// # Errors
/// The store failed, or there is no such sensor.
pub async fn run(flags: &args::Verify, counts: &mut Value) -> Result<u8> {
    let archive = Archive::open(&flags.archive, false)?;
    let stop = Arc::new(AtomicBool::new(false));
    tokio::spawn(find::watch_signals(stop.clone())?);
    let config = VerifyConfig {
        since: flags.since,
        sensors: flags.sensor.clone(),
        sample: flags.sample,
    };
    let (is_terminal, mut drawn) = (io::stderr().is_terminal(), None::<Instant>);
    let mut code = 0;
    let clear = || write!(io::stderr(), "\r\x1b[K");
    let mut progress = |done: &Verified, error: Option<&Error>| {
        if let Some(error) = error {
            code = job::worst(code, job::code_of(error));
            let _ = drawn.take().map(|_| clear()); // progress is not worth an error
            text::note(&format!("{error:#}"));
        }
        if is_terminal && drawn.is_none_or(|it| it.elapsed() >= INTERVAL) {
            drawn = Some(Instant::now());
            let _ = clear();
            let _ = write!(
                io::stderr(),
                "{} of {} segments read",
                done.read(),
                done.chosen
            );
        }
        !stop.load(Relaxed)
    };
    let done = verify::verify(&archive, &config, &mut progress).await;
    let _ = drawn.map(|_| clear());
    let done = match done {
        Ok(done) => done,
        Err(error) => return job::after(code, error),
    };
    *counts = json!({
        "schema": 1,
        "segments": done.read(),
        "packets": done.packets,
        "stored_bytes": done.bytes,
        "damaged": done.damaged,
        "unreadable": done.unreadable,
        "left_out": done.left_out,
    });
    text::line(&match flags.json {
        true => counts.to_string(),
        false => lines(&done),
    })?;
    Ok(if stop.load(Relaxed) { 130 } else { code })
}

fn lines(done: &Verified) -> String {
    let segments = |number| units::counted(number, "segment", "segments");
    let mut text = format!(
        "read {}: {} sound, with {} in {}",
        segments(done.read()),
        done.sound,
        units::counted(done.packets, "packet", "packets"),
        units::binary(done.bytes)
    );
    for (number, what) in [
        (done.damaged, "damaged"),
        (done.unreadable, "not returned by the store"),
    ] {
        if number > 0 {
            text += &format!(", {number} {what}");
        }
    }
    if done.left_out > 0 {
        text += &format!("; {} left out by --sample", segments(done.left_out));
    }
    text
}
