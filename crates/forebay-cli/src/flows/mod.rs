//! `forebay flows`: what capture files hold, added up by conversation, end point, protocol, service, length and time.
//!
//! ```text
//!  files ─▶ session, filter ─┬▶ tally ─▶ tables ─▶ text, JSON or CSV
//!                            └▶ follow ─▶ a stream for each direction ─▶ what the ends of a connection sent
//! ```

mod follow;
mod stream;
mod tables;
mod tally;
mod text;

use crate::{
    args::{Flows as Flags, Table as Kind},
    output,
    print::{Text, layout::row},
    privileges,
    sandbox::{self, Needs},
    signals::{self, Asked},
    usage::{self, refuse},
};
use anyhow::{Context, Result};
use follow::Follower;
use forebay_net::{
    filter::Filter,
    open::{self, Name, Opening, Options},
    session::{Control, Output, Session, SessionConfig, Summary},
};
use serde_json::{Map, Value};
use std::{
    io::{ErrorKind, IsTerminal, stdout},
    net::IpAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
};
use tally::Tally;

const SCHEMA: u32 = 1;
/// Bytes of a packet that are looked at: all headers fit in.
const SNAPLEN: u32 = 256;

/// # Errors
/// A file cannot be opened, the filter is none, or nothing can be printed.
pub fn run(flags: &Flags) -> Result<ExitCode> {
    let kinds = match &*flags.tables {
        [] => tables::ALL.to_vec(),
        some => some.to_vec(),
    };
    if flags.csv && kinds.len() != 1 {
        return refuse("--csv prints one table. Choose it with -t, such as -t conversations");
    }
    if flags.raw.is_some() && stdout().is_terminal() {
        return refuse("--raw would write bytes to your terminal. Redirect it, or use a pipe");
    }
    let (files, filter) = files_and_filter(&flags.words)?;
    let interval_s = flags.interval.map_or(1, |it| it.as_secs());
    if interval_s == 0 {
        return refuse("--interval: the shortest is 1 s");
    }
    if flags.interval.is_some_and(|it| it.subsec_nanos() > 0) {
        return refuse("--interval takes whole seconds, such as 1s or 90s");
    }
    let control = Control::new()?;
    let session = open_session(flags, &files, filter, &control)?;
    let heard = control.clone();
    signals::listen(&[], move |asked| {
        if asked == Asked::Stop {
            control.stop();
        }
    })?;
    if flags.follow {
        return follow(session, flags, heard);
    }
    let (tally, summary) = count(session, interval_s);
    let max_intervals = flags
        .interval
        .is_none()
        .then_some(match flags.json || flags.csv {
            true => usize::MAX,
            false => flags.top,
        });
    let tables = kinds.iter().map(|&kind| {
        (
            kind,
            tables::table(kind, &tally, max_intervals, rows_of(kind, flags)),
        )
    });
    let printed = match (flags.json, flags.csv) {
        (true, _) => output::json(&json(tables, &tally)) + "\n",
        (_, true) => tables.map(|(_, table)| csv(&table)).collect(),
        _ => {
            let tables: Vec<_> = tables
                .map(|(kind, table)| text::text(kind, &table))
                .collect();
            tables.join("\n")
        }
    };
    output::answer(&printed)?;
    if !flags.json {
        text::note_untracked(&tally);
    }
    if let Some(error) = &summary.port_error {
        output::error(error);
    }
    Ok(ExitCode::from(u8::from(!summary.is_fine())))
}

/// Only text is limited. The lengths are few, and are all shown.
fn rows_of(kind: Kind, flags: &Flags) -> usize {
    match kind {
        _ if flags.json || flags.csv => usize::MAX,
        Kind::Lengths => usize::MAX,
        _ => flags.top,
    }
}

/// The first word is a file, and so is each word after it up to one that is none. The rest is a filter.
fn files_and_filter(words: &[String]) -> Result<(Vec<PathBuf>, Option<Filter>)> {
    let is_file = |word: &String| word == "-" || Path::new(word).exists();
    let more = words
        .iter()
        .skip(1)
        .take_while(|word| is_file(word))
        .count();
    let (files, rest) = words.split_at(words.len().min(1 + more));
    let filter = usage::filter(rest).or_else(|error| match rest.first() {
        Some(word) if names_a_file(word) => refuse(format!("there is no file '{word}'")),
        _ => Err(error),
    })?;
    Ok((files.iter().map(PathBuf::from).collect(), filter))
}

/// Whether a word is more likely the name of a file than a filter.
fn names_a_file(word: &str) -> bool {
    let is_path = |(folder, _): (&str, &str)| {
        // A whole filter may be one word, and a network has a slash.
        !word.contains(char::is_whitespace) && folder.parse::<IpAddr>().is_err()
    };
    let is_likely = word.contains(".pcap") || word.split_once('/').is_some_and(is_path);
    is_likely && word.parse::<Filter>().is_err()
}

/// Opens the files, gives up privileges, enters the sandbox, and opens the session.
fn open_session(
    flags: &Flags,
    files: &[PathBuf],
    filter: Option<Filter>,
    control: &Control,
) -> Result<Session> {
    let snaplen = match flags.follow {
        true => SessionConfig::default().snaplen,
        false => SNAPLEN,
    };
    let names: Vec<_> = files.iter().cloned().map(Name::File).collect();
    let clock = open::clock(&names)?;
    let options = Options {
        filter: filter.clone(),
        reader_filters: true,
        snaplen,
        ..Options::default()
    };
    let begun = open::begin(&names, &options, &clock)?;
    privileges::shed(None)?;
    sandbox::enter(&flags.sandbox, &Needs::default().reading(files));
    let ports = begun.into_iter().map(Opening::finish);
    let ports = ports.collect::<forebay::Result<Vec<_>>>()?;
    let config = SessionConfig {
        snaplen,
        filter,
        ..SessionConfig::default()
    };
    Ok(Session::open(
        ports,
        Output::Count,
        config,
        clock,
        control.clone(),
    )?)
}

fn count(session: Session, interval_s: u64) -> (Tally, Summary) {
    let tally = Arc::new(Mutex::new(Tally::new(interval_s)));
    let counting = tally.clone();
    let session = session.each(move |frame, interface| {
        let mut tally = counting.lock().unwrap_or_else(PoisonError::into_inner);
        tally.count(interface.link, frame.data, frame.wire_len, frame.time_ns);
        true
    });
    let summary = session.run(&mut |_| {});
    let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
    (std::mem::take(&mut *tally), summary)
}

/// `--follow`. Fails if something is missing in what is printed byte for byte.
fn follow(session: Session, flags: &Flags, control: Control) -> Result<ExitCode> {
    let follower = Follower::new(forebay::standard::output()?, flags.raw);
    let follower = Arc::new(Mutex::new(follower));
    let following = follower.clone();
    let session = session.each(move |frame, interface| {
        let mut follower = following.lock().unwrap_or_else(PoisonError::into_inner);
        follower.see(interface.link, frame.data);
        // Nobody reads it any more.
        if follower.failed.is_some() {
            control.stop();
        }
        true
    });
    let summary = session.run(&mut |_| {});
    let mut follower = follower.lock().unwrap_or_else(PoisonError::into_inner);
    follower.finish();
    match follower.failed.take() {
        Some(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
        Some(error) => return Err(error).context("standard output cannot be written"),
        None => {}
    }
    if !follower.has_followed() {
        output::warning("no packet of TCP matches");
    }
    if follower.others > 0 {
        let packets = output::packets(follower.others);
        output::warning(format!(
            "{packets} of other connections are left out. Choose one by a filter, such as host 192.0.2.7 and port 4000"
        ));
    }
    let ignored = follower.ignored();
    if ignored > 0 {
        let segments = output::counted(ignored, "segment", "segments");
        output::warning(format!(
            "{segments} ignored: 16 MiB or more after all other data"
        ));
    }
    let missing = follower.missing;
    if flags.raw.is_some() && missing > 0 {
        output::error(format!("{missing} bytes are missing in the capture"));
    }
    // Ignored data may have been real.
    let is_torn = flags.raw.is_some() && (missing > 0 || ignored > 0);
    if let Some(error) = &summary.port_error {
        output::error(error);
    }
    Ok(ExitCode::from(u8::from(is_torn || !summary.is_fine())))
}

fn json(all: impl Iterator<Item = (Kind, tables::Table)>, tally: &Tally) -> Value {
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| drop(object.insert(key.into(), value));
    put("schema", SCHEMA.into());
    put("packets", tally.total.packets.into());
    put("bytes", tally.total.bytes.into());
    for (kind, table) in all {
        let keys = table.columns;
        let rows = table.rows.into_iter().map(|row| {
            let cells = keys.iter().map(|key| (*key).to_owned()).zip(row);
            Value::Object(cells.collect())
        });
        put(tables::name(kind), rows.collect());
    }
    let untracked = tables::untracked(tally).into_iter();
    let untracked: Map<_, _> = untracked
        .map(|(key, it)| (key.to_owned(), it.into()))
        .collect();
    put("untracked_packets", untracked.into());
    Value::Object(object)
}

fn csv(table: &tables::Table) -> String {
    let mut out = Text::default();
    row(table.columns.iter().copied(), true, &mut out);
    for cells in &table.rows {
        let cells = cells.iter().map(|cell| match cell {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        });
        let cells: Vec<_> = cells.collect();
        row(cells.iter().map(|cell| &**cell), true, &mut out);
    }
    String::from_utf8_lossy(out.bytes()).into_owned()
}
