#![doc = include_str!("../README.md")]

mod arrow;
mod broadcast;
mod burst;
mod capture;
mod column;
mod error;
mod filter;
mod lanes;
mod packets;
mod pipe;
mod process;
mod queue;
mod records;
mod watch;
mod writer;

/// What the package `forebay` is made of.
#[pyo3::pymodule(gil_used = false)]
mod _forebay {
    #[pymodule_export]
    use crate::{
        broadcast::{Broadcast, BroadcastReader},
        burst::Burst,
        capture::{Capture, capture, read},
        error::_codes,
        filter::Filter,
        lanes::{Hub, Lane},
        pipe::{Ring, Stream},
        process::{_ending, _forked},
        queue::Queue,
        records::{Appender, read_records},
        writer::Writer,
    };
}
