//! `forebay capture`: turns flags into a session, and its summary into text and an exit code.
//!
//! ```text
//!  flags ─▶ Request ─▶ prepare ─▶ open ─▶ run ─▶ report ─▶ exit code
//!                        │          │       └ every packet, every event
//!                        │          └ ports, privileges, sandbox, session, signals
//!                        └ helper of -z, names and sockets, memory
//! ```

mod dump;
mod json;
mod lines;
mod list;
mod on_files;
mod opening;
mod operate;
mod outcome;
mod recording;
mod request;
mod running;
mod sharing;
mod summary;
mod text;
mod threads;

pub use on_files::helper;

use crate::{
    args::Capture as Flags,
    output::{self, Stream},
};
use anyhow::Result;
use forebay::standard;
use request::{Mode, Request};
use std::process::ExitCode;

pub fn run(flags: Flags) -> Result<ExitCode> {
    if flags.list {
        return list::print();
    }
    let request = Request::from_flags(flags)?;
    if let Mode::Program(form) = request.mode {
        return dump::print(&request, form);
    }
    if request.prints_object {
        match request.json_stream() {
            Stream::Output => standard::output()?,
            Stream::Error => standard::error()?,
        };
    }
    if request.prints_count() {
        standard::output()?;
    }
    if request.mode == Mode::LinkTypes {
        output::answer(&request.link_types()?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let opened = opening::prepare(request)?.open()?;
    Ok(running::run(opened)?.report())
}
