//! Capture files: read through C's streams, decoded by `forebay_net::format`.
//!
//! ```text
//!  FILE ── fread ──▶ Unpacked ──▶ │ delivered │ begin: to be decoded │
//! ```
//! Bytes are read only when the next record needs them, so that the program can use the stream's position, and a pipe delivers its packets
//! at once. A packet stays in place until the next one is asked for.
//!
//! A handle has one link type: that of the first interface. Packets of other interfaces of a pcapng file with another one are left out;
//! after the last packet, an error reports how many. libpcap refuses such files.

use crate::{
    failure::Failure,
    filling::{failed, fill, read_more},
    stdio::Stdio,
    timestamps::Precision,
};
use forebay_net::{
    file::Unpacked,
    format::read::{Decoder, Kind, Step, Zeros},
    port::{Frame, LinkType, Resolution},
};
use std::{ffi::c_int, io};

/// libpcap's limit for the packets of most link types, and its answer if the file does not have one.
const DEFAULT_SNAPLEN: u32 = 262_144;

/// The limit that programs see for that of a file. Without one in the file, the decoder has its own.
pub fn limit(snaplen: u32) -> u32 {
    match snaplen {
        0 | 0x8000_0000.. | 1_000_000 => DEFAULT_SNAPLEN,
        snaplen => snaplen,
    }
}

/// An open capture file.
pub struct Savefile {
    input: Unpacked<Stdio>,
    bytes: Vec<u8>,
    /// Where the next record begins in `bytes`.
    begin: usize,
    decoder: Decoder,
    pub link: LinkType,
    pub snaplen: u32,
    version: (u16, u16),
    pub is_swapped: bool,
    /// Packets of this file that the handle cannot deliver, and why the first one cannot.
    left_out: Option<(u64, String)>,
}

/// What does not change while a file is read.
#[derive(Clone, Copy)]
pub struct About {
    pub stream: *mut libc::FILE,
    pub descriptor: c_int,
    pub version: (u16, u16),
    pub is_swapped: bool,
    /// See [`Savefile::link_extension`].
    pub link_extension: u32,
}

/// A packet in the memory of its file.
pub struct Record {
    pub seconds: i64,
    pub fraction: i64,
    pub len: u32,
    /// Where its bytes begin, and how many there are.
    pub place: usize,
    pub caplen: u32,
}

/// Why there is no packet.
pub enum Stopped {
    End,
    /// A signal arrived, or a record was not a packet for the handle. Reading can continue.
    Interrupted,
    Failed(Failure),
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Stopped {
        Stopped::Failed(failure)
    }
}

impl Savefile {
    /// Reads up to the description of the first interface.
    pub fn open(mut stream: Stdio) -> Result<Savefile, Failure> {
        let mut first = Vec::new();
        fill(&mut stream, &mut first, 4, "file header bytes")?;
        let (mut input, is_compressed) =
            Unpacked::new(stream, &first).map_err(|error| error.to_string())?;
        if is_compressed {
            first.clear();
            fill(&mut input, &mut first, 4, "file header bytes")?;
        }
        let decoder = match Decoder::begin(&first) {
            Ok(Some(decoder)) => decoder,
            Ok(None) | Err(_) => return Err("unknown file format".into()),
        };
        let header_len = match decoder.kind() {
            Kind::Pcap => 24,
            _ => 16,
        };
        fill(&mut input, &mut first, header_len, "file header bytes")?;
        let mut file = Savefile {
            is_swapped: is_swapped(&first, decoder.kind()),
            version: (0, 0),
            input,
            bytes: first,
            begin: 0,
            decoder,
            link: LinkType(0),
            snaplen: 0,
            left_out: None,
        };
        file.version = file.version_in_header();
        file.find_interface()?;
        Ok(file)
    }

    /// The stream, for the program.
    pub fn stream(&self) -> &Stdio {
        self.input.source()
    }

    pub fn about(&self) -> About {
        About {
            stream: self.stream().stream(),
            descriptor: self.stream().descriptor(),
            version: self.version,
            is_swapped: self.is_swapped,
            link_extension: self.link_extension(),
        }
    }

    pub fn is_pcapng(&self) -> bool {
        self.decoder.kind() != Kind::Pcap
    }

    /// The precision of its times, if a program can have it.
    pub fn precision(&self) -> Option<Precision> {
        match self.decoder.interfaces().first()?.resolution {
            Resolution::MICROSECONDS => Some(Precision::Micro),
            Resolution::NANOSECONDS => Some(Precision::Nano),
            _ => None,
        }
    }

    /// What describes frame check sequences in the file header, in the upper half of the link type's field.
    fn link_extension(&self) -> u32 {
        let first = self.decoder.interfaces().first();
        let in_file = first.and_then(|first| first.in_file.as_deref());
        in_file.and_then(|it| it.classic).unwrap_or(0)
    }

    fn version_in_header(&self) -> (u16, u16) {
        let at = match self.decoder.kind() {
            Kind::Pcap => 4,
            _ => 12,
        };
        let half = |at: usize| {
            let two = [self.bytes[at], self.bytes[at + 1]];
            match self.is_swapped {
                true => u16::from_ne_bytes(two).swap_bytes(),
                false => u16::from_ne_bytes(two),
            }
        };
        (half(at), half(at + 2))
    }

    fn find_interface(&mut self) -> Result<(), Failure> {
        while self.decoder.interfaces().is_empty() {
            match self.step() {
                Ok(None) => {}
                // A packet cannot precede the description of its interface.
                Ok(Some(_)) | Err(Stopped::Interrupted) => {}
                Err(Stopped::End) => {
                    return Err("the capture file has no Interface Description Blocks".into());
                }
                Err(Stopped::Failed(failure)) => return Err(failure),
            }
        }
        let first = &self.decoder.interfaces()[0];
        self.link = first.link;
        self.snaplen = limit(first.snaplen);
        Ok(())
    }

    /// The next packet, if it is of the handle's link type.
    pub fn next(&mut self, precision: Precision) -> Result<Record, Stopped> {
        let Some((record, link)) = self.step()? else {
            return Err(Stopped::Interrupted);
        };
        if link != self.link {
            self.leave_out(format!("link type {link} in a file of {}", self.link));
            return Err(Stopped::Interrupted);
        }
        let (seconds, fraction) = match (record.as_stored, self.precision()) {
            (Some((seconds, fraction)), Some(stored)) => {
                (seconds, stored.converted(fraction, precision))
            }
            _ => precision.split(record.time_ns),
        };
        Ok(Record {
            seconds,
            fraction,
            len: record.wire_len,
            place: record.place,
            // Programs have room for this length. A file may exceed its limit, or have other limits for later interfaces.
            caplen: record.caplen.min(self.snaplen),
        })
    }

    /// The bytes of a packet, until the next one is asked for.
    pub fn data(&self, record: &Record) -> &[u8] {
        &self.bytes[record.place..record.place + record.caplen as usize]
    }

    fn leave_out(&mut self, why: String) {
        self.left_out.get_or_insert((0, why)).0 += 1;
    }

    /// Decodes the next record. `None`: it is not a packet.
    fn step(&mut self) -> Result<Option<(Found, LinkType)>, Stopped> {
        loop {
            let left = &self.bytes[self.begin..];
            let needed = match self.decoder.next(left) {
                Ok(Step::Packet(frame, len)) => {
                    let is_empty = frame.data.is_empty();
                    let place = match is_empty {
                        true => self.begin,
                        false => frame.data.as_ptr().addr() - self.bytes.as_ptr().addr(),
                    };
                    let mut found = Found::of(&frame, place);
                    if self.decoder.kind() == Kind::Pcap {
                        found.as_stored = overflowing_time(left, self.is_swapped);
                        let len = word(left, 12, self.is_swapped).unwrap_or(found.wire_len);
                        // Older versions had the two lengths the other way round.
                        if self.version == (2, 4) && len < found.caplen {
                            found.wire_len = len;
                        }
                    }
                    let link = self.decoder.interfaces()[frame.interface as usize].link;
                    if is_empty {
                        self.decoder.took_empty();
                    }
                    self.begin += len;
                    return Ok(Some((found, link)));
                }
                Ok(Step::Other(len) | Step::Described(len)) => {
                    // Blocks for a copy are not needed.
                    self.decoder.take_blocks();
                    self.begin += len;
                    return Ok(None);
                }
                Ok(Step::More(needed)) => needed,
                Ok(Step::Zeros) => match self.decoder.classify_zeros(left, false) {
                    Zeros::Packets => continue,
                    Zeros::End => return Err(zeros()),
                    // Only as far as it takes: something else may follow at once.
                    Zeros::More(needed) => needed.min(left.len() * 2),
                },
                Err(fault) => match fault.skip() {
                    Some(len) => {
                        self.leave_out(fault.what().to_owned());
                        self.begin += len;
                        return Ok(None);
                    }
                    None => return Err(Failure::from(fault.what()).into()),
                },
            };
            self.read_up_to(needed)?;
        }
    }

    /// Reads until `needed` bytes follow what was decoded. This ends the place of the last packet.
    fn read_up_to(&mut self, needed: usize) -> Result<(), Stopped> {
        self.bytes.drain(..self.begin);
        self.begin = 0;
        let had = self.bytes.len();
        match read_more(&mut self.input, &mut self.bytes, needed) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                return Err(Stopped::Interrupted);
            }
            Err(error) => return Err(failed(&error).into()),
        }
        if self.bytes.is_empty() {
            return Err(match self.left_out.take() {
                None => Stopped::End,
                Some((packets, why)) => Failure::from(format!(
                    "packets that were not delivered: {packets} ({why})"
                ))
                .into(),
            });
        }
        if matches!(self.decoder.next(&self.bytes), Ok(Step::Zeros)) {
            return Err(match self.decoder.classify_zeros(&self.bytes, true) {
                Zeros::Packets => Stopped::Interrupted,
                _ => zeros(),
            });
        }
        let got = self.bytes.len();
        let text = match self.decoder.kind() {
            Kind::Pcap if had < 16 => {
                format!("truncated dump file; tried to read 16 header bytes, only got {got}")
            }
            Kind::Pcap => format!(
                "truncated dump file; tried to read {} captured bytes, only got {}",
                needed - had,
                got - had
            ),
            _ => format!(
                "truncated pcapng dump file; tried to read {} bytes, only got {}",
                needed - had,
                got - had
            ),
        };
        Err(Failure::from(text).into())
    }
}

/// A packet that was decoded.
struct Found {
    time_ns: u64,
    /// Seconds and a fraction of more than a second, which programs get as they are.
    as_stored: Option<(i64, i64)>,
    wire_len: u32,
    place: usize,
    caplen: u32,
}

impl Found {
    fn of(frame: &Frame<'_>, place: usize) -> Found {
        Found {
            time_ns: frame.time_ns,
            as_stored: None,
            wire_len: frame.wire_len,
            place,
            caplen: frame.data.len() as u32,
        }
    }
}

/// A number of a record's header.
fn word(record: &[u8], at: usize, is_swapped: bool) -> Option<u32> {
    let word = u32::from_ne_bytes(*record.get(at..)?.first_chunk()?);
    Some(if is_swapped { word.swap_bytes() } else { word })
}

/// The time at the begin of a classic file's record, if its fraction is more than a second in any unit.
fn overflowing_time(record: &[u8], is_swapped: bool) -> Option<(i64, i64)> {
    // libpcap's fields are signed, but not those that it swaps.
    let fraction = match word(record, 4, is_swapped)? {
        fraction if is_swapped => fraction.into(),
        fraction => i64::from(fraction as i32),
    };
    (!(0..1_000_000).contains(&fraction)).then_some((word(record, 0, is_swapped)?.into(), fraction))
}

fn zeros() -> Stopped {
    Failure::from("the file ends in zeros in place of packets").into()
}

fn is_swapped(first: &[u8], kind: Kind) -> bool {
    let (at, native) = match kind {
        Kind::Pcap => (0, [0xa1b2_c3d4_u32, 0xa1b2_3c4d, 0xa1b2_cd34]),
        _ => (8, [0x1a2b_3c4d; 3]),
    };
    let magic = first[at..].first_chunk().copied().map(u32::from_ne_bytes);
    magic.is_none_or(|magic| !native.contains(&magic))
}
