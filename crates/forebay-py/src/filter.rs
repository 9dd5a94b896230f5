//! Filters in libpcap's language, for bytes.

use crate::error::{Code, Failure};
use forebay_net::{
    filter::{View, bpf::Program},
    port::{DEFAULT_SNAPLEN, LinkType},
};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyMemoryView},
};
use std::borrow::Cow;

/// The bytes of an object with the buffer protocol: borrowed from `bytes`, copied from what can change.
pub fn bytes_of<'a>(data: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, [u8]>> {
    match data.cast::<PyBytes>() {
        Ok(bytes) => Ok(Cow::Borrowed(bytes.as_bytes())),
        Err(_) => {
            let copy = PyMemoryView::from(data)?.call_method0("tobytes")?;
            Ok(Cow::Owned(copy.cast::<PyBytes>()?.as_bytes().to_vec()))
        }
    }
}

/// Parses an expression; `None` without one.
pub fn parsed(text: Option<&str>) -> Result<Option<forebay_net::filter::Filter>, Failure> {
    Ok(text.map(str::parse).transpose()?)
}

/// A compiled filter in libpcap's language, such as `Filter("tcp port 80")`. Raises `Invalid` if it is not an expression, or if no packet
/// of this link type can match.
#[pyclass(frozen, module = "forebay")]
pub struct Filter {
    text: String,
    program: Program,
}

#[pymethods]
impl Filter {
    #[new]
    #[pyo3(signature = (text, *, link_type = 1))]
    fn new(py: Python<'_>, text: String, link_type: u16) -> Result<Filter, Failure> {
        // Names of hosts are looked up, which may take seconds.
        let program = py.detach(|| {
            let filter: forebay_net::filter::Filter = text.parse()?;
            filter.compile(LinkType(link_type), View::Packet, DEFAULT_SNAPLEN)
        })?;
        Ok(Filter { text, program })
    }

    /// Whether a packet with these bytes matches. `wire_length`: its length on the wire, if that is more.
    #[pyo3(signature = (data, wire_length = None))]
    fn matches(&self, data: &Bound<'_, PyAny>, wire_length: Option<u32>) -> Result<bool, Failure> {
        let data = bytes_of(data)?;
        let Ok(len) = u32::try_from(data.len()) else {
            return Err(Failure::new(Code::Invalid, "a packet has less than 4 GiB"));
        };
        Ok(self.program.run(&data, wire_length.unwrap_or(len).max(len)) != 0)
    }

    /// The expression.
    #[getter]
    fn text(&self) -> &str {
        &self.text
    }

    fn __repr__(&self) -> String {
        format!("forebay.Filter({:?})", self.text)
    }
}
