#![doc = include_str!("../README.md")]
//! # Overview
//!
//! ```text
//!  file, FIFO, TCP ──▶ pipe: two threads and a forebay::stream ──▶ files, FIFOs, TCP
//!  HTTP server     ──▶ http: a thread and a forebay::stream    ──▶ file, stream
//! ```
//!
//! [`pipe::Pipe`] moves bytes and keeps both sides busy; [`http::get`] fetches one resource. Neither knows anything of packets:
//! those are in the crate `forebay-net`.

pub mod http;
pub mod pipe;
