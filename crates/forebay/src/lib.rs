#![doc = include_str!("../README.md")]
//! # Overview
//!
//! ```text
//!  producer ──▶ ring::spsc ──▶ consumer        any T, exact capacity, a burst is ONE slice
//!                  │ on
//!              memory::Mirror                  the same pages twice, back to back: no wrap case
//!
//!  bytes ──▶ stream::Writer ──▶ Reader        can end or fail; all bytes not yet read are ONE slice
//!  many Senders ──▶ queue ──▶ many Receivers   messages of any size, in order, written and read in place
//!
//!  packet::Pool ──▶ Packet ──▶ PacketDesc     headroom│data│tailroom; a 16-byte descriptor is handed on; slots return in batches
//!
//!  records ──▶ store::Appender ──▶ writer      composed in place; whole buffers go to the writer over a ring
//!
//!  poll::Poller                                asleep while idle, polling under load
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`memory`] | [`Mirror`](memory::Mirror), a memfd mapped twice; [`Region`](memory::Region), aligned private memory |
//! | [`ring`] | [`spsc`](ring::spsc), the typed ring between two threads, and its cursors; [`broadcast`](ring::broadcast), messages from one producer to any number of readers, also in processes that are not trusted |
//! | [`stream`] | [`Writer`](stream::Writer) and [`Reader`](stream::Reader) of a bounded stream of bytes, also as `std::io`; [`LocalStream`](stream::LocalStream), faster within one thread |
//! | [`packet`] | [`Pool`](packet::Pool) of slots, [`Packet`](packet::Packet) with headroom, [`PacketDesc`](packet::PacketDesc) of 16 bytes for rings |
//! | [`poll`] | [`Poller`](poll::Poller), which polls under load and sleeps otherwise, and misses no item when it changes between the two |
//! | [`receive`] | [`Driver`](receive::Driver), which takes packets from a source into a pool, and passes them to another thread |
//! | [`queue`] | [`Sender`](queue::Sender) and [`Receiver`](queue::Receiver) of messages, many of each, between threads or [processes](queue::shared); [`spsc`](queue::spsc), faster for one of each; [`lanes`](queue::lanes): one-way queues from processes that are not trusted, with every value from them checked |
//! | [`foreign`] | [`Foreign`](foreign::Foreign), a descriptor from another process, which is closed without waiting |
//! | [`store`] | [`Appender`](store::Appender), which builds records in buffers; a thread of the store writes them out, and nothing is lost silently; [`Records`](store::Records) of one type or of bytes, in files that survive a crash |
//! | [`sync`] | ways to wait: [`Spin`](sync::Spin), [`Park`](sync::Park), [`Eventfd`](sync::Eventfd), [`Task`](sync::Task) |
//! | [`time`] | [`Clock`](time::Clock), real or virtual |
//!
//! Full and empty are ordinary results. An [`Error`] always means that something went wrong.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "forebay needs Linux (memfd, futex, O_DIRECT); a port to this system does not exist yet"
);

#[cfg(not(target_pointer_width = "64"))]
compile_error!("forebay needs 64-bit addresses: its sizes are not checked for less");

#[macro_use]
mod macros;

pub mod error;
#[cfg(all(feature = "shared", not(loom)))]
pub mod foreign;
pub mod memory;
pub mod packet;
pub mod poll;
pub mod queue;
pub mod receive;
pub mod ring;
pub mod standard;
pub mod store;
pub mod stream;
pub mod sync;
mod sys;
pub mod time;

pub use error::{Error, Result};
/// Its traits say which types may be records ([`store::Records`]).
pub use zerocopy;
