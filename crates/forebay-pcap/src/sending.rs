//! Sends single frames on the interface that a handle captures from.

use crate::{border::packet_socket, failure::Failure, stdio::error_text};
use forebay_net::open::Name;
use rustix::net::{SendFlags, send};
use std::os::fd::OwnedFd;

/// The socket for sending. Used without the handle's lock.
pub enum Sender {
    Socket(OwnedFd),
    None(String),
}

impl Sender {
    /// Sends through the socket that captures, if there is one: the kernel does not deliver a frame to the socket that sent it. A queue of
    /// AF_XDP has a socket that only receives, so another one sends, opened while the program has the rights.
    pub fn of(device: &Name, captures: Option<&OwnedFd>) -> Result<Sender, Failure> {
        let opened = match (captures, device) {
            (Some(socket), _) => socket.try_clone(),
            (None, Name::Xdp(spec)) => packet_socket(&spec.interface),
            _ => {
                return Ok(Sender::None(format!(
                    "Sending packets isn't supported on the \"{device}\" device"
                )));
            }
        };
        let opened = opened.map_err(|error| format!("can't open a socket for sending: {error}"));
        Ok(Sender::Socket(opened?))
    }

    /// Sends a frame, once the kernel has room for it. If the handle is non-blocking, that must be now.
    pub fn send(&self, frame: &[u8]) -> Result<(), Failure> {
        match self {
            Sender::None(why) => Err(why.as_str().into()),
            Sender::Socket(socket) => match send(socket, frame, SendFlags::empty()) {
                Ok(_) => Ok(()),
                Err(error) => {
                    let text = error_text(error.raw_os_error());
                    Err(format!("send: {}", text.to_string_lossy()).into())
                }
            },
        }
    }
}
