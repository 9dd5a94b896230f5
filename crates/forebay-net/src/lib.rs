//! Ports, capture formats, capture sessions in which every packet is accounted for, and byte pipes.
//!
//! ```text
//!  open ──▶ port: sim · af_packet ──▶ session ──▶ format ──▶ forebay::store ──▶ file, pipe
//!                                        └──────▶ ledger: received = written + … + dropped
//!
//!  file, FIFO, TCP ──▶ pipe: two threads and a forebay::stream ──▶ files, FIFOs, TCP
//! ```
//!
//! In addition, [`http`] fetches a resource through a [byte stream](forebay::stream).
//!
//! Begin with [`session::Session`], which runs a capture with one call. [`port::Port`] is the trait that every source of packets
//! implements, and [`ledger::Ledger`] checks that every packet of a run is counted. [`pipe::Pipe`] moves bytes and knows nothing
//! of packets.

pub mod af_packet;
#[cfg(test)]
#[path = "../../forebay/tests/support/dice.rs"]
mod dice;
pub mod file;
pub mod filter;
pub mod format;
pub mod http;
pub mod info;
pub mod keep;
pub mod ledger;
pub mod link;
pub mod open;
pub mod pipe;
pub mod port;
pub mod repair;
pub mod session;
pub mod sim;
pub mod standard;
mod sys;
pub mod units;
