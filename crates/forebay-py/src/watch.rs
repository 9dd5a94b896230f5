//! Descriptors for the event loop of `async for`.

use crate::{error::Failure, process::Own};
use pyo3::prelude::*;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Requests a signal; returns the descriptor to poll, or `None` if there is something to take now.
type Arm = Box<dyn FnMut() -> Result<Option<RawFd>, Failure> + Send>;

/// Wakes an event loop once there is something to take, and once the object is closed. The descriptors are open until the watch is
/// dropped.
#[pyclass(frozen, module = "forebay")]
pub struct Watch {
    arm: Own<Arm>,
    ended: OwnedFd,
}

impl Watch {
    /// `ended`: of the object that is watched ([`Own::ended`]), requested before anything else of it. `arm` fails once it is closed.
    pub fn new(
        ended: OwnedFd,
        arm: impl FnMut() -> Result<Option<RawFd>, Failure> + Send + 'static,
    ) -> Watch {
        Watch {
            arm: Own::new("the watch", Box::new(arm)),
            ended,
        }
    }
}

#[pymethods]
impl Watch {
    /// The descriptors to wait at; none if there is something to take now.
    fn arm(&self) -> Result<Vec<RawFd>, Failure> {
        let armed = self.arm.with(|arm| arm())?;
        Ok(armed.map_or(Vec::new(), |fd| vec![fd, self.ended.as_raw_fd()]))
    }
}
