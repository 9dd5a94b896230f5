//! The operations of bpf(2) that this crate needs: make a map, set an element, load a program, attach it to an interface. `ring_buffer` is
//! the reader of a map that programs fill.
//!
//! Each descriptor is closed when it is dropped. Closing the last one of a link detaches the program, so nothing stays when the
//! process is killed. Attributes are laid out as in `union bpf_attr` (linux/bpf.h). Only its beginning is passed: the kernel takes the
//! rest as zero.
#![allow(unsafe_code)]

mod classic;
mod ring_buffer;
#[cfg(test)]
mod tests;

use crate::sys::Mapping;
pub(crate) use classic::counting;
pub(crate) use ring_buffer::{ASLEEP, LOST, RingBuffer};
use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// One instruction (`struct bpf_insn`): code, registers (destination, and source times 16), offset, constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Instruction(pub u8, pub u8, pub i16, pub i32);

const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;

const MAP_TYPE_ARRAY: u32 = 2;
const MAP_TYPE_XSKMAP: u32 = 17;
const MAP_TYPE_RINGBUF: u32 = 27;
/// A map that a process may map into its memory.
const MMAPABLE: u32 = 1 << 10;
/// The kind of attachment (`BPF_XDP`).
const ATTACH_XDP: u32 = 37;
/// The program accepts frames that are in several pieces of memory (`BPF_F_XDP_HAS_FRAGS`).
const HAS_FRAGMENTS: u32 = 1 << 5;

/// Calls bpf(2) with these attributes.
///
/// # Safety
/// The kernel only reads the memory that addresses in `attributes` name for this command, and all of it is valid for the call.
unsafe fn bpf(command: libc::c_int, attributes: &[u64]) -> io::Result<libc::c_int> {
    let (bytes, len) = (attributes.as_ptr(), size_of_val(attributes));
    // SAFETY: the kernel reads `len` bytes of attributes, and what they name, which the caller vouches for. No command of this file
    // makes it write.
    let answer = unsafe { libc::syscall(libc::SYS_bpf, command, bytes, len) };
    match answer {
        0.. => Ok(answer as libc::c_int),
        _ => Err(io::Error::last_os_error()),
    }
}

/// As [`bpf`], for a command that returns a new descriptor.
///
/// # Safety
/// As [`bpf`].
unsafe fn bpf_descriptor(command: libc::c_int, attributes: &[u64]) -> io::Result<OwnedFd> {
    // SAFETY: as the caller promises.
    let raw = unsafe { bpf(command, attributes) }?;
    // SAFETY: the kernel has just created this descriptor for us, closed on exec; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Two 32-bit attributes that share eight bytes.
fn pair(first: u32, second: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_ne_bytes());
    bytes[4..].copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

fn number(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd() as u32
}

/// Makes a map from queue numbers, 0 to `queues` − 1, to AF_XDP sockets.
pub(super) fn socket_map(queues: u32) -> io::Result<OwnedFd> {
    let attributes = [pair(MAP_TYPE_XSKMAP, 4), pair(4, queues), 0];
    // SAFETY: names no memory.
    unsafe { bpf_descriptor(MAP_CREATE, &attributes) }
}

/// Gives frames of this queue to this socket.
pub(super) fn set_socket(
    map: BorrowedFd<'_>,
    queue: u32,
    socket: BorrowedFd<'_>,
) -> io::Result<()> {
    let value = number(socket);
    let (key, value) = (&raw const queue, &raw const value);
    let attributes = [pair(number(map), 0), key as u64, value as u64, 0];
    // SAFETY: the kernel reads the key and the value, four bytes each as the map was made, which live until the call returns.
    unsafe { bpf(MAP_UPDATE_ELEM, &attributes) }?;
    Ok(())
}

/// What a program is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum ProgramKind {
    SocketFilter,
    /// `fragments`: it accepts frames that are in several pieces of memory. Linux 5.18.
    Xdp {
        fragments: bool,
    },
}

impl ProgramKind {
    /// `BPF_PROG_TYPE_…`.
    fn number(self) -> u32 {
        match self {
            ProgramKind::SocketFilter => 1,
            ProgramKind::Xdp { .. } => 6,
        }
    }
}

/// Loads a program.
pub(super) fn load(kind: ProgramKind, program: &[Instruction]) -> io::Result<OwnedFd> {
    // Only the text "GPL" and a few others open all of the kernel's functions to a program.
    let license = c"Dual MIT/GPL";
    let mut attributes = [0; 18];
    attributes[0] = pair(kind.number(), program.len() as u32);
    attributes[1] = program.as_ptr() as u64;
    attributes[2] = license.as_ptr() as u64;
    attributes[6] = u64::from_ne_bytes(*b"forebay\0"); // its name in `bpftool prog`
    if let ProgramKind::Xdp { fragments } = kind {
        attributes[5] = pair(0, if fragments { HAS_FRAGMENTS } else { 0 });
        attributes[8] = pair(0, ATTACH_XDP);
    }
    // SAFETY: the kernel reads the instructions and the license, which live until the call returns.
    unsafe { bpf_descriptor(PROG_LOAD, &attributes) }
}

/// Counters that programs share: up to this number of processors, each has one.
const SLOTS: usize = 64;
/// One cache line each.
pub(super) const SLOT_BYTES: usize = 64;

/// A count that programs in the kernel add to, and that is read without a system call. It needs no descriptor that a sandbox would
/// have to allow.
#[derive(Debug)]
pub(crate) struct KernelCounters {
    map: OwnedFd,
    memory: Mapping,
}

impl KernelCounters {
    pub(crate) fn new() -> io::Result<Self> {
        let bytes = SLOTS * SLOT_BYTES;
        let attributes = [
            pair(MAP_TYPE_ARRAY, 4),
            pair(bytes as u32, 1),
            pair(MMAPABLE, 0),
        ];
        // SAFETY: names no memory.
        let map = unsafe { bpf_descriptor(MAP_CREATE, &attributes) }?;
        let memory = Mapping::of(map.as_fd(), bytes)?;
        Ok(KernelCounters { map, memory })
    }

    /// The sum of all slots.
    pub(crate) fn sum(&self) -> u64 {
        let slot = |number| self.slot(number).load(Relaxed); // publishes only itself
        (0..SLOTS).map(slot).sum()
    }

    fn slot(&self, number: usize) -> &AtomicU64 {
        assert!(number < SLOTS);
        // SAFETY: the mapping has SLOTS slots of SLOT_BYTES.
        let slot = unsafe { self.memory.base().add(number * SLOT_BYTES) };
        // SAFETY: 8 bytes in the mapping, aligned to a cache line. Programs in the kernel and this process change them only with
        // atomic operations, and any bytes are a value.
        unsafe { slot.cast::<AtomicU64>().as_ref() }
    }
}

/// How a program is attached: `XDP_FLAGS_…` of linux/if_link.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Attach {
    Generic = 2,
    Native = 4,
}

/// Attaches a program to an interface, for as long as the descriptor is open.
pub(super) fn attach(program: BorrowedFd<'_>, index: u32, how: Attach) -> io::Result<OwnedFd> {
    let attributes = [
        pair(number(program), index),
        pair(ATTACH_XDP, how as u32),
        0,
    ];
    // SAFETY: names no memory.
    unsafe { bpf_descriptor(LINK_CREATE, &attributes) }
}
