//! Turns a frame of a file into the packet to send: cut frames are handled, and headers rewritten.

use super::{
    config::{CutFrames, ReplayConfig},
    rewrite::Rewrite,
    source::Input,
};
use forebay::{
    Error, Result,
    packet::{Packet, Pool, PoolConfig},
};

/// Slots for frames that do not fit into the slots of the port. It cannot send them, but it counts them.
const BIG_SLOT_BYTES: u32 = 1 << 19;
const BIG_HEADROOM: u32 = 64;
/// As many as can wait.
const BIG_SLOTS: u32 = 1024;
/// At least the smallest number of bytes that no interface sends.
const TOO_LONG: usize = (BIG_SLOT_BYTES - BIG_HEADROOM) as usize;

pub(super) struct Composer {
    rewrite: Rewrite,
    cut_frames: CutFrames,
    big: Option<Pool>,
    /// Frames that the file holds only in part, and how many of those were left out.
    pub cut: u64,
    pub skipped: u64,
    pub rewritten: u64,
    pub incomplete: u64,
}

impl Composer {
    pub fn new(config: &ReplayConfig) -> Composer {
        Composer {
            rewrite: config.rewrite.clone(),
            cut_frames: config.cut_frames,
            big: None,
            cut: 0,
            skipped: 0,
            rewritten: 0,
            incomplete: 0,
        }
    }

    /// Whether packets are sent as they are in the files.
    pub fn changes_nothing(&self) -> bool {
        !self.rewrite.is_some() && self.cut_frames != CutFrames::Pad
    }

    /// Counts a frame that the file holds only in part. Returns `false` if it is left out.
    pub fn takes(&mut self, input: &Input<'_>) -> bool {
        let is_cut = input.data.len() < input.wire_len as usize;
        let is_skipped = is_cut && self.cut_frames == CutFrames::Skip;
        self.cut += u64::from(is_cut);
        self.skipped += u64::from(is_skipped);
        !is_skipped
    }

    /// Fills `packet`, which is empty, with a frame that it [`takes`](Composer::takes).
    pub fn fill(&mut self, packet: &mut Packet, input: &Input<'_>) -> Result<()> {
        let (data, wire_len) = (input.data, input.wire_len as usize);
        let len = match self.cut_frames {
            CutFrames::Pad => wire_len.max(data.len()),
            _ => data.len(),
        };
        // A longer one fails just the same.
        let len = len.min(TOO_LONG);
        let data = &data[..data.len().min(len)];
        if packet.tailroom() < len as u32 {
            *packet = self.big()?;
        }
        let room = packet.put(len as u32);
        let room = room.map_err(|refused| Error::new("replay", refused.to_string()))?;
        room[..data.len()].copy_from_slice(data);
        room[data.len()..].fill(0);
        if self.rewrite.is_some() {
            let outcome = self.rewrite.apply(packet, input.wire_len);
            self.rewritten += u64::from(outcome.changed);
            self.incomplete += u64::from(outcome.incomplete);
        }
        Ok(())
    }

    fn big(&mut self) -> Result<Packet> {
        let pool = match &mut self.big {
            Some(pool) => pool,
            none => none.insert(Pool::new(&PoolConfig {
                slots: BIG_SLOTS,
                slot_bytes: BIG_SLOT_BYTES,
                headroom: BIG_HEADROOM,
                populate: false,
                ..PoolConfig::default()
            })?),
        };
        let taken = pool.take();
        taken.ok_or_else(|| {
            Error::new(
                "replay",
                "no memory for frames that are too long to be sent",
            )
        })
    }
}
