//! The settings of a replay.

use super::rewrite::Rewrite;
use crate::{filter::Filter, transmit::Rate};
use std::{path::PathBuf, time::Duration};

/// What to send, and how.
#[derive(Clone, Debug)]
pub struct ReplayConfig {
    /// Capture files, sent one after another; `-` is standard input.
    pub files: Vec<PathBuf>,
    /// When packets are due.
    pub speed: Speed,
    /// With [`Speed::Recorded`]: the longest gap between two packets. A packet whose time is further away than that from the one
    /// before it, in either direction, moves the schedule of those after it. `None`, the default: no limit.
    pub max_gap: Option<Duration>,
    /// How often to send all files; `None`: until a stop. 1 by default.
    pub rounds: Option<u64>,
    /// Stop after this many packets.
    pub limit: Option<u64>,
    /// Only packets that match.
    pub filter: Option<Filter>,
    /// Changes to headers.
    pub rewrite: Rewrite,
    /// What to do with packets that the file holds only in part.
    pub cut_frames: CutFrames,
    /// Read all files into memory before the first packet is sent.
    pub preload: bool,
    /// The time between two reports of progress, 250 ms by default.
    pub progress_every: Duration,
}

impl Default for ReplayConfig {
    fn default() -> Self {
        ReplayConfig {
            files: Vec::new(),
            speed: Speed::Recorded(1.0),
            max_gap: None,
            rounds: Some(1),
            limit: None,
            filter: None,
            rewrite: Rewrite::default(),
            cut_frames: CutFrames::Send,
            preload: false,
            progress_every: Duration::from_millis(250),
        }
    }
}

/// When packets are due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// With the gaps of the file, divided by this factor, which must be above 0. A packet with an earlier time than the one before
    /// it is due at once.
    Recorded(f64),
    /// At a rate of packets.
    Packets(Rate),
    /// At a rate of bits, counting the bytes of each frame from the Ethernet header to the end of its data.
    Bits(Rate),
    /// As fast as possible.
    Top,
}

/// What to do with packets that the file holds only in part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CutFrames {
    /// Send the bytes that are there.
    #[default]
    Send,
    /// Send them with zeros up to the original length.
    Pad,
    /// Leave them out.
    Skip,
}
