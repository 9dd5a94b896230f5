//! `forebay shares`: the captures of this machine whose packets can be read.

use crate::{args::Shares as Flags, output};
use anyhow::Result;
use forebay_net::{
    port::Owner,
    session::Source,
    share::{self, Listed},
};
use nix::unistd::{Uid, User, geteuid};
use serde_json::{Value, json};
use std::{fmt::Write, process::ExitCode};

const SCHEMA: u32 = 1;

/// Lists the shares.
///
/// # Errors
/// They cannot be found out, or standard output cannot be written.
pub fn run(flags: &Flags) -> Result<ExitCode> {
    let shares = share::list()?;
    if flags.json {
        let shares: Vec<_> = shares.iter().map(as_json).collect();
        let object = json!({ "schema": SCHEMA, "shares": shares });
        output::answer(&(output::json(&object) + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    if shares.is_empty() {
        output::note("no capture shares its packets. `forebay capture --share NAME` does");
        return Ok(ExitCode::SUCCESS);
    }
    let rows = shares.iter().map(row);
    let titles = ["NAME", "OWNER", "PID", "READERS", "PACKETS", "LOST"].map(str::to_owned);
    let rows: Vec<_> = [titles].into_iter().chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let mut text = String::new();
    for row in &rows {
        let [name, owner, pid, readers, packets, lost] = row;
        let (names, owners, pids) = (width(0), width(1), width(2));
        let (counts, packet_width, lost_width) = (width(3), width(4), width(5));
        let _ = writeln!(
            text,
            "{name:names$}  {owner:owners$}  {pid:>pids$}  {readers:>counts$}  {packets:>packet_width$}  {lost:>lost_width$}"
        );
    }
    output::answer(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn row(share: &Listed) -> [String; 6] {
    let unknown = match share.is_permitted {
        Some(false) => "not permitted",
        Some(true) => "too many readers",
        None => "does not answer",
    };
    let [readers, packets, lost] = match share.status {
        Some(it) => [
            it.readers.to_string(),
            it.packets.to_string(),
            it.lost.to_string(),
        ],
        None => [String::new(), unknown.into(), String::new()],
    };
    let pid = match share.owner.pid {
        0 => "?".into(),
        pid => pid.to_string(),
    };
    [
        share.name.to_string(),
        user(share.owner),
        pid,
        readers,
        packets,
        lost,
    ]
}

fn as_json(share: &Listed) -> Value {
    let pid = Some(share.owner.pid).filter(|&pid| pid > 0);
    json!({
        "name": share.name.to_string(),
        "owner": { "uid": share.owner.uid, "user": user(share.owner), "pid": pid },
        "permitted": share.is_permitted,
        "readers": share.status.map(|it| it.readers),
        "packets": share.status.map(|it| it.packets),
        "lost": share.status.map(|it| it.lost),
    })
}

/// Any user may bind the name of a share before the user who is expected to.
pub fn warn_of_stranger(source: &Source) {
    let own_uid = geteuid().as_raw();
    if let Some(owner) = source
        .got
        .owner
        .filter(|it| it.uid != 0 && it.uid != own_uid)
    {
        output::warning(format_args!(
            "{} belongs to {}, and neither to you nor to root: its packets are what that user wants to show",
            source.name,
            user(owner)
        ));
    }
}

/// The name of the user, or its number.
pub fn user(owner: Owner) -> String {
    match User::from_uid(Uid::from_raw(owner.uid)) {
        Ok(Some(user)) => user.name,
        _ => format!("uid {}", owner.uid),
    }
}
