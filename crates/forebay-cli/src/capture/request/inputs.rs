//! What is read: the interfaces and files that packets come from, and the filter.

use crate::{
    args::Capture as Flags,
    usage::{refuse, refuse_filter},
};
use anyhow::{Context, Result};
use forebay::standard;
use forebay_net::{file::TimeRange, filter::Filter, open::Name};
use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

/// Largest expression that a filter accepts, in bytes.
const LONGEST_EXPRESSION: u64 = 256 << 10;

/// Interfaces, then files.
pub(super) fn names(flags: &Flags) -> Result<Vec<Name>> {
    refuse_interfaces_twice(&flags.interfaces)?;
    let mut files = flags.read.clone();
    refuse_standard_input_twice(flags, &files)?;
    if let Some(list) = &flags.printing.file_list {
        let text = read_text("-V", list, u64::MAX)?;
        let listed = text.lines().filter(|line| !line.is_empty());
        files.extend(listed.map(PathBuf::from));
        if files.is_empty() {
            return refuse(format!(
                "-V {}: there is no name of a file in it",
                list.display()
            ));
        }
    }
    refuse_standard_input_twice(flags, &files)?;
    let files = files.into_iter().map(Name::File);
    Ok(flags.interfaces.iter().cloned().chain(files).collect())
}

/// `--from` and `--to`.
pub(super) fn times(flags: &Flags, names: &[Name]) -> Result<Option<TimeRange>> {
    if flags.from.is_none() && flags.to.is_none() {
        return Ok(None);
    }
    if let Some(name) = names.iter().find(|name| name.is_live()) {
        return refuse(format!(
            "--from and --to select packets of files, and -i {name} is none. Use -a duration:SECONDS to end a capture"
        ));
    }
    let (from, to) = (flags.from.unwrap_or(0), flags.to.unwrap_or(u64::MAX));
    match TimeRange::new(from, to) {
        Some(times) => Ok(Some(times)),
        None if flags.from.is_none() => {
            refuse("no packet is before --to: their times begin in 1970")
        }
        None => refuse("--from is not before --to: no packet is between them"),
    }
}

/// Each packet would be there twice.
fn refuse_interfaces_twice(names: &[Name]) -> Result<()> {
    let any = names.iter().find(|name| name.is_any());
    for (at, name) in names.iter().enumerate() {
        let is_same = |other: &Name| match (name, other) {
            (Name::Interface(name), Name::Interface(other)) => name == other,
            (Name::Share(name), Name::Share(other)) => name == other,
            (Name::Xdp(name), Name::Xdp(other)) => name.interface == other.interface,
            _ => false,
        };
        if names[..at].iter().any(is_same) {
            return refuse(format!("-i {name} is given twice. Leave one out"));
        }
        if any.is_some() && name.interface().is_some() && !name.is_any() {
            return refuse(format!(
                "-i any captures from {name}, too. Leave one of them out"
            ));
        }
    }
    Ok(())
}

fn refuse_standard_input_twice(flags: &Flags, files: &[PathBuf]) -> Result<()> {
    let lists = [&flags.printing.file_list, &flags.expression_file];
    let read = files.iter().chain(lists.into_iter().flatten());
    match read.filter(|path| path.as_os_str() == "-").count() {
        0 | 1 => Ok(()),
        _ => refuse("standard input (-) can be read only once, by one of -r, -V and -F"),
    }
}

/// The expression at the end of the command line, or in the file named by `-F`.
pub(super) fn parse_filter(flags: &Flags, names: &[Name]) -> Result<Option<Filter>> {
    let text = match &flags.expression_file {
        None => flags.expression.join(" "),
        Some(path) => {
            // One byte more than a filter accepts, so that a longer expression is rejected and not cut.
            without_comments(&read_text("-F", path, LONGEST_EXPRESSION + 1)?)
        }
    };
    let parse = |text: &str| match text.parse::<Filter>() {
        Ok(filter) => Ok(Some(filter)),
        Err(error) => refuse_filter(text, &error),
    };
    let filter = match text.trim() {
        "" => None,
        _ => parse(&text)?,
    };
    // The language has words for what -Q asks for.
    let direction = match flags.printing.direction.as_str() {
        "in" => "inbound",
        "out" => "outbound",
        _ => return Ok(filter),
    };
    let knows_none = |name: &&Name| !name.has_directions_and_clocks();
    if names
        .iter()
        .filter(knows_none)
        .any(|name| name.interface().is_some())
    {
        return refuse("-Q is not possible with xdp:, which sees only packets that come in");
    }
    if names.iter().any(|name| knows_none(&name)) {
        return refuse(
            "-Q needs interfaces: files do not say which packets came in. Filter by address instead: src host, dst host, ether src",
        );
    }
    match filter {
        Some(_) => parse(&format!("{direction} and ({text})")),
        None => parse(direction),
    }
}

/// The start of the text file or of standard input (`-`) that `flag` names.
fn read_text(flag: &str, path: &Path, most: u64) -> Result<String> {
    let shown = || format!("{flag} {}", path.display());
    let source: Box<dyn Read> = if path == Path::new("-") {
        Box::new(standard::input()?)
    } else {
        Box::new(File::open(path).with_context(shown)?)
    };
    let mut bytes = Vec::new();
    source
        .take(most)
        .read_to_end(&mut bytes)
        .with_context(shown)?;
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => refuse(format!(
            "{}: this is no text file. Read a capture file with -r",
            shown()
        )),
    }
}

/// As in tcpdump, text after `#` is a comment.
fn without_comments(text: &str) -> String {
    let code = |line: &str| line.split('#').next().unwrap_or_default().to_owned();
    text.lines().map(code).collect::<Vec<_>>().join("\n")
}
