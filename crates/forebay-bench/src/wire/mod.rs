//! Packets from an interface to a file: forebay, other tools and a bare reader on the same load; and our own path at its limit.
//!
//! `captures` compares them at a stated rate, `loss_free` finds the highest rate at which each loses nothing, `limits` has the simulated
//! card, which needs no rights. `trial` is one capture, `search` chooses the rates, and `verdict` puts a comparison into words. `lab` is the
//! network, `folders` has the files, `sides` the capturing programs. `roles` lists our processes, and `play` has each do its part: `send` sends `walk` reads and drops,
//! `session` is the whole capture. `sending` compares sending programs, which `senders` starts; `arrivals` is the receiver of all.
//!
//! ```text
//!   a separate network namespace, which ends with this program
//!
//!   send, first processor ─▶ va ◀── veth ──▶ vb ─▶ the kernel's ring ─▶ capture, second processor ─▶ file
//!                                                  64 MiB each                 │
//!      warm-up ─▶ pause ─▶ [ time on a processor ─▶ frames ─▶ pause ─▶ time on a processor ] ─▶ end ─▶ packets in the file
//! ```

mod arrivals;
mod burst;
mod captures;
mod folders;
mod lab;
mod limits;
mod loss_free;
mod play;
mod roles;
mod search;
mod send;
mod senders;
mod sending;
mod session;
mod sides;
mod trial;
mod verdict;
mod walk;

pub use play::play;

use crate::method::{Effort, table::Table};
use anyhow::Result;
use folders::Folders;
use lab::Lab;

/// The captures, to memory and to a disk: at a stated rate, and the highest rates without a loss; and our own path.
pub fn captures(effort: Effort) -> Result<Vec<Table>> {
    let folders = Folders::new()?;
    let lab = Lab::new();
    let mut tables = captures::run(&lab, &folders, effort)?;
    tables.extend(loss_free::run(&lab, &folders, effort));
    tables.extend(limits::run(&folders, effort));
    Ok(tables)
}

/// The senders.
pub fn senders(effort: Effort) -> Result<Vec<Table>> {
    Ok(sending::run(&Lab::new(), &Folders::new()?, effort))
}
