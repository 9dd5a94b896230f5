//! The memory of frames (UMEM), and the frames in it that one port has received and another one sends.
//!
//! ```text
//!                    ┌────────────── fill ring of its queue ◀─ returned ◀──────────────┐
//!   kernel of A ─────┴▶ chunk: a frame ─▶ handed out ─▶ lent: the address only ─▶ kernel of B, until it is completed
//! ```
//!
//! Each chunk has a home: the queue whose fill ring it is given to. A frame that is lent stays in its chunk. The kernel only reads the
//! chunk, so code that has borrowed the frame may still read it. The sender puts a completed chunk on a list of its home, and the
//! queue collects the list only when none of its frames is borrowed. So nothing writes a chunk while anything reads it.

use forebay::{
    Result,
    memory::{MapConfig, Region},
};
use std::{
    ptr::NonNull,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The sizes of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Bytes of a chunk, which holds one frame: 2048 or 4096.
    pub chunk_bytes: u32,
    /// Number of chunks.
    pub chunks: u32,
    /// Slots of the receive ring, a power of two.
    pub slots: u32,
}

impl Shape {
    pub(super) fn bytes(self) -> usize {
        self.chunk_bytes as usize * self.chunks as usize
    }
}

/// Memory that the kernel also writes. It is never borrowed as a whole.
#[derive(Debug)]
pub(super) struct Memory {
    region: Region,
    shape: Shape,
    /// `None`: frames are not lent.
    lending: Option<Mutex<Lending>>,
}

#[derive(Debug)]
struct Lending {
    /// Of each chunk.
    states: Box<[State]>,
    /// For each queue, its chunks that senders are done with.
    returned: Box<[Vec<u32>]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its queue has it, or has given it to the kernel.
    Home,
    /// A sender has its address.
    Lent,
    /// The sender is done with it, and the queue has not collected it yet.
    Returned,
}

impl Memory {
    /// Maps memory for this number of queues of the same shape. It is faulted in, because the kernel pins it anyway.
    pub(super) fn new(shape: Shape, queues: u32, lends: bool) -> Result<Self> {
        let region = Region::new(shape.bytes() * queues as usize, &MapConfig::default())?;
        let lending = || Lending {
            states: vec![State::Home; shape.chunks as usize * queues as usize].into(),
            returned: (0..queues)
                .map(|_| Vec::with_capacity(shape.chunks as usize))
                .collect(),
        };
        Ok(Memory {
            region,
            shape,
            lending: lends.then(lending).map(Mutex::new),
        })
    }

    pub(super) fn base(&self) -> NonNull<u8> {
        self.region.base()
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// What `XDP_UMEM_REG` takes.
    pub(super) fn registration(&self) -> libc::xdp_umem_reg {
        libc::xdp_umem_reg {
            addr: self.base().as_ptr() as u64,
            len: self.region.len() as u64,
            chunk_size: self.shape.chunk_bytes,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        }
    }

    /// Whether frames can be lent.
    pub(super) fn lends(&self) -> bool {
        self.lending.is_some()
    }

    fn lending(&self) -> Option<MutexGuard<'_, Lending>> {
        let lending = self.lending.as_ref()?.lock();
        Some(lending.unwrap_or_else(PoisonError::into_inner))
    }

    /// Lends a frame to a sender, and returns its address. `None`: it is not a frame in this memory, or it is lent already.
    ///
    /// Only a queue makes slices of this memory, and only of chunks that it has handed out. So this one is handed out now.
    pub(super) fn lend(&self, frame: &[u8]) -> Option<u64> {
        let mut lending = self.lending()?;
        let at = frame.as_ptr().addr();
        let at = at.checked_sub(self.base().addr().get())?;
        let chunk_bytes = self.shape.chunk_bytes as usize;
        let state = lending.states.get_mut(at / chunk_bytes)?;
        let is_within = !frame.is_empty() && at % chunk_bytes + frame.len() <= chunk_bytes;
        if *state != State::Home || !is_within {
            return None;
        }
        *state = State::Lent;
        Some(at as u64)
    }

    /// Returns a lent chunk, which the kernel no longer reads, to its home. Returns whether it was lent.
    pub(super) fn take_back(&self, address: u64) -> bool {
        let chunk = address / u64::from(self.shape.chunk_bytes);
        let (Some(mut lending), Ok(chunk)) = (self.lending(), u32::try_from(chunk)) else {
            return false;
        };
        let lending = &mut *lending;
        let home = (chunk / self.shape.chunks) as usize;
        let (state, returned) = (
            lending.states.get_mut(chunk as usize),
            lending.returned.get_mut(home),
        );
        let (Some(state @ State::Lent), Some(returned)) = (state, returned) else {
            return false;
        };
        *state = State::Returned;
        returned.push(chunk % self.shape.chunks);
        true
    }

    /// Whether this chunk of a queue is lent, or was lent and has not been collected.
    pub(super) fn is_lent(&self, queue: u32, chunk: u32) -> bool {
        let at = (queue * self.shape.chunks + chunk) as usize;
        let lending = self.lending();
        lending.is_some_and(|it| it.states[at] != State::Home)
    }

    /// Appends those of `chunks` of a queue that were not lent to `free`, and those that have returned. `false`: this memory does
    /// not lend, and nothing is appended.
    pub(super) fn collect(
        &self,
        queue: u32,
        chunks: impl Iterator<Item = u32>,
        free: &mut Vec<u32>,
    ) -> bool {
        let Some(mut lending) = self.lending() else {
            return false;
        };
        let Lending { states, returned } = &mut *lending;
        let at = |chunk: u32| (queue * self.shape.chunks + chunk) as usize;
        free.extend(chunks.filter(|&chunk| states[at(chunk)] == State::Home));
        for chunk in returned[queue as usize].drain(..) {
            states[at(chunk)] = State::Home;
            free.push(chunk);
        }
        true
    }
}

/// The part of the memory that is the home of a queue's chunks.
#[derive(Debug)]
pub(super) struct Umem {
    pub memory: Arc<Memory>,
    /// The number of the queue among those that share the memory.
    pub queue: u32,
    /// The program writes a time stamp before each frame.
    pub stamps: bool,
}

impl Umem {
    pub(super) fn shape(&self) -> Shape {
        self.memory.shape()
    }

    /// The address of a chunk.
    #[inline]
    pub(super) fn start(&self, chunk: u32) -> u64 {
        let shape = self.shape();
        let number = u64::from(self.queue) * u64::from(shape.chunks) + u64::from(chunk);
        number * u64::from(shape.chunk_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape {
        chunk_bytes: 2048,
        chunks: 4,
        slots: 2,
    };

    /// Bytes of this memory, as a queue hands them out.
    fn frame(memory: &Memory, at: usize, len: usize) -> &[u8] {
        &memory.region[at..at + len]
    }

    #[test]
    fn a_lent_chunk_returns_once_to_the_queue_that_is_its_home() {
        let memory = Memory::new(SHAPE, 2, true).unwrap();
        // Chunk 1 of the second queue, after the headroom.
        let at = 5 * 2048 + 256;
        assert_eq!(memory.lend(frame(&memory, at, 60)), Some(at as u64));
        assert_eq!(memory.lend(frame(&memory, at, 60)), None, "lent already");
        assert!(memory.is_lent(1, 1) && !memory.is_lent(0, 1) && !memory.is_lent(1, 0));
        let collected = |queue, taken: &[u32]| {
            let mut free = Vec::new();
            assert!(memory.collect(queue, taken.iter().copied(), &mut free));
            free
        };
        // The burst ends while the kernel still reads the frame.
        assert_eq!(collected(1, &[0, 1, 3]), [0, 3]);
        assert!(memory.take_back(at as u64));
        assert!(!memory.take_back(at as u64), "not a second time");
        assert_eq!(memory.lend(frame(&memory, at, 60)), None, "not collected");
        assert_eq!(collected(0, &[]), []);
        assert_eq!(collected(1, &[]), [1]);
        assert_eq!(collected(1, &[]), []);
        // Completed before its burst has ended.
        assert!(memory.lend(frame(&memory, at, 60)).is_some() && memory.take_back(at as u64));
        assert_eq!(collected(1, &[1, 2]), [2, 1]);
    }

    #[test]
    fn only_frames_within_a_chunk_are_lent_and_only_lent_ones_return() {
        let memory = Memory::new(SHAPE, 1, true).unwrap();
        assert_eq!(memory.lend(&[0; 60]), None);
        assert_eq!(memory.lend(frame(&memory, 2000, 60)), None);
        assert_eq!(memory.lend(frame(&memory, 0, 0)), None);
        for address in [0, 3 * 2048, 4 * 2048, u64::MAX] {
            assert!(!memory.take_back(address));
        }
        let plain = Memory::new(SHAPE, 1, false).unwrap();
        assert_eq!(plain.lend(frame(&plain, 256, 60)), None);
        assert!(!plain.lends() && !plain.collect(0, 0..2, &mut Vec::new()));
    }
}
