#![doc = include_str!("../README.md")]
//! # Overview
//!
//! ```text
//!  open ──▶ port: sim · af_packet · file ──▶ session ──▶ format ──▶ forebay::store ──▶ file, pipe
//!                                        └──────▶ ledger: received = written + … + dropped
//! ```
//!
//! Begin with [`session::Session`], which runs a capture with one call. [`port::Port`] is the trait that every source of packets
//! implements, and [`ledger::Ledger`] checks that every packet of a run is counted.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "live")]
pub mod af_packet;
pub mod af_xdp;
pub mod bridge;
pub mod file;
pub mod filter;
pub mod format;
pub mod generate;
pub mod info;
pub mod label;
pub mod ledger;
#[cfg(feature = "live")]
pub mod link;
pub mod open;
pub mod packets;
pub mod port;
pub mod receive;
pub mod recorder;
pub mod repair;
pub mod replay;
pub mod serve;
pub mod session;
pub mod share;
pub mod sim;
mod sys;
pub mod threads;
pub mod transmit;
pub mod units;
pub mod verify;
