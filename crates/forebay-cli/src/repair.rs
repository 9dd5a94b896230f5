//! `forebay repair`: cuts torn captures to what is whole in them.
//!
//! The work is done by [`forebay_net::repair`]; this prints the result.

use crate::{
    args::Repair as Flags,
    output::{self, Form, Meter, packets, plain},
    sandbox::{self, Needs},
};
use anyhow::Result;
use forebay_net::repair::Examined;
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

const SCHEMA: u32 = 1;

/// Repairs every file that can be repaired; fails if one is not whole afterwards.
///
/// # Errors
/// The report cannot be written.
pub fn run(flags: &Flags) -> Result<ExitCode> {
    let needs = match flags.dry_run {
        true => Needs::default().reading(&flags.files),
        false => flags
            .files
            .iter()
            .fold(Needs::default(), |needs, path| needs.repairing(path)),
    };
    sandbox::enter(&flags.sandbox, &needs);
    let form = match flags.json {
        true => Form::Json(SCHEMA),
        false => Form::Text(""),
    };
    output::report_on(&flags.files, form, |path| {
        let done = repair(path, flags.dry_run)?;
        let text = match flags.json {
            true => output::json(&as_json(&done)),
            false => as_text(&done),
        };
        Ok((done.is_whole, text))
    })
}

/// The state of a file, and what was done.
struct Done {
    found: Examined,
    is_whole: bool,
    /// The file with the part that was cut off.
    rest: Option<PathBuf>,
}

fn repair(path: &Path, dry_run: bool) -> forebay::Result<Done> {
    let len = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    let meter = Meter::new(path, len);
    let found = Examined::with(path, meter.done())?;
    drop(meter);
    let is_whole = found.is_whole() || !dry_run;
    let rest = match found.is_whole() || dry_run {
        true => None,
        false => found.cut()?,
    };
    Ok(Done {
        found,
        is_whole,
        rest,
    })
}

fn as_text(done: &Done) -> String {
    let found = &done.found;
    let whole = format!("{}, {} bytes", packets(found.packets), found.whole_bytes);
    let text = match &found.fault {
        None => format!("{}: is whole: {whole}", found.path.display()),
        Some(fault) => {
            let cut = found.bytes - found.whole_bytes;
            let action = match (done.is_whole, &done.rest) {
                (false, _) => format!("{whole} are whole; {cut} bytes would be cut off"),
                (true, None) => format!("Cut to {whole}; the {cut} bytes after it were zeros"),
                (true, Some(rest)) => {
                    let rest = rest.display();
                    format!("Cut to {whole}; the {cut} bytes after it are in {rest}")
                }
            };
            format!("{fault}. {action}")
        }
    };
    plain(&text).into_owned()
}

fn as_json(done: &Done) -> Value {
    let found = &done.found;
    json!({
        "schema": SCHEMA,
        "file": found.path.display().to_string(),
        "packets": found.packets,
        "bytes": found.bytes,
        "whole_bytes": found.whole_bytes,
        "fault": found.fault.as_ref().map(ToString::to_string),
        "is_whole": done.is_whole,
        "rest": done.rest.as_ref().map(|rest| rest.display().to_string()),
    })
}
