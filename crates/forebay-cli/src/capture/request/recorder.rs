//! The memory for packets that are shared or kept, and what `--recorder` needs.

use crate::{args::Capture as Flags, usage::refuse};
use anyhow::Result;
use forebay::memory;
use forebay_net::{
    filter::Filter,
    open::{self, Name},
    share::MIN_RING_BYTES,
};
use std::{path::Path, time::Duration};

/// The memory for shared packets.
const SHARE_BYTES: u64 = 64 << 20;

/// The most memory for packets if only a time is given, and if the kernel does not report how much is free.
const MAX_BYTES: u64 = 2 << 30;
const BYTES_IF_UNKNOWN: u64 = 256 << 20;

/// `--recorder`.
pub struct FlightRecorder {
    /// Packets from this long before a trigger are written; `None`: all that are in memory.
    pub before: Option<Duration>,
    /// Packets until this long after a trigger are written.
    pub after: Duration,
    /// A matching packet is a trigger.
    pub trigger: Option<Filter>,
}

impl FlightRecorder {
    /// Checks `--recorder`, and parses `--trigger`.
    pub(super) fn from_flags(flags: &Flags, names: &[Name]) -> Result<Option<FlightRecorder>> {
        let recording = &flags.recording;
        let Some(depth) = recording.recorder else {
            return Ok(None);
        };
        if !names.iter().all(Name::is_live)
            || open::clock(names).is_ok_and(|clock| clock.is_virtual())
        {
            return refuse(
                "--recorder keeps the last packets of a live source: those of a file are all in the file. Use a filter, with -r",
            );
        }
        let path = flags.write.as_deref().unwrap_or(Path::new("-"));
        if path == Path::new("-") || path.metadata().is_ok_and(|it| !it.is_file()) {
            return refuse("--recorder makes a file for each trigger: name them with -w");
        }
        let text = recording.trigger.as_deref();
        let trigger = text
            .map(|text| {
                text.parse()
                    .or_else(|error| refuse(format!("--trigger: {error}")))
            })
            .transpose()?;
        Ok(Some(FlightRecorder {
            before: depth.time,
            after: recording.after.unwrap_or_default(),
            trigger,
        }))
    }
}

/// Memory for the packets of a time: an eighth of what is free.
fn default_bytes() -> u64 {
    let available = memory::available().map_or(8 * BYTES_IF_UNKNOWN, |bytes| bytes as u64);
    (available / 8).clamp(MIN_RING_BYTES, MAX_BYTES)
}

/// Memory for packets that are shared or kept.
pub(super) fn ring_bytes(flags: &Flags) -> u64 {
    let is_shared = flags.sharing.share.is_some() || flags.sharing.serve.is_some();
    let shared = flags.sharing.share_size.unwrap_or(SHARE_BYTES);
    match flags.recording.recorder {
        None => shared,
        Some(depth) => {
            let bytes = depth.bytes.unwrap_or_else(default_bytes);
            bytes.max(if is_shared { shared } else { 0 })
        }
    }
}
