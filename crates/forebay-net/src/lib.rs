//! The wire: ports, capture formats, whole captures in which every packet is accounted for, and pipes of bytes.
//!
//! ```text
//!  open ──▶ port: sim · af_packet ──▶ session ──▶ format ──▶ forebay::store ──▶ file, pipe
//!                                        └──────▶ ledger: received = written + … + dropped
//!
//!  file, FIFO, TCP ──▶ pipe: two threads and a forebay::stream ──▶ files, FIFOs, TCP
//! ```
//!
//! Apart from those, [`http`] fetches a resource through a [stream](forebay::stream) of bytes.
//!
//! Begin with [`session::Session`], a capture as one library call; [`port::Port`] is what a source
//! of packets implements, [`ledger::Ledger`] the law that every run is held to. [`pipe::Pipe`] moves bytes, and knows no packets.

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
