//! Descriptors for the event loop of `async for`.

use crate::{error::Failure, process::Own};
use pyo3::prelude::*;
use std::os::fd::RawFd;

/// Requests a signal; returns the descriptor to poll, or `None` if there is something to take now.
type Arm = Box<dyn FnMut() -> Result<Option<RawFd>, Failure> + Send>;

/// Wakes an event loop once there is something to take. The descriptor is open until the watch is dropped.
#[pyclass(frozen, module = "forebay")]
pub struct Watch(Own<Arm>);

impl Watch {
    pub fn new(arm: impl FnMut() -> Result<Option<RawFd>, Failure> + Send + 'static) -> Watch {
        Watch(Own::new("the watch", Box::new(arm)))
    }
}

#[pymethods]
impl Watch {
    fn arm(&self) -> Result<Option<RawFd>, Failure> {
        self.0.with(|arm| arm())
    }
}
