//! Classic capture files that a program writes, through C's streams.

use crate::{
    abi::PacketHeader,
    border::c_text,
    failure::Failure,
    stdio::{Stdio, error_text},
    timestamps::Precision,
};
use forebay_net::port::LinkType;
use std::{
    ffi::CStr,
    io::{self, Read},
};

const MAGIC_MICRO: u32 = 0xa1b2_c3d4;
const MAGIC_NANO: u32 = 0xa1b2_3c4d;
/// 2.4, in the machine's byte order.
const VERSION: [u8; 4] = {
    let [a, b] = 2_u16.to_ne_bytes();
    let [c, d] = 4_u16.to_ne_bytes();
    [a, b, c, d]
};
const HEADER_LEN: usize = 24;

/// A file being written (`pcap_dumper_t`).
pub struct Dumper {
    stream: Stdio,
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
}

impl Dumper {
    /// Opens a new file, or standard output with `-`.
    pub fn create(path: &CStr, described: &Described) -> Result<Dumper, Failure> {
        let stream = match path.to_bytes() {
            b"-" => Stdio::standard_output(),
            _ => Stdio::open(path, c"w").map_err(|error| failed(path, &error))?,
        };
        Dumper::begin(stream, described).map_err(|error| failed(path, &error))
    }

    /// Writes into a stream of the program, which is the dumper's from now on if this succeeds.
    pub fn adopt(stream: *mut libc::FILE, described: &Described) -> Result<Dumper, Failure> {
        let Some(stream) = Stdio::lent(stream) else {
            return Err("a null pointer was supplied as the stream".into());
        };
        let dumper = Dumper::begin(stream, described);
        let dumper = dumper.map_err(|error| failed(c"Can't write to stream", &error))?;
        dumper.stream.keep();
        Ok(dumper)
    }

    fn begin(stream: Stdio, described: &Described) -> io::Result<Dumper> {
        stream.write(&described.header())?;
        Ok(Dumper { stream })
    }

    /// Continues a file with the same description, or begins it if it is empty or new.
    pub fn append(path: &CStr, described: &Described) -> Result<Dumper, Failure> {
        if path.to_bytes() == b"-" {
            return Dumper::create(path, described);
        }
        // "a+" would write to the end whatever the position, so that the header could not be read back on every system.
        let open = Stdio::open(path, c"r+").or_else(|_| Stdio::open(path, c"w+"));
        let mut stream = open.map_err(|error| failed(path, &error))?;
        let mut found = Vec::new();
        let read = io::Read::by_ref(&mut stream)
            .take(HEADER_LEN as u64)
            .read_to_end(&mut found);
        read.map_err(|error| failed(path, &error))?;
        if found.is_empty() {
            stream
                .seek(0, libc::SEEK_SET)
                .map_err(|error| failed(path, &error))?;
            return Dumper::begin(stream, described).map_err(|error| failed(path, &error));
        }
        let differs =
            |what: &str| -> Failure { format!("{}: {what}", path.to_string_lossy()).into() };
        let ours = described.header();
        if found.len() < HEADER_LEN {
            return Err(differs("truncated dump file; its header is incomplete"));
        }
        if found[..8] != ours[..8] {
            return Err(differs(
                "different byte order, time stamp precision or version, or not a dump file",
            ));
        }
        if found[20..] != ours[20..] {
            return Err(differs("different linktype, cannot append to file"));
        }
        if found[16..20] != ours[16..20] {
            return Err(differs("different snaplen, cannot append to file"));
        }
        stream
            .seek(0, libc::SEEK_END)
            .map_err(|error| failed(path, &error))?;
        Ok(Dumper { stream })
    }

    /// Appends a packet. As in libpcap, an error is visible in the stream, and when it is flushed.
    pub fn write(&self, header: &PacketHeader, data: &[u8]) {
        let words = [
            header.seconds as u32,
            header.fraction as u32,
            header.caplen,
            header.len,
        ];
        let mut record = [0; 16];
        for (bytes, word) in record.chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        // After an incomplete header, a packet would be read as the rest of it.
        if self.stream.write(&record).is_ok() {
            let _ = self.stream.write(data);
        }
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

fn failed(what: &CStr, error: &io::Error) -> Failure {
    let why = match error.raw_os_error() {
        Some(number) => error_text(number),
        None => c_text(error.to_string()),
    };
    format!("{}: {}", what.to_string_lossy(), why.to_string_lossy()).into()
}
