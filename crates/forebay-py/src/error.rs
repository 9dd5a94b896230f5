//! Failures, as the exceptions of the package: each has a code, the same as in Rust and C.

pub use forebay::error::Code;
use forebay::{
    Error,
    queue::{self, lanes},
    ring::broadcast,
};
use pyo3::prelude::*;
use std::fmt;

/// Why a call failed.
#[derive(Debug)]
pub enum Failure {
    /// Raised as the class for its code.
    Forebay(Error),
    /// An exception that Python raised.
    Python(PyErr),
}

impl Failure {
    pub fn new(code: Code, text: impl fmt::Display) -> Failure {
        Failure::Forebay(Error::coded(code, "", text.to_string()))
    }

    /// `None`: Python raised it.
    pub fn code(&self) -> Option<Code> {
        match self {
            Failure::Forebay(error) => Some(error.code()),
            Failure::Python(_) => None,
        }
    }
}

macro_rules! from {
    ($($type:ty)*) => {$(
        impl From<$type> for Failure {
            fn from(error: $type) -> Failure {
                Failure::Forebay(error.into())
            }
        }
    )*};
}
from! { Error queue::SendError queue::RecvError queue::StatsError lanes::SendError lanes::RecvError lanes::Ending broadcast::RecvError broadcast::TooLong }

impl From<forebay_net::filter::Error> for Failure {
    fn from(error: forebay_net::filter::Error) -> Failure {
        Failure::new(Code::Invalid, error)
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Failure {
        Failure::Python(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        let error = match failure {
            Failure::Python(error) => return error,
            Failure::Forebay(error) => error,
        };
        let arguments = (
            error.code().number(),
            error.to_string(),
            error.raw_os_error(),
        );
        Python::attach(|py| {
            let make = || py.import("forebay._errors")?.call_method1("_of", arguments);
            match make() {
                Ok(made) => PyErr::from_value(made),
                Err(error) => error,
            }
        })
    }
}

/// The numbers of all codes, to compare the classes with.
#[pyfunction]
pub fn _codes() -> Vec<i32> {
    Code::ALL.map(Code::number).to_vec()
}
