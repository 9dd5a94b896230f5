//! Reports on several files: text, or one JSON object a line.

use super::{
    escape::json,
    notes::{answer, causes, error},
};
use anyhow::Result;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

#[derive(Clone, Copy)]
pub enum Form {
    /// Text, with this between two reports.
    Text(&'static str),
    /// JSON objects with this schema number.
    Json(u32),
}

/// Prints what `report` returns for each file, and whether the file is fine. An error is printed as one; in JSON it is an object,
/// too. The exit code is 0 if all files are fine.
///
/// # Errors
/// Standard output cannot be written.
pub fn report_on(
    files: &[PathBuf],
    form: Form,
    report: impl Fn(&Path) -> Result<(bool, String)>,
) -> Result<ExitCode> {
    let mut are_fine = true;
    for (number, path) in files.iter().enumerate() {
        let (is_fine, text) = report(path).unwrap_or_else(|cause| {
            let cause = causes(&cause);
            error(&cause);
            let text = match form {
                Form::Text(_) => String::new(),
                Form::Json(schema) => {
                    let file = path.display().to_string();
                    json(&serde_json::json!({ "schema": schema, "file": file, "error": cause }))
                }
            };
            (false, text)
        });
        are_fine &= is_fine;
        let gap = match form {
            Form::Text(gap) if number > 0 => gap,
            Form::Text(_) | Form::Json(_) => "",
        };
        if !text.is_empty() {
            answer(&format!("{gap}{}\n", text.trim_end_matches('\n')))?;
        }
    }
    Ok(ExitCode::from(u8::from(!are_fine)))
}
