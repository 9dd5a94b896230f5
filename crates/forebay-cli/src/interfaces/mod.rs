//! `forebay interfaces`: the interfaces of this machine, what they can do, and what each backend would give.
//!
//! `backends` finds out what can be captured with, `table` and `long` print it, `json` too. Nothing is opened for capturing, and
//! nothing is changed.

mod backends;
mod json;
mod listed;
mod long;
mod table;

use crate::{args::Interfaces as Flags, output, privileges};
use anyhow::Result;
use backends::{Backends, Rights};
use forebay_net::{
    link::{self, Link},
    spelling::nearest,
};
use listed::Listed;
use std::process::ExitCode;

/// Lists the interfaces. Exit code 1 if one of those named does not exist.
///
/// # Errors
/// The system does not list its interfaces, or standard output cannot be written.
pub fn run(flags: &Flags) -> Result<ExitCode> {
    let rights = Rights::of_this_process();
    privileges::drop_all()?;
    let links = link::interfaces()?;
    let is_missing = |name: &&String| links.iter().all(|link| link.name != **name);
    let missing: Vec<_> = flags.interfaces.iter().filter(is_missing).collect();
    for name in &missing {
        let names: Vec<_> = links.iter().map(|link| link.name.as_str()).collect();
        let near = nearest(names.iter().copied(), name);
        let near = near.map(|near| format!(" (did you mean {near}?)"));
        output::error(format_args!(
            "no interface '{name}'; there are: {}{}",
            names.join(", "),
            near.unwrap_or_default()
        ));
    }
    let is_wanted =
        |link: &Link| flags.interfaces.is_empty() || flags.interfaces.contains(&link.name);
    let mut listed = Vec::new();
    for link in links.into_iter().filter(is_wanted) {
        let device = link.device()?;
        let backends = Backends::of(&link, &device, &rights);
        listed.push(Listed {
            link,
            device,
            backends,
        });
    }
    let text = match (flags.json, flags.long) {
        (true, _) => json::print(&listed, &rights),
        (false, true) => long::print(&listed, &rights),
        (false, false) => table::print(&listed, &rights, flags.interfaces.is_empty()),
    };
    output::answer(&text)?;
    Ok(ExitCode::from(u8::from(!missing.is_empty())))
}
