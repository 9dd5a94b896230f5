//! `forebay records`: the contents of record files, and what a crash damaged.
//!
//! [`forebay::records`] reads; this prints.

use crate::{
    args::{Check, Dump, Records as Flags, RecordsCommand},
    output::{self, Form, plain},
    sandbox::{self, Needs},
};
use anyhow::{Context, Result};
use forebay::records::{Reader, Recovered, Shape};
use forebay::standard;
use serde_json::{Value, json};
use std::{
    fs::File,
    io::{self, ErrorKind, Read, Write},
    path::Path,
    process::ExitCode,
};

const SCHEMA: u32 = 1;

/// Checks or dumps.
///
/// # Errors
/// A file cannot be read, or the output cannot be written.
pub fn run(flags: &Flags) -> Result<ExitCode> {
    match &flags.command {
        RecordsCommand::Check(flags) => check(flags),
        RecordsCommand::Dump(flags) => Ok(ExitCode::from(u8::from(!dump(flags)?))),
    }
}

fn open(path: &Path) -> Result<Reader<Box<dyn Read>>> {
    if path == "-" {
        return Ok(Reader::new(Box::new(standard::input()?)));
    }
    let file = File::open(path).with_context(|| format!("{} cannot be opened", path.display()))?;
    Ok(Reader::new(Box::new(file)))
}

fn unread(path: &Path) -> impl Fn() -> String {
    move || format!("{} cannot be read", path.display())
}

/// Prints a report on every file that can be read; fails if one cannot be read, or is not whole.
fn check(flags: &Check) -> Result<ExitCode> {
    sandbox::enter(&flags.sandbox, &Needs::default().reading(&flags.files));
    let form = match flags.json {
        true => Form::Json(SCHEMA),
        false => Form::Text("\n"),
    };
    output::report_on(&flags.files, form, |path| {
        let found = open(path)?.finish().with_context(unread(path))?;
        let text = match flags.json {
            true => output::json(&as_json(path, &found)),
            false => as_text(path, &found),
        };
        Ok((found.cut.is_none(), text))
    })
}

fn as_text(path: &Path, found: &Recovered) -> String {
    let mut lines = vec![("File name", plain(&path.display().to_string()).into_owned())];
    let records = match found.shape {
        Some(Shape::Fixed(bytes)) => format!("{} of {bytes} bytes", found.records),
        Some(Shape::Varying) | None => found.records.to_string(),
    };
    lines.push(("Records", records));
    if let Some(first) = found.first {
        lines.push((
            "Numbers",
            format!("{first} to {}", first + found.records - 1),
        ));
    }
    lines.push(("Blocks", found.blocks.to_string()));
    lines.push(("Bytes", found.bytes.to_string()));
    if let Some(cut) = found.cut {
        lines.push((
            "Not to rely on",
            format!("{} bytes from byte {} on", cut.bytes, cut.at),
        ));
        lines.push(("Because", cut.fault.to_string()));
        if cut.later.blocks > 0 {
            let (blocks, records) = (cut.later.blocks, cut.later.records);
            lines.push((
                "After it",
                format!("{blocks} blocks with {records} records according to their headers"),
            ));
        }
    }
    let lines = lines.into_iter();
    lines
        .map(|(label, value)| format!("{:<17}{value}\n", format!("{label}:")))
        .collect()
}

fn as_json(path: &Path, found: &Recovered) -> Value {
    let record_bytes = match found.shape {
        Some(Shape::Fixed(bytes)) => Some(bytes),
        Some(Shape::Varying) | None => None,
    };
    json!({
        "schema": SCHEMA,
        "file": path.display().to_string(),
        "records": found.records,
        "record_bytes": record_bytes,
        "first": found.first,
        "blocks": found.blocks,
        "bytes": found.bytes,
        "cut": found.cut.map(|cut| json!({
            "at": cut.at,
            "bytes": cut.bytes,
            "fault": cut.fault.name(),
            "later_blocks": cut.later.blocks,
            "later_records": cut.later.records,
        })),
    })
}

/// Prints records up to the first fault, which is reported; false if there was one.
fn dump(flags: &Dump) -> Result<bool> {
    sandbox::enter(&flags.sandbox, &Needs::default().reading([&flags.file]));
    let mut reader = open(&flags.file)?;
    let mut out = standard::output()?;
    let mut text = Vec::new();
    while let Some(block) = reader.next_block().with_context(unread(&flags.file))? {
        text.clear();
        // In this order: after the last number, no further one is requested.
        for (record, number) in block.records().zip(block.first()..) {
            lay_out(flags, number, record, &mut text)?;
        }
        match out.write_all(&text).and_then(|()| out.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(true),
            written => written.context("standard output cannot be written")?,
        }
    }
    let found = reader.finish().with_context(unread(&flags.file))?;
    if let Some(cut) = found.cut {
        let (file, at, bytes) = (flags.file.display(), cut.at, cut.bytes);
        let text = format!(
            "{file}: {bytes} bytes from byte {at} on are left out: {}",
            cut.fault
        );
        output::note(text);
    }
    Ok(found.cut.is_none())
}

fn lay_out(flags: &Dump, number: u64, record: &[u8], text: &mut Vec<u8>) -> io::Result<()> {
    if flags.raw {
        text.extend_from_slice(record);
    } else if flags.framed {
        // A record lies in a block, and is shorter than a GiB.
        text.extend((record.len() as u32).to_be_bytes());
        text.extend_from_slice(record);
    } else {
        write!(text, "{number} ")?;
        for byte in record {
            write!(text, "{byte:02x}")?;
        }
        text.push(b'\n');
    }
    Ok(())
}
