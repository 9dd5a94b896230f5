//! Capture files that a program writes, through C's streams: classic ones, or pcapng if the name asks for it.

use crate::{
    abi::PacketHeader,
    border::{c_text, caught},
    failure::Failure,
    registry::{Registered, Registry},
    savefile::{Savefile, Stopped, limit},
    stdio::{Stdio, error_text},
    timestamps::Precision,
};
use forebay_net::{
    format::{self, Format},
    port::{Frame, Interface, LinkType, Resolution},
    session::Compression,
};
use std::{
    ffi::{CStr, OsStr},
    hint::black_box,
    io::{self, Read},
    os::unix::ffi::OsStrExt,
    path::Path,
};

/// The program in the header of a pcapng file.
const APPLICATION: &str = concat!("libpcap of Forebay ", env!("CARGO_PKG_VERSION"));
const MAGIC_MICRO: u32 = 0xa1b2_c3d4;
const MAGIC_NANO: u32 = 0xa1b2_3c4d;
/// 2.4, in the machine's byte order.
const VERSION: [u8; 4] = {
    let [a, b] = 2_u16.to_ne_bytes();
    let [c, d] = 4_u16.to_ne_bytes();
    [a, b, c, d]
};
const HEADER_LEN: usize = 24;
/// Bytes that are written at once: C's library would take 4096, and spend a fifth of its time in the kernel.
const BUFFER_BYTES: usize = 32 << 10;
/// Records up to this length are written by one call: a call of C's library takes longer than the copy.
const SHORT_RECORD: usize = 256;

/// A file being written (`pcap_dumper_t`).
pub struct Dumper {
    stream: Stdio,
    layout: Layout,
}

impl Registered for Dumper {
    fn registry() -> &'static Registry<Dumper> {
        static DUMPERS: Registry<Dumper> = Registry::new();
        &DUMPERS
    }
}

/// How packets are written.
enum Layout {
    Pcap,
    Pcapng(format::Described, Precision),
}

/// What a file header describes.
#[derive(Clone, Copy, Debug)]
pub struct Described {
    pub link: LinkType,
    /// What describes frame check sequences, in the upper half of the link type's field.
    pub extension: u32,
    pub snaplen: u32,
    pub precision: Precision,
}

impl Described {
    fn magic(&self) -> u32 {
        match self.precision {
            Precision::Micro => MAGIC_MICRO,
            Precision::Nano => MAGIC_NANO,
        }
    }

    fn header(&self) -> [u8; HEADER_LEN] {
        let mut header = [0; HEADER_LEN];
        header[..4].copy_from_slice(&self.magic().to_ne_bytes());
        header[4..8].copy_from_slice(&VERSION);
        header[16..20].copy_from_slice(&self.snaplen.to_ne_bytes());
        header[20..].copy_from_slice(&(u32::from(self.link.0) | self.extension).to_ne_bytes());
        header
    }

    /// What a file with this name begins with.
    fn beginning(&self, layout: &Layout) -> Vec<u8> {
        match layout {
            Layout::Pcap => self.header().to_vec(),
            Layout::Pcapng(described, _) => {
                let mut file = Format::Pcapng.header(APPLICATION);
                file.extend(Format::Pcapng.interface(&self.interface(), described, self.snaplen));
                file
            }
        }
    }

    fn interface(&self) -> Interface {
        let resolution = match self.precision {
            Precision::Micro => Resolution::MICROSECONDS,
            Precision::Nano => Resolution::NANOSECONDS,
        };
        Interface {
            link: self.link,
            snaplen: self.snaplen,
            resolution,
            ..Interface::default()
        }
    }

    /// pcapng for names that ask for it, and otherwise what other libraries write.
    fn layout(&self, path: &CStr) -> Layout {
        let path = Path::new(OsStr::from_bytes(path.to_bytes()));
        let plain = match Compression::of_path(path) {
            Some(_) => path.file_stem().map_or(path, Path::new),
            None => path,
        };
        let ending = plain.extension().unwrap_or_default();
        match ending.eq_ignore_ascii_case("pcapng") {
            true => Layout::Pcapng(
                Format::Pcapng.describe(&self.interface(), 0),
                self.precision,
            ),
            false => Layout::Pcap,
        }
    }
}

fn compression(path: &CStr) -> Option<Compression> {
    Compression::of_path(OsStr::from_bytes(path.to_bytes()))
}

impl Dumper {
    /// Opens a new file, or standard output with `-`. The end of the name selects the format and the compression.
    pub fn create(path: &CStr, described: &Described) -> Result<Dumper, Failure> {
        let stream = match path.to_bytes() {
            b"-" => Stdio::standard_output(),
            _ => opened(path, c"w").map_err(|error| failed(path, &error))?,
        };
        Dumper::begin(stream, described.layout(path), described)
            .map_err(|error| failed(path, &error))
    }

    /// Writes into a stream of the program, which is the dumper's from now on if this succeeds.
    pub fn adopt(stream: *mut libc::FILE, described: &Described) -> Result<Dumper, Failure> {
        let Some(stream) = Stdio::lent(stream) else {
            return Err("a null pointer was supplied as the stream".into());
        };
        let dumper = Dumper::begin(stream, Layout::Pcap, described);
        let dumper = dumper.map_err(|error| failed(c"Can't write to stream", &error))?;
        dumper.stream().keep();
        Ok(dumper)
    }

    fn begin(stream: Stdio, layout: Layout, described: &Described) -> io::Result<Dumper> {
        stream.write(&described.beginning(&layout))?;
        Ok(Dumper { stream, layout })
    }

    /// Continues a file with the same description, or begins it if it is empty or new.
    pub fn append(path: &CStr, described: &Described) -> Result<Dumper, Failure> {
        if path.to_bytes() == b"-" {
            return Dumper::create(path, described);
        }
        let mut stream = match Stdio::open(path, c"r") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Dumper::begin_at_end(path, described);
            }
            opened => opened.map_err(|error| failed(path, &error))?,
        };
        let mut found = Vec::new();
        let read = io::Read::by_ref(&mut stream)
            .take(HEADER_LEN as u64)
            .read_to_end(&mut found);
        read.map_err(|error| failed(path, &error))?;
        let layout = described.layout(path);
        match (&layout, compression(path)) {
            _ if found.is_empty() => return Dumper::begin_at_end(path, described),
            (Layout::Pcap, None) => described.check_header(path, &found)?,
            (layout, compression) => described.check_file(path, layout, compression, &found)?,
        }
        let stream = opened(path, c"a").map_err(|error| failed(path, &error))?;
        // A new section of pcapng may follow any other.
        match layout {
            Layout::Pcap => Ok(Dumper { stream, layout }),
            Layout::Pcapng(..) => {
                Dumper::begin(stream, layout, described).map_err(|error| failed(path, &error))
            }
        }
    }

    /// Begins a file that is empty or new. What another program has written meanwhile stays.
    fn begin_at_end(path: &CStr, described: &Described) -> Result<Dumper, Failure> {
        let stream = opened(path, c"a").map_err(|error| failed(path, &error))?;
        let begun = Dumper::begin(stream, described.layout(path), described);
        begun.map_err(|error| failed(path, &error))
    }

    /// Appends a packet. As in libpcap, an error is visible in the stream, and when it is flushed. Nothing follows what it left incomplete.
    pub fn write(&self, header: &PacketHeader, data: &[u8]) {
        let is_classic = matches!(self.layout, Layout::Pcap);
        // Neither this nor what follows for classic files panics: the caller catches nothing.
        if is_classic && self.stream.append(&record_header(header), data) {
            return;
        }
        if self.stream.has_failed() {
            return;
        }
        let written = match &self.layout {
            Layout::Pcap => {
                let mut record = [0; SHORT_RECORD];
                record[..16].copy_from_slice(&record_header(header));
                match record.get_mut(16..16 + data.len()) {
                    Some(room) => {
                        room.copy_from_slice(data);
                        self.stream.write(&record[..16 + data.len()])
                    }
                    // After an incomplete header, a packet would be read as the rest of it.
                    None => {
                        let begun = self.stream.write(&record[..16]);
                        begun.and_then(|()| self.stream.write(data))
                    }
                }
            }
            Layout::Pcapng(described, precision) => caught(Ok(()), || {
                let frame = Frame {
                    data,
                    wire_len: header.len.max(header.caplen),
                    time_ns: precision.join(header.seconds, header.fraction),
                    ..Frame::default()
                };
                let mut block = vec![0; Format::Pcapng.frame_len(&frame, header.caplen)];
                Format::Pcapng.put_frame(&mut block, &frame, described, header.caplen);
                self.stream.write(&block)
            }),
        };
        let _ = written;
    }

    pub fn stream(&self) -> &Stdio {
        &self.stream
    }
}

impl Drop for Dumper {
    /// Standard output stays open.
    fn drop(&mut self) {
        let _ = self.stream.flush();
    }
}

/// Opens a file for writing, compressed if its name asks for it.
fn opened(path: &CStr, mode: &CStr) -> io::Result<Stdio> {
    match compression(path) {
        Some(compression) => Stdio::compressing(path, compression, mode == c"a"),
        None => Stdio::buffered(path, mode, BUFFER_BYTES),
    }
}

fn record_header(header: &PacketHeader) -> [u8; 16] {
    let words = [
        header.seconds as u32,
        header.fraction as u32,
        header.caplen,
        header.len,
    ];
    let mut record = [0; 16];
    for (bytes, word) in record.chunks_exact_mut(4).zip(words) {
        // One by one: the program has just stored them like this, and a longer load would wait until they are in the cache.
        bytes.copy_from_slice(&black_box(word).to_ne_bytes());
    }
    record
}

impl Described {
    /// Whether a classic file that begins like this can be continued.
    fn check_header(&self, path: &CStr, found: &[u8]) -> Result<(), Failure> {
        let differs =
            |what: &str| -> Failure { format!("{}: {what}", path.to_string_lossy()).into() };
        let ours = self.header();
        if found.len() < HEADER_LEN {
            return Err(differs("truncated dump file; its header is incomplete"));
        }
        if found[..8] != ours[..8] {
            return Err(differs(
                "different byte order, time stamp precision or version, or not a dump file",
            ));
        }
        if found[20..] != ours[20..] {
            return Err(differs(LINK_DIFFERS));
        }
        if found[16..20] != ours[16..20] {
            return Err(differs(SNAPLEN_DIFFERS));
        }
        Ok(())
    }

    /// Whether a file of another format, or a compressed one, can be continued. Reads all of it: a packet after an incomplete one would be lost.
    fn check_file(
        &self,
        path: &CStr,
        layout: &Layout,
        compression: Option<Compression>,
        found: &[u8],
    ) -> Result<(), Failure> {
        let differs = |what: &str| Failure::from(format!("{}: {what}", path.to_string_lossy()));
        let magic: &[u8] = match compression {
            Some(Compression::Gzip) => &[0x1f, 0x8b],
            Some(Compression::Zstd) => &[0x28, 0xb5, 0x2f, 0xfd],
            None => &[0x0a, 0x0d, 0x0d, 0x0a],
        };
        let stream = Stdio::open(path, c"r").map_err(|error| failed(path, &error))?;
        let mut file = Savefile::open(stream).map_err(|failure| differs(&failure.text))?;
        let is_pcapng = matches!(layout, Layout::Pcapng(..));
        if !found.starts_with(magic) || file.is_pcapng() != is_pcapng {
            return Err(differs("its name is that of another format or compression"));
        }
        if !is_pcapng && (file.is_swapped || file.precision() != Some(self.precision)) {
            return Err(differs("different byte order or time stamp precision"));
        }
        if file.link != self.link {
            return Err(differs(LINK_DIFFERS));
        }
        if file.snaplen != limit(self.snaplen) {
            return Err(differs(SNAPLEN_DIFFERS));
        }
        loop {
            match file.next(self.precision) {
                Ok(_) | Err(Stopped::Interrupted) => {}
                Err(Stopped::End) => return Ok(()),
                Err(Stopped::Failed(failure)) => return Err(differs(&failure.text)),
            }
        }
    }
}

const LINK_DIFFERS: &str = "different linktype, cannot append to file";
const SNAPLEN_DIFFERS: &str = "different snaplen, cannot append to file";

fn failed(what: &CStr, error: &io::Error) -> Failure {
    let why = match error.raw_os_error() {
        Some(number) => error_text(number),
        None => c_text(error.to_string()),
    };
    format!("{}: {}", what.to_string_lossy(), why.to_string_lossy()).into()
}
