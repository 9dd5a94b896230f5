//! Capture to a series of files: when the next file begins, how files are named, and which are kept.
//!
//! ```text
//!  session's thread                                          writer's thread
//!  schedule: is it time? ─▶ names: what is it called? ─▶ files: NAME.part ─ written ─▶ NAME ─▶ retention ─▶ removed
//!           │                       └───────────────────── reports ──────────────────────┘
//!           └─▶ series: end of this file │ switch │ beginning of the next        (in the store's buffers)
//!                                                           compressor's thread:  NAME ─▶ NAME.zst
//! ```
//!
//! - [`Rotation`] contains the settings.
//! - `schedule` and `names` are pure functions of times and numbers.
//! - `series` uses both, and orders what is written between the last packet of a file and the first packet of the next.
//! - `files` is the only part that touches the files being written, between two buffers, so a slow file system delays only the
//!   writer. `reports`, beside this folder, connects it with the session.
//! - `retention`, beside this folder too, holds the complete files until newer ones replace them.
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
pub(super) use series::{SeriesState, SeriesStep};

use super::{
    disk_space::{KeepFree, SpaceLimit},
    reports::Reports,
    retention::Retention,
};
use files::SeriesFiles;
use forebay::{Result, store::SyncPolicy};
use leftovers::Leftovers;

/// What writes a series of files, and what runs beside it.
pub(super) struct SeriesParts {
    pub files: SeriesFiles,
    pub compressor: Option<Compressor>,
    pub finisher: Option<Finisher>,
    pub space: Option<SpaceLimit>,
}

/// Prepares to write a series, and starts the thread that compresses finished files, if requested. With `keep_free`, files of earlier
/// captures may be removed, too.
///
/// # Errors
/// Another capture writes the same files, there is too little free space, or the thread cannot be created.
pub(super) fn open(
    rotation: &Rotation,
    reports: Reports,
    sync: SyncPolicy,
    keep_free: Option<KeepFree>,
) -> Result<SeriesParts> {
    files::refuse_another(rotation)?;
    let syncs = sync != SyncPolicy::None;
    let is_ring = rotation.keep_files.or(rotation.keep_bytes).is_some() || keep_free.is_some();
    let retention = Retention::new(reports.clone(), is_ring, rotation.compress.is_some());
    let mut leftovers = Leftovers::find(rotation);
    for path in &leftovers.uncompressed {
        retention.compress_again(path);
    }
    if keep_free.is_some() {
        retention.adopt(std::mem::take(&mut leftovers.earlier));
    }
    let space = |keep| SpaceLimit::open(keep, &rotation.path, Some(retention.clone()));
    let space = keep_free.map(space).transpose()?;
    let start = |level| Compressor::start(retention.clone(), space.clone(), level, syncs);
    Ok(SeriesParts {
        compressor: rotation.compress.map(start).transpose()?,
        finisher: leftovers.finisher(rotation, &retention, syncs),
        files: SeriesFiles::new(rotation, reports, retention, space.clone(), syncs),
        space,
    })
}
