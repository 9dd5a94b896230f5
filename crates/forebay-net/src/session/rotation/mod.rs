//! Capture to a series of files: when the next file begins, how files are named, and which are kept.
//!
//! ```text
//!  session's thread                                 writer's thread
//!  turns: is it time? ─▶ names: what is it called? ─▶ shelf: NAME.part ─ written ─▶ NAME ─▶ kept ─▶ removed
//!           │                       └────────────── register ──────────────┘
//!           └─▶ end of this file │ order │ beginning of the next        (in the store's buffers)
//!                                                  compressor's thread:  NAME ─▶ NAME.zst
//! ```
//!
//! - [`Rotation`] contains the settings.
//! - `schedule` and `names` are pure functions of times and numbers.
//! - `series` uses both, and orders what is written between the last packet of a file and the first packet of the next.
//! - `files` is the only part that touches the files being written, between two buffers, so a slow file system delays only the
//!   writer. `reports` connects it with the session.
//! - `retention` holds the complete files until newer ones replace them.
//! - `compressor` compresses them.
//! - `leftovers` finds what earlier captures of the series left, and finishes what a killed one did not.

mod compressor;
mod config;
mod files;
mod leftovers;
mod names;
mod schedule;
mod series;
#[cfg(test)]
mod tests;

pub use config::Rotation;
pub use names::Names;

pub(super) use compressor::Compressor;
pub(super) use leftovers::Finisher;
pub(crate) use names::numbered_names;
pub(super) use series::{SeriesState, Step};

use super::{
    reports::Reports,
    retention::Retention,
    room::{KeepFree, Room},
};
use files::SeriesFiles;
use forebay::{Result, store::SyncPolicy};
use leftovers::Leftovers;

/// What writes a series of files.
pub(super) struct Shelf {
    pub files: SeriesFiles,
    pub compressor: Option<Compressor>,
    pub finisher: Option<Finisher>,
    pub room: Option<Room>,
}

/// Creates the shelf for a series, and the thread that compresses finished files, if requested. With `keep_free`, files of earlier
/// captures may be removed, too.
///
/// # Errors
/// Another capture writes the same files, there is too little free space, or the thread cannot be created.
pub(super) fn shelf(
    rotation: &Rotation,
    register: Reports,
    sync: SyncPolicy,
    keep_free: Option<KeepFree>,
) -> Result<Shelf> {
    files::refuse_another(rotation)?;
    let syncs = sync != SyncPolicy::None;
    let is_ring = rotation.keep_files.or(rotation.keep_bytes).is_some() || keep_free.is_some();
    let kept = Retention::new(register.clone(), is_ring, rotation.compress.is_some());
    let mut leftovers = Leftovers::find(rotation);
    for path in &leftovers.uncompressed {
        kept.compress_again(path);
    }
    if keep_free.is_some() {
        kept.adopt(std::mem::take(&mut leftovers.earlier));
    }
    let room = |keep| Room::open(keep, &rotation.path, Some(kept.clone()));
    let room = keep_free.map(room).transpose()?;
    let start = |level| Compressor::start(kept.clone(), room.clone(), level, syncs);
    Ok(Shelf {
        compressor: rotation.compress.map(start).transpose()?,
        finisher: leftovers.finisher(rotation, &kept, syncs),
        files: SeriesFiles::new(rotation, register, kept, room.clone(), syncs),
        room,
    })
}
