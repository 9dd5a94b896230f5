//! The token that travels from window to window: the offset of the next record, the decoder, and the filter's programs.
//!
//! ```text
//!  token    next │ decoder: everything the file has described │ state ──┐ shared
//!  workers                                                              ▼
//!                                           programs, and a small decoder that each worker copies
//! ```
//! There is one full decoder, which moves with the token. The part of it that packets need is shared, and replaced when the
//! file describes another interface or section, which is rare.

use crate::{
    filter::{Programs, bpf::Program},
    format::read::Decoder,
    port::{Interface, Statistics},
};
use std::sync::Arc;

/// What filtering packets needs.
pub(super) struct DecoderState {
    /// Decodes packets only.
    pub decoder: Decoder,
    /// The filter, compiled for each interface.
    pub programs: Vec<Arc<Program>>,
}

/// The worker that holds it continues in the file. All others wait for it, or filter a window that they have walked.
pub(super) struct Token {
    /// Where the next record begins in the file.
    pub next: u64,
    pub decoder: Decoder,
    /// What windows are filtered with after the token was passed on.
    pub state: Arc<DecoderState>,
    /// The filter, compiled for each interface. Within a window it may be newer than `state`.
    pub programs: Vec<Arc<Program>>,
    by_link: Programs,
    /// Interfaces and statistics blocks that were reported.
    interfaces: usize,
    statistics: u64,
    /// `state` is older than the decoder.
    is_outdated: bool,
}

impl Token {
    pub fn new(next: u64, decoder: Decoder, by_link: Programs) -> Box<Self> {
        let state = DecoderState {
            decoder: decoder.for_packets(),
            programs: Vec::new(),
        };
        let mut token = Box::new(Token {
            next,
            interfaces: decoder.interfaces().len(),
            statistics: decoder.last_statistics().0,
            decoder,
            state: Arc::new(state),
            programs: Vec::new(),
            by_link,
            is_outdated: true,
        });
        token.publish();
        token
    }

    /// The interfaces described since the last call.
    pub fn new_interfaces(&mut self) -> Vec<Interface> {
        self.is_outdated = true;
        let new = self.decoder.interfaces()[self.interfaces..].to_vec();
        self.interfaces += new.len();
        new
    }

    /// The statistics block since the last call. Call it after each block, so that there is at most one.
    pub fn new_statistics(&mut self) -> Option<(u32, Statistics)> {
        let (blocks, interface) = self.decoder.last_statistics();
        if blocks == self.statistics {
            return None;
        }
        self.statistics = blocks;
        let counts = self.decoder.recorded().get(interface as usize)?;
        counts.map(|counts| (interface, counts))
    }

    /// Compiles the filter for interfaces that do not have a program yet.
    pub fn compile(&mut self) {
        for of in &self.decoder.interfaces()[self.programs.len()..] {
            self.programs.push(self.by_link.of(of.link));
        }
    }

    /// Updates `state`, for the following windows.
    pub fn publish(&mut self) {
        if !self.is_outdated {
            return;
        }
        self.is_outdated = false;
        self.compile();
        self.state = Arc::new(DecoderState {
            decoder: self.decoder.for_packets(),
            programs: self.programs.clone(),
        });
    }
}
