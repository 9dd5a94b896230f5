//! Copies file metadata other than packets (comments, options, blocks), and counts what a copy lacks.

use crate::{
    format::{
        Format,
        copied::{MAX_OPTIONS, common_options, left_of_options, option, push_option},
    },
    port::{Block, BlockKind, InFile, InSection, Interface, Left},
};
use std::{
    borrow::Cow,
    collections::{HashMap, VecDeque},
    sync::Arc,
};

/// `if_os` and `if_hardware`: values that a section declares for all its interfaces.
const IF_OS: u16 = 12;
const IF_HARDWARE: u16 = 15;
/// The maximum bytes of blocks that every file of a series repeats at its beginning.
const MAX_SHARED: usize = 16 << 20;
/// Separates our name from the name of the program that wrote the original.
const COPIED_FROM: &str = "; copied from ";

pub(super) struct OutputMetadata {
    /// The metadata is wanted, and the output format can hold it.
    pub is_kept: bool,
    pub left: Left,
    /// Blocks that wait for room.
    pub blocks: VecDeque<Block>,
    /// The section that the output's header describes.
    first: Option<Arc<InSection>>,
    /// The sections of interfaces already written, by address.
    told: HashMap<usize, Arc<InSection>>,
    shared_bytes: usize,
}

impl OutputMetadata {
    pub fn new(is_wanted: bool, format: Format, interfaces: &[&Interface]) -> Self {
        let first = interfaces.first().and_then(|first| first.in_file.as_ref());
        OutputMetadata {
            is_kept: is_wanted && format == Format::Pcapng,
            left: Left::default(),
            blocks: VecDeque::new(),
            first: first.map(|first| first.section.clone()),
            told: HashMap::new(),
            shared_bytes: 0,
        }
    }

    /// The header of a copy: the machine, the system and the comments of the first section, our name, and the names of the
    /// programs that wrote the files.
    pub fn header(&self, application: &str, interfaces: &[&Interface]) -> Vec<u8> {
        let (true, Some(first)) = (self.is_kept, &self.first) else {
            return Format::Pcapng.header(application);
        };
        let mut writers: Vec<Cow<'_, str>> = Vec::new();
        for in_file in interfaces.iter().filter_map(|of| of.in_file.as_deref()) {
            let writer = String::from_utf8_lossy(&in_file.section.application);
            // For a copy of a copy, keep the name of the original, and ours only once.
            let writer = match writer.split_once(COPIED_FROM) {
                Some((_, original)) => original.to_owned().into(),
                None => writer,
            };
            if !writer.is_empty() && !writers.contains(&writer) && writer != application {
                writers.push(writer);
            }
        }
        let application = match writers.is_empty() {
            true => application.to_owned(),
            false => format!("{application}{COPIED_FROM}{}", writers.join(", ")),
        };
        Format::Pcapng.header_of_copy(&application, Some(first))
    }

    fn is_told(&self, section: &Arc<InSection>) -> bool {
        self.told.contains_key(&Arc::as_ptr(section).addr())
    }

    /// Returns `interface` as the output describes it, and the metadata that is lost. `decides` differs from `interface` only in
    /// the classic format.
    pub fn of_interface<'a>(
        &self,
        decides: &'a Interface,
        interface: &Interface,
    ) -> (Cow<'a, Interface>, Left) {
        let mut left = Left::default();
        let Some(in_file) = &interface.in_file else {
            return (Cow::Borrowed(decides), left);
        };
        let section = &in_file.section;
        left += in_file.left;
        if !self.is_told(section) {
            left += section.left;
        }
        if !self.is_kept {
            left += left_of_options(&in_file.options);
            if !self.is_told(section) {
                left += left_of_options(&section.options);
            }
            // The classic format has a field for the length of frame check sequences.
            let fcs_len = option(&in_file.options, FCS_LEN);
            left.options -= u64::from(fcs_len.is_some());
            // Every pcapng file has one, too. Without it, trailers would be misinterpreted.
            let mut only = InFile {
                classic: in_file.classic,
                ..InFile::default()
            };
            if let Some(fcs_len) = fcs_len {
                push_option(&mut only.options, FCS_LEN, fcs_len);
            }
            let described = Interface {
                in_file: decides.in_file.as_ref().map(|_| Arc::new(only)),
                ..decides.clone()
            };
            return (Cow::Owned(described), left);
        }
        let is_first = self
            .first
            .as_ref()
            .is_some_and(|first| Arc::ptr_eq(first, section));
        if is_first {
            return (Cow::Borrowed(decides), left);
        }
        // The header describes another section, so the interface has to carry the values of its section.
        let mut copied = InFile::clone(in_file);
        let about = [(IF_OS, &section.os), (IF_HARDWARE, &section.hardware)];
        for (code, text) in about {
            if !text.is_empty() && option(&copied.options, code).is_none() {
                push_option(&mut copied.options, code, text);
            }
        }
        if !self.is_told(section) {
            let (common, others) = common_options(&section.options);
            left += others;
            match copied.options.len() + common.len() > MAX_OPTIONS {
                true => left += left_of_options(&common),
                false => copied.options.extend(common),
            }
        }
        let mut described = decides.clone();
        described.in_file = Some(Arc::new(copied));
        (Cow::Owned(described), left)
    }

    /// Records that an interface was written.
    pub fn introduced(&mut self, interface: &Interface, left: Left) {
        self.left += left;
        if let Some(in_file) = &interface.in_file {
            let section = in_file.section.clone();
            self.told.insert(Arc::as_ptr(&section).addr(), section);
        }
    }

    /// Whether this block fits among those that every file of a series repeats.
    pub fn has_room_for(&mut self, block: &Block) -> bool {
        let bytes = self.shared_bytes + block.bytes.len();
        let has_room = bytes <= MAX_SHARED;
        if has_room {
            self.shared_bytes = bytes;
        }
        has_room
    }
}

/// Splits decryption secrets longer than the largest block that the store can compose into several blocks. The secrets of key
/// logs are lines. `None`: the block is of another kind, or a line is too long.
pub(super) fn split_secrets(block: &Block, longest: usize) -> Option<Vec<Block>> {
    const BESIDE: usize = 20;
    if block.kind != BlockKind::DecryptionSecrets {
        return None;
    }
    let (head, rest) = block.bytes.split_at_checked(16)?;
    let len = u32::from_le_bytes(*head.last_chunk()?) as usize;
    let mut secrets = rest.get(..len)?;
    let mut parts = Vec::new();
    while !secrets.is_empty() {
        let most = secrets.len().min(longest - BESIDE - 3);
        let end = match secrets.len() {
            len if len == most => len,
            _ => secrets[..most].iter().rposition(|&byte| byte == b'\n')? + 1,
        };
        let (part, rest) = secrets.split_at(end);
        secrets = rest;
        let whole = (BESIDE + part.len().next_multiple_of(4)) as u32;
        let mut bytes = head[..4].to_vec();
        bytes.extend(whole.to_le_bytes());
        bytes.extend(&head[8..12]);
        bytes.extend((part.len() as u32).to_le_bytes());
        bytes.extend(part);
        bytes.resize(whole as usize - 4, 0);
        bytes.extend(whole.to_le_bytes());
        let kind = block.kind;
        parts.push(Block { kind, bytes });
    }
    Some(parts)
}

/// `if_fcslen`
const FCS_LEN: u16 = 13;
