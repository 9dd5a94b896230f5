//! A Unix socket between processes that do not trust each other: bytes, descriptors sent with them, and waiting.
//!
//! Only the two waiting functions block, and they have time limits; all others pass `MSG_DONTWAIT`. Data is inspected
//! (`MSG_PEEK`) before it is received. The reason: **receiving a descriptor from the queue, or closing the socket while its
//! queue holds one, closes that descriptor if no other copy is open, and closing may take forever** (a TCP socket that
//! lingers, a FUSE file).

use rustix::{
    event::{
        PollFd, PollFlags, Timespec,
        epoll::{self, CreateFlags, EventData, EventFlags},
        poll,
    },
    io::Errno,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, Shutdown, recv, recvmsg, send, sendmsg,
    },
};
use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

/// Sends `bytes` with a descriptor, without waiting: all of them, or an error.
pub(crate) fn send_with(
    socket: &impl AsFd,
    bytes: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if let Some(descriptor) = &descriptor {
        control.push(SendAncillaryMessage::ScmRights(std::slice::from_ref(
            descriptor,
        )));
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let sent = sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags)?;
    match sent == bytes.len() {
        true => Ok(()),
        false => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// Sends one byte without waiting. A full socket is not an error: then there is something to read on the other side.
pub(crate) fn ring(socket: &impl AsFd) -> io::Result<()> {
    match send(socket, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
        Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The data at the front of a socket's queue, which stays there.
#[derive(Debug)]
pub(crate) struct Front {
    /// Number of bytes at the start of the buffer. 0 means the end of the stream.
    pub(crate) len: usize,
    /// Copies of the descriptors that came with them, up to a few.
    pub(crate) descriptors: Vec<OwnedFd>,
    /// Whether there were more descriptors.
    pub(crate) more: bool,
}

/// Inspects the front of the queue, without waiting and without removing anything.
pub(crate) fn peek(socket: &impl AsFd, bytes: &mut [u8]) -> io::Result<Front> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let got = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut control, flags)?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(some) = message {
            descriptors.extend(some);
        }
    }
    Ok(Front {
        len: got.bytes,
        descriptors,
        more: got.flags.contains(ReturnFlags::CTRUNC),
    })
}

/// The number of bytes at the front of the queue, up to `bytes.len()`, and whether descriptors came with them. Leaves the
/// descriptors in the queue.
pub(crate) fn peek_bytes(socket: &impl AsFd, bytes: &mut [u8]) -> io::Result<(usize, bool)> {
    let mut none = RecvAncillaryBuffer::new(&mut []);
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    let got = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut none, flags)?;
    Ok((got.bytes, got.flags.contains(ReturnFlags::CTRUNC)))
}

/// Removes `bytes.len()` bytes from the queue. The caller has inspected them.
pub(crate) fn take(socket: &impl AsFd, bytes: &mut [u8]) -> io::Result<()> {
    recv(socket, bytes, RecvFlags::DONTWAIT)?;
    Ok(())
}

/// Shuts down both directions; data in the queue stays there.
pub(crate) fn shut_down(socket: &impl AsFd) {
    let _ = rustix::net::shutdown(socket, Shutdown::Both); // it fails if the other end is gone
}

/// Disables credentials, which would look like descriptors, and receives out-of-band data inline (Linux 5.15). Otherwise
/// `MSG_PEEK` would skip out-of-band data, and receiving bytes after it would close its descriptors.
pub(crate) fn plainly(socket: &impl AsFd) -> io::Result<()> {
    rustix::net::sockopt::set_socket_passcred(socket, false)?;
    Ok(rustix::net::sockopt::set_socket_oobinline(socket, true)?)
}

/// Waits for up to `limit` until there is something to read, or the other end is gone; it may return early.
pub(crate) fn wait_readable(socket: &impl AsFd, limit: Option<Duration>) {
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    let _ = poll(&mut [PollFd::new(socket, PollFlags::IN)], limit.as_ref());
}

/// An event of one of several watched descriptors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Happening {
    /// The number under which the descriptor was added.
    pub(crate) number: u64,
    /// Whether the other end is gone, or will send no more.
    pub(crate) hung_up: bool,
}

/// A set of descriptors to wait for together, until one is readable.
#[derive(Debug)]
pub(crate) struct Epoll(OwnedFd);

impl Epoll {
    pub(crate) fn new() -> io::Result<Epoll> {
        Ok(Epoll(epoll::create(CreateFlags::CLOEXEC)?))
    }

    /// Adds a descriptor; its events carry `number`.
    pub(crate) fn add(&self, descriptor: &impl AsFd, number: u64) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::RDHUP;
        epoll::add(&self.0, descriptor, EventData::new_u64(number), flags)?;
        Ok(())
    }

    /// Removes a descriptor.
    pub(crate) fn remove(&self, descriptor: &impl AsFd) {
        let _ = epoll::delete(&self.0, descriptor); // it fails if the descriptor was removed before
    }

    /// Waits for up to `limit` for events, and returns up to 32 of them. It may return early, with none.
    pub(crate) fn wait(&self, limit: Option<Duration>) -> impl Iterator<Item = Happening> + use<> {
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let mut events = Vec::with_capacity(32);
        let spare = rustix::buffer::spare_capacity(&mut events);
        let _ = epoll::wait(&self.0, spare, limit.as_ref()); // if interrupted, it returns early
        events.into_iter().map(|event: epoll::Event| {
            let ends = EventFlags::HUP | EventFlags::RDHUP | EventFlags::ERR;
            let flags = event.flags; // a packed field
            Happening {
                number: event.data.u64(),
                hung_up: flags.intersects(ends),
            }
        })
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
