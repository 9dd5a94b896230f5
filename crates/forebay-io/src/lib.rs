#![doc = include_str!("../README.md")]
//! # Overview
//!
//! ```text
//!  file, FIFO, TCP ──▶ pipe: two threads and a forebay::stream ──▶ files, FIFOs, TCP
//!  HTTP server     ──▶ http: a thread and a forebay::stream    ──▶ file, stream
//! ```
//!
//! [`pipe::Pipe`] reads inputs and writes outputs at the same time; [`http::get`] fetches one resource.

pub mod http;
pub mod pipe;
