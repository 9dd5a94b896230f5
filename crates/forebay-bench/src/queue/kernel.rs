//! What the system itself has for messages: a Unix datagram socket, and a POSIX message queue.
#![allow(unsafe_code)]

use super::rivals::{Receives, Rival, Sends, Shape};
use anyhow::{Context, Result};
use rustix::{
    fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt},
};
use std::{ffi::CString, io, os::fd::AsFd};

/// Two sockets that know each other: all senders have the one, all receivers the other.
pub struct Datagrams {
    near: OwnedFd,
    far: OwnedFd,
    len: usize,
}

/// An end of something that the kernel copies to and from.
pub struct SocketEnd<'a> {
    descriptor: BorrowedFd<'a>,
    buffer: Vec<u8>,
}

impl Rival for Datagrams {
    type Sender<'a> = SocketEnd<'a>;
    type Receiver<'a> = SocketEnd<'a>;

    fn new(shape: &Shape) -> Result<Datagrams> {
        let (unix, datagram) = (AddressFamily::UNIX, SocketType::DGRAM);
        let (near, far) = net::socketpair(unix, datagram, SocketFlags::CLOEXEC, None)
            .context("making a pair of sockets")?;
        // As much as the system allows of it; how many datagrams may wait is its own setting.
        let room = sockopt::set_socket_send_buffer_size(&near, 4 * shape.bytes());
        room.context("asking for room in a socket")?;
        Ok(Datagrams {
            near,
            far,
            len: shape.len,
        })
    }
    fn sender(&self) -> Result<SocketEnd<'_>> {
        Ok(SocketEnd {
            descriptor: self.near.as_fd(),
            buffer: Vec::new(),
        })
    }
    fn receiver(&self) -> Result<SocketEnd<'_>> {
        Ok(SocketEnd {
            descriptor: self.far.as_fd(),
            buffer: vec![0; self.len],
        })
    }
}

impl Sends for SocketEnd<'_> {
    fn send(&mut self, message: &[u8]) {
        let sent = net::send(self.descriptor, message, SendFlags::empty());
        assert_eq!(sent, Ok(message.len()));
    }
}

impl Receives for SocketEnd<'_> {
    fn receive<T>(&mut self, see: impl FnOnce(&[u8]) -> T) -> T {
        let received = net::recv(self.descriptor, &mut self.buffer[..], RecvFlags::empty());
        let (len, _) = received.expect("the other end is open");
        see(&self.buffer[..len])
    }
}

/// A POSIX message queue, of as many messages as it may have without asking for more.
pub struct Posix {
    queue: OwnedFd,
    len: usize,
}

/// An end of one.
pub struct PosixEnd<'a>(SocketEnd<'a>);

/// What the kernel grants to everybody.
const POSIX_MESSAGES: i64 = 10;

impl Rival for Posix {
    type Sender<'a> = PosixEnd<'a>;
    type Receiver<'a> = PosixEnd<'a>;

    fn new(shape: &Shape) -> Result<Posix> {
        let name = CString::new(format!("/forebay-bench-{}", std::process::id()))?;
        // SAFETY: a plain C structure, for which zeros are values.
        let mut attributes: libc::mq_attr = unsafe { std::mem::zeroed() };
        attributes.mq_maxmsg = POSIX_MESSAGES;
        attributes.mq_msgsize = shape.len as i64;
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
        // SAFETY: the name is a C string, and the attributes live as long as the call.
        let queue = unsafe { libc::mq_open(name.as_ptr(), flags, 0o600, &raw mut attributes) };
        if queue < 0 {
            let limits = "of 10 messages (see mq_overview(7) for the limits)";
            let error = Err(io::Error::last_os_error());
            return error.with_context(|| format!("making a queue {limits} of {}", shape.len));
        }
        // SAFETY: the name is a C string. A queue that is open stays usable.
        unsafe { libc::mq_unlink(name.as_ptr()) };
        // SAFETY: on Linux it is a descriptor, which was just opened and belongs to nobody else.
        let queue = unsafe { OwnedFd::from_raw_fd(queue) };
        Ok(Posix {
            queue,
            len: shape.len,
        })
    }
    fn sender(&self) -> Result<PosixEnd<'_>> {
        self.receiver()
    }
    fn receiver(&self) -> Result<PosixEnd<'_>> {
        Ok(PosixEnd(SocketEnd {
            descriptor: self.queue.as_fd(),
            buffer: vec![0; self.len],
        }))
    }
}

impl Sends for PosixEnd<'_> {
    fn send(&mut self, message: &[u8]) {
        let (queue, start) = (self.0.descriptor.as_raw_fd(), message.as_ptr().cast());
        // SAFETY: the slice has these bytes.
        let sent = unsafe { libc::mq_send(queue, start, message.len(), 0) };
        assert_eq!(sent, 0, "{}", io::Error::last_os_error());
    }
}

impl Receives for PosixEnd<'_> {
    fn receive<T>(&mut self, see: impl FnOnce(&[u8]) -> T) -> T {
        let queue = self.0.descriptor.as_raw_fd();
        let (start, len) = (self.0.buffer.as_mut_ptr().cast(), self.0.buffer.len());
        // SAFETY: the slice has these bytes; the priority is not requested.
        let received = unsafe { libc::mq_receive(queue, start, len, std::ptr::null_mut()) };
        let len = usize::try_from(received);
        see(&self.0.buffer[..len.expect("the queue is open")])
    }
}
