#![doc = include_str!("../README.md")]
//! # Overview
//!
//! ```text
//!  producer ──▶ ring::spsc ──▶ consumer        any T, exact capacity, a burst is ONE slice
//!                  │ on
//!              memory::Mirror                  the same pages twice, back to back: no wrap case
//!
//!  bytes ──▶ stream::Writer ──▶ Reader        a ring of bytes with an end and an error: the content is ONE slice
//!  many Senders ──▶ queue ──▶ many Receivers   messages of any size, in order, written and read in place
//!
//!  packet::Pool ──▶ Packet ──▶ PacketDesc     headroom│data│tailroom; 16 bytes travel, slots return in batches
//!
//!  records ──▶ store::Appender ──▶ writer      composed in place; whole buffers are handed over, through such a ring
//!
//!  poll::Poller                                asleep while idle, polling under load
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`memory`] | [`Mirror`](memory::Mirror), a memfd mapped twice; [`Region`](memory::Region), aligned private memory; [`Fifo`](memory::Fifo), a byte queue within one thread |
//! | [`ring`] | [`spsc`](ring::spsc), the typed ring between two threads, and the cursors that order its accesses |
//! | [`stream`] | [`Writer`](stream::Writer) and [`Reader`](stream::Reader) of a bounded stream of bytes, also as `std::io` |
//! | [`packet`] | [`Pool`](packet::Pool) of slots, [`Packet`](packet::Packet) with headroom, [`PacketDesc`](packet::PacketDesc) of 16 bytes for rings |
//! | [`poll`] | [`Poller`](poll::Poller), which always checks once more after arming |
//! | [`queue`] | [`Sender`](queue::Sender) and [`Receiver`](queue::Receiver) of messages, many of each, between threads or [processes](queue::shared); [`spsc`](queue::spsc), faster for one of each; [`lanes`](queue::lanes) for messages from untrusted processes |
//! | [`store`] | [`Appender`](store::Appender), which appends and flushes and loses nothing silently; [`Records`](store::Records) of one type or of bytes, in files that survive a crash |
//! | [`sync`] | ways to wait: [`Spin`](sync::Spin), [`Park`](sync::Park), [`Eventfd`](sync::Eventfd), [`Task`](sync::Task) |
//! | [`time`] | [`Clock`](time::Clock), real or virtual |
//!
//! Full and empty are ordinary return values. An [`Error`] is a failure that a person has to read. Linux only. The crate
//! `forebay-net` captures packets with this crate, and the command `forebay` is built on `forebay-net`.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "forebay needs Linux (memfd, futex, O_DIRECT); a port to this system does not exist yet"
);

#[cfg(not(target_pointer_width = "64"))]
compile_error!("forebay needs 64-bit addresses: its sizes are not checked for less");

pub mod error;
pub mod memory;
pub mod packet;
pub mod poll;
pub mod queue;
pub mod ring;
pub mod standard;
pub mod store;
pub mod stream;
pub mod sync;
mod sys;
pub mod time;

pub use error::{Error, Result};
