//! Shares the packets of one capture with any number of readers, in this process and in others.
//!
//! A *share* is the memory that holds the last packets of a capture, under a name. A *tap* is a port that reads a share.
//!
//! ```text
//!  session ──▶ Publisher ──▶ ring of packets, notes about interfaces ─┬──▶ Tap ──▶ session of a reader, with its own filter and counts
//!                              ▲ readers can only read this memory    └──▶ Tap
//!              Listener ───────┴ @forebay/share/NAME: checks the user, and hands out the memory
//! ```
//! The publisher does not wait for readers, and reads nothing that they can write. New packets overwrite the oldest ones. A reader that
//! is too slow for that finds out from sequence numbers how many packets it has missed. They count as drops of this reader,
//! with the cause *overrun*. Packets that the publishing capture itself has lost are a separate count.
//!
//! - The memory is a [broadcast ring](forebay::ring::broadcast), which only the publisher can write. It also has notes about interfaces,
//!   which are not overwritten, so that readers that attach later know all interfaces.
//! - A reader gets the descriptor of the memory from an abstract Unix socket. When the process of a share is killed, the kernel removes
//!   the socket, and the memory after the last reader has closed it.
//! - A reader checks all values that it reads. A hostile publisher can show it wrong packets, or cause an error, but no more.
//!
//! To offer packets, use a [`Publisher`], with a [`Listener`] or [`serve`](crate::serve). To read them, open the port `share:NAME`
//! ([`open`](crate::open)) or call [`attach`]. [`list`](list()) finds the shares of this machine.

mod buffers;
#[cfg(test)]
mod buffers_tests;
#[cfg(test)]
mod foreign_tests;
mod got;
mod handshake;
mod incoming;
mod list;
mod listener;
mod publish;
mod tap;
mod tap_config;
#[cfg(test)]
mod tests;
mod wire;

pub use handshake::{ShareName, Status};
pub use list::{Listed, is_offered, list, offered};
pub use listener::{Bound, Listener};
pub use publish::{MIN_RING_BYTES, Publisher, ShareSource};
pub use tap::Tap;
pub use tap_config::{Begin, End, TapConfig};

use crate::port::Owner;
use forebay::{Error, Result, error::Code, foreign::Foreign};
use handshake::{ShareAnswer, ShareLink};
use incoming::{Descriptors, Incoming};

/// Which users may attach, apart from root and the user that shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The members of the group with this number.
    pub group: Option<u32>,
}

/// Attaches to the share with this name.
///
/// # Errors
/// - There is no such share, or its process does not answer within five seconds.
/// - This user may not read from it, or it has too many readers.
/// - What its process hands out is not a share.
pub fn attach(name: &ShareName, config: &TapConfig) -> Result<Tap> {
    connect(name)?.attach(config)
}

/// A connection to a share from which nothing was read yet ([`connect`]).
#[derive(Debug)]
pub struct Connection {
    name: ShareName,
    link: ShareLink,
}

/// Connects to the share with this name. A program can then give up rights before it reads what the publisher sends.
///
/// # Errors
/// There is no such share, or its process does not accept within five seconds.
pub fn connect(name: &ShareName) -> Result<Connection> {
    Ok(Connection {
        name: name.clone(),
        link: ShareLink::to(name)?,
    })
}

impl Connection {
    /// The name of the share.
    pub fn name(&self) -> &ShareName {
        &self.name
    }

    /// The process that shares.
    pub fn owner(&self) -> Owner {
        self.link.owner()
    }

    /// Attaches.
    ///
    /// # Errors
    /// Those of [`attach`] after the connection.
    pub fn attach(self, config: &TapConfig) -> Result<Tap> {
        let Connection { name, link } = self;
        let greeting = link.greeting(&name)?;
        let on = name.in_messages();
        match greeting.answer {
            ShareAnswer::Welcome => {}
            ShareAnswer::NotPermitted => {
                let error = Error::new(on, "the capture does not share its packets with this user")
                    .because(std::io::Error::from_raw_os_error(libc::EACCES));
                return Err(error.advise(
                    "Root, its own user and the members of its --share-group may read them",
                ));
            }
            ShareAnswer::TooMany => {
                return Err(Error::coded(
                    Code::Busy,
                    on,
                    "the share has as many readers as it accepts",
                ));
            }
        }
        let mut memory = greeting.memory.into_iter();
        let Some(ring) = memory.next() else {
            return Err(Error::coded(
                Code::Damaged,
                on,
                "the share is damaged: it did not hand out its memory",
            ));
        };
        let descriptors = Descriptors {
            ring: ring.trusted(),
            buffers: memory.next().map(Foreign::trusted),
        };
        let packets = Incoming::attach(descriptors);
        let packets = packets.map_err(|error| Error::new(&on, error.to_string()))?;
        link.stay();
        let lost = match config.begin {
            Begin::Newest => Some(greeting.status.lost),
            Begin::Oldest | Begin::At(_) => None,
        };
        Tap::new(on, packets, lost, Some(link), config)
    }
}
