//! Writes capture files.

use crate::{
    burst::Burst,
    error::{Code, Failure},
    filter::bytes_of,
    process::Own,
};
use forebay::Error;
use forebay_net::{
    format::{Described, Format},
    port::{Frame, Interface, LinkType, MAX_SNAPLEN},
    session::Compression,
};
use pyo3::{prelude::*, types::PyTuple};
use std::{fs::File, io::Write, path::PathBuf};

/// Bytes that are collected before they are written.
const BUFFER_BYTES: usize = 256 << 10;

/// A capture file being written: `with forebay.Writer("a.pcapng") as file: file.write(burst)`.
///
/// The end of the name selects the format, pcap for `.pcap` and `.cap` and otherwise pcapng, unless `format` is one of these two names.
/// `link_type` is that of packets that are written as bytes.
#[pyclass(frozen, module = "forebay")]
pub struct Writer {
    output: Own<Output>,
    link_type: u16,
}

struct Output {
    file: File,
    name: String,
    format: Format,
    buffer: Vec<u8>,
    /// A write failed: the file may end within a block, which nothing may follow.
    is_torn: bool,
    interfaces: Vec<(Interface, Described)>,
}

impl Output {
    fn check(&self) -> Result<(), Failure> {
        match self.is_torn {
            false => Ok(()),
            true => Err(Failure::new(
                Code::Io,
                format!(
                    "{}: a write failed before: the file is incomplete",
                    self.name
                ),
            )),
        }
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.check()?;
        let written = self.file.write_all(&self.buffer);
        self.is_torn = written.is_err();
        self.buffer.clear();
        written.map_err(|error| Error::new(&self.name, "writing").because(error).into())
    }

    /// The interface in this file, which is described before its first packet.
    fn describe(&mut self, interface: &Interface) -> Result<Described, Failure> {
        if let Some((_, described)) = self.interfaces.iter().find(|(known, _)| known == interface) {
            return Ok(*described);
        }
        if self.format == Format::Pcap
            && let Some((first, described)) = self.interfaces.first()
        {
            let has_same_type = first.link == interface.link;
            return has_same_type.then_some(*described).ok_or_else(|| {
                let text = format!(
                    "{}: a file in the classic format has one link type: {}, not {}",
                    self.name, first.link, interface.link
                );
                Failure::new(Code::Invalid, text)
            });
        }
        let described = self
            .format
            .describe(interface, self.interfaces.len() as u32);
        let block = self
            .format
            .interface(interface, &described, interface.snaplen);
        self.buffer.extend(block);
        self.interfaces.push((interface.clone(), described));
        Ok(described)
    }

    fn put(&mut self, frame: &Frame<'_>, described: &Described) -> Result<(), Failure> {
        self.check()?;
        let begin = self.buffer.len();
        let len = self.format.frame_len(frame, MAX_SNAPLEN);
        self.buffer.resize(begin + len, 0);
        let slot = &mut self.buffer[begin..];
        self.format.put_frame(slot, frame, described, MAX_SNAPLEN);
        match self.buffer.len() >= BUFFER_BYTES {
            true => self.flush(),
            false => Ok(()),
        }
    }
}

impl Drop for Output {
    /// For a writer that was not closed. `close` reports what fails.
    fn drop(&mut self) {
        let _ = self.flush();
    }
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
        let name = path.display().to_string();
        if Compression::of_path(&path).is_some() {
            let text =
                format!("{name}: compressed files are not written; compress the finished one");
            return Err(Failure::new(Code::Unsupported, text));
        }
        let format = match format {
            None => Format::of_path(&path),
            Some(format) => Format::named(format).ok_or_else(|| {
                Failure::new(
                    Code::Invalid,
                    format!("format: {format} is not pcapng or pcap"),
                )
            })?,
        };
        let file = py.detach(|| File::create(&path)); // a pipe waits for its reader
        let file = file.map_err(|error| Error::new(&name, "making it").because(error))?;
        let application = concat!("forebay ", env!("CARGO_PKG_VERSION"), " for Python");
        let output = Output {
            file,
            name,
            format,
            buffer: format.header(application),
            is_torn: false,
            interfaces: Vec::new(),
        };
        Ok(Writer {
            output: Own::new("the file", output),
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
                    for frame in packets.batch.frames() {
                        let interface = &packets.interfaces[frame.interface as usize];
                        let described = output.describe(interface)?;
                        output.put(&frame, &described)?;
                    }
                    Ok(())
                })
            });
        }
        let data = bytes_of(packets)?;
        if data.len() > MAX_SNAPLEN as usize {
            let text = format!("a packet of {} bytes: at most {MAX_SNAPLEN}", data.len());
            return Err(Failure::new(Code::TooLong, text));
        }
        let whole = Frame::whole(&data);
        let frame = Frame {
            time_ns: time,
            wire_len: wire_length.unwrap_or(0).max(whole.wire_len),
            ..whole
        };
        let interface = Interface {
            link: LinkType(self.link_type),
            ..Interface::default()
        };
        self.output.with(|output| {
            let described = output.describe(&interface)?;
            output.put(&frame, &described)
        })
    }

    /// Hands everything to the operating system, so that it survives the end of this process.
    fn flush(&self, py: Python<'_>) -> Result<(), Failure> {
        py.detach(|| self.output.with(Output::flush))
    }

    /// Writes what is left, and closes the file. Further calls change nothing.
    fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        let Some(mut output) = self.output.take()? else {
            return Ok(());
        };
        py.detach(|| {
            if output.interfaces.is_empty() && output.format == Format::Pcap {
                let interface = Interface {
                    link: LinkType(self.link_type),
                    ..Interface::default()
                };
                output.describe(&interface)?; // the header of the file
            }
            output.flush()
        })
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> Result<(), Failure> {
        self.close(py)
    }
}
