//! One direction of a bridge: the port that receives, and the sender that it serves whenever the session looks at it.

use crate::{
    port::{Burst, Counts, Frame, Interface, Port, PortInfo, PortReport, Wake},
    transmit::{TxCounts, TxPort, TxWake},
};
use forebay::{Error, Result, packet::Packet, time::Clock};
use std::{
    io::ErrorKind,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Frames that are handed to the kernel together.
const BATCH: usize = 64;
/// How soon a sender without room is tried again, at the latest.
const RETRY: Duration = Duration::from_micros(100);

/// Sends the frames of one direction, in batches.
pub(super) struct Sender {
    pub port: Box<dyn TxPort>,
    /// The port finishes what a sender left for the hardware.
    takes_unfinished: bool,
    /// Empty packets of the port.
    empty: Vec<Packet>,
    /// Filled packets that the port has not taken yet.
    batch: Vec<Packet>,
    /// Frames that the port sends from where they were received, and that it has not handed to the kernel yet.
    placed: usize,
    /// Frames that were received cut, and not sent.
    pub truncated: u64,
    /// Frames that fit into no packet of the port, and merged ones that it cannot split. The port never saw them.
    too_long: u64,
    /// The interface has accepted nothing for too long: until it does, frames do not wait.
    is_stuck: bool,
    /// The interface is gone, or its rings are damaged: from then on frames fail.
    is_gone: bool,
    /// Why, until it is reported.
    error: Option<Error>,
    /// Frames that failed because it is gone, without the port having seen them.
    refused: u64,
}

impl Sender {
    pub fn new(port: Box<dyn TxPort>) -> Self {
        Sender {
            takes_unfinished: port.info().takes_unfinished,
            port,
            empty: Vec::with_capacity(BATCH),
            batch: Vec::with_capacity(BATCH),
            placed: 0,
            truncated: 0,
            too_long: 0,
            is_stuck: false,
            is_gone: false,
            error: None,
            refused: 0,
        }
    }

    pub fn counts(&self) -> TxCounts {
        let mut counts = self.port.counts();
        counts.failed.too_long += self.too_long;
        counts.failed.link_down += self.refused;
        counts
    }

    /// Takes `frame` to be sent: its memory if the port can send from there, otherwise a copy. `false`: there is no room now.
    pub fn forward(&mut self, frame: &Frame<'_>) -> bool {
        if (frame.data.len() as u64) < u64::from(frame.wire_len) {
            self.truncated += 1;
            return true;
        }
        if self.batch.len() + self.placed >= BATCH {
            self.hand_over(); // which may find that the interface is gone
        }
        if self.is_gone {
            self.refused += 1;
            return true;
        }
        if self.batch.len() >= BATCH {
            return false;
        }
        if let Some(taken) = self.port.send_received(frame.data) {
            self.placed += usize::from(taken);
            return taken;
        }
        if self.empty.is_empty() {
            self.port.reserve(BATCH, &mut self.empty);
        }
        let Some(mut packet) = self.empty.pop() else {
            return false;
        };
        match self.compose(&mut packet, frame) {
            true => self.batch.push(packet),
            false => {
                self.too_long += 1;
                // It may have bytes already.
                let _ = packet.trim(0);
                self.empty.push(packet);
            }
        }
        true
    }

    /// Copies a frame into an empty packet; `false`: it is too long.
    fn compose(&self, packet: &mut Packet, frame: &Frame<'_>) -> bool {
        let Frame {
            data, unfinished, ..
        } = *frame;
        if self.takes_unfinished {
            let header = unfinished.header(data);
            let Ok(room) = packet.put((header.len() + data.len()) as u32) else {
                return false;
            };
            room[..header.len()].copy_from_slice(&header);
            room[header.len()..].copy_from_slice(data);
            return true;
        }
        let Ok(room) = packet.put(data.len() as u32) else {
            return false;
        };
        room.copy_from_slice(data);
        !unfinished.is_some() || unfinished.finish(room)
    }

    /// Gives up what is left after a session that failed.
    pub fn end(&mut self) {
        self.hand_over();
        self.refused += self.batch.drain(..).len() as u64;
        self.port.abandon();
    }

    /// Hands the batch, and what is pending, to the kernel.
    fn hand_over(&mut self) {
        if self.is_gone {
            return;
        }
        self.placed = 0;
        let accepted = self.port.counts().accepted;
        let committed = match self.batch.is_empty() {
            true => self.port.advance().map(drop),
            false => self.port.commit(&mut self.batch).map(drop),
        };
        if let Err(error) = committed {
            if error.kind() != ErrorKind::TimedOut {
                // The interface is gone, or cannot be used any more: then what is pending has not always failed yet.
                self.is_gone = true;
                self.port.abandon();
                self.refused += self.batch.drain(..).len() as u64;
                self.error = Some(error);
                return;
            }
            // It accepted nothing for too long, and what was pending has failed.
            self.is_stuck = true;
        }
        self.is_stuck &= self.port.counts().accepted == accepted;
        if self.is_stuck {
            self.port.abandon();
        }
    }

    /// Hands over what waits. Returns how long to wait before the next attempt; `None`: nothing is left.
    ///
    /// # Errors
    /// The interface is gone, which is reported once; or it cannot be waited for.
    pub fn serve(&mut self) -> Result<Option<Duration>> {
        self.hand_over();
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if self.batch.is_empty() && self.port.counts().pending() == 0 {
            return Ok(None);
        }
        Ok(Some(match self.port.arm()? {
            TxWake::After(time) => time.min(RETRY),
            TxWake::Ready | TxWake::Writable(_) => RETRY,
        }))
    }
}

/// A panic while it was locked ended the session; the counts stay readable.
pub(super) fn locked(sender: &Mutex<Sender>) -> MutexGuard<'_, Sender> {
    sender.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A port that serves a sender each time it is polled.
pub(super) struct Leg {
    port: Box<dyn Port>,
    sender: Arc<Mutex<Sender>>,
    clock: Clock,
    /// The port has ended; only the sender may have frames left.
    has_ended: bool,
    is_stopped: bool,
    /// An error of the sender, which must not keep the frames in the port from being counted.
    error: Option<Error>,
}

impl Leg {
    pub fn new(port: Box<dyn Port>, sender: Arc<Mutex<Sender>>, clock: Clock) -> Self {
        Leg {
            port,
            sender,
            clock,
            has_ended: false,
            is_stopped: false,
            error: None,
        }
    }

    /// Lets the sender go on. Once the port is stopped, its error is kept until the port has ended.
    fn serve(&mut self) -> Result<Option<Duration>> {
        match locked(&self.sender).serve() {
            Err(error) if self.is_stopped => {
                self.error.get_or_insert(error);
                Ok(None)
            }
            answer => answer,
        }
    }
}

impl Port for Leg {
    fn interfaces(&self) -> &[Interface] {
        self.port.interfaces()
    }

    fn receive(&mut self, budget: usize) -> Result<Burst<'_>> {
        self.serve()?;
        self.port.receive(budget)
    }

    fn arm(&mut self) -> Result<Wake<'_>> {
        if let Some(time) = self.serve()? {
            let time = self.clock.now() + time.as_nanos() as u64;
            return Ok(Wake::At(time));
        }
        if self.has_ended {
            return self.error.take().map_or(Ok(Wake::End), Err);
        }
        let wake = self.port.arm()?;
        self.has_ended = matches!(wake, Wake::End);
        if let (true, Some(error)) = (self.has_ended, self.error.take()) {
            return Err(error);
        }
        Ok(wake)
    }

    fn disarm(&mut self) {
        self.port.disarm();
    }

    fn stop(&mut self) -> Result<()> {
        self.is_stopped = true;
        self.port.stop()
    }

    fn counts(&mut self) -> Counts {
        self.port.counts()
    }

    fn report(&self) -> PortReport<'_> {
        self.port.report()
    }

    fn info(&self) -> PortInfo {
        self.port.info()
    }
}
