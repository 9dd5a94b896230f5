#![doc = include_str!("../README.md")]
//! # Overview
//!
//! ```text
//!  open ──▶ port: sim · af_packet · af_xdp · file · share ──▶ session ──▶ format ──▶ forebay::store ──▶ file, pipe
//!                                                                └──────▶ ledger: received = written + … + dropped
//! ```
//!
//! Begin with [`Capture`], which hands out the frames of one source, or with [`Session`], which runs a capture into files.
//!
//! | module | contents |
//! |---|---|
//! | **capture** | |
//! | [`capture`] | hands out the frames of one source, one by one |
//! | [`session`] | runs a whole capture: from ports, through a filter, into a file or a series of files |
//! | [`control`] | [`Control`], which stops a running capture or program that sends, from another thread |
//! | [`open`] | opens ports by name, such as `eth0` or `sim` |
//! | [`port`] | [`Port`], the trait of every source of packets |
//! | [`ledger`] | [`Ledger`], the counts of a run, and the check that they add up |
//! | `af_packet` | capture from interfaces, and send on them, through `AF_PACKET` sockets (feature `live`) |
//! | [`af_xdp`] | the same through `AF_XDP` sockets, which take frames away from the network stack; without the feature `live`, it only parses names |
//! | [`sim`] | the simulated card |
//! | [`threads`] | reads one interface with several threads |
//! | [`recorder`] | keeps the last packets in memory; a trigger (a signal, a command or a matching packet) writes the packets from before the trigger to a file, and optionally also those from after the trigger |
//! | [`share`], [`serve`] | one capture for many readers: in shared memory, or over TCP |
//! | **files and filters** | |
//! | [`file`](mod@file) | a port that reads capture files |
//! | [`format`](mod@format) | encodes and decodes pcap and pcapng |
//! | [`filter`] | compiles and runs filter expressions |
//! | [`flow`] | which flow a packet belongs to |
//! | [`writer`] | writes capture files, packet by packet |
//! | [`info`] | summarizes a capture file |
//! | [`repair`] | truncates a damaged capture file after its last whole packet |
//! | **send** | |
//! | [`transmit`] | [`TxPort`](transmit::TxPort), the trait of every way to send frames |
//! | [`replay`] | sends capture files |
//! | [`bridge`] | forwards frames between two interfaces |
//! | [`generate`], [`verify`], [`label`] | sends numbered frames; counts those that were lost; the label that holds the number |
//! | **other** | |
//! | `link` | lists interfaces and their properties (feature `live`) |
//! | [`moment`] | parses times as people type them, such as `-2h` |
//! | [`packets`] | copies a frame into a packet of a pool of the crate `forebay` |
//! | [`receive`] | lets a port feed [`Driver`](forebay::receive::Driver) or [`Poller`](forebay::poll::Poller) of the crate `forebay` |
//! | [`spelling`] | the name that was probably meant by one that does not exist |
//! | [`units`] | parses and prints quantities such as `5M` |
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "live")]
pub mod af_packet;
pub mod af_xdp;
pub mod bridge;
pub mod capture;
pub mod control;
#[cfg(feature = "live")]
mod ebpf;
pub mod file;
pub mod filter;
pub mod flow;
pub mod format;
pub mod generate;
pub mod info;
pub mod label;
pub mod ledger;
#[cfg(feature = "live")]
pub mod link;
pub mod moment;
pub mod open;
pub mod packets;
pub mod port;
pub mod receive;
pub mod recorder;
pub mod remote;
pub mod repair;
pub mod replay;
pub mod serve;
pub mod session;
pub mod share;
pub mod sim;
pub mod spelling;
mod sys;
pub mod threads;
pub mod transmit;
pub mod units;
pub mod verify;
pub mod writer;

pub use capture::{Batch, Capture, Next, OwnedBatch, each};
pub use control::Control;
pub use ledger::Ledger;
pub use port::{Frame, Port};
pub use session::{Output, Session, SessionConfig};
pub use writer::Writer;
