//! Capture files, pcapng and pcap, being written.

#![allow(unsafe_code)] // The names are this library's.
#![allow(non_camel_case_types)] // These, too.

use super::capture::{alone, forebay_capture, forebay_counts, forebay_frame, interface_of};
use crate::{
    border::{
        self, Place, Versioned, answer, check_size, descriptor, done, items, put_versioned, text,
    },
    ends::{give_one, take_back},
    failure::{Failure, Result},
    handles::{exclusive, handles},
};
use forebay_net::{
    Writer,
    format::Format,
    port::{DEFAULT_SNAPLEN, Direction, Frame, Interface, LinkType},
};
use std::{
    ffi::{c_char, c_int},
    fs::File,
};

/// Writes packets to a capture file. One thread at a time may use it.
pub struct forebay_writer(());

handles!(forebay_writer => Writer);

/// The format of a capture file.
#[repr(i32)]
#[derive(Clone, Copy)]
pub enum forebay_format {
    /// pcap if the name of the file ends in `.pcap` or `.cap`, and otherwise pcapng.
    FOREBAY_FORMAT_OF_NAME = 0,
    FOREBAY_PCAPNG = 1,
    /// The classic format: one link type, and neither losses nor directions nor counts.
    FOREBAY_PCAP = 2,
}

/// Settings of a writer. Zeros are the defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct forebay_writer_options {
    /// `sizeof(struct forebay_writer_options)`.
    pub size: usize,
    /// The program that a pcapng file names, or null: the library.
    pub application: *const c_char,
    /// One of `enum forebay_format`.
    pub format: u32,
    /// Bytes that are kept of each packet; 0 is 262144.
    pub snaplen: u32,
}

// SAFETY: `repr(C)`, a size first, then a pointer and numbers.
unsafe impl Versioned for forebay_writer_options {
    const SIZES: &'static [usize] = &[24];
}

/// The counts of a writer.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct forebay_writer_totals {
    /// `sizeof(struct forebay_writer_totals)`.
    pub size: usize,
    /// Packets accepted.
    pub packets: u64,
    /// Those that survive the end of this process.
    pub written: u64,
    pub written_bytes: u64,
}

// SAFETY: `repr(C)`, a size first, and numbers.
unsafe impl Versioned for forebay_writer_totals {
    const SIZES: &'static [usize] = &[32];
}

fn writer<R>(
    handle: *const forebay_writer,
    body: impl FnOnce(&mut Writer) -> forebay::Result<R>,
) -> Result<R> {
    Ok(exclusive(handle, body)??)
}

fn put_totals(it: &Writer, place: *mut forebay_writer_totals) -> Result<()> {
    let counts = it.counts();
    let known = forebay_writer_totals {
        size: size_of::<forebay_writer_totals>(),
        packets: counts.packets,
        written: counts.written,
        written_bytes: counts.written_bytes,
    };
    put_versioned(place, known, "totals")
}

/// Gives the program a writer that `open` opens in the format of the options.
fn give(
    options: *const forebay_writer_options,
    place: *mut *mut forebay_writer,
    open: impl FnOnce(Option<Format>) -> Result<Writer>,
) -> c_int {
    done(|| {
        let place = Place::new(place, "writer")?;
        let options = border::options(options)?;
        let format = match options.format {
            0 => None,
            1 => Some(Format::Pcapng),
            2 => Some(Format::Pcap),
            _ => return Err(Failure::invalid("`format` is none of enum forebay_format")),
        };
        let application = match options.application.is_null() {
            true => None,
            false => Some(text(options.application, "application")?),
        };
        let mut writer = open(format)?.snaplen(match options.snaplen {
            0 => DEFAULT_SNAPLEN,
            snaplen => snaplen,
        });
        if let Some(application) = application {
            writer = writer.application(application);
        }
        give_one(writer, &place)
    })
}

/// Makes a capture file, or truncates it. `options` may be null.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_writer_create(
    path: *const c_char,
    options: *const forebay_writer_options,
    writer: *mut *mut forebay_writer,
) -> c_int {
    give(options, writer, |format| {
        Ok(Writer::create(border::path(path, "path")?, format)?)
    })
}

/// Writes to a duplicate of a descriptor from where it is: of a file, a pipe or a socket that blocks. Without a format in `options`, which may
/// be null, it writes pcapng. As with `write`, the signal SIGPIPE ends the process if the reader of a pipe is gone, unless it is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_writer_open_descriptor(
    number: c_int,
    options: *const forebay_writer_options,
    writer: *mut *mut forebay_writer,
) -> c_int {
    give(options, writer, |format| {
        let file = File::from(descriptor(number)?);
        let name = format!("descriptor {number}");
        Ok(Writer::new(file, name, format.unwrap_or(Format::Pcapng)))
    })
}

/// Describes an interface with this link type (1: Ethernet) and name, which may be null, and returns its number for `interface` of packets.
/// One that was described before has the same number. Without any, packets have interface 0, which is Ethernet. `FOREBAY_INVALID`: a pcap
/// file has one link type.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_writer_interface(
    handle: *mut forebay_writer,
    link_type: u16,
    name: *const c_char,
) -> c_int {
    answer(|| {
        let name = match name.is_null() {
            true => "",
            false => text(name, "name")?,
        };
        let interface = Interface {
            name: name.into(),
            link: LinkType(link_type),
            ..Interface::default()
        };
        Ok(writer(handle, |it| it.interface(&interface))? as c_int)
    })
}

/// The same for an interface of a capture, with all that is known of it. The two numbers may differ: interfaces that are alike have one
/// number in the file. `FOREBAY_NOT_FOUND`: the capture has none with this number so far.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_writer_interface_of(
    handle: *mut forebay_writer,
    capture: *mut forebay_capture,
    interface: u32,
) -> c_int {
    answer(|| {
        let interface = interface_of(capture, interface)?;
        Ok(writer(handle, |it| it.interface(&interface))? as c_int)
    })
}

fn frame_of(frame: &forebay_frame) -> Result<Frame<'_>> {
    Ok(Frame {
        data: items(frame.data, frame.len, "data")?,
        wire_len: frame.wire_len,
        time_ns: frame.time_ns,
        interface: frame.interface,
        direction: match frame.direction {
            0 => Direction::Unknown,
            1 => Direction::Inbound,
            2 => Direction::Outbound,
            _ => return Err(Failure::invalid("`direction` is not 0, 1 or 2")),
        },
        dropped_before: frame.dropped_before,
        ..Frame::default()
    })
}

/// Writes packets of the program: `interface` of each is a number of the file, from `forebay_writer_interface`. For packets of a capture, see
/// `forebay_writer_write_from`. A `wire_len` below `len` is taken as `len`. All packets before one that is refused are written:
/// `FOREBAY_INVALID`, an unknown interface or direction; `FOREBAY_TOO_LONG`, more than 1000000 bytes. After any other error the file is
/// incomplete, and every further call is `FOREBAY_IO`.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_writer_write(
    handle: *mut forebay_writer,
    frames: *const forebay_frame,
    count: usize,
) -> c_int {
    done(|| {
        let frames = items(frames, count, "frames")?;
        exclusive(handle, |it| {
            for frame in frames {
                it.write(&frame_of(frame)?)?;
            }
            Ok(())
        })?
    })
}

/// Writes packets of a capture, such as those that `forebay_capture_next` has lent, which stay valid. `interface` of each is a number of the
/// capture. The file gets a description of each interface before its first packet, and its own number for it. Errors are those of
/// `forebay_writer_write`; `FOREBAY_INVALID` also if a pcap file would need a second link type. In the function of `forebay_capture_each` it
/// is `FOREBAY_BUSY`: take packets to be written with `forebay_capture_next`.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_writer_write_from(
    handle: *mut forebay_writer,
    capture: *mut forebay_capture,
    frames: *const forebay_frame,
    count: usize,
) -> c_int {
    done(|| {
        let given = items(frames, count, "frames")?;
        alone(capture, |taking| {
            let interfaces = taking.interfaces()?;
            exclusive(handle, |it| {
                let mut failed = None;
                let frames = given.iter().map(frame_of);
                let frames = frames.map_while(|it| it.map_err(|error| failed = Some(error)).ok());
                it.write_from(interfaces, frames)?;
                failed.map_or(Ok(()), Err)
            })?
        })
    })
}

/// Writes counts of one interface of the file, which the program has counted or which are those of a capture with one interface: what it has
/// received, and what was lost. A pcap file has none.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_writer_counts(
    handle: *mut forebay_writer,
    interface: u32,
    time_ns: u64,
    counts: *const forebay_counts,
) -> c_int {
    done(|| {
        Place::new(counts.cast_mut(), "counts")?;
        let statistics = border::options(counts)?.statistics(time_ns);
        writer(handle, |it| it.statistics(interface, &statistics))
    })
}

/// Writes the counts of a capture's interfaces, usually after `forebay_capture_finish`. Interfaces that are alike, also those of several
/// captures, are one in the file, with the sum of their counts. Counts of the same capture replace its earlier ones. A source with one interface, and `any`, has counts of
/// its own; those of a file are the ones that it records. `FOREBAY_UNSUPPORTED`: it has several interfaces, and counts their packets
/// together, or it is a file that records no counts; nothing is written.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_writer_counts_from(
    handle: *mut forebay_writer,
    capture: *mut forebay_capture,
    time_ns: u64,
) -> c_int {
    done(|| {
        let known = alone(capture, |taking| taking.statistics(time_ns))?;
        // A handle's number is not that of another capture later.
        writer(handle, |it| {
            it.statistics_from(capture.addr() as u64, known)
        })
    })
}

/// Hands all packets to the operating system, so that they survive the end of this process.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_writer_flush(handle: *mut forebay_writer) -> c_int {
    done(|| writer(handle, Writer::flush))
}

/// Stores the counts so far.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_writer_count(
    handle: *mut forebay_writer,
    totals: *mut forebay_writer_totals,
) -> c_int {
    done(|| exclusive(handle, |it| put_totals(it, totals))?)
}

/// Writes what is left, ends the writer, and stores its counts. `totals` may be null. An error is that of the file: the counts say what
/// was written. `FOREBAY_BUSY`, another call uses it, and `FOREBAY_INVALID`, the `size` is wrong: it stays open.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_writer_close(
    handle: *mut forebay_writer,
    totals: *mut forebay_writer_totals,
) -> c_int {
    done(|| {
        check_size(totals)?;
        let mut writer = take_back(handle)?;
        let finished = writer.finish();
        if !totals.is_null() {
            put_totals(&writer, totals)?;
        }
        Ok(finished?)
    })
}
