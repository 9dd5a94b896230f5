//! The port: it hands out frames, and notices what happens to the interface.
//!
//! `plan` opens program and sockets. A `source` is what is read: `reader` reads the queues, in time order, `copies` the ring buffer with the
//! copies of frames that pass. `clocks` has their times.

mod clocks;
mod copies;
mod plan;
mod reader;
mod source;

use super::traffic::Peer;
use crate::{
    link::Netlink,
    port::{Burst, Counts, Interface, Outages, Port, PortInfo, PortReport, SocketLosses, Wake},
};
use forebay::{Error, Result};
pub(super) use plan::Plan;
pub use plan::probe;
use rustix::thread::{MembarrierCommand, membarrier};
use source::Source;
use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    thread,
    time::{Duration, Instant},
};

/// AF_XDP sockets on the receive queues of one interface; or, with [`Spec::passes`](super::Spec::passes), a ring buffer with copies of its frames.
#[derive(Debug)]
pub struct AfXdp {
    source: Box<dyn Source>,
    interfaces: [Interface; 1],
    index: u32,
    /// The attachment of the program; `None` once the port is stopped.
    attachment: Option<OwnedFd>,
    /// Keeps the interface in promiscuous mode.
    _promiscuous: Option<OwnedFd>,
    /// Readable when a socket or `news` is.
    events: OwnedFd,
    netlink: Netlink,
    news: Netlink,
    /// There was news of the interface, but netlink has not answered what it is.
    is_unanswered: bool,
    peer: Option<Peer>,
    /// How frames arrive.
    copy: &'static str,
    stop_on_down: bool,
    state: State,
    empty_looks: u32,
    outages: Outages,
    /// Counters of the interface and of its peer when the capture began, and the losses of each at the last query.
    began: (u64, Option<u64>),
    interface_dropped: Option<u64>,
    peer_dropped: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Live,
    /// The interface is down. The program and the sockets stay.
    Down {
        since: Instant,
    },
    /// Detached; frames in the receive rings are still being read. An interface that went away is reported after them.
    Draining {
        gone: Option<Gone>,
    },
    Ended,
}

/// Why a port ended without a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gone {
    Down,
    Deleted,
}

/// A caller that never arms does not hear netlink, so every this many empty polls the port listens.
const LOOKS_BETWEEN_CHECKS: u32 = 1024;

impl AfXdp {
    fn name(&self) -> &str {
        &self.interfaces[0].name
    }

    /// Detaches the program, and waits until no processor runs it any more.
    fn detach(&mut self, gone: Option<Gone>) {
        self.end_outage();
        drop(self.attachment.take());
        // The kernel waits until each processor has left the code that runs the program and fills the rings.
        if membarrier(MembarrierCommand::Global).is_err() {
            thread::sleep(Duration::from_millis(20));
        }
        // From here on, both interfaces lose frames for other reasons.
        self.read_interfaces();
        self.source.stop();
        self.state = State::Draining { gone };
    }

    /// Reads what the interface and its peer have lost. If one does not report it now, its earlier count stays.
    fn read_interfaces(&mut self) {
        if let Ok(Some(link)) = self.netlink.link(self.index) {
            self.interface_dropped = Some(link.dropped.saturating_sub(self.began.0));
        }
        let unsent = self.peer.and_then(|peer| peer.unsent(&self.netlink));
        if let Some((now, began)) = unsent.zip(self.began.1) {
            self.peer_dropped = Some(now.saturating_sub(began));
        }
    }

    /// Finds out whether the interface went down, is up again, or was deleted, if netlink has news.
    fn hear(&mut self) {
        match self.news.heard() {
            Ok(links)
                if !self.is_unanswered && links.iter().all(|link| link.index != self.index) =>
            {
                return;
            }
            // News of this interface, or some that were lost.
            Ok(_) | Err(_) => {}
        }
        let answer = self.netlink.link(self.index);
        self.is_unanswered = answer.is_err();
        let Ok(link) = answer else {
            return;
        };
        match (link.map(|link| link.is_up()), self.state) {
            (None, _) => self.detach(Some(Gone::Deleted)),
            (Some(false), State::Live) if self.stop_on_down => self.detach(Some(Gone::Down)),
            (Some(false), State::Live) => {
                self.outages.count += 1;
                self.outages.last = Duration::ZERO;
                let since = Instant::now();
                self.state = State::Down { since };
            }
            (Some(true), State::Down { .. }) => self.end_outage(),
            (Some(_), _) => {}
        }
    }

    /// Ends the present outage, if there is one. The port is live again.
    fn end_outage(&mut self) {
        if let State::Down { since } = self.state {
            self.outages.last = since.elapsed();
            self.outages.total += self.outages.last;
            self.state = State::Live;
        }
    }

    /// Damage ends the port: a kernel that writes it is not trusted with the next frame.
    fn check_damage(&mut self) -> Result<()> {
        let Some(damage) = self.source.take_damage() else {
            return Ok(());
        };
        self.detach(None);
        self.state = State::Ended;
        Err(Error::new(self.name(), damage))
    }

    /// Ends a drain whose frames are all handed out.
    fn finish(&mut self, gone: Option<Gone>) -> Result<Wake<'_>> {
        self.source.read_losses();
        self.state = State::Ended;
        let what = match gone {
            None => return Ok(Wake::End),
            Some(Gone::Down) => "the interface went down",
            Some(Gone::Deleted) => "the interface is gone",
        };
        Err(Error::new(self.name(), what))
    }
}

impl AsFd for AfXdp {
    /// An epoll instance that is readable when there may be frames.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

impl Port for AfXdp {
    fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    fn receive(&mut self, budget: usize) -> Result<Burst<'_>> {
        let found = self.source.look(budget);
        self.check_damage()?;
        if !found {
            self.source.kick();
            self.empty_looks = self.empty_looks.wrapping_add(1);
            if self.empty_looks.is_multiple_of(LOOKS_BETWEEN_CHECKS) {
                self.arm()?;
            }
        }
        Ok(Burst::new(&mut *self.source))
    }

    fn arm(&mut self) -> Result<Wake<'_>> {
        let held = self.source.before_sleep();
        let found = self.source.look(0);
        self.check_damage()?;
        if found {
            return Ok(Wake::Ready);
        }
        if matches!(self.state, State::Live | State::Down { .. }) {
            self.hear();
            return match self.state {
                // Frames may have arrived before it went away.
                State::Draining { .. } => Ok(Wake::Ready),
                _ => Ok(held.map_or(Wake::Fd(self.events.as_fd()), Wake::At)),
            };
        }
        match self.state {
            State::Draining { gone } => self.finish(gone),
            _ => Ok(Wake::End),
        }
    }

    /// Detaches the program from the interface, whose frames go to the stack again. Blocks until no processor runs the program, some
    /// milliseconds.
    fn stop(&mut self) -> Result<()> {
        if matches!(self.state, State::Live | State::Down { .. }) {
            self.detach(None);
        }
        self.source.read_losses();
        Ok(())
    }

    fn counts(&mut self) -> Counts {
        if self.state != State::Ended {
            self.source.read_losses();
        }
        if matches!(self.state, State::Live | State::Down { .. }) {
            self.read_interfaces();
        }
        let dropped = self.source.losses().total();
        Counts {
            received: self.source.arrived() + dropped,
            dropped: Some(dropped),
            interface_dropped: self.interface_dropped,
            filtered: Some(0),
        }
    }

    fn report(&self) -> PortReport<'_> {
        let losses = self.source.losses();
        PortReport {
            socket_losses: SocketLosses {
                rx_ring: losses.ring_full,
                fill_ring: losses.no_chunk,
                peer: match self.peer {
                    Some(_) => self.peer_dropped,
                    None => Some(0),
                },
            },
            ring_fill: self.source.fill_level(),
            outages: self.outages.during(match self.state {
                State::Down { since } => Some(since.elapsed()),
                _ => None,
            }),
            ..PortReport::default()
        }
    }

    fn info(&self) -> PortInfo {
        PortInfo {
            copy: self.copy,
            ..self.source.info()
        }
    }
}
