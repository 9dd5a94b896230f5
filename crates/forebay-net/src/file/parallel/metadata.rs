//! What the port knows of the file's interfaces, and the blocks that a copy needs.

use super::batch::EventKind;
use crate::{
    file::SkippedPackets,
    format::read::Decoder,
    port::{Block, Interface, Statistics},
};

pub(super) struct FileMetadata {
    pub interfaces: Vec<Interface>,
    statistics: Vec<Option<Statistics>>,
    /// Packets of some times are left out, and the statistics are about all.
    leaves_out_times: bool,
    /// By interface: losses recorded by rejected packets, which the next matching packet reports.
    pending_losses: Vec<u64>,
    has_pending_losses: bool,
    /// Blocks that precede the next packet in a copy.
    pub blocks: Vec<Block>,
    /// Blocks that the present burst offers.
    pub offered: Vec<Block>,
    pub skipped: SkippedPackets,
}

impl FileMetadata {
    pub fn new(decoder: &mut Decoder, skipped: SkippedPackets, leaves_out_times: bool) -> Self {
        FileMetadata {
            interfaces: decoder.interfaces().to_vec(),
            statistics: decoder.recorded().to_vec(),
            leaves_out_times,
            pending_losses: vec![0; decoder.interfaces().len()],
            has_pending_losses: false,
            blocks: decoder.take_blocks(),
            offered: Vec::new(),
            skipped,
        }
    }

    /// See [`PortReport::file_statistics`](crate::port::PortReport::file_statistics).
    pub fn statistics(&self) -> &[Option<Statistics>] {
        match self.leaves_out_times {
            true => &[],
            false => &self.statistics,
        }
    }

    pub fn apply(&mut self, event: &EventKind) {
        match event {
            EventKind::Interface(interface) => {
                self.interfaces.push(interface.clone());
                self.statistics.push(None);
                self.pending_losses.push(0);
            }
            EventKind::Statistics(interface, counts) => {
                self.statistics[*interface as usize] = Some(*counts);
            }
            EventKind::Block(block) => self.blocks.push(block.clone()),
            EventKind::Skipped(what) => self.skipped.add(what.clone()),
        }
    }

    #[inline(always)]
    pub fn has_pending_losses(&self) -> bool {
        self.has_pending_losses
    }

    pub fn add_loss(&mut self, interface: u32, packets: u64) {
        let pending = &mut self.pending_losses[interface as usize];
        *pending = pending.saturating_add(packets);
        self.has_pending_losses = true;
    }

    /// Removes the losses that a frame of `interface` reports.
    #[cold]
    pub fn take_losses(&mut self, interface: u32) -> u64 {
        let losses = std::mem::take(&mut self.pending_losses[interface as usize]);
        self.has_pending_losses = self.pending_losses.iter().any(|&pending| pending > 0);
        losses
    }
}
