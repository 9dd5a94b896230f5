//! Packets from an interface to a file: forebay, other tools and a bare reader on the same load; and our own path at its limit.
//!
//! `captures` sets them side by side, `limits` has the simulated card, which needs no rights. `lab` is the network they are in,
//! `folders` where files go, `sides` who captures; `roles` lists the processes of ours: `send` sends, `walk` reads and drops, `session` is the whole capture.
//!
//! ```text
//!   a network namespace of its own, which ends with this program, however that ends
//!
//!   send, first processor ─▶ va ◀── veth ──▶ vb ─▶ the kernel's ring ─▶ who captures, second processor ─▶ file
//!                                                  64 MiB each                 │
//!      warm-up ─▶ pause ─▶ [ time on a processor ─▶ frames ─▶ pause ─▶ time on a processor ] ─▶ end ─▶ packets in the file
//! ```

mod captures;
mod folders;
mod lab;
mod limits;
mod roles;
mod send;
mod session;
mod sides;
mod walk;

pub use roles::play;

use crate::method::{Effort, table::Table};
use anyhow::Result;
use folders::Folders;
use lab::Lab;

/// The interfaces at both ends of the wire.
const SENDER: &str = "va";
const CAPTURED: &str = "vb";

/// What each side gets of the kernel's memory.
const RING_BYTES: u32 = 64 << 20;

/// The captures, to memory and to a disk, and our own path.
///
/// # Errors
/// A folder cannot be made.
pub fn run(effort: Effort) -> Result<Vec<Table>> {
    let folders = Folders::new()?;
    let lab = Lab::new();
    let mut tables = captures::run(&lab, &folders, effort)?;
    tables.extend(limits::run(&folders, effort));
    Ok(tables)
}
