//! The metadata of a capture file that the program itself does not need, kept so that a copy can have it too.
//!
//! Options and blocks are kept in their pcapng encoding, with little-endian numbers, so that they are copied without being
//! parsed. Metadata that cannot be kept is counted in [`Left`].

use std::{ops::AddAssign, sync::Arc};

/// Metadata of one interface of a file, in addition to the fields of [`Interface`](super::Interface).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InFile {
    /// Options of its description that have no field here, concatenated without an end marker.
    pub options: Vec<u8>,
    /// The section of the file that contains the interface.
    pub section: Arc<InSection>,
    /// In a classic pcap file, the upper half of the link-type field, which describes frame check sequences.
    pub classic: Option<u32>,
    /// The metadata of its description that is not in `options`.
    pub left: Left,
}

/// Metadata of one section of a file: the program and machine that wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InSection {
    /// The hardware of the machine (`shb_hardware`).
    pub hardware: Vec<u8>,
    /// Its operating system (`shb_os`).
    pub os: Vec<u8>,
    /// The application (`shb_userappl`).
    pub application: Vec<u8>,
    /// All other options, concatenated without an end marker: comments, and options of other programs.
    pub options: Vec<u8>,
    /// The metadata of the section that is not kept here.
    pub left: Left,
}

/// The kinds of blocks that a copy contains, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// Name resolution.
    NameResolution,
    /// Decryption secrets.
    DecryptionSecrets,
    /// Custom blocks.
    Custom,
    /// Systemd journal entries.
    Journal,
    /// Not a block, but a comment on statistics. A copy computes its own statistics.
    StatisticsComment,
    /// Any other kind.
    Other,
}

/// A block of a pcapng file that neither is nor describes a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its kind.
    pub kind: BlockKind,
    /// The whole block with its lengths, little-endian. Empty if it must not be copied, or if only its author can copy it.
    pub bytes: Vec<u8>,
}

/// Irregularities of a packet in a file, and the byte order of its options.
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
    /// The file states a wire length below the captured length. The captured length is used.
    pub const RAISED_LENGTH: Marks = Marks(2);
    /// Its time is before 1970 or after 2554, which 64 bits of nanoseconds cannot represent. The nearest time is used.
    pub const LIMITED_TIME: Marks = Marks(4);
    /// An option does not fit in its block: it and the options after it are skipped.
    pub const BROKEN_OPTIONS: Marks = Marks(8);
    /// Its time is before that of a packet that was handed out earlier, although several threads or interfaces are read in the order of
    /// time.
    pub const LATE: Marks = Marks(16);
    /// The fraction of a second in the file is negative, or a second or more. It is added to the seconds.
    pub const CARRIED_TIME: Marks = Marks(32);

    /// No irregularity.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the mark `other` is set.
    pub fn has(self, other: Marks) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the union of these marks and `other`.
    #[must_use]
    pub fn with(self, other: Marks) -> Marks {
        Marks(self.0 | other.0)
    }
}

/// The comment on packets with [`Marks::LATE`], encoded (`opt_comment`).
pub(crate) const LATE_COMMENT: [u8; 52] = {
    let text = b"forebay: arrived too late to be in order of time";
    let mut option = [0; 52];
    (option[0], option[2]) = (1, text.len() as u8);
    let mut at = 0;
    while at < text.len() {
        option[4 + at] = text[at];
        at += 1;
    }
    option
};

/// The number of packets that differ from the file's contents, by irregularity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Odd {
    /// Packets with [`Marks::RAISED_LENGTH`].
    pub raised_lengths: u64,
    /// Packets with [`Marks::LIMITED_TIME`].
    pub limited_times: u64,
    /// Packets with [`Marks::CARRIED_TIME`].
    pub carried_times: u64,
    /// Packets, interfaces and sections with [`Marks::BROKEN_OPTIONS`].
    pub broken_options: u64,
    /// Packets with [`Marks::LATE`].
    pub late: u64,
    /// Packets of interfaces that the file does not describe. They are skipped.
    pub unknown_interfaces: u64,
}

impl Odd {
    /// Counts a packet with these marks.
    pub fn count(&mut self, marks: Marks) {
        self.raised_lengths += u64::from(marks.has(Marks::RAISED_LENGTH));
        self.limited_times += u64::from(marks.has(Marks::LIMITED_TIME));
        self.carried_times += u64::from(marks.has(Marks::CARRIED_TIME));
        self.broken_options += u64::from(marks.has(Marks::BROKEN_OPTIONS));
        self.late += u64::from(marks.has(Marks::LATE));
    }
}

impl AddAssign for Odd {
    fn add_assign(&mut self, other: Odd) {
        self.raised_lengths += other.raised_lengths;
        self.limited_times += other.limited_times;
        self.carried_times += other.carried_times;
        self.broken_options += other.broken_options;
        self.late += other.late;
        self.unknown_interfaces += other.unknown_interfaces;
    }
}

/// The metadata of a file that a copy of it lacks, counted by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Interfaces of other link types than the one that the copy can hold. No packets of them were kept.
    pub interfaces: u64,
    /// Comments on packets, interfaces, sections and statistics.
    pub comments: u64,
    /// Other options.
    pub options: u64,
    /// Name resolution blocks.
    pub name_resolution: u64,
    /// Decryption secrets blocks.
    pub decryption_secrets: u64,
    /// Custom blocks.
    pub custom: u64,
    /// Systemd journal entries.
    pub journal: u64,
    /// Blocks of other kinds.
    pub other: u64,
    /// Interface and section blocks with broken options; they count in [`Odd::broken_options`].
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

    /// Each kind with its singular and plural name, as in `1 comment` and `2 comments`.
    pub fn by_kind(&self) -> [(&'static str, &'static str, u64); 8] {
        [
            (
                "interface of another link type",
                "interfaces of other link types",
                self.interfaces,
            ),
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
        self.interfaces += other.interfaces;
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
