//! The limit: the kernel's ring is walked, and each block given back at once. Nothing is composed, copied or written.
//!
//! ```text
//!   │ status, frames, offset of the first │ header: offset of the next, length … │ frame │ header … │     a block of 1 MiB
//! ```
//! A block is ours while its status says `TP_STATUS_USER`, which the kernel stores when it closes the block (acquired below), until
//! we store `TP_STATUS_KERNEL` (released below): `Documentation/networking/packet_mmap.rst`.
#![allow(unsafe_code)]

use super::{
    lab::CAPTURED,
    roles::{RING_BYTES, has_input_ended},
};
use crate::method::process::tell;
use anyhow::{Context, Result, ensure};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::{AsRawFd, FromRawFd, OwnedFd},
    net::netdevice::name_to_index,
};
use std::{
    hint::black_box,
    io, mem,
    ptr::{self, NonNull},
    sync::atomic::{
        AtomicU32,
        Ordering::{Acquire, Release},
    },
};

const BLOCK: usize = 1 << 20;
const BLOCKS: usize = RING_BYTES as usize / BLOCK;

/// How often the end is looked for, where no packets come.
const LOOK_EVERY: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

/// Walks until the standard input ends, and reports the number of frames.
pub fn walk() -> Result<()> {
    // SAFETY: no memory of ours is touched.
    let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error()).context("opening a packet socket");
    }
    // SAFETY: it was just opened, and is owned here only.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let version = libc::tpacket_versions::TPACKET_V3 as i32;
    set(&socket, libc::PACKET_VERSION, &version).context("asking for TPACKET_V3")?;
    let shape = libc::tpacket_req3 {
        tp_block_size: BLOCK as u32,
        tp_block_nr: BLOCKS as u32,
        tp_frame_size: BLOCK as u32,
        tp_frame_nr: BLOCKS as u32,
        tp_retire_blk_tov: 100, // ms, as ours
        tp_sizeof_priv: 0,
        tp_feature_req_word: 0,
    };
    set(&socket, libc::PACKET_RX_RING, &shape).context("asking for a ring")?;
    let ring = map(&socket)?;
    bind(&socket)?;
    println!("ready");
    let (mut frames, mut which) = (0_u64, 0);
    loop {
        match drain(ring, which) {
            Some(walked) => {
                frames += walked;
                which = (which + 1) % BLOCKS;
            }
            None if has_input_ended() => return tell(&frames),
            None => {
                let mut ready = [PollFd::new(&socket, PollFlags::IN)];
                let _ = poll(&mut ready, Some(&LOOK_EVERY)); // the next look finds something or nothing
            }
        }
    }
}

/// Sets an option of the socket.
fn set<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    let (value, len) = ((&raw const *value).cast(), mem::size_of::<T>());
    let socket = socket.as_raw_fd();
    // SAFETY: the buffer has these bytes.
    let set = unsafe { libc::setsockopt(socket, libc::SOL_PACKET, option, value, len as u32) };
    match set {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Has all frames of the interface go into the ring, from now on.
fn bind(socket: &OwnedFd) -> Result<()> {
    let index = name_to_index(socket, CAPTURED);
    let index = index.with_context(|| format!("looking for {CAPTURED}"))?;
    // SAFETY: a plain C structure, for which zeros are values.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index as i32;
    let (start, len) = ((&raw const address).cast(), mem::size_of_val(&address));
    // SAFETY: the buffer has these bytes.
    let bound = unsafe { libc::bind(socket.as_raw_fd(), start, len as u32) };
    ensure!(
        bound == 0,
        "binding to {CAPTURED}: {}",
        io::Error::last_os_error()
    );
    Ok(())
}

/// The ring in our memory, until this process ends.
fn map(socket: &OwnedFd) -> Result<NonNull<u8>> {
    let (len, protection) = (BLOCK * BLOCKS, libc::PROT_READ | libc::PROT_WRITE);
    let (flags, socket) = (libc::MAP_SHARED, socket.as_raw_fd());
    // SAFETY: a fresh mapping at an address of the kernel's choice overlaps no other mapping.
    let ring = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, socket, 0) };
    ensure!(
        ring != libc::MAP_FAILED,
        "mapping the ring: {}",
        io::Error::last_os_error()
    );
    NonNull::new(ring.cast()).context("the kernel mapped nothing")
}

/// Walks a block of the ring, if the kernel has closed it, and gives it back; how many frames were in it.
fn drain(ring: NonNull<u8>, which: usize) -> Option<u64> {
    assert!(which < BLOCKS);
    // SAFETY: these blocks are mapped.
    let block = unsafe { ring.add(which * BLOCK) }.cast::<libc::tpacket_block_desc>();
    // SAFETY: a block begins with its description; its address is only taken.
    let status = unsafe { &raw mut (*block.as_ptr()).hdr.bh1.block_status };
    // SAFETY: aligned, mapped as long as the process lives, and the kernel writes it whole.
    let status = unsafe { AtomicU32::from_ptr(status) };
    if status.load(Acquire) & libc::TP_STATUS_USER == 0 {
        return None;
    }
    // SAFETY: ours, since the status says so, until it is stored below.
    let described = unsafe { block.read() };
    // SAFETY: the union's only member, all integers.
    let described = unsafe { described.hdr.bh1 };
    let mut at = described.offset_to_first_pkt as usize;
    let mut bytes = 0;
    for _ in 0..described.num_pkts {
        assert!(at + mem::size_of::<libc::tpacket3_hdr>() <= BLOCK);
        // SAFETY: just checked to be within the block.
        let header = unsafe { block.cast::<u8>().add(at) };
        // SAFETY: whole within the block, aligned to 4 by the kernel, and ours.
        let header = unsafe { header.cast::<libc::tpacket3_hdr>().read_unaligned() };
        bytes += u64::from(header.tp_snaplen);
        at += header.tp_next_offset as usize;
    }
    black_box(bytes);
    status.store(libc::TP_STATUS_KERNEL, Release);
    Some(u64::from(described.num_pkts))
}
