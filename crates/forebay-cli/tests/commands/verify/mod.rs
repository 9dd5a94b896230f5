//! `forebay verify` and `capture --verify`: what is reported is what a path did to the frames.
//!
//! `files` is about captured frames with known losses; `wire` about frames that are sent now.

mod files;
mod wire;

use crate::support::*;
use serde_json::Value;

/// These counts of what was verified.
fn verified<const N: usize>(json: &Value, keys: [&str; N]) -> [u64; N] {
    let verify = &json["verify"];
    assert_eq!(verify["law_holds"], true, "{json}");
    counts(verify, keys)
}
