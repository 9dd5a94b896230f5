//! `--control NAME`: the counts of a running capture from its control socket. Its flows come from its share, if it has one.

use super::{
    latest::{Latest, Update},
    once,
    state::{State, Status},
    tables::Snapshot,
    terminal::{Terminal, heed, show},
};
use crate::{
    args::Top as Flags,
    control::Client,
    output, privileges,
    sandbox::{self, Needs},
    signals::{self, Asked},
};
use anyhow::{Context, Result};
use forebay_net::{open::Name, session::Progress, share};
use serde_json::Value;
use std::{
    ffi::OsStr,
    process::ExitCode,
    sync::Arc,
    thread::{self, sleep},
    time::Duration,
};

/// What the tables show if the capture shares nothing.
const NO_SHARE: &str = "this capture shares no packets: start it with --share NAME";

/// A running capture.
pub struct Attached {
    client: Client,
    /// The name of the capture.
    pub name: String,
    /// The port with its packets.
    pub share: Option<Name>,
    /// Why there are no tables, if there is no such port.
    pub hint: Option<String>,
    /// Its first counts.
    pub first: Status,
}

impl Attached {
    /// Connects to the capture of this name.
    ///
    /// # Errors
    /// No capture answers there.
    pub fn new(name: &OsStr) -> Result<Attached> {
        let mut client = Client::new(name)?;
        let object = client.ask("status")?["status"].take();
        let share = object["share"].as_str().unwrap_or_default();
        let (share, hint) = match format!("share:{share}").parse() {
            // If the list cannot be read, opening the share reports what is wrong.
            Ok(Name::Share(share)) => match share::is_offered(&share) {
                Ok(false) => (None, Some(out_of_reach(client.process()))),
                _ => (Some(Name::Share(share)), None),
            },
            _ => (None, Some(NO_SHARE.into())),
        };
        Ok(Attached {
            share,
            hint,
            name: object["capture"].as_str().unwrap_or_default().into(),
            first: status(&object),
            client,
        })
    }

    /// Its present counts.
    ///
    /// # Errors
    /// The capture does not answer any more.
    pub fn ask(&mut self) -> Result<Status> {
        Ok(status(&self.client.ask("status")?["status"]))
    }

    /// Combines new counts with the latest `tables` after every interval, until the capture ends.
    pub fn follow(mut self, interval: Duration, tables: &Latest<Update>, updates: &Latest<Update>) {
        let mut snapshot = Snapshot::default();
        let mut last = self.first.clone();
        loop {
            let status = self.ask().unwrap_or_else(|_| Status {
                has_ended: true,
                ..last.clone()
            });
            if let Some(update) = tables.take() {
                snapshot = update.snapshot;
            }
            // The capture reports four times a second; the same counts again would show a rate of 0.
            let is_new = status.progress.elapsed > last.progress.elapsed;
            let has_ended = status.has_ended;
            if is_new || has_ended {
                last = status.clone();
                updates.set(Update {
                    status,
                    snapshot: snapshot.clone(),
                    ended: has_ended.then(|| "ended".into()),
                });
            }
            if has_ended {
                return;
            }
            sleep(interval);
        }
    }
}

/// Why the share of a running capture cannot be read: its name exists in one network namespace only.
fn out_of_reach(process: Option<u32>) -> String {
    let Some(pid) = process else {
        return "no flows: the share is in another container".into();
    };
    format!(
        "no flows: the share is in another network namespace. From there: nsenter -t {pid} -n forebay top --control NAME"
    )
}

/// The screen of a running capture, with its first counts.
pub fn of_capture(attached: &Attached) -> State {
    let mut state = State {
        sources: output::plain(&attached.name).into(),
        is_attached: true,
        hint: attached.hint.clone(),
        ..State::default()
    };
    state.update(attached.first.clone(), &Snapshot::default());
    state
}

/// Starts the thread that asks a running capture for its counts.
pub fn follow(
    attached: Attached,
    interval: Duration,
    tables: Arc<Latest<Update>>,
    updates: Arc<Latest<Update>>,
) -> Result<()> {
    let thread = thread::Builder::new().name("forebay-status".into());
    let followed = thread.spawn(move || {
        privileges::drop_files().map(|()| attached.follow(interval, &tables, &updates))
    });
    followed
        .map(drop)
        .context("cannot start a thread for the counts")
}

/// Shows a running capture that shares no packets: there is no session.
pub fn without_tables(flags: &Flags, attached: Option<Attached>) -> Result<ExitCode> {
    let Some(mut attached) = attached else {
        return Ok(ExitCode::SUCCESS);
    };
    privileges::shed(None)?;
    privileges::drop_files()?;
    let needs = Needs {
        terminal: !flags.once,
        ..Needs::default()
    };
    sandbox::enter(&flags.sandbox, &needs);
    let state = of_capture(&attached);
    if flags.once {
        thread::sleep(flags.interval);
        let update = Update {
            status: attached.ask()?,
            ..Update::default()
        };
        once::print(flags, state, Some(update))?;
        return Ok(ExitCode::SUCCESS);
    }
    signals::listen(&[Asked::Suspend, Asked::Resume], |asked| heed(asked, || {}))?;
    let updates = Arc::new(Latest::new());
    follow(
        attached,
        flags.interval,
        Arc::new(Latest::new()),
        updates.clone(),
    )?;
    Terminal::with(|terminal| show(terminal, state, &updates, &mut None))?;
    Ok(ExitCode::SUCCESS)
}

/// The counts of an answer. What it lacks is unknown or 0.
pub(super) fn status(object: &Value) -> Status {
    let count = |key: &str| object[key].as_u64();
    let seconds = |value: &Value| {
        let seconds = value.as_f64().unwrap_or(0.0);
        Duration::try_from_secs_f64(seconds).unwrap_or_default()
    };
    let mut progress = Progress {
        elapsed: seconds(&object["seconds"]),
        wire_bytes: count("wire_bytes").unwrap_or(0),
        ring_fill: object["ring_fill"].as_f64(),
        filters_uncounted: count("filtered").is_none(),
        ..Progress::default()
    };
    let ledger = &mut progress.ledger;
    ledger.received = count("received").unwrap_or(0);
    ledger.written = count("written").unwrap_or(0);
    ledger.counted = count("counted").unwrap_or(0);
    ledger.filtered = count("filtered").unwrap_or(0);
    ledger.interface_dropped = count("interface_dropped");
    // Captures of older versions do not know every cause.
    ledger.dropped.peer = Some(0);
    for (cause, count) in object["dropped"].as_object().into_iter().flatten() {
        ledger.dropped.set(cause, count.as_u64());
    }
    let accounted = ledger.written.saturating_add(ledger.counted);
    progress.taken = count("taken").unwrap_or(accounted);
    progress.modes.busy = seconds(&object["poll"]["busy_seconds"]);
    progress.modes.asleep = seconds(&object["poll"]["asleep_seconds"]);
    let has_store = object["buffer_limit_bytes"].is_u64();
    let store = object["buffer_fill"].as_f64().filter(|_| has_store);
    Status {
        max_fill: object["ring_max_fill"].as_f64().unwrap_or(0.0),
        store: store.map(|fill| (fill, object["buffer_max_fill"].as_f64().unwrap_or(fill))),
        has_ended: object["running"] != true,
        progress,
    }
}
