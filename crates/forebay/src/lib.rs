//! Bounded, zero-copy buffers for data that does not wait.
#![warn(missing_docs)]

pub mod error;
pub mod memory;
pub mod poll;
pub mod ring;
pub mod store;
pub mod sync;
mod sys;
pub mod time;

pub use error::{Error, Result};
