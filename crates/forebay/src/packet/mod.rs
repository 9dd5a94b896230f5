//! Packets in the memory slots of a pool.
//!
//! A [`Packet`] gives access to the bytes of a packet, and a [`PacketDesc`] describes the packet in 16 bytes. The bytes stay in
//! their slot from arrival to the end of processing; only the description moves.
//!
//! ```text
//!  Pool (one owner) ──take──▶ Packet ──into_desc──▶ PacketDesc, 16 bytes ──▶ ring::spsc ──▶ Packet ──▶ … dropped
//!    ▲                         headroom│data│tailroom                                        on any thread
//!    │                                                                                          │
//!    └── the pool takes all ◀── │ 32 slots │ 32 slots │ ◀── 32 at a time ◀── the thread's list of freed slots
//!        with one atomic swap
//! ```
//!
//! ```
//! use forebay::packet::{Pool, PoolConfig};
//! let mut pool = Pool::new(&PoolConfig::default())?;
//! let mut packet = pool.take().expect("a new pool is not empty");
//! packet.put(4).unwrap().copy_from_slice(b"data");
//! packet.push(2).unwrap().copy_from_slice(b"h:"); // into the headroom: the data stays where it is
//! let desc = packet.into_desc().unwrap(); // 16 bytes, fit for a ring
//! let packet = std::thread::spawn(move || desc.into_packet()).join().unwrap();
//! assert_eq!(packet.as_slice(), b"h:data");
//! drop(packet); // its slot returns to the pool
//! assert!(pool.close().is_none());
//! # Ok::<(), forebay::Error>(())
//! ```
//!
//! | module or type | what it is |
//! |---|---|
//! | [`Desc`], [`PacketDesc`] | 16 bytes: `Desc` is plain data, `PacketDesc` also owns its slot |
//! | [`Pool`] | slots, allocated by one thread at a time and freed by any |
//! | [`Slots`] | up to 32 free slots, taken from a pool by one call; each can become a packet later |
//! | [`Packet`] | headroom, data and tailroom; reference-counted; a packet longer than a slot has several slots |
//! | [`Columns`] | many descriptions, stored field by field: for loops that read one or two fields |
//!
//! # Misuse
//!
//! - **Forgotten** (`mem::forget`): the slot of a forgotten packet never returns to its pool. [`Pool::close`] reports it, and the
//!   memory stays mapped. Packets are reference-counted: if references are forgotten again and again, [`Packet::share`] panics before
//!   the count overflows.
//! - **Panics**: packets that are dropped during a panic return to their pool as usual.
//! - **`Drop` and thread ends**: a packet may be dropped anywhere, even in the destructor of a thread-local. A thread returns the slots in its
//!   list of freed slots when it ends, or when it calls [`return_idle`].
//! - **`fork`**: a forked child has a copy of each pool. Packets of the child do not return to the parent. The other threads of the parent do
//!   not exist in the child, so the slots in their lists of freed slots are lost in the child.
//! - **Signal handlers**: no call here is async-signal-safe, not even dropping a packet: the handler may have interrupted its
//!   thread while that thread was changing its list of freed slots.

mod chain;
mod columns;
mod config;
mod desc;
mod does_not_fit;
mod local_cache;
#[allow(clippy::module_inception)] // the module is named after its main type
mod packet;
mod packet_desc;
mod pool;
mod references;
mod remote_free;
mod shared;
mod slots;

#[cfg(test)]
mod models;
#[cfg(all(test, not(loom)))]
mod pool_tests;
#[cfg(all(test, not(loom)))]
mod pool_threads_tests;
#[cfg(all(test, not(loom)))]
mod tests;

pub use chain::Parts;
pub use columns::{Columns, View, ViewMut};
pub use config::PoolConfig;
pub use desc::{Desc, Facts, Flags};
pub use does_not_fit::DoesNotFit;
pub use local_cache::return_idle;
pub use packet::{Packet, Refused};
pub use packet_desc::PacketDesc;
pub use pool::{Leaks, Pool, PoolCounts, WrongPool};
pub use slots::Slots;
