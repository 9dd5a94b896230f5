//! Packets longer than a slot: the first slot's data, and then that of the slots that hang on it.
//!
//! Imports its parent's `packet` and `shared`. Read `pool` next.
//!
//! ```text
//!  slot 7   │ headroom │ data (linear)      │──next─▶ slot 4 │ data                │──next─▶ slot 9 │ data │ tailroom │
//!                       ╰────────────────────── len = linear + paged ────────────────────────────────────╯
//! ```
//!
//! How much data a further slot has, and which one follows, stands in its facts; they belong to the packet, and change
//! only while nobody shares it.
#![allow(unsafe_code)]

use super::{
    Desc, Packet, Refused, Supply, chains,
    returns::NONE,
    shared::{Cold, Shared},
};
use std::{iter::FusedIterator, ptr, slice};

impl Packet {
    /// The data, slot after slot, without those that have none.
    ///
    /// ```
    /// use forebay::packet::{Pool, PoolConfig};
    /// let config = PoolConfig { slots: 8, slot_bytes: 64, headroom: 0, ..PoolConfig::default() };
    /// let mut pool = Pool::new(&config)?;
    /// let mut packet = pool.take().unwrap();
    /// packet.append(&mut pool, &[7; 150]).unwrap();
    /// let lens: Vec<usize> = packet.parts().map(|part| part.len()).collect();
    /// assert_eq!((packet.len(), lens), (150, vec![64, 64, 22]));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn parts(&self) -> Parts<'_> {
        Parts {
            packet: self,
            first: Some(self.as_slice()),
            next: self.next,
        }
    }

    /// A copy of the data in one piece.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len() as usize);
        self.parts().for_each(|part| bytes.extend_from_slice(part));
        bytes
    }

    /// Adds `bytes` behind the data: into the tailroom, then into further slots. All of them or none.
    ///
    /// # Errors
    /// Others share it; it would be too long; no slot is left, or slots of another pool.
    pub fn append(&mut self, supply: &mut impl Supply, bytes: &[u8]) -> Result<(), Refused> {
        self.alone()?;
        if bytes.len() > (Desc::MAX_LEN - self.len()) as usize {
            return Err(Refused::TooLong);
        }
        let last = self.last_part();
        let last_room = match last {
            NONE => self.tailroom(),
            part => self.pool.slot_bytes - self.pool.facts(part).load().len,
        };
        let (here, mut rest) = bytes.split_at(bytes.len().min(last_room as usize));
        // Slots first, so that an exhausted pool changes nothing.
        let (first, mut more) = (rest.len(), NONE);
        while !rest.is_empty() {
            // The last piece first, so that each slot can name the one behind it.
            let slot_bytes = self.pool.slot_bytes as usize;
            let piece = match rest.len() % slot_bytes {
                0 => slot_bytes,
                odd => odd,
            };
            let (before, piece) = rest.split_at(rest.len() - piece);
            match self.further_slot(supply, piece, more) {
                Ok(slot) => more = slot,
                Err(refused) => {
                    self.give_parts(more);
                    return Err(refused);
                }
            }
            rest = before;
        }
        match last {
            NONE => {
                // It cannot fail: there is room for these bytes, and we are alone.
                self.put(here.len() as u32)?.copy_from_slice(here);
                self.next = more;
            }
            part => {
                let facts = self.pool.facts(part);
                let cold = facts.load();
                fill(&self.pool, part, cold.len, here);
                facts.store(Cold {
                    len: cold.len + here.len() as u32,
                    next: more,
                    ..cold
                });
                self.paged += here.len() as u32;
            }
        }
        self.paged += first as u32;
        Ok(())
    }

    /// A slot of our pool with `bytes` in it, in front of `next`.
    fn further_slot(
        &self,
        supply: &mut impl Supply,
        bytes: &[u8],
        next: u32,
    ) -> Result<u32, Refused> {
        let packet = supply.take().ok_or(Refused::Exhausted)?;
        if !packet.pool.is(&self.pool) {
            return Err(Refused::ForeignPool);
        }
        assert!(packet.is_one_slot(), "a supply gives fresh packets");
        let slot = packet.into_slot();
        fill(&self.pool, slot, 0, bytes);
        self.pool.facts(slot).store(Cold {
            offset: 0,
            len: bytes.len() as u32,
            wire_more: 0,
            next,
        });
        Ok(slot)
    }

    /// The last of the further slots, or NONE.
    fn last_part(&self) -> u32 {
        let mut last = NONE;
        let mut next = self.next;
        while next != NONE {
            last = next;
            next = self.pool.facts(next).load().next;
        }
        last
    }

    /// Cuts the data of a packet with further slots to `len` bytes, which it has.
    pub(super) fn trim_chain(&mut self, len: u32) -> Result<(), Refused> {
        self.alone()?;
        let linear = self.linear();
        if len <= linear {
            let parts = std::mem::replace(&mut self.next, NONE);
            self.paged = 0;
            self.cut(len);
            self.give_parts(parts);
            return Ok(());
        }
        let mut left = len - linear;
        self.paged = left;
        let mut part = self.next;
        loop {
            let facts = self.pool.facts(part);
            let cold = facts.load();
            if left <= cold.len {
                facts.store(Cold {
                    len: left,
                    next: NONE,
                    ..cold
                });
                self.give_parts(cold.next);
                return Ok(());
            }
            left -= cold.len;
            part = cold.next;
        }
    }

    fn give_parts(&self, mut next: u32) {
        while next != NONE {
            let part = next;
            next = self.pool.facts(part).load().next;
            chains::give(self.pool, part);
        }
    }
}

/// Copies `bytes` into a further slot of a packet that is alone, from byte `at` on.
fn fill(pool: &Shared, slot: u32, at: u32, bytes: &[u8]) {
    assert!(at as usize + bytes.len() <= pool.slot_bytes as usize);
    // SAFETY: the sum stays in the slot (asserted).
    let target = unsafe { pool.start(slot).add(at as usize) };
    // SAFETY: the slot belongs to our packet, which nobody shares and which is borrowed exclusively; the target has
    // room (asserted), and `bytes` is no part of it, since no slice of it can exist now.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), target.as_ptr(), bytes.len()) };
}

/// The data of a packet, slot after slot.
#[derive(Debug)]
pub struct Parts<'a> {
    packet: &'a Packet,
    first: Option<&'a [u8]>,
    next: u32,
}

impl<'a> Iterator for Parts<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if let Some(first) = self.first.take()
            && !first.is_empty()
        {
            return Some(first);
        }
        let pool = &self.packet.pool;
        while self.next != NONE {
            let cold = pool.facts(self.next).load();
            let start = pool.start(self.next);
            self.next = cold.next;
            assert!(cold.len <= pool.slot_bytes);
            if cold.len > 0 {
                // SAFETY: the slot belongs to the packet, which is borrowed, so nobody writes to it; the bytes are in
                // the slot (asserted) and initialised.
                return Some(unsafe { slice::from_raw_parts(start.as_ptr(), cold.len as usize) });
            }
        }
        None
    }
}

impl FusedIterator for Parts<'_> {}
