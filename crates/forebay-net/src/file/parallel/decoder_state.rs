//! What travels with the baton: where the file goes on, the decoder as it stands there, and the
//! filter's programs.
//!
//! ```text
//!  baton    next │ decoder: all that the file has told of itself │ terms ──┐ shared
//!  workers                                                        own ─────┴▶ programs, and a small
//!                                                                             decoder to copy
//! ```
//! The whole decoder is one, and moves. What packets need is shared and replaced when the file
//! describes something, which is rare. Imports `format` and `filter`.

use crate::{
    filter::{Programs, bpf::Program},
    format::read::Decoder,
    port::{Interface, Statistics},
};
use std::sync::Arc;

/// What deciding about packets takes.
pub(super) struct DecoderState {
    /// Decodes packets and knows nothing else.
    pub decoder: Decoder,
    /// The filter in each interface's terms.
    pub programs: Vec<Arc<Program>>,
}

/// Who has it goes on in the file; all others wait for it or sift what they have skimmed.
pub(super) struct Baton {
    /// Where the next record begins in the file.
    pub next: u64,
    pub decoder: Decoder,
    /// What skimmed windows are sifted with.
    pub terms: Arc<DecoderState>,
    /// The filter in each interface's terms, newer than `decoder_state` within a window.
    pub programs: Vec<Arc<Program>>,
    by_link: Programs,
    /// Interfaces and statistics that were told of.
    told: usize,
    recordings: u64,
    /// `decoder_state` are older than the decoder.
    is_outdated: bool,
}

impl Baton {
    pub fn new(next: u64, decoder: Decoder, by_link: Programs) -> Box<Self> {
        let terms = DecoderState {
            decoder: decoder.for_packets(),
            programs: Vec::new(),
        };
        let mut baton = Box::new(Baton {
            next,
            told: decoder.interfaces().len(),
            recordings: decoder.recordings().0,
            decoder,
            terms: Arc::new(terms),
            programs: Vec::new(),
            by_link,
            is_outdated: true,
        });
        baton.settle();
        baton
    }

    /// Interfaces that came since the last call.
    pub fn described(&mut self) -> Vec<Interface> {
        self.is_outdated = true;
        let new = self.decoder.interfaces()[self.told..].to_vec();
        self.told += new.len();
        new
    }

    /// Statistics that came since the last call, of which there is one at most.
    pub fn recorded(&mut self) -> Option<(u32, Statistics)> {
        let (recordings, interface) = self.decoder.recordings();
        if recordings == self.recordings {
            return None;
        }
        self.recordings = recordings;
        let counts = self.decoder.recorded().get(interface as usize)?;
        counts.map(|counts| (interface, counts))
    }

    /// Brings `programs` up to what the file has described.
    pub fn learn(&mut self) {
        for of in &self.decoder.interfaces()[self.programs.len()..] {
            self.programs.push(self.by_link.of(of.link));
        }
    }

    /// Brings `decoder_state` up to it, too, for the windows behind.
    pub fn settle(&mut self) {
        if !self.is_outdated {
            return;
        }
        self.is_outdated = false;
        self.learn();
        self.terms = Arc::new(DecoderState {
            decoder: self.decoder.for_packets(),
            programs: self.programs.clone(),
        });
    }
}
