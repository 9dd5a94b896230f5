//! `forebay shares`: the captures of this machine whose packets can be read.

use crate::{
    args::Shares as Flags,
    output,
    sandbox::{self, Needs},
};
use anyhow::Result;
use forebay_net::{
    open::Opening,
    port::Owner,
    share::{self, Listed},
};
use nix::unistd::{Uid, User, geteuid};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fmt::Write,
    path::PathBuf,
    process::ExitCode,
    sync::{Mutex, PoisonError},
};

const SCHEMA: u32 = 1;

/// Lists the shares.
///
/// # Errors
/// They cannot be found out, or standard output cannot be written.
pub fn run(flags: &Flags) -> Result<ExitCode> {
    let needs = Needs {
        shares: true,
        ..Needs::default()
    };
    let users = ["/etc/passwd", "/etc/nsswitch.conf"].map(PathBuf::from);
    sandbox::enter(&flags.sandbox, &needs.reading(&users));
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
    let pid = share.owner.map(|owner| owner.pid).filter(|&pid| pid > 0);
    [
        share.name.to_string(),
        share.owner.map_or_else(|| "?".into(), user),
        pid.map_or_else(|| "?".into(), |pid| pid.to_string()),
        readers,
        packets,
        lost,
    ]
}

fn as_json(share: &Listed) -> Value {
    let owner = share.owner.map(|owner| {
        let pid = Some(owner.pid).filter(|&pid| pid > 0);
        json!({ "uid": owner.uid, "user": user(owner), "pid": pid })
    });
    json!({
        "name": share.name.to_string(),
        "owner": owner,
        "permitted": share.is_permitted,
        "readers": share.status.map(|it| it.readers),
        "packets": share.status.map(|it| it.packets),
        "lost": share.status.map(|it| it.lost),
    })
}

/// Looks up the owners of shares, which is not possible in the sandbox, and warns of those of other users: any user may bind a
/// name before the user who is expected to.
pub fn look_up_owners(ports: &[Opening]) {
    let own_uid = geteuid().as_raw();
    for (share, owner) in ports.iter().filter_map(Opening::owner) {
        let name = user(owner);
        if owner.uid != 0 && owner.uid != own_uid {
            output::warning(format_args!(
                "share:{share} belongs to {name}, and neither to you nor to root: its packets are what that user wants to show",
            ));
        }
    }
}

/// The name of the user, or its number. It is looked up once.
pub fn user(owner: Owner) -> String {
    static NAMES: Mutex<BTreeMap<u32, String>> = Mutex::new(BTreeMap::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let look_up = || match User::from_uid(Uid::from_raw(owner.uid)) {
        Ok(Some(user)) => user.name,
        _ => format!("uid {}", owner.uid),
    };
    names.entry(owner.uid).or_insert_with(look_up).clone()
}
