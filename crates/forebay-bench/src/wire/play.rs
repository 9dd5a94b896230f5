//! What each of our processes does.

use super::{arrivals, folders, lab, roles::Role, send, senders, session, walk};
use anyhow::{Context, Result};

/// Plays the role that `role` has as JSON.
pub fn play(role: &str) -> Result<()> {
    match serde_json::from_str(role).context("a role on the wire")? {
        Role::Keep { folders } => folders::keep(&folders),
        Role::Hold => lab::hold(),
        Role::Send { bursts, rate, time } => send::send(&bursts, rate, time),
        Role::Walk => walk::walk(),
        Role::Capture { port, file, count } => session::capture(&port, file, count),
        Role::Receive { gap_ns } => arrivals::receive(gap_ns),
        Role::Replay {
            port,
            file,
            rate,
            count,
        } => senders::replay(&port, file, rate, count),
        Role::Generate { port, spec } => senders::generate(&port, &spec),
    }
}
