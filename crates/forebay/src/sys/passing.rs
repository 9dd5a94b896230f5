//! A Unix socket between processes that do not trust each other: bytes, descriptors that travel with them, and waiting.
//!
//! Nothing here blocks but the two that wait, and these have time limits; each call says that by itself (`MSG_DONTWAIT`).
//! Nothing that came is taken before it was looked at (`MSG_PEEK`): **taking a descriptor from the queue, or closing the socket
//! with one in its queue, closes it where nobody else has it, and closing may take for ever** (a TCP socket that
//! lingers, a file of FUSE).

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

/// Sends `bytes` at once, with a descriptor; all of them or an error.
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

/// Sends one byte at once. A full socket will do: then there is something to read on the other side.
pub(crate) fn ring(socket: &impl AsFd) -> io::Result<()> {
    match send(socket, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
        Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// What lies at the front of a socket's queue, and stays there.
#[derive(Debug)]
pub(crate) struct Front {
    /// Bytes, at the start of the buffer; 0: there will be no more.
    pub(crate) len: usize,
    /// Copies of the descriptors that came with them, a few at most.
    pub(crate) descriptors: Vec<OwnedFd>,
    /// Whether there were more of them.
    pub(crate) more: bool,
}

/// Looks at the front of the queue, without waiting.
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

/// How many bytes lie at the front of the queue, up to `bytes.len()`, and whether descriptors came with them, which are
/// not touched.
pub(crate) fn peek_bytes(socket: &impl AsFd, bytes: &mut [u8]) -> io::Result<(usize, bool)> {
    let mut none = RecvAncillaryBuffer::new(&mut []);
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    let got = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut none, flags)?;
    Ok((got.bytes, got.flags.contains(ReturnFlags::CTRUNC)))
}

/// Takes as many bytes from the queue as `bytes` has, which were looked at.
pub(crate) fn take(socket: &impl AsFd, bytes: &mut [u8]) -> io::Result<()> {
    recv(socket, bytes, RecvFlags::DONTWAIT)?;
    Ok(())
}

/// Lets nothing in or out any more; what is in the queue stays there.
pub(crate) fn shut_down(socket: &impl AsFd) {
    let _ = rustix::net::shutdown(socket, Shutdown::Both); // it fails where the other end is gone
}

/// Asks for nothing but bytes and descriptors, all in the order of the queue: no credentials, which would look like
/// descriptors, and nothing out of band (Linux 5.15), which a look passes over, and taking what lies behind it closes.
pub(crate) fn plainly(socket: &impl AsFd) -> io::Result<()> {
    rustix::net::sockopt::set_socket_passcred(socket, false)?;
    Ok(rustix::net::sockopt::set_socket_oobinline(socket, true)?)
}

/// Waits for up to `limit` until there is something to read, or the other end is gone; it may return early.
pub(crate) fn wait_readable(socket: &impl AsFd, limit: Option<Duration>) {
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    let _ = poll(&mut [PollFd::new(socket, PollFlags::IN)], limit.as_ref());
}

/// What happened to one of several descriptors that are waited for together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Happening {
    /// The number it was added under.
    pub(crate) number: u64,
    /// Whether the other end is gone, or sends no more.
    pub(crate) hung_up: bool,
}

/// Several descriptors to wait for together, until they are readable.
#[derive(Debug)]
pub(crate) struct Watch(OwnedFd);

impl Watch {
    pub(crate) fn new() -> io::Result<Watch> {
        Ok(Watch(epoll::create(CreateFlags::CLOEXEC)?))
    }

    /// Waits for this one, too; its happenings carry `number`.
    pub(crate) fn add(&self, descriptor: &impl AsFd, number: u64) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::RDHUP;
        epoll::add(&self.0, descriptor, EventData::new_u64(number), flags)?;
        Ok(())
    }

    /// Waits for this one no more.
    pub(crate) fn remove(&self, descriptor: &impl AsFd) {
        let _ = epoll::delete(&self.0, descriptor); // it fails where it was removed before
    }

    /// Waits for up to `limit` until something happens, and says what, 32 at most. It may return early, with nothing.
    pub(crate) fn wait(&self, limit: Option<Duration>) -> impl Iterator<Item = Happening> + use<> {
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let mut events = Vec::with_capacity(32);
        let spare = rustix::buffer::spare_capacity(&mut events);
        let _ = epoll::wait(&self.0, spare, limit.as_ref()); // interrupted: early
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

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
