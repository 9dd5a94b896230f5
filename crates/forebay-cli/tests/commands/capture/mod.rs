//! `forebay capture` as its users run it: real processes, files, pipes and signals.
//!
//! `readers` is about what others find in its files, `losses` about packets that had no room, `signals` about being stopped,
//! `outputs` about outputs that accept no more, `names` about names and owners of output files, `requests` about flags, and `threads` about several threads. This file
//! holds what they share.

mod losses;
mod names;
mod outputs;
mod readers;
mod recorder;
mod requests;
mod signals;
mod terminals;
mod threads;

use crate::support::*;
use serde_json::Value;

/// The law in JSON, in the text and in the file, and the gaps in the sequence numbers.
fn check(json: &Value, text: &str, found: &Found) {
    let [received, written, filtered, unread] =
        counts(json, ["received", "written", "filtered", "unread"]);
    let dropped = sum(&json["dropped"]);
    assert_eq!(received, written + filtered + unread + dropped, "{json}");
    assert_eq!(json["law_holds"], true);
    assert_eq!(written, found.packets.len() as u64);
    let kernel = count(&json["dropped"]["kernel"]);
    assert_eq!(found.statistics, [[received, kernel, written]]);
    assert_eq!(
        found.gaps(received - unread),
        (count(&json["gaps"]), kernel)
    );
    let law = format!("{received} received = {written} written + 0 filtered");
    contains(text, law);
    contains(text, format!("+ {dropped} dropped"));
    contains(text, format!("{kernel} packets dropped by kernel"));
}
