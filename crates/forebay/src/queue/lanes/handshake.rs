//! How a lane begins: each side makes the memory that it will write, and hands it to the other.
//!
//! Everything received is checked before it is used; a refusal carries a reason.
//!
//! ```text
//!  sender                                                      hub
//!  makes the lane, seals it ── note: lane, length + memfd ──▶  checks it, maps it read-only
//!  checks it, maps it ◀── note: receipt, length + memfd ─────  makes the receipt, seals it
//!                       ◀── note: refused, reason ───────────  or refuses it
//!
//!  note:  │ "forebayL" │ version u32 │ what u32 │ length u64 │    in the machine's byte order, one message with one descriptor
//! ```

use super::{
    lane::{FRONT, Inlet, Outlet, RECEIPT},
    link::{Link, is_nothing_yet},
};
use crate::{
    Error, Result,
    error::Code,
    foreign::close_elsewhere,
    memory::{
        self,
        words::{Ours, Theirs, WORD},
    },
    sync::Deadline,
    sys::{self, Advice, Mapping, passing, sealed},
};
use std::{
    io::{self, ErrorKind},
    os::fd::{AsFd, OwnedFd},
};

const MAGIC: [u8; 8] = *b"forebayL";
const VERSION: u32 = 1;

/// The subject of errors from this file.
const ON: &str = "lane";

/// The kind of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum What {
    /// Comes with the sender's memory.
    Lane = 1,
    /// Comes with the hub's memory: the sender is accepted.
    Receipt = 2,
    /// The hub has its maximum number of peers.
    TooMany = 3,
    /// The lane is longer than the hub allows. The length field holds the limit in bytes.
    TooLong = 4,
    /// The hub rejects the lane's memory, which is not sealed as required.
    DoesNotFit = 5,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Note {
    what: What,
    len: u64,
}

impl Note {
    const BYTES: usize = 24;

    fn encode(self) -> [u8; Note::BYTES] {
        let mut bytes = [0; Note::BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_ne_bytes());
        bytes[12..16].copy_from_slice(&(self.what as u32).to_ne_bytes());
        bytes[16..].copy_from_slice(&self.len.to_ne_bytes());
        bytes
    }

    /// `None` if it is not a note of this version.
    fn decode(bytes: &[u8; Note::BYTES]) -> Option<Note> {
        let kinds = [
            What::Lane,
            What::Receipt,
            What::TooMany,
            What::TooLong,
            What::DoesNotFit,
        ];
        let len = u64::from_ne_bytes(bytes[16..].try_into().unwrap_or_default());
        let mut notes = kinds.into_iter().map(|what| Note { what, len });
        notes.find(|note| note.encode() == *bytes)
    }
}

/// A descriptor from the peer, not checked yet.
struct Unchecked(Option<OwnedFd>);

impl Unchecked {
    /// Maps it read-only, if it is sealed memory of `len` bytes.
    fn map(mut self, len: usize) -> Result<Mapping> {
        let taking = || Error::new(ON, format!("mapping {len} bytes of memory from the peer"));
        let Some(file) = &self.0 else {
            return Err(taking().of_kind(ErrorKind::InvalidData).advise(
                "The peer sent no descriptor; connect to a peer that uses forebay's lanes",
            ));
        };
        sealed::check(file, len).map_err(|unfit| {
            Error::coded(
                Code::Damaged,
                ON,
                format!("mapping {len} bytes of memory from the peer: {unfit}"),
            )
            .advise("Do not trust that peer: it does not use this version of forebay's lanes")
        })?;
        let mapping = sealed::map(file, len).map_err(|error| memory::refused(ON, len, error))?;
        // It is memory, so closing it is quick.
        self.0 = None;
        // All pages exist already. This also maps them, which saves faults later and detects pages that cannot be read.
        memory::populate_by(ON, &mapping, 0..len, Advice::PopulateRead)?;
        Ok(mapping)
    }
}

impl Drop for Unchecked {
    fn drop(&mut self) {
        if let Some(descriptor) = self.0.take() {
            close_elsewhere(descriptor);
        }
    }
}

/// Makes memory of `len` bytes (whole pages) for this side to write.
fn make(len: usize) -> Result<(OwnedFd, Ours)> {
    let refused = |error| memory::refused(ON, len, error);
    let (file, mapping) = sealed::make("forebay-lane", len).map_err(refused)?;
    mapping.advise(0..len, Advice::DontFork).map_err(refused)?;
    memory::populate(ON, &mapping, 0..len)?; // the pages exist; now this process has them mapped
    Ok((file, Ours::new(mapping)))
}

fn pages(words: usize, bytes: usize) -> usize {
    (words * WORD)
        .saturating_add(bytes)
        .checked_next_multiple_of(sys::page_size())
        .unwrap_or(usize::MAX)
}

fn send_note(link: &Link, note: Note, file: Option<&OwnedFd>) -> Result<()> {
    passing::send_with(link, &note.encode(), file.map(AsFd::as_fd)).map_err(|error| {
        Error::new(ON, "sending a note to the peer")
            .because(error)
            .advise("Use a connected socket that was not used before")
    })
}

/// Waits for the peer's note, and the descriptor that came with it.
fn receive_note(link: &Link, deadline: &Deadline) -> Result<(Note, Unchecked)> {
    let failed = || Error::new(ON, "waiting for the peer's note");
    let mut bytes = [0; Note::BYTES];
    let front = loop {
        match passing::peek(link, &mut bytes) {
            Ok(front) => break front,
            Err(error) if !is_nothing_yet(&error) => return Err(failed().because(error)),
            Err(_) if deadline.is_over() => {
                let error = failed().because(io::Error::from(ErrorKind::TimedOut));
                return Err(error.advise("Allow more time, or check what the peer is doing"));
            }
            Err(_) => link.sleep(deadline.left()),
        }
    };
    let mut descriptors: Vec<_> =
        (front.descriptors.into_iter().map(Some).map(Unchecked)).collect();
    if front.len == 0 {
        let error = failed().because(io::Error::from(ErrorKind::UnexpectedEof));
        return Err(error.advise("The peer closed the connection; check its error messages"));
    }
    // It must be a single message: a partial one is as wrong as different bytes.
    let note = Note::decode(&bytes).filter(|_| front.len == Note::BYTES);
    let note = note.filter(|_| !front.more && descriptors.len() <= 1).ok_or_else(|| {
        failed().advise("The peer sent something else; connect to a peer that uses this version of forebay's lanes")
    })?;
    let descriptor = descriptors.pop().unwrap_or(Unchecked(None));
    // This removes the socket queue's own copy of the descriptor. It is not the last one: `descriptors` held another.
    passing::take(link, &mut bytes).map_err(|error| failed().because(error))?;
    Ok((note, descriptor))
}

/// The sender's part of the handshake.
pub(super) fn attach(link: &Link, capacity_bytes: usize, deadline: &Deadline) -> Result<Outlet> {
    memory::check_all(ON, capacity_bytes)?;
    let len = pages(FRONT, capacity_bytes);
    let (file, lane) = make(len)?;
    let note = Note {
        what: What::Lane,
        len: len as u64,
    };
    send_note(link, note, Some(&file))?;
    let (note, descriptor) = receive_note(link, deadline)?;
    let refused = |code, why: &str| {
        Error::coded(
            code,
            ON,
            format!("attaching to a hub with {len} bytes: {why}"),
        )
    };
    match note.what {
        What::Receipt if note.len == pages(RECEIPT, 0) as u64 => {
            let receipt = descriptor.map(note.len as usize)?;
            Ok(Outlet::new(lane, Theirs::new(receipt)))
        }
        What::TooMany => Err(
            refused(Code::Full, "the hub has its maximum number of peers")
                .advise("Raise its `max_peers`"),
        ),
        What::TooLong => Err(refused(
            Code::TooLong,
            &format!("the hub allows at most {}", note.len),
        )
        .advise("Ask for a smaller capacity, or raise its `max_lane_bytes`")),
        What::DoesNotFit => Err(refused(Code::Invalid, "the hub rejected the memory")
            .advise("Check its error messages")),
        What::Lane | What::Receipt => Err(refused(Code::Damaged, "the peer sent a wrong answer")
            .advise("Connect the other end to a hub")),
    }
}

/// The error if the hub already has its maximum number of peers.
pub(super) fn too_many() -> Error {
    Error::coded(
        Code::Full,
        ON,
        "accepting a peer: the hub has its maximum number of peers",
    )
    .advise("Raise `max_peers`, or expel some")
}

/// The hub's part of the handshake. `has_room` returns whether the hub may have one more peer.
pub(super) fn accept(
    link: &Link,
    max_bytes: usize,
    has_room: impl Fn() -> bool,
    deadline: &Deadline,
) -> Result<Inlet> {
    let refuse = |what, len: usize| {
        // The caller gets the reason for a refusal. It is no further error if the note does not reach the peer.
        let note = Note {
            what,
            len: len as u64,
        };
        let _ = send_note(link, note, None);
    };
    let (note, descriptor) = receive_note(link, deadline)?;
    let accepting = |why: &str| Error::new(ON, format!("accepting a peer: {why}"));
    if !has_room() {
        refuse(What::TooMany, 0);
        return Err(too_many());
    }
    if note.what != What::Lane {
        refuse(What::DoesNotFit, 0);
        return Err(accepting("it offers no lane").advise("Connect the other end to a sender"));
    }
    let max = pages(FRONT, max_bytes);
    let len = match usize::try_from(note.len) {
        Ok(len) if len <= max => len,
        _ => {
            refuse(What::TooLong, max);
            let why = format!("its lane has {} bytes, more than {max}", note.len);
            return Err(accepting(&why).advise("Raise `max_lane_bytes`, or lower its capacity"));
        }
    };
    if len == 0 || !len.is_multiple_of(sys::page_size()) {
        refuse(What::DoesNotFit, 0);
        return Err(accepting("its lane does not consist of whole pages")
            .advise("Do not trust that peer: it does not use this version of forebay's lanes"));
    }
    let lane = descriptor
        .map(len)
        .inspect_err(|_| refuse(What::DoesNotFit, 0))?;
    let (file, receipt) = make(pages(RECEIPT, 0))?;
    let mut inlet = Inlet::new(Theirs::new(lane), receipt);
    inlet.arm(); // so that its first message wakes a thread that already waits
    let note = Note {
        what: What::Receipt,
        len: pages(RECEIPT, 0) as u64,
    };
    send_note(link, note, Some(&file))?;
    Ok(inlet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_as_they_were_written_and_nothing_else_is() {
        for what in [What::Lane, What::Receipt, What::TooMany] {
            let note = Note { what, len: 12_345 };
            assert_eq!(Note::decode(&note.encode()), Some(note));
            for at in 0..16 {
                let mut bytes = note.encode();
                bytes[at] ^= 0x80;
                assert_eq!(Note::decode(&bytes), None, "{at}");
            }
        }
    }
}
