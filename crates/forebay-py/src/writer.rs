//! Writes capture files.

use crate::{
    burst::Burst,
    error::{Code, Failure},
    filter::bytes_of,
    process::Own,
};
use forebay_net::{
    format::Format,
    port::{Frame, Interface, LinkType},
    writer,
};
use pyo3::{prelude::*, types::PyTuple};
use std::path::PathBuf;

/// A capture file being written: `with forebay.Writer("a.pcapng") as file: file.write(burst)`.
///
/// The end of the name selects the format, pcap for `.pcap` and `.cap` and otherwise pcapng, unless `format` is one of these two names.
/// `link_type` is that of packets that are written as bytes.
#[pyclass(frozen, module = "forebay")]
pub struct Writer {
    output: Own<writer::Writer>,
    link_type: u16,
}

#[pymethods]
impl Writer {
    #[new]
    #[pyo3(signature = (path, *, format = None, link_type = 1))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        format: Option<&str>,
        link_type: u16,
    ) -> Result<Writer, Failure> {
        let named = |name| {
            let unknown = || {
                Failure::new(
                    Code::Invalid,
                    format!("format: {name} is not pcapng or pcap"),
                )
            };
            Format::named(name).ok_or_else(unknown)
        };
        let application = concat!("forebay ", env!("CARGO_PKG_VERSION"), " for Python");
        let format = format.map(named).transpose()?;
        let output = py.detach(|| writer::Writer::create(path, format))?; // a pipe waits for its reader
        Ok(Writer {
            output: Own::new("the file", output.application(application)),
            link_type,
        })
    }

    /// Writes all packets of a burst, or one packet from bytes.
    ///
    /// For bytes, `time` is in nanoseconds since 1970, and `wire_length` the length on the wire, if that is more.
    #[pyo3(signature = (packets, time = 0, wire_length = None))]
    fn write(
        &self,
        py: Python<'_>,
        packets: &Bound<'_, PyAny>,
        time: u64,
        wire_length: Option<u32>,
    ) -> Result<(), Failure> {
        if let Ok(burst) = packets.cast::<Burst>() {
            let packets = burst.get().packets()?;
            return py.detach(|| {
                self.output.with(|output| {
                    Ok(output.write_from(&packets.interfaces, packets.batch.frames())?)
                })
            });
        }
        let data = bytes_of(packets)?;
        let whole = Frame::whole(&data);
        let frame = Frame {
            time_ns: time,
            wire_len: wire_length.unwrap_or(0).max(whole.wire_len),
            ..whole
        };
        self.output.with(|output| {
            let interface = output.interface(&self.interface())?;
            Ok(output.write(&Frame { interface, ..frame })?)
        })
    }

    /// Hands everything to the operating system, so that it survives the end of this process.
    fn flush(&self, py: Python<'_>) -> Result<(), Failure> {
        py.detach(|| self.output.with(|output| Ok(output.flush()?)))
    }

    /// Writes what is left, and closes the file. Further calls change nothing.
    fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        let Some(mut output) = self.output.take()? else {
            return Ok(());
        };
        if output.counts().packets == 0 {
            let _ = output.interface(&self.interface()); // the only one of an empty file
        }
        Ok(py.detach(|| output.finish())?)
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> Result<(), Failure> {
        self.close(py)
    }
}

impl Writer {
    /// That of packets that are written as bytes.
    fn interface(&self) -> Interface {
        Interface {
            link: LinkType(self.link_type),
            ..Interface::default()
        }
    }
}
