//! The metadata of a pcapng file: its sections, its interfaces, and their statistics.
//!
//! All of it stays in memory while the file is read, so its size is limited. [`pcapng`](super::pcapng) passes the bodies of blocks
//! whose lengths it has checked.

use super::{
    body::{Order, split_head},
    options::Options,
    step::Fault,
    times::Times,
};
use crate::format::copied::{About, Copied};
use crate::port::{
    Block, BlockKind, InFile, InSection, Interface, Left, LinkType, Resolution, Statistics,
};
use std::sync::Arc;

/// The maximum memory for interfaces and sections.
const MAX_BYTES: usize = 8 << 20;
/// The maximum size of a text of a section in a copy.
const MAX_TEXT: usize = 8 << 10;

/// One section of a file: the program and machine that wrote it. Missing texts are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Section {
    /// It is big-endian.
    pub big_endian: bool,
    /// Major and minor version of the format.
    pub version: (u16, u16),
    /// The machine (`shb_hardware`).
    pub hardware: String,
    /// Its operating system (`shb_os`).
    pub os: String,
    /// The program (`shb_userappl`).
    pub application: String,
    /// Comments on the section, its interfaces and their statistics.
    pub comments: u64,
    /// The number of its first interface, if it has any.
    pub first_interface: u32,
}

/// Blocks that were skipped, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// Name resolution blocks.
    pub name_resolution: u64,
    /// Custom blocks.
    pub custom: u64,
    /// Systemd journal entries.
    pub systemd_journal: u64,
    /// Decryption secrets blocks.
    pub decryption_secrets: u64,
    /// Blocks that forebay wrote to align direct writes.
    pub padding: u64,
    /// Blocks of other kinds, and statistics of unknown interfaces.
    pub other: u64,
    /// Sections, interfaces and statistics with an option that does not fit in its block. They are not skipped; only this option
    /// and the options after it are ignored.
    pub broken_options: u64,
}

/// What a packet needs of its interface.
#[derive(Clone, Copy, Debug)]
pub(super) struct Detail {
    pub times: Times,
    pub snaplen: u32,
}

#[derive(Debug, Default)]
pub(super) struct Metadata {
    /// For each interface of this section.
    pub details: Vec<Detail>,
    /// The number of this section's first interface.
    pub first_interface: u32,
    pub interfaces: Vec<Interface>,
    pub recorded: Vec<Option<Statistics>>,
    /// The number of statistics blocks so far, and the interface of the last one.
    pub last_statistics: (u64, u32),
    pub sections: Vec<Section>,
    pub skipped: Skipped,
    /// Blocks that belong in a copy and were not taken yet.
    pub blocks: Vec<Block>,
    /// This section, for its interfaces.
    section: Arc<InSection>,
    bytes: usize,
}

impl Metadata {
    /// Only what decoding packets of this section needs.
    pub fn for_packets(&self) -> Metadata {
        Metadata {
            details: self.details.clone(),
            first_interface: self.first_interface,
            ..Metadata::default()
        }
    }

    /// Begins a section: its interfaces are numbered from 0 again.
    pub fn section(&mut self, body: &[u8], order: Order) -> Result<(), Fault> {
        let (head, options) = split_head::<24>(body)?;
        let version = (order.half(head, 12), order.half(head, 14));
        // Some programs wrote 1.2 for 1.0.
        if !matches!(version, (1, 0 | 2)) {
            let (major, minor) = version;
            let what = format!("begins a section of version {major}.{minor}, known is 1.0");
            return Err(Fault::new("block", what));
        }
        let mut section = Section {
            big_endian: order == Order::Big,
            version,
            first_interface: self.interfaces.len() as u32,
            ..Section::default()
        };
        let mut copied = Copied::new(About::Section, options, order == Order::Big, &[2, 3, 4]);
        let mut noted = InSection::default();
        copied.append_to(&mut noted.options);
        noted.left = copied.left;
        let mut options = Options::new(options, order);
        while let Some(option) = options.next() {
            let (text, copy) = match option.code {
                2 => (&mut section.hardware, &mut noted.hardware),
                3 => (&mut section.os, &mut noted.os),
                4 => (&mut section.application, &mut noted.application),
                code => {
                    section.comments += u64::from(code == 1);
                    continue;
                }
            };
            *text = option.text();
            match option.value.len() {
                0..=MAX_TEXT => *copy = text.clone().into_bytes(),
                _ => noted.left.option(option.code),
            }
        }
        self.note_broken(&options, &mut noted.left);
        self.use_memory(
            size_of::<(Section, InSection)>()
                + 2 * (section.hardware.len() + section.os.len() + section.application.len())
                + noted.options.len(),
        )?;
        self.section = Arc::new(noted);
        self.first_interface = section.first_interface;
        self.details.clear();
        self.sections.push(section);
        Ok(())
    }

    pub fn interface(&mut self, body: &[u8], order: Order) -> Result<(), Fault> {
        let (head, options) = split_head::<16>(body)?;
        let snaplen = match order.word(head, 12) {
            0 => u32::MAX,
            n => n,
        };
        let mut interface = Interface {
            name: String::new(),
            description: String::new(),
            link: LinkType(order.half(head, 8)),
            snaplen,
            bits_per_second: None,
            resolution: Resolution::MICROSECONDS,
            in_file: None,
            time: None,
            socket_view: false,
        };
        // Name, description, speed and resolution have fields, and the offset is added to every time.
        let excluded = &[2, 3, 8, 9, 14];
        let mut copied = Copied::new(About::Interface, options, order == Order::Big, excluded);
        let mut noted = InFile {
            section: self.section.clone(),
            ..InFile::default()
        };
        copied.append_to(&mut noted.options);
        noted.left = copied.left;
        let mut offset_seconds = 0;
        let mut comments = 0;
        let mut options = Options::new(options, order);
        while let Some(option) = options.next() {
            match option.code {
                1 => comments += 1,
                2 => interface.name = option.text(),
                3 => interface.description = option.text(),
                8 => interface.bits_per_second = option.u64().filter(|&speed| speed > 0),
                9 => {
                    interface.resolution = option
                        .value
                        .first()
                        .map_or(interface.resolution, |b| Resolution(*b))
                }
                14 => offset_seconds = option.u64().unwrap_or(0) as i64,
                _ => {}
            }
        }
        self.count_comments(comments);
        self.note_broken(&options, &mut noted.left);
        self.use_memory(
            size_of::<(Interface, Option<Statistics>, Detail, InFile)>()
                + interface.name.len()
                + interface.description.len()
                + noted.options.len(),
        )?;
        // Most interfaces of a section have the same options, and share them.
        let last = self
            .interfaces
            .last()
            .and_then(|last| last.in_file.as_ref());
        interface.in_file = Some(match last {
            Some(last) if **last == noted => last.clone(),
            _ => Arc::new(noted),
        });
        self.details.push(Detail {
            times: Times::new(interface.resolution, offset_seconds),
            snaplen,
        });
        self.interfaces.push(interface);
        self.recorded.push(None);
        Ok(())
    }

    /// Sets the counts of one interface. Those of a later block replace them.
    pub fn statistics(&mut self, body: &[u8], order: Order) -> Result<(), Fault> {
        let (head, options) = split_head::<20>(body)?;
        let number = order.word(head, 8) as usize;
        let Some(Detail { times, .. }) = self.details.get(number).copied() else {
            self.skipped.other += 1;
            return Ok(());
        };
        let ticks = (order.word(head, 12) as u64) << 32 | order.word(head, 16) as u64;
        let mut counts = Statistics {
            time_ns: times.ns(ticks),
            ..Statistics::default()
        };
        let mut comments = 0;
        let mut options = Options::new(options, order);
        while let Some(option) = options.next() {
            match option.code {
                1 => comments += 1,
                2 => counts.began_ns = option.ticks().map(|t| times.ns(t)),
                3 => counts.ended_ns = option.ticks().map(|t| times.ns(t)),
                4 => counts.interface_received = option.u64(),
                5 => counts.interface_dropped = option.u64(),
                6 => counts.received = option.u64(),
                7 => counts.dropped = option.u64(),
                8 => counts.delivered = option.u64(),
                _ => {}
            }
        }
        self.count_comments(comments);
        for _ in 0..comments {
            let (kind, bytes) = (BlockKind::StatisticsComment, Vec::new());
            self.blocks.push(Block { kind, bytes });
        }
        self.note_broken(&options, &mut Left::default());
        let interface = self.first_interface + number as u32;
        self.recorded[interface as usize] = Some(counts);
        self.last_statistics = (self.last_statistics.0 + 1, interface);
        Ok(())
    }

    fn note_broken(&mut self, options: &Options<'_>, left: &mut Left) {
        let broken = u64::from(options.is_broken);
        self.skipped.broken_options += broken;
        left.broken += broken;
    }

    fn count_comments(&mut self, comments: u64) {
        if let Some(section) = self.sections.last_mut() {
            section.comments += comments;
        }
    }

    /// Counts memory that stays allocated.
    fn use_memory(&mut self, bytes: usize) -> Result<(), Fault> {
        self.bytes += bytes;
        if self.bytes <= MAX_BYTES {
            return Ok(());
        }
        let (sections, interfaces) = (self.sections.len(), self.interfaces.len());
        let what = format!(
            "is one section or interface too many: with {sections} and {interfaces} the limit of {} MiB is reached",
            MAX_BYTES >> 20
        );
        Err(Fault::new("block", what))
    }
}
