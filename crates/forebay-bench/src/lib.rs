//! Measures forebay, other crates and programs side by side in one run. The programs `forebay-bench` and `forebay-texts` print the tables.
//!
//! Each module returns the tables of one subject. [`method`] has how things are measured, and [`measure()`](measure::measure) prints them.
// Only programs of this workspace use it.
#![allow(missing_docs)]

pub mod cache;
pub mod driver;
pub mod measure;
pub mod method;
pub mod pipe;
pub mod poll;
pub mod pool;
pub mod queue;
pub mod ring;
pub mod stream;
pub mod wire;

use anyhow::{Result, anyhow, bail};
use std::ffi::OsString;

/// Some subjects need processes of ours: this program again, with [`ROLE`](method::process::ROLE), the subject and the role as arguments.
pub fn play(args: impl Iterator<Item = OsString>) -> Result<()> {
    let args: Result<Vec<_>, _> = args.map(OsString::into_string).collect();
    let args = args.map_err(|args| anyhow!("a role that is not UTF-8: {args:?}"))?;
    match &args[..] {
        [subject, role] if subject == "cache" => cache::play(role),
        [subject, role] if subject == "pipe" => pipe::play(role),
        [subject, role] if subject == "wire" => wire::play(role),
        [subject, role] if subject == "stream" => stream::play(role),
        _ => bail!("no such role: {args:?}"),
    }
}
