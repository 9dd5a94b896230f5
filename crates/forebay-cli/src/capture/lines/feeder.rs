//! The session's end of the queue: puts packets into it, or their lines.

use super::{
    composer::Composer,
    message::{LINES_HEADER, PACKET_HEADER, put_lines, put_packet},
    shared::Shared,
};
use crate::{print::Packet, signals};
use forebay::queue::{SendError, spsc::Sender};
use forebay_net::port::{Frame, Interface};
use std::{
    mem,
    sync::{Arc, PoisonError, atomic::Ordering::Relaxed},
    time::Duration,
};

/// How long the session's thread may wait at once for room.
const SHORT_WAIT: Duration = Duration::from_millis(5);
/// The longest name of an interface in a message.
const MAX_NAME: usize = 255;
/// Bytes of text in one message: what is queued at once, with the last line. A packet may have more.
pub const MAX_TEXT: usize = 320 << 10;

/// Shows packets of the session to the thread that writes their lines.
pub struct Feeder {
    pub feeding: Feeding,
    pub shared: Arc<Shared>,
    /// Packets that the session has shown.
    pub offered: u64,
}

pub enum Feeding {
    Packets(PacketFeeder),
    Lines(Box<LineFeeder>),
}

impl Feeder {
    /// Takes a packet of the session; `false`: there is no room, and its source waits.
    pub fn put(&mut self, frame: &Frame<'_>, interface: &Interface) -> bool {
        let is_taken = self.shared.is_over.load(Relaxed)
            || match &mut self.feeding {
                Feeding::Packets(packets) => packets.put(&self.shared, frame, interface),
                Feeding::Lines(lines) => lines.put(frame, interface),
            };
        self.offered += u64::from(is_taken);
        is_taken
    }
}

impl Drop for Feeder {
    fn drop(&mut self) {
        if let Feeding::Lines(lines) = &mut self.feeding {
            let last = self.shared.last.lock();
            *last.unwrap_or_else(PoisonError::into_inner) = lines.take_rest();
        }
        self.shared.offered.store(self.offered, Relaxed);
    }
}

/// Copies packets into the queue.
pub struct PacketFeeder {
    pub sender: Sender,
    pub capacity: u64,
    /// Bytes put into the queue.
    pub sent: u64,
    /// Packets that found no room since the last one that did.
    pub missed: u64,
    pub most_bytes: usize,
    pub sends_names: bool,
    /// The sources wait for the lines.
    pub waits: bool,
    /// Time stands still meanwhile.
    pub is_virtual: bool,
}

impl PacketFeeder {
    fn put(&mut self, shared: &Shared, frame: &Frame<'_>, interface: &Interface) -> bool {
        if self.missed > 0 && !self.waits {
            let queued = self.sent - shared.taken.load(Relaxed);
            if queued > self.capacity / 2 {
                return self.miss();
            }
        }
        let name = if self.sends_names {
            interface.name.as_bytes()
        } else {
            b""
        };
        let name = &name[..name.len().min(MAX_NAME)];
        let room = self.sender.largest() - PACKET_HEADER - name.len();
        let data_len = frame.data.len().min(self.most_bytes).min(room);
        let len = PACKET_HEADER + name.len() + data_len;
        // While nobody sleeps, virtual time stands still: waiting then costs no packet.
        while self.is_virtual
            && signals::stops() == 0
            && matches!(
                self.sender.reserve_timeout(len, SHORT_WAIT),
                Err(SendError::TimedOut)
            )
        {}
        let reserved = match self.waits {
            false => self.sender.try_reserve(len),
            true => self.sender.reserve_timeout(len, SHORT_WAIT),
        };
        match reserved {
            Ok(mut reserved) => {
                put_packet(reserved.bytes(), frame, interface.link, self.missed, name);
                reserved.commit();
                self.sent += len as u64;
                self.missed = 0;
                true
            }
            Err(SendError::Closed) => true,
            Err(_) if self.waits && signals::stops() == 0 => false,
            Err(_) => self.miss(),
        }
    }

    fn miss(&mut self) -> bool {
        self.missed += 1;
        true
    }
}

/// Composes the lines of packets where they are, and puts many lines into the queue at once.
pub struct LineFeeder {
    pub sender: Sender,
    pub composer: Composer,
    /// Lines are queued when there is this much text.
    pub queue_bytes: usize,
    /// Bytes at the beginning of the text that are in the queue.
    pub queued: usize,
}

impl LineFeeder {
    /// After an interrupt, a packet that finds no room has no line.
    fn put(&mut self, frame: &Frame<'_>, interface: &Interface) -> bool {
        if self.composer.text.len() >= self.queue_bytes && !self.queue() {
            return signals::stops() > 0;
        }
        self.composer.print(&Packet {
            link: interface.link,
            interface: &interface.name,
            direction: frame.direction,
            time_ns: frame.time_ns,
            data: frame.data,
            captured: frame.data.len() as u32,
            wire_len: frame.wire_len,
        });
        true
    }

    /// Puts the text into the queue; `false`: there is no room for all of it.
    fn queue(&mut self) -> bool {
        let composer = &mut self.composer;
        while self.queued < composer.text.len() {
            let rest = &composer.text.bytes()[self.queued..];
            let text = &rest[..rest.len().min(MAX_TEXT)];
            let is_last = text.len() == rest.len();
            let packets = if is_last { composer.packets } else { 0 };
            let len = LINES_HEADER + text.len();
            match self.sender.reserve_timeout(len, SHORT_WAIT) {
                Ok(mut reserved) => {
                    put_lines(reserved.bytes(), text, packets);
                    reserved.commit();
                }
                // Nobody takes what is left.
                Err(SendError::Closed) => {}
                Err(_) => return false,
            }
            self.queued += text.len();
        }
        self.take_rest();
        true
    }

    /// Takes the text that is not in the queue, and the number of its packets.
    fn take_rest(&mut self) -> (Vec<u8>, u64) {
        let text = self.composer.text.bytes()[mem::take(&mut self.queued)..].to_vec();
        self.composer.text.clear();
        (text, mem::take(&mut self.composer.packets))
    }
}
