//! A pool for several allocating threads. Each takes many slots at once, under a mutex.
//!
//! Returning needs no lock; it works as for all packets.
//!
//! ```text
//!   Allocator (thread 1) │ magazine: up to 31 packets │ ◀──lock── │
//!   Allocator (thread 2) │ magazine                   │ ◀──lock── │ Pool │ ◀── returns ◀── any thread, without a lock
//! ```

use super::{AllocPacket, Counts, Handle, Leaks, Packet, Pool, PoolConfig, WrongPool};
use crate::{
    Result,
    sync::{Arc, held},
};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A [`Pool`] that several threads allocate from, each through its [`Allocator`].
///
/// ```
/// use forebay::packet::{PoolConfig, SharedPool, return_idle};
/// let pool = SharedPool::new(&PoolConfig::default())?;
/// std::thread::scope(|scope| {
///     for _ in 0..3 {
///         let mut allocator = pool.allocator();
///         scope.spawn(move || {
///             for _ in 0..1000 {
///                 allocator.take().unwrap().put(60).unwrap();
///             }
///             return_idle(); // a scope does not wait for what a thread does as it ends
///         });
///     }
/// });
/// assert_eq!(pool.refill(), 2048);
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SharedPool {
    pool: Arc<Mutex<Pool>>,
    /// Packets that an allocator takes at once. One of them is handed out, so it keeps at most one fewer.
    batch: usize,
}

impl SharedPool {
    /// Makes a pool.
    ///
    /// # Errors
    /// As [`Pool::new`].
    pub fn new(config: &PoolConfig) -> Result<SharedPool> {
        Ok(SharedPool::from(Pool::new(config)?))
    }

    /// An allocator for one thread.
    pub fn allocator(&self) -> Allocator {
        Allocator {
            shared: self.clone(),
            magazine: Vec::with_capacity(self.batch - 1),
        }
    }

    /// A handle for threads that adopt packets of this pool only; see [`Pool::handle`].
    pub fn handle(&self) -> Handle {
        self.lock().handle()
    }

    /// Collects all returned slots; returns how many slots are free now, without those that allocators keep.
    pub fn refill(&self) -> usize {
        self.lock().refill()
    }

    /// Counts of the pool; slots that allocators keep count as away.
    pub fn counts(&self) -> Counts {
        self.lock().counts()
    }

    /// Ends the pool as [`Pool::close`] does, if this is the last handle, allocators included; otherwise returns it.
    ///
    /// # Errors
    /// There are other handles.
    pub fn close(self) -> std::result::Result<Option<Leaks>, SharedPool> {
        let batch = self.batch;
        match Arc::try_unwrap(self.pool) {
            Ok(pool) => Ok(pool
                .into_inner()
                .unwrap_or_else(PoisonError::into_inner)
                .close()),
            Err(pool) => Err(SharedPool { pool, batch }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pool> {
        held(&self.pool)
    }
}

impl From<Pool> for SharedPool {
    fn from(pool: Pool) -> SharedPool {
        SharedPool {
            batch: pool.shared.batch as usize,
            pool: Arc::new(Mutex::new(pool)),
        }
    }
}

/// Allocates packets of a [`SharedPool`] for one thread. It locks once for 32 packets, or for 1/32 of a pool of fewer than
/// 1024. It keeps at most one fewer, which return when it is dropped or [unloaded](Allocator::unload). So 32 allocators each
/// get a packet from any pool that has at least 32 slots. If they run on threads that also drop packets, which keep as many
/// ([`return_idle`](super::return_idle)), 16 do.
///
/// ```
/// use forebay::packet::{PoolConfig, SharedPool};
/// let pool = SharedPool::new(&PoolConfig { slots: 16, ..PoolConfig::default() })?;
/// let (mut one, mut other) = (pool.allocator(), pool.allocator());
/// let all: Vec<_> = std::iter::from_fn(|| one.take()).collect();
/// assert_eq!((all.len(), other.take().is_none()), (16, true));
/// drop(all);
/// assert!(other.take().is_some());
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Debug)]
pub struct Allocator {
    shared: SharedPool,
    /// Empty packets, ready: at most a batch less one.
    magazine: Vec<Packet>,
}

impl Allocator {
    /// An empty packet with the pool's headroom; `None` if no slot is free except those that other allocators keep.
    #[inline]
    pub fn take(&mut self) -> Option<Packet> {
        match self.magazine.pop() {
            Some(packet) => Some(packet),
            None => self.loaded(),
        }
    }

    #[cold]
    fn loaded(&mut self) -> Option<Packet> {
        let mut pool = self.shared.lock();
        if pool.counts().free < self.shared.batch as u32 {
            pool.look(self.shared.batch);
        }
        // Only the first packet was asked for; that the others are missing is not counted.
        let first = pool.take()?;
        let more = (self.shared.batch - 1).min(pool.counts().free as usize);
        pool.take_burst(more, &mut self.magazine);
        Some(first)
    }

    /// Returns the packets that it keeps to the pool, for other threads; call it before idling.
    pub fn unload(&mut self) {
        if self.magazine.is_empty() {
            return;
        }
        let mut pool = self.shared.lock();
        for packet in self.magazine.drain(..) {
            if let Err(WrongPool(packet)) = pool.put_back(packet) {
                drop(packet);
            }
        }
    }
}

impl Drop for Allocator {
    fn drop(&mut self) {
        self.unload();
    }
}

impl super::pool::sealed::Sealed for Allocator {}

impl AllocPacket for Allocator {
    #[inline]
    fn take(&mut self) -> Option<Packet> {
        Allocator::take(self)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_allocator_keeps_one_fewer_than_it_takes_at_once_and_has_room_for_no_more() {
        for (slots, kept) in [(1, 0), (63, 0), (64, 1), (256, 7), (1024, 31), (4096, 31)] {
            if cfg!(miri) && slots > 64 {
                continue;
            }
            let pool = SharedPool::new(&PoolConfig {
                slots,
                slot_bytes: 64,
                headroom: 0,
                ..PoolConfig::default()
            })
            .unwrap();
            let mut allocator = pool.allocator();
            assert_eq!(allocator.magazine.capacity(), kept);
            let mut most = 0;
            for _ in 0..slots {
                assert!(allocator.take().is_some());
                most = most.max(allocator.magazine.len());
            }
            assert_eq!((most, allocator.magazine.capacity()), (kept, kept));
        }
    }

    #[test]
    fn as_many_allocators_as_are_promised_get_a_packet() {
        for slots in [32, 63, 64, 256, 1024] {
            if cfg!(miri) && slots > 32 {
                continue;
            }
            let config = PoolConfig {
                slots,
                slot_bytes: 64,
                headroom: 0,
                ..PoolConfig::default()
            };
            let pool = SharedPool::new(&config).unwrap();
            let mut allocators: Vec<_> = (0..32).map(|_| pool.allocator()).collect();
            let packets: Vec<_> = allocators.iter_mut().map(Allocator::take).collect();
            assert!(packets.iter().all(Option::is_some), "{slots} slots");
        }
    }
}
