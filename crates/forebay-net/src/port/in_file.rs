//! What a capture file says beyond what the program needs of it, so that a copy can say the same.
//!
//! Options and blocks are kept as pcapng has them, with little-endian numbers, so that they are copied without being
//! understood. What cannot be kept is counted in [`Left`].

use std::{ops::AddAssign, sync::Arc};

/// What a file says of one of its interfaces, beside the fields of [`Interface`](super::Interface).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InFile {
    /// Options of its description that have no field of their own, one behind another without an end mark.
    pub options: Vec<u8>,
    /// The section of the file that it is in.
    pub section: Arc<InSection>,
    /// In a classic file the upper half of the link-type field, which tells of check sequences.
    pub classic: Option<u32>,
    /// What of its description is not in `options`.
    pub left: Left,
}

/// What a file says of one of its sections: who wrote it, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InSection {
    /// The machine (`shb_hardware`).
    pub hardware: Vec<u8>,
    /// Its operating system (`shb_os`).
    pub os: Vec<u8>,
    /// The program (`shb_userappl`).
    pub application: Vec<u8>,
    /// All other options, one behind another without an end mark: comments, and what programs put there.
    pub options: Vec<u8>,
    /// What of the section is not kept here.
    pub left: Left,
}

/// The kinds of blocks that a copy has as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// Names of addresses.
    NameResolution,
    /// Secrets for decryption.
    DecryptionSecrets,
    /// A program's own.
    Custom,
    /// Entries of the systemd journal.
    Journal,
    /// No block, but a comment on statistics, which a copy counts anew.
    StatisticsComment,
    /// Any other.
    Other,
}

/// A block of a pcapng file that is no packet, and describes none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its kind.
    pub kind: BlockKind,
    /// The whole block with its lengths, little-endian. Empty where it must not be copied, or nobody but its author can.
    pub bytes: Vec<u8>,
}

/// What is odd about a packet of a file, and the byte order of its options.
///
/// ```
/// use forebay_net::port::Marks;
/// let marks = Marks::RAISED_LENGTH.with(Marks::LIMITED_TIME);
/// assert!(marks.has(Marks::LIMITED_TIME) && !marks.has(Marks::BROKEN_OPTIONS));
/// assert!(Marks::default().is_empty());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks(u8);

impl Marks {
    /// Numbers in its options are big-endian.
    pub const BIG_ENDIAN: Marks = Marks(1);
    /// The file says fewer bytes on the wire than it has: the greater number is taken.
    pub const RAISED_LENGTH: Marks = Marks(2);
    /// Its time is before 1970 or after 2554, which 64 bits of nanoseconds cannot hold: the nearest one is taken.
    pub const LIMITED_TIME: Marks = Marks(4);
    /// An option does not fit its block: it and those behind it are passed over.
    pub const BROKEN_OPTIONS: Marks = Marks(8);

    /// Nothing is odd.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether it has the mark `other`.
    pub fn has(self, other: Marks) -> bool {
        self.0 & other.0 != 0
    }

    /// These and `other`.
    #[must_use]
    pub fn with(self, other: Marks) -> Marks {
        Marks(self.0 | other.0)
    }
}

/// Packets that were not taken quite as the file has them, by what is odd about them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Odd {
    /// [`Marks::RAISED_LENGTH`]
    pub raised_lengths: u64,
    /// [`Marks::LIMITED_TIME`]
    pub limited_times: u64,
    /// [`Marks::BROKEN_OPTIONS`], of packets and of interfaces and sections.
    pub broken_options: u64,
}

impl Odd {
    /// Counts a packet with these marks.
    pub fn count(&mut self, marks: Marks) {
        self.raised_lengths += u64::from(marks.has(Marks::RAISED_LENGTH));
        self.limited_times += u64::from(marks.has(Marks::LIMITED_TIME));
        self.broken_options += u64::from(marks.has(Marks::BROKEN_OPTIONS));
    }
}

impl AddAssign for Odd {
    fn add_assign(&mut self, other: Odd) {
        self.raised_lengths += other.raised_lengths;
        self.limited_times += other.limited_times;
        self.broken_options += other.broken_options;
    }
}

/// What of a file is not in a copy of it, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Comments on packets, interfaces, sections and statistics.
    pub comments: u64,
    /// Other options.
    pub options: u64,
    /// Blocks with names of addresses.
    pub name_resolution: u64,
    /// Blocks with secrets for decryption.
    pub decryption_secrets: u64,
    /// Custom blocks.
    pub custom: u64,
    /// Entries of the systemd journal.
    pub journal: u64,
    /// Blocks of other kinds.
    pub other: u64,
    /// Blocks of interfaces and sections whose options are broken; they count in [`Odd::broken_options`].
    pub broken: u64,
}

impl Left {
    /// Counts an option with this code.
    pub fn option(&mut self, code: u16) {
        match code {
            1 => self.comments += 1,
            _ => self.options += 1,
        }
    }

    /// Counts a block.
    pub fn block(&mut self, kind: BlockKind) {
        match kind {
            BlockKind::NameResolution => self.name_resolution += 1,
            BlockKind::DecryptionSecrets => self.decryption_secrets += 1,
            BlockKind::Custom => self.custom += 1,
            BlockKind::Journal => self.journal += 1,
            BlockKind::StatisticsComment => self.comments += 1,
            BlockKind::Other => self.other += 1,
        }
    }

    /// Each kind with its name, as `1 comment` and `2 comments` have it.
    pub fn by_kind(&self) -> [(&'static str, &'static str, u64); 7] {
        [
            ("comment", "comments", self.comments),
            ("option", "options", self.options),
            (
                "name resolution block",
                "name resolution blocks",
                self.name_resolution,
            ),
            (
                "decryption secrets block",
                "decryption secrets blocks",
                self.decryption_secrets,
            ),
            ("custom block", "custom blocks", self.custom),
            ("journal entry", "journal entries", self.journal),
            ("block of another kind", "blocks of other kinds", self.other),
        ]
    }
}

impl AddAssign for Left {
    fn add_assign(&mut self, other: Left) {
        self.comments += other.comments;
        self.options += other.options;
        self.name_resolution += other.name_resolution;
        self.decryption_secrets += other.decryption_secrets;
        self.custom += other.custom;
        self.journal += other.journal;
        self.other += other.other;
        self.broken += other.broken;
    }
}
