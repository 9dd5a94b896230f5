//! Packets longer than a slot: the first slot's data, followed by the data of the slots chained to it.
//!
//! ```text
//!  slot 7   │ headroom │ data (linear)      │──next─▶ slot 4 │ data                │──next─▶ slot 9 │ data │ tailroom │
//!                       ╰────────────────────── len = linear + paged ────────────────────────────────────╯
//! ```
//!
//! The facts of a further slot hold its length and the next slot. Those of the first further slot also hold the last one. They
//! belong to the packet, and change only while it is not shared.
#![allow(unsafe_code)]

use super::{
    Desc, Packet, Pool, Refused, local_cache,
    remote_free::NONE,
    shared::{Cold, PoolMemory, PoolRef},
};
use std::{iter::FusedIterator, mem, ptr, slice};

impl Packet {
    /// The data, slot after slot, without empty slots.
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

    /// Appends `bytes`: first into the tailroom, then into further slots. All of them or none.
    ///
    /// # Errors
    /// The packet is shared; it would be too long; no slot is free; or the slots are of another pool.
    pub fn append(&mut self, pool: &mut Pool, bytes: &[u8]) -> Result<(), Refused> {
        self.alone()?;
        if bytes.len() > (Desc::MAX_LEN - self.len()) as usize {
            return Err(Refused::TooLong);
        }
        let last = self.last_part();
        let last_room = match last {
            NONE => self.tailroom(),
            part => self.pool.slot_bytes - self.pool.facts(part).load().len,
        };
        let (here, rest) = bytes.split_at(bytes.len().min(last_room as usize));
        // Allocate first, so that an exhausted pool changes nothing.
        let (first, new_last) = self.further_slots(pool, rest)?.into_ends();
        match last {
            NONE => {
                // Cannot fail: there is room for these bytes, and the packet is not shared.
                self.put(here.len() as u32)?.copy_from_slice(here);
                self.next = first;
            }
            part => {
                let facts = self.pool.facts(part);
                let cold = facts.load();
                fill(&self.pool, part, cold.len, here);
                facts.store(Cold {
                    len: cold.len + here.len() as u32,
                    next: first,
                    ..cold
                });
                self.paged += here.len() as u32;
            }
        }
        self.paged += rest.len() as u32;
        if new_last != NONE {
            self.set_last_part(new_last);
        }
        Ok(())
    }

    /// Makes its bytes its own: copies them to other slots if they are shared, otherwise does nothing.
    ///
    /// # Errors
    /// No slot is free; the packet goes on sharing.
    pub fn unshare(&mut self, pool: &mut Pool) -> Result<(), Refused> {
        if !self.is_shared() {
            return Ok(());
        }
        let mut copy = pool.take().ok_or(Refused::Exhausted)?;
        copy.leave_headroom_of(self);
        for part in self.parts() {
            copy.append(pool, part)?;
        }
        copy.describe_as(self);
        *self = copy;
        Ok(())
    }

    /// Copies `bytes` into slots of our pool.
    fn further_slots(&self, pool: &mut Pool, bytes: &[u8]) -> Result<Further, Refused> {
        let mut further = Further {
            pool: self.pool,
            first: NONE,
            last: NONE,
        };
        // The last piece first, so that each slot can name the next one.
        let pieces = bytes.chunks(self.pool.slot_bytes as usize);
        for piece in pieces.rev() {
            let packet = pool.take().ok_or(Refused::Exhausted)?;
            if !packet.pool.is(&self.pool) {
                return Err(Refused::ForeignPool);
            }
            further.put_in_front(packet.into_slot(), piece);
        }
        Ok(further)
    }

    /// The last of the further slots, or NONE.
    fn last_part(&self) -> u32 {
        match self.next {
            NONE => NONE,
            first => self.pool.facts(first).load().wire_more,
        }
    }

    /// Stores which further slot is the last with the first of them, so that it is found without a walk.
    fn set_last_part(&self, last: u32) {
        let facts = self.pool.facts(self.next);
        facts.store(Cold {
            wire_more: last,
            ..facts.load()
        });
    }

    /// Cuts the data of a packet with further slots to `len` bytes; it has at least that many.
    pub(super) fn trim_chain(&mut self, len: u32) -> Result<(), Refused> {
        self.alone()?;
        let linear = self.linear();
        if len <= linear {
            let parts = mem::replace(&mut self.next, NONE);
            self.paged = 0;
            self.cut(len);
            local_cache::free_parts(self.pool, parts);
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
                self.set_last_part(part);
                local_cache::free_parts(self.pool, cold.next);
                return Ok(());
            }
            left -= cold.len;
            part = cold.next;
        }
    }
}

/// Slots that belong to no packet yet, each chained to the next; dropped, they return to the pool.
struct Further {
    pool: PoolRef,
    first: u32,
    last: u32,
}

impl Further {
    /// The slot is the caller's, and ours from here on.
    fn put_in_front(&mut self, slot: u32, bytes: &[u8]) {
        fill(&self.pool, slot, 0, bytes);
        self.pool.facts(slot).store(Cold {
            offset: 0,
            len: bytes.len() as u32,
            wire_more: 0,
            next: self.first,
        });
        self.first = slot;
        if self.last == NONE {
            self.last = slot;
        }
    }

    /// The first slot and the last, which belong to a packet now.
    fn into_ends(self) -> (u32, u32) {
        let ends = (self.first, self.last);
        mem::forget(self);
        ends
    }
}

impl Drop for Further {
    fn drop(&mut self) {
        local_cache::free_parts(self.pool, self.first);
    }
}

/// Copies `bytes` into a further slot of a packet that is not shared, from byte `at` on.
fn fill(pool: &PoolMemory, slot: u32, at: u32, bytes: &[u8]) {
    assert!(at as usize + bytes.len() <= pool.slot_bytes as usize);
    // SAFETY: the sum stays in the slot (asserted).
    let target = unsafe { pool.start(slot).add(at as usize) };
    // SAFETY: the slot belongs to our packet, which is not shared and is borrowed exclusively. The target has room
    // (asserted). `bytes` is no part of it, since no slice of it can exist now.
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
                // SAFETY: the slot belongs to the packet, which is borrowed, so it is not written to. The bytes are in the slot (asserted)
                // and initialised.
                return Some(unsafe { slice::from_raw_parts(start.as_ptr(), cold.len as usize) });
            }
        }
        None
    }
}

impl FusedIterator for Parts<'_> {}
