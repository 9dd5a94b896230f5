//! The JSON object of a replay.

use crate::{
    args::Replay as Flags,
    output,
    sending::{self, Sender},
};
use forebay_net::replay::ReplaySummary;
use serde_json::{Value, json};

const SCHEMA: u32 = 1;

pub fn summary(summary: &ReplaySummary, flags: &Flags, sender: &Sender) -> Value {
    let counts = &summary.counts;
    let files: Vec<_> = flags
        .files
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let mut object = json!({
        "schema": SCHEMA,
        "files": files,
        "read": counts.read,
        "filtered": counts.filtered,
        "cut": counts.cut,
        "skipped": counts.skipped,
        "unsent": counts.unsent,
        "law_holds": summary.law().is_ok(),
        "rewritten": counts.rewritten,
        "rewrite_incomplete": counts.incomplete,
        "rounds": counts.rounds,
        "seconds": summary.elapsed.as_secs_f64(),
        "stalled_seconds": summary.stalled.as_secs_f64(),
        "packets_per_second": summary.packets_per_second(),
        "bits_per_second": summary.bits_per_second(),
        "stopped": summary.stopped,
        "error": summary.error.as_ref().map(|error| output::plain(&error.to_string()).into_owned()),
    });
    if let Value::Object(fields) = &mut object {
        fields.extend(sending::fields(sender, &summary.pace));
    }
    object
}
