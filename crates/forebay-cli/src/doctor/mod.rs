//! `forebay doctor`: finds what would lose packets on this machine, and prints what to change.
//!
//! Each module checks one subject and returns findings. Nothing is changed.

mod disk;
mod finding;
mod interfaces;
mod kernel;
mod rights;

use crate::{
    args::{self, Doctor as Flags},
    output,
    sandbox::{self, Needs},
};
use anyhow::Result;
use finding::{Finding, Findings, State};
use serde_json::json;
use std::process::ExitCode;

const SCHEMA: u32 = 1;

/// Prints the findings; exit code 1 if one of them loses packets.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(flags: &Flags) -> Result<ExitCode> {
    let mut findings = rights::check();
    findings.extend(kernel::check());
    findings.extend(interfaces::check(&flags.interfaces)?);
    findings.extend(disk::check(&flags.folder));
    findings.extend(sandbox());
    let is_fine = findings.iter().all(|it| it.state != State::Loss);
    let text = match flags.json {
        true => as_json(&findings, is_fine),
        false => as_text(&findings, is_fine),
    };
    output::answer(&text)?;
    Ok(ExitCode::from(u8::from(!is_fine)))
}

/// What the sandbox of the other subcommands gets here, found out by entering it. Nothing can be opened afterwards.
fn sandbox() -> Vec<Finding> {
    let mut found = Findings::about("sandbox");
    let sandbox = sandbox::enter(&args::Sandbox::default(), &Needs::default());
    for (is_in_force, text) in sandbox.parts() {
        match is_in_force {
            true => found.fine(text),
            false => found.note(text),
        }
    }
    found.list
}

fn as_text(findings: &[Finding], is_fine: bool) -> String {
    let mut text = String::new();
    let mut subject = "";
    for finding in findings {
        if finding.subject != subject {
            subject = &finding.subject;
            text += &format!("{subject}\n");
        }
        let line = format!("  {:<5} {}", finding.state.name(), finding.text);
        for (number, line) in output::wrapped(&line).iter().enumerate() {
            let indent = if number == 0 { "" } else { "      " };
            text += &format!("{indent}{line}\n");
        }
        if let Some(command) = &finding.command {
            text += &format!("        {command}\n");
        }
    }
    text + match is_fine {
        true => "Nothing was found that loses packets.\n",
        false => "What is marked LOSS loses packets, or prevents capturing.\n",
    }
}

fn as_json(findings: &[Finding], is_fine: bool) -> String {
    let checks: Vec<_> = findings
        .iter()
        .map(|it| {
            json!({
                "subject": it.subject,
                "state": it.state.name().to_lowercase(),
                "text": it.text,
                "command": it.command,
            })
        })
        .collect();
    let object = json!({ "schema": SCHEMA, "fine": is_fine, "checks": checks });
    output::json(&object) + "\n"
}
