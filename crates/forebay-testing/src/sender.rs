//! Numbered frames, sent in batches, so that missing frames can be identified.
#![allow(unsafe_code, missing_docs)]

use std::io;
use std::mem::size_of_val;
use std::ops::Range;

/// An EtherType for local experiments (IEEE 802): only our frames use it in a laboratory.
pub const TYPE: [u8; 2] = [0x88, 0xB5];
const BATCH: usize = 32;

/// A frame of `len` bytes that contains a number.
pub fn frame(number: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0x5A; len];
    bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, 0xEE, 2, 0, 0, 0, 0, 1]);
    bytes[12..14].copy_from_slice(&TYPE);
    bytes[14..22].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// The number in one of our frames.
pub fn number(bytes: &[u8]) -> Option<u64> {
    let ours = bytes.get(12..14)? == TYPE;
    ours.then(|| bytes[14..22].try_into().map(u64::from_be_bytes).ok())?
}

/// A packet socket that only sends.
pub struct Sender(std::os::fd::OwnedFd);

impl Sender {
    pub fn open(interface: &str) -> Self {
        use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
        let name = std::ffi::CString::new(interface).expect("no NUL in a name");
        // SAFETY: reads the name, which lives until the call returns.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        assert!(index > 0, "{interface}: {}", io::Error::last_os_error());
        // SAFETY: passes no memory to the kernel.
        let raw = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        assert!(raw >= 0, "{}", io::Error::last_os_error());
        // SAFETY: just created, nothing else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: 0,
            sll_ifindex: index as i32,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        let len = size_of_val(&address) as u32;
        // SAFETY: the kernel reads `len` bytes of `address`.
        let bound = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) };
        assert!(bound == 0, "{}", io::Error::last_os_error());
        Sender(fd)
    }

    /// Pins this thread to one processor: veth has a queue for each, and frames of a sender that moves between processors would
    /// overtake each other.
    pub fn pinned(interface: &str) -> Self {
        Sender::pinned_to(interface, 0)
    }

    /// The same, with the processors numbered from the last one, and from there on again if there are not as many.
    pub fn pinned_to(interface: &str, nth: usize) -> Self {
        // SAFETY: a bit set, for which all zeros are the empty set.
        let mut cpus: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        let len = size_of_val(&cpus);
        // SAFETY: the kernel writes at most `len` bytes of the set.
        assert!(unsafe { libc::sched_getaffinity(0, len, &mut cpus) } >= 0);
        // SAFETY: reads the set, for a number below its size.
        let allowed = |&cpu: &usize| unsafe { libc::CPU_ISSET(cpu, &cpus) };
        let all: Vec<_> = (0..1024).rev().filter(allowed).collect();
        let chosen = all[nth % all.len()];
        // SAFETY: as above.
        let mut one: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: writes the set, for a number below its size.
        unsafe { libc::CPU_SET(chosen, &mut one) };
        // SAFETY: the kernel reads `len` bytes of the set.
        assert!(unsafe { libc::sched_setaffinity(0, len, &one) } >= 0);
        Sender::open(interface)
    }

    /// Sends the frames with these numbers, each of `len` bytes. The error reports how many were sent.
    pub fn numbers(&self, numbers: Range<u64>, len: usize) -> Result<(), (u64, io::Error)> {
        let mut at = numbers.start;
        while at < numbers.end {
            let count = (numbers.end - at).min(BATCH as u64);
            let frames: Vec<_> = (at..at + count).map(|number| frame(number, len)).collect();
            at += self.some(&frames).map_err(|error| (at, error))?;
        }
        Ok(())
    }

    /// Sends all of these frames once.
    pub fn frames(&self, frames: &[Vec<u8>]) {
        let mut at = 0;
        while at < frames.len() {
            at += self.some(&frames[at..]).expect("sending") as usize;
        }
    }

    fn some(&self, frames: &[Vec<u8>]) -> io::Result<u64> {
        use std::os::fd::AsRawFd;
        let part = |frame: &Vec<u8>| libc::iovec {
            iov_base: frame.as_ptr().cast_mut().cast(),
            iov_len: frame.len(),
        };
        let mut parts: Vec<_> = frames.iter().map(part).collect();
        let message = |part: &mut libc::iovec| {
            // SAFETY: all fields are addresses, lengths or pointers, which may be zero.
            let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
            message
        };
        let mut messages: Vec<_> = parts.iter_mut().map(message).collect();
        let count = messages.len() as u32;
        // SAFETY: the kernel reads `count` messages, their parts and frames, all alive until it returns.
        let sent = unsafe { libc::sendmmsg(self.0.as_raw_fd(), messages.as_mut_ptr(), count, 0) };
        match sent {
            1.. => Ok(sent as u64),
            _ => {
                let error = io::Error::last_os_error();
                // The interface's queue is full: the same frame again.
                if error.raw_os_error() == Some(libc::ENOBUFS) {
                    Ok(0)
                } else {
                    Err(error)
                }
            }
        }
    }
}
