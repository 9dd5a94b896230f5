#![doc = include_str!("../README.md")]

mod arrow;
mod burst;
mod capture;
mod column;
mod error;
mod filter;
mod packets;
mod process;
mod writer;

/// What the package `forebay` is made of.
#[pyo3::pymodule(gil_used = false)]
mod _forebay {
    #[pymodule_export]
    use crate::{
        burst::Burst,
        capture::{Capture, capture, read},
        error::_codes,
        filter::Filter,
        process::{_ending, _forked},
        writer::Writer,
    };
}
