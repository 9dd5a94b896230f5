//! The protocol of `queue::lanes` written by hand, without any checks, as an attacker would write it.
#![allow(unsafe_code)]

use rustix::{
    fs::{FallocateFlags, MemfdFlags, SealFlags},
    io::Errno,
    mm::{MapFlags, ProtFlags},
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recv, recvmsg, sendmsg,
    },
};
use std::{
    io::{IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    ptr,
};

/// An upper limit for the page size of all test machines; the protocol requires whole pages.
pub const PAGE: usize = 1 << 16;
pub const POSITION: usize = 0;
pub const RINGS: usize = 16;
pub const FRONT: usize = 32;
pub const SEALS: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::FUTURE_WRITE)
    .union(SealFlags::SEAL);

/// The first message of either side: `what` is 1 for a lane, 2 for a receipt.
pub fn note(what: u32, len: u64) -> Vec<u8> {
    let mut bytes = b"forebayL".to_vec();
    bytes.extend(1_u32.to_ne_bytes());
    bytes.extend(what.to_ne_bytes());
    bytes.extend(len.to_ne_bytes());
    bytes
}

/// Memory of `len` bytes, all allocated, with these seals.
pub fn memory(len: usize, flags: MemfdFlags, seals: SealFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("hostile", flags)?;
    rustix::fs::ftruncate(&file, len as u64)?;
    if !flags.contains(MemfdFlags::HUGETLB) {
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, len as u64)?;
        rustix::io::pwrite(&file, &vec![0; len], 0)?; // pages that were never written are holes
    }
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(file)
}

/// Sealed memory of `len` bytes without pages, and twice as many bytes of pages beyond its end.
pub fn hollow_memory(len: usize) -> Result<OwnedFd, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("hollow", flags)?;
    rustix::fs::ftruncate(&file, len as u64)?;
    let (beyond, keep) = (len as u64, FallocateFlags::KEEP_SIZE);
    rustix::fs::fallocate(&file, keep, beyond, 2 * beyond)?;
    rustix::fs::fcntl_add_seals(&file, SEALS)?;
    Ok(file)
}

/// Whether the other side answers with a receipt.
pub fn gets_a_receipt(socket: &UnixStream) -> bool {
    receive(socket).is_some_and(|(note, _)| note[12..16] == 2_u32.to_ne_bytes())
}

/// Mapped memory and its descriptor, which most programs would have closed by now.
pub struct Sheet {
    start: *mut u64,
    words: usize,
    file: OwnedFd,
}

impl Sheet {
    fn map(file: OwnedFd, len: usize, protection: ProtFlags) -> Result<Sheet, Errno> {
        // SAFETY: the kernel chooses the address of a fresh mapping, so it replaces no other mapping.
        let start = unsafe {
            rustix::mm::mmap(ptr::null_mut(), len, protection, MapFlags::SHARED, &file, 0)
        };
        Ok(Sheet {
            start: start?.cast(),
            words: len / 8,
            file,
        })
    }

    /// Writes a word; `at` wraps around at the end of the memory.
    pub fn write(&self, at: usize, value: u64) {
        let word = self.start.wrapping_add(at % self.words);
        // SAFETY: inside the mapping, which lives as long as `self`, and aligned.
        unsafe { word.write_volatile(value) };
    }

    fn read(&self, at: usize) -> u64 {
        // SAFETY: as in `write`.
        unsafe { self.start.wrapping_add(at % self.words).read_volatile() }
    }
}

impl Drop for Sheet {
    fn drop(&mut self) {
        // SAFETY: our mapping, to which no references exist.
        let _ = unsafe { rustix::mm::munmap(self.start.cast(), self.words * 8) };
    }
}

/// Both memories of a lane, as mapped by one side, and the socket.
pub struct Paper {
    pub socket: UnixStream,
    pub mine: Sheet,
    pub theirs: Sheet,
    pub tail: u64,
    pub sent: u64,
}

impl Paper {
    /// Becomes a peer of the hub, with a lane of `len` bytes in all.
    pub fn attach(socket: UnixStream, len: usize) -> Option<Paper> {
        let mine = own_sheet(len.max(PAGE));
        let note = note(1, (mine.words * 8) as u64);
        send(&socket, &note, &[mine.file.as_fd()]).then_some(())?;
        Paper::with(socket, mine, 2)
    }

    /// Accepts a sender, as a hub would.
    pub fn accept(socket: UnixStream) -> Option<Paper> {
        let mine = own_sheet(rustix::param::page_size());
        let note = note(2, (mine.words * 8) as u64);
        let file = mine.file.as_fd().try_clone_to_owned().unwrap();
        let paper = Paper::with(socket, mine, 1)?;
        send(&paper.socket, &note, &[file.as_fd()]).then_some(paper)
    }

    fn with(socket: UnixStream, mine: Sheet, what: u32) -> Option<Paper> {
        let (note, file) = receive(&socket)?;
        let is_right = u32::from_ne_bytes(note[12..16].try_into().unwrap()) == what;
        let len = u64::from_ne_bytes(note[16..24].try_into().unwrap()) as usize;
        let theirs = Sheet::map(is_right.then_some(file)?, len, ProtFlags::READ).unwrap();
        Some(Paper {
            socket,
            mine,
            theirs,
            tail: 0,
            sent: 0,
        })
    }

    fn capacity(&self) -> u64 {
        (self.mine.words - FRONT) as u64
    }

    /// Publishes a header with this length and number, for a message without bytes.
    pub fn send_header(&mut self, len: u64, number: u64) {
        self.mine.write(self.place(), (number << 32) | len);
        self.tail += 1;
        self.mine.write(POSITION, self.tail);
    }

    /// The word at which the next message's header belongs.
    fn place(&self) -> usize {
        FRONT + (self.tail % self.capacity()) as usize
    }

    /// Sends a correct message of `len` bytes, with its old contents; false if there is no room.
    pub fn send(&mut self, len: usize) -> bool {
        let span = 1 + len.div_ceil(8) as u64;
        if self.tail + span > self.theirs.read(POSITION) + self.capacity() {
            return false;
        }
        let header = (self.sent << 32) | len as u64;
        self.mine.write(self.place(), header);
        self.tail += span;
        self.sent += 1;
        self.mine.write(POSITION, self.tail);
        true
    }
}

fn own_sheet(len: usize) -> Sheet {
    let file = memory(len, MemfdFlags::empty(), SealFlags::empty()).unwrap();
    let sheet = Sheet::map(file, len, ProtFlags::READ | ProtFlags::WRITE).unwrap();
    rustix::fs::fcntl_add_seals(&sheet.file, SEALS).unwrap();
    sheet
}

/// Asserts that memory can neither shrink, nor get holes, nor be mapped for writing once more.
pub fn cannot_change(sheet: &Sheet) {
    let len = sheet.words * 8;
    let holes = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let punched = rustix::fs::fallocate(&sheet.file, holes, 0, len as u64);
    // Sealed, and handed out to be read only.
    let refuses = |answer: Errno| [Errno::PERM, Errno::BADF, Errno::INVAL].contains(&answer);
    assert!(punched.is_err_and(refuses));
    assert!(rustix::fs::ftruncate(&sheet.file, 0).is_err_and(refuses));
    let longer = rustix::fs::ftruncate(&sheet.file, 2 * len as u64);
    assert!(longer.is_err_and(refuses));
    assert!(rustix::io::pwrite(&sheet.file, &[1], 0).is_err_and(refuses));
    let again = sheet.file.try_clone().unwrap();
    assert!(Sheet::map(again, len, ProtFlags::READ | ProtFlags::WRITE).is_err());
}

/// Sends `rings` rings; false once the other end is gone.
pub fn ring(socket: &UnixStream, rings: u64) -> bool {
    rings == 0 || send(socket, &vec![1; rings as usize], &[])
}

/// Sends bytes with descriptors, if that is possible now; false once the other end is gone.
pub fn send(socket: &UnixStream, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> bool {
    send_flagged(socket, bytes, descriptors, SendFlags::empty())
}

/// Like [`send`], but with the last byte out of band if the kernel supports it.
pub fn send_urgently(socket: &UnixStream, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> bool {
    send_flagged(socket, bytes, descriptors, SendFlags::OOB)
}

fn send_flagged(
    socket: &UnixStream,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> bool {
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
    }
    let flags = flags | SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let sent = sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags);
    !matches!(sent, Err(Errno::PIPE | Errno::CONNRESET))
}

/// The other side's note and the descriptor that came with it, if there is one.
fn receive(socket: &UnixStream) -> Option<([u8; 24], OwnedFd)> {
    let mut bytes = [0; 24];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut slices = [IoSliceMut::new(&mut bytes)];
    recvmsg(socket, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC).ok()?;
    let mut files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let file = files.next()?.next()?;
    drop(files);
    Some((bytes, file))
}

/// Receives and discards data from the other side; true once it is gone.
pub fn is_gone(socket: &UnixStream) -> bool {
    let mut bytes = [0; 4096];
    let got = recv(socket, &mut bytes[..], RecvFlags::DONTWAIT);
    !matches!(got, Ok((1.., _)) | Err(Errno::AGAIN))
}
