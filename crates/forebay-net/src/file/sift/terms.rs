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

use super::batch::Ending;
use crate::{
    filter::{Filter, View, bpf::Program},
    format::read::Decoder,
    port::{Interface, Statistics},
};
use std::{collections::HashMap, sync::Arc};

/// What deciding about packets takes.
pub(super) struct Terms {
    /// Decodes packets and knows nothing else.
    pub decoder: Decoder,
    /// The filter in each interface's terms, up to the first for which it makes no sense.
    pub programs: Vec<Arc<Program>>,
    /// Why there is none for that one.
    pub refusal: Option<String>,
}

/// Who has it goes on in the file; all others wait for it or sift what they have skimmed.
pub(super) struct Baton {
    /// Where the next record begins in the file.
    pub next: u64,
    pub decoder: Decoder,
    pub terms: Arc<Terms>,
    filter: Filter,
    /// Each link type's program: files may have many interfaces, and hardly two kinds.
    by_link: HashMap<u16, Arc<Program>>,
    /// Interfaces and statistics that were told of.
    told: usize,
    recordings: u64,
    /// `terms` are older than the decoder.
    is_outdated: bool,
}

impl Terms {
    /// What a packet of an interface without a program meets.
    pub fn refuse(&self) -> Ending {
        Ending::Filter(self.refusal.clone().unwrap_or_default())
    }
}

impl Baton {
    /// # Errors
    /// The filter makes no sense for an interface that is known already.
    pub fn new(next: u64, decoder: Decoder, filter: Filter) -> Result<Box<Self>, String> {
        let terms = Terms {
            decoder: decoder.for_packets(),
            programs: Vec::new(),
            refusal: None,
        };
        let mut baton = Box::new(Baton {
            next,
            told: decoder.interfaces().len(),
            recordings: decoder.recordings().0,
            decoder,
            terms: Arc::new(terms),
            filter,
            by_link: HashMap::new(),
            is_outdated: true,
        });
        baton.settle();
        match &baton.terms.refusal {
            Some(refusal) => Err(refusal.clone()),
            None => Ok(baton),
        }
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

    /// Brings `terms` up to what the file has described.
    pub fn settle(&mut self) {
        if !self.is_outdated {
            return;
        }
        self.is_outdated = false;
        let (mut programs, mut refusal) = (self.terms.programs.clone(), None);
        for of in &self.decoder.interfaces()[programs.len()..] {
            let program = match self.by_link.get(&of.link.0) {
                Some(program) => program.clone(),
                None => match self.filter.compile(of.link, View::Packet, of.snaplen) {
                    Ok(program) => Arc::new(program),
                    Err(error) => {
                        refusal = Some(error.to_string());
                        break;
                    }
                },
            };
            self.by_link.insert(of.link.0, program.clone());
            programs.push(program);
        }
        self.terms = Arc::new(Terms {
            decoder: self.decoder.for_packets(),
            programs,
            refusal,
        });
    }
}
