//! The wire: ports, capture formats, and whole captures in which every packet is accounted for.
//!
//! ```text
//!  open ──▶ port: sim · af_packet ──▶ session ──▶ format ──▶ forebay::store ──▶ file, pipe
//!                                        └──────▶ ledger: received = written + … + dropped
//! ```
//!
//! Begin with [`session::Session`], a capture as one library call; [`port::Port`] is what a source
//! of packets implements, [`ledger::Ledger`] the law that every run is held to.

pub mod af_packet;
pub mod file;
pub mod filter;
pub mod format;
pub mod info;
pub mod keep;
pub mod ledger;
pub mod link;
pub mod open;
pub mod port;
pub mod session;
pub mod sim;
mod sys;
pub mod units;
