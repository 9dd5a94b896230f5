#![doc = include_str!("../README.md")]
//! # Overview
//!
//! ```text
//!  producer ──▶ ring::spsc ──▶ consumer        elements of one type; a burst is one slice
//!                  │ uses
//!              memory::Mirror                  the same memory mapped twice, back to back: a slice continues past the end
//!
//!  bytes ──▶ stream::Writer ──▶ Reader        can end or fail; all bytes that are not read yet are one slice
//!  many Senders ──▶ queue ──▶ many Receivers   messages of any size, in order, written and read in place
//!
//!  packet::Pool ──▶ Packet ──▶ PacketDesc     headroom│data│tailroom; only the 16-byte descriptor passes between threads
//!
//!  records ──▶ store::Appender ──▶ file        records are built in large buffers; a thread writes each full buffer, and every second the finished part of the current one
//!
//!  poll::Poller                                sleeps while idle, polls under load
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`error`] | [`Error`], for everything that fails; a full or an empty buffer is not an error |
//! | [`foreign`] | [`Foreign`](foreign::Foreign), a file descriptor from another process; dropping it does not block, because a separate thread closes it |
//! | [`memory`] | [`Mirror`](memory::Mirror), the same memory mapped twice, the second mapping directly after the first; [`Region`](memory::Region), aligned private memory |
//! | [`packet`] | [`Pool`](packet::Pool) of slots; [`Packet`](packet::Packet) with headroom; [`PacketDesc`](packet::PacketDesc), the 16 bytes that describe a packet |
//! | [`poll`] | [`Poller`](poll::Poller), which polls under load and sleeps otherwise; an item that arrives just before the poller sleeps is not missed |
//! | [`queue`] | [`Sender`](queue::Sender) and [`Receiver`](queue::Receiver) of messages, many of each, between threads or [processes](queue::shared); [`spsc`](queue::spsc), faster, for exactly one sender and one receiver; `queue::lanes` (cargo feature `lanes`), for processes that are not trusted |
//! | [`receive`] | [`Driver`](receive::Driver), which takes packets from a source into a pool, and passes them to another thread |
//! | [`records`] | [`Records`](records::Records), which appends records of one type, or of bytes, to a file that survives a crash; and a [`Reader`](records::Reader) of such files |
//! | [`ring`] | [`spsc`](ring::spsc), the ring of elements between two threads; [`broadcast`](ring::broadcast), messages from one producer to any number of readers, also in processes that are not trusted; [`kernel`](ring::kernel), one end of a ring that is shared with the kernel |
//! | [`standard`] | standard input and output as files |
//! | [`store`] | [`Appender`](store::Appender), which builds records in buffers; a thread of the store writes these, and reports what it could not write |
//! | [`stream`] | [`Writer`](stream::Writer) and [`Reader`](stream::Reader) of a byte stream; [`LocalStream`](stream::LocalStream), faster within one thread |
//! | [`sync`] | ways to wait: [`Spin`](sync::Spin), [`Park`](sync::Park), [`Eventfd`](sync::Eventfd), [`Task`](sync::Task) |
//! | [`time`] | [`Clock`](time::Clock), real or virtual |
//! | [`zerocopy`] | the crate `zerocopy`, re-exported. The Rust type of a record must implement four of its traits: `FromBytes`, `IntoBytes`, `Immutable` and `KnownLayout` |

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
pub mod records;
pub mod ring;
pub mod standard;
pub mod store;
pub mod stream;
pub mod sync;
mod sys;
pub mod time;

pub use error::{Error, Result};
/// Its traits determine which types may be records ([`records::Records`]).
pub use zerocopy;
