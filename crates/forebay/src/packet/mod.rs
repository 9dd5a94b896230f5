//! Packets: memory slots of a pool, the 16 bytes that describe one, and [`Packet`], through which code reads and changes the bytes.
//!
//! A packet's bytes stay in their slot from arrival to the end of processing; only the description moves.
//!
//! ```text
//!  Pool (one owner) ──take──▶ Packet ──into_desc──▶ PacketDesc, 16 bytes ──▶ ring::spsc ──▶ Packet ──▶ … dropped
//!    ▲  LIFO of slots          headroom│data│tailroom                                        anywhere
//!    │                                                                                          │
//!    └──── one swap takes all ◀── │ chain of 32 │ chain of 32 │ ◀── one CAS a chain ◀── thread's own chain
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
//! | [`Slots`] | a block of free slots, for code that does not need packets yet |
//! | [`Packet`] | headroom, data, tailroom; reference-counted; over several slots if longer than one |
//! | [`Columns`] | many descriptions, field by field: for loops that look at one or two fields |
//!
//! # Misuse
//!
//! - **Forgotten** (`mem::forget`): the slot of a forgotten packet never returns to its pool. [`Pool::close`] reports it, and the
//!   memory stays mapped. If shares of a packet are forgotten again and again, sharing it panics before the count wraps.
//! - **Panics**: packets that a panic drops return to their pool as others do.
//! - **`Drop` and thread ends**: a packet may be dropped anywhere, also by a destructor of a thread-local. Freed slots that a thread has not yet
//!   returned go back when it ends, or by [`return_idle`].
//! - **`fork`**: a forked child has a copy of every pool (private memory, copied when written). Packets of the child do not
//!   return to the parent. Threads of the parent do not exist in the child, so slots that they had freed but not yet returned stay lost there.
//! - **Signal handlers**: no call here is async-signal-safe, not even dropping a packet: the handler may have interrupted its
//!   thread while that thread was changing its list of freed slots.

mod chain;
mod columns;
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
pub use desc::{Desc, Facts, Flags};
pub use does_not_fit::DoesNotFit;
pub use local_cache::return_idle;
pub use packet::{Packet, Refused};
pub use packet_desc::PacketDesc;
pub use pool::{Counts, Leaks, Pool, PoolConfig, WrongPool};
pub use slots::Slots;
