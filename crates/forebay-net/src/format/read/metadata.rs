//! What a pcapng file says of itself: its sections, its interfaces, and what was lost at them.
//!
//! All of it stays in memory while the file is read, so there is a limit: no file can take it all.
//! [`pcapng`](super::pcapng) hands in the bodies of blocks it has found to be whole.

use super::{Fault, Order, options::Options, split_head, times::Times};
use crate::format::copied::{About, Copied};
use crate::port::{
    Block, BlockKind, InFile, InSection, Interface, Left, LinkType, Resolution, Statistics,
};
use std::sync::Arc;

/// The most memory for what is kept of interfaces and sections.
const MAX_KEPT: usize = 8 << 20;
/// The most bytes of a text about a section that are copied.
const MAX_TEXT: usize = 8 << 10;

/// One section of a file: who wrote it, and where. Texts are empty where it does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// Its numbers are big-endian.
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

/// Blocks that were passed over, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Names of addresses.
    pub name_resolution: u64,
    /// Somebody's own.
    pub custom: u64,
    /// Entries of the systemd journal.
    pub systemd_journal: u64,
    /// Secrets for decryption.
    pub decryption_secrets: u64,
    /// Our own, which align direct writes.
    pub padding: u64,
    /// Kinds without a name here, and statistics of interfaces that there are not.
    pub other: u64,
    /// Not passed over: sections, interfaces and statistics with an option that does not fit the block. It and those behind it
    /// were left out.
    pub broken_options: u64,
}

/// What a packet needs of its interface.
#[derive(Clone, Copy, Debug)]
pub(super) struct Detail {
    pub times: Times,
    pub snaplen: u32,
}

/// What is kept of a file.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    /// Of this section's interfaces.
    pub details: Vec<Detail>,
    /// The number of this section's first interface.
    pub first_interface: u32,
    pub interfaces: Vec<Interface>,
    pub recorded: Vec<Option<Statistics>>,
    /// How many statistics blocks were taken note of, and the interface of the last one.
    pub last_statistics: (u64, u32),
    pub sections: Vec<Section>,
    pub skipped: Skipped,
    /// Blocks that belong into a copy and were not asked for yet.
    pub blocks: Vec<Block>,
    /// This section, for its interfaces.
    section: Arc<InSection>,
    bytes: usize,
}

impl Metadata {
    /// What packets of this section need, and nothing else.
    pub fn for_packets(&self) -> Metadata {
        Metadata {
            details: self.details.clone(),
            first_interface: self.first_interface,
            ..Metadata::default()
        }
    }

    /// A section begins: interfaces are counted anew.
    pub fn section(&mut self, body: &[u8], order: Order) -> Result<(), Fault> {
        let (head, options) = split_head::<24>(body)?;
        let version = (order.half(head, 12), order.half(head, 14));
        // 1.2 was written by some who meant 1.0.
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
        self.keep(
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

    /// This section has one more interface.
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
        };
        // Name, description, speed and resolution have fields, and the offset is in every time.
        let told = &[2, 3, 8, 9, 14];
        let mut copied = Copied::new(About::Interface, options, order == Order::Big, told);
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
        self.comment(comments);
        self.note_broken(&options, &mut noted.left);
        self.keep(
            size_of::<(Interface, Option<Statistics>, Detail, InFile)>()
                + interface.name.len()
                + interface.description.len()
                + noted.options.len(),
        )?;
        // Most have nothing to say that others of their section do not say.
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

    /// The counts of one interface; those of a later block replace them.
    pub fn statistics(&mut self, body: &[u8], order: Order) -> Result<(), Fault> {
        let (head, options) = split_head::<20>(body)?;
        let number = order.word(head, 8) as usize;
        let Some(Detail { times, .. }) = self.details.get(number).copied() else {
            self.skipped.other += 1;
            return Ok(());
        };
        let ticks = (order.word(head, 12) as u64) << 32 | order.word(head, 16) as u64;
        let mut told = Statistics {
            time_ns: times.ns(ticks),
            ..Statistics::default()
        };
        let mut comments = 0;
        let mut options = Options::new(options, order);
        while let Some(option) = options.next() {
            match option.code {
                1 => comments += 1,
                2 => told.began_ns = option.ticks().map(|t| times.ns(t)),
                3 => told.ended_ns = option.ticks().map(|t| times.ns(t)),
                4 => told.interface_received = option.u64(),
                5 => told.interface_dropped = option.u64(),
                6 => told.received = option.u64(),
                7 => told.dropped = option.u64(),
                8 => told.delivered = option.u64(),
                _ => {}
            }
        }
        self.comment(comments);
        for _ in 0..comments {
            let (kind, bytes) = (BlockKind::StatisticsComment, Vec::new());
            self.blocks.push(Block { kind, bytes });
        }
        self.note_broken(&options, &mut Left::default());
        let interface = self.first_interface + number as u32;
        self.recorded[interface as usize] = Some(told);
        self.last_statistics = (self.last_statistics.0 + 1, interface);
        Ok(())
    }

    fn note_broken(&mut self, options: &Options<'_>, left: &mut Left) {
        let broken = u64::from(options.is_broken);
        self.skipped.broken_options += broken;
        left.broken += broken;
    }

    fn comment(&mut self, many: u64) {
        if let Some(section) = self.sections.last_mut() {
            section.comments += many;
        }
    }

    /// Accounts for memory that stays.
    fn keep(&mut self, bytes: usize) -> Result<(), Fault> {
        self.bytes += bytes;
        if self.bytes <= MAX_KEPT {
            return Ok(());
        }
        let (sections, interfaces) = (self.sections.len(), self.interfaces.len());
        let what = format!(
            "is one section or interface too many: with {sections} and {interfaces} the limit of {} MiB is reached",
            MAX_KEPT >> 20
        );
        Err(Fault::new("block", what))
    }
}
