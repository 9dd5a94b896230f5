//! `forebay control` without a name: the captures that run.

use super::{client::Client, place};
use crate::{
    args::Control as Flags,
    output::{self, plain},
    sandbox::{self, Needs},
};
use anyhow::Result;
use jiff::{Timestamp, tz::TimeZone};
use serde_json::{Value, json};
use std::{fmt::Write, process::ExitCode, time::Duration};

const SCHEMA: u32 = 1;
/// How long each capture may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Lists them.
///
/// # Errors
/// There is no folder for their sockets, or standard output cannot be written.
pub fn run(flags: &Flags) -> Result<ExitCode> {
    let zone = TimeZone::system();
    let found = place::running()?;
    let mut clients: Vec<_> = found
        .into_iter()
        .map(|(name, socket)| {
            let client = socket.map(|socket| Client::of(socket, &name, PATIENCE));
            (name.to_string_lossy().into_owned(), client)
        })
        .collect();
    sandbox::enter(&flags.sandbox, &Needs::default());
    let mut captures = Vec::new();
    for (name, client) in &mut clients {
        // One that does not answer is listed with what is known of it.
        let status = client.as_mut().map(|client| client.ask("status"));
        let mut status = match status {
            Some(Ok(mut answer)) => answer["status"].take(),
            Some(Err(error)) => json!({ "error": error.to_string() }),
            None => json!({ "error": "the capture accepts no connection" }),
        };
        if !status.is_object() {
            status = json!({ "error": "not an answer" });
        }
        if status["pid"].is_null() {
            status["pid"] = client.as_ref().and_then(Client::process).into();
        }
        captures.push((name.clone(), status));
    }
    if flags.json {
        let captures = captures.into_iter().map(|(name, mut status)| {
            status["name"] = name.into();
            status
        });
        let object = json!({ "schema": SCHEMA, "captures": captures.collect::<Vec<_>>() });
        output::answer(&(output::json(&object) + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    if captures.is_empty() {
        output::note(
            "no capture listens in this user's folder for sockets. Start one with: forebay capture --control NAME",
        );
        return Ok(ExitCode::SUCCESS);
    }
    let titles = ["NAME", "PID", "FROM", "TO", "SINCE", "PACKETS"].map(str::to_owned);
    let rows = captures
        .iter()
        .map(|(name, status)| row(name, status, &zone));
    let rows: Vec<_> = [titles].into_iter().chain(rows).collect();
    let width = |column: usize| {
        let widths = rows.iter().map(|row| row[column].chars().count());
        widths.max().unwrap_or(0)
    };
    let mut text = String::new();
    for row in &rows {
        let [name, pid, from, to, since, packets] = row;
        let [names, pids, froms, tos, sinces, counts] = [0, 1, 2, 3, 4, 5].map(width);
        let _ = writeln!(
            text,
            "{name:names$}  {pid:>pids$}  {from:froms$}  {to:tos$}  {since:sinces$}  {packets:>counts$}"
        );
    }
    output::answer(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// What the process reports is printed without control characters: it may belong to another user.
fn row(name: &str, status: &Value, zone: &TimeZone) -> [String; 6] {
    let sources = status["sources"].as_array().into_iter().flatten();
    let sources = sources.filter_map(|source| source["interface"].as_str());
    let from = sources.collect::<Vec<_>>().join(",");
    let newest = status["newest_files"]
        .as_array()
        .and_then(|files| files.last());
    let to = status["output"]
        .as_str()
        .or_else(|| newest?.as_str())
        .unwrap_or("-");
    let since = status["started"].as_f64().and_then(|started| {
        let time = Timestamp::from_second(started as i64).ok()?;
        let time = time.to_zoned(zone.clone());
        Some(time.strftime("%Y-%m-%d %H:%M:%S").to_string())
    });
    let packets = match status["taken"].as_u64() {
        Some(packets) => packets.to_string(),
        None => "does not answer".into(),
    };
    let pid = status["pid"]
        .as_u64()
        .map_or_else(String::new, |pid| pid.to_string());
    let texts = [
        name.into(),
        pid,
        from,
        to.into(),
        since.unwrap_or_default(),
        packets,
    ];
    texts.map(|text: String| plain(&text).into())
}
