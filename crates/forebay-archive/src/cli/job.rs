//! `--metrics-file` of commands that a timer runs: when they ended, how, and what they counted.

use super::{
    args::JobFlags,
    metrics::{Page, replace_file},
    text,
};
use anyhow::{Context, Error, Result};
use forebay_archive::archive::{BadRequest, StoreFault, without_password};
use serde_json::Value;
use std::{
    fs,
    process::ExitCode,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

/// The exit code of a command that ended with this error.
pub fn code_of(error: &Error) -> u8 {
    match error {
        _ if error.is::<BadRequest>() => 2,
        _ if StoreFault::is_cause(error) => 3,
        _ => 1,
    }
}

/// The exit code of a command for which both would be right. That something is known to be wrong must not be hidden by a store that did
/// not answer.
pub fn worst(one: u8, other: u8) -> u8 {
    match (one, other) {
        (1, _) | (_, 1) => 1,
        _ => one.max(other),
    }
}

/// The end of a command with this error, if those that it has reported before have this exit code.
///
/// # Errors
/// This one, if it decides about the exit code.
pub fn after(code: u8, error: Error) -> Result<u8> {
    if worst(code, code_of(&error)) == code_of(&error) {
        return Err(error);
    }
    text::note(&format!("{error:#}"));
    Ok(code)
}

const SUCCESS: &str = "last_success_timestamp_seconds";

/// Does the work of a command on an archive, and writes its metrics. The work returns its exit code, and fills in the object that `--json`
/// prints: its numbers are metrics.
///
/// # Errors
/// Those of the work; or the metrics cannot be written.
pub async fn run(
    command: &str,
    archive: &str,
    flags: &JobFlags,
    work: impl AsyncFnOnce(&mut Value) -> Result<u8>,
) -> Result<ExitCode> {
    let (start, mut counts) = (Instant::now(), Value::Null);
    let done = work(&mut counts).await;
    if let Some(path) = &flags.metrics_file
        && counts["dry_run"] != true
    {
        let code = match &done {
            Ok(code) => *code,
            Err(error) => code_of(error),
        };
        let archive = without_password(archive);
        let archive = archive.replace('\\', r"\\").replace('"', "\\\"");
        let archive = archive.replace('\n', r"\n");
        let labels = format!("command=\"{command}\",archive=\"{archive}\"");
        let mut page = Page::new("forebay_job", format!("{{{labels}}}"));
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default().as_secs();
        let help = "When the command ended last, in seconds since 1970";
        page.put("last_run_timestamp_seconds", "gauge", help, now);
        let success = match code {
            0 => Some(now),
            // A failure must not hide when it succeeded last.
            _ => fs::read_to_string(path).ok().and_then(|before| {
                let name = format!("forebay_job_{SUCCESS}{{{labels}}} ");
                let line = before.lines().find_map(|it| it.strip_prefix(&name));
                line?.parse().ok()
            }),
        };
        if let Some(success) = success {
            let help = "When it ended with exit code 0 last, in seconds since 1970";
            page.put(SUCCESS, "gauge", help, success);
        }
        let help = "How long it took";
        let duration = format!("{:.3}", start.elapsed().as_secs_f64());
        page.put("duration_seconds", "gauge", help, duration);
        page.put("exit_code", "gauge", "How it ended", code);
        for (name, count) in counts.as_object().into_iter().flatten() {
            if let Some(count) = count.as_f64().filter(|_| name != "schema") {
                page.labels = format!("{{{labels},count=\"{name}\"}}");
                page.put("result", "gauge", "A number of the object of --json", count);
            }
        }
        let written = replace_file(path, &page.text);
        let written =
            written.with_context(|| format!("--metrics-file {}: writing it", path.display()));
        // An error of the work is more important.
        done.as_ref().map_or(Ok(()), |_| written)?;
    }
    done.map(ExitCode::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_to_be_wrong_decides_about_the_exit_code() {
        let codes = [(0, 3), (3, 0), (1, 3), (3, 1), (0, 1), (2, 3)];
        assert_eq!(codes.map(|it| worst(it.0, it.1)), [3, 3, 1, 1, 1, 3]);
        let other = || Error::msg("other");
        assert!(after(0, other()).is_err() && after(3, other()).is_err());
    }
}
