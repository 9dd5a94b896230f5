//! The reading side: a share as a port.

use super::{
    got::Got,
    handshake::ShareLink,
    incoming::Incoming,
    tap_config::{Begin, End, TapConfig},
    wire::{MAX_LOST, ShareDamage},
};
use crate::port::{Burst, Counts, Frame, Frames, Interface, Port, PortInfo, PortReport, Wake};
use forebay::{Error, Result, error::Code, time::Clock};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

/// Packets before the beginning that one call skips, so that it returns soon.
const MAX_SKIPPED: usize = 1024;
/// Overruns in a row that one call counts. Only a publisher that keeps overwriting packets causes more.
const MAX_OVERRUNS: usize = 16;
/// Overruns after a tap was stopped: an honest publisher causes fewer, as each skips an eighth of what is in memory.
const MAX_LATE_OVERRUNS: u32 = 64;
/// How long a tap still waits for packets from before its end: the kernel holds back those of a quiet interface for up to 100 ms.
const LATE_NS: u64 = 300_000_000;
/// The same after a packet from after the end, if there is one interface. Its packets are in order, except for those that several
/// processors receive at the same moment.
const LATE_IN_ORDER_NS: u64 = 10_000_000;

const ALL_ARE_READ: &str = "All packets that it had shared are read";

/// A port that reads the packets of a share.
///
/// Each tap reads at its own speed. If it is so slow that packets are overwritten before it has read them, it skips them
/// and, while the capture runs, an eighth of the packets in memory, because those are overwritten next. It counts exactly the packets
/// that it has skipped: in [`Counts::dropped`], and in [`Frame::dropped_before`] of the next packet. What the publishing capture itself has lost
/// since the tap began is [`Counts::interface_dropped`]: these packets were lost before they were shared.
///
/// When the capture ends properly, the tap ends after the last packet. When the capture of another process fails or is killed, the tap
/// delivers what is in memory and then returns an error.
pub struct Tap {
    name: String,
    /// The memory, and the last packet fetched.
    incoming: Incoming,
    /// The connection to the publisher, if it is another process.
    link: Option<ShareLink>,
    clock: Clock,
    poll_every_ns: u64,
    /// The last packet fetched was not handed out yet, or was put back.
    is_held: bool,
    /// The last packet was handed out, and can be put back.
    is_taken: bool,
    /// Overruns before the last packet fetched, and since it.
    overrun_before: u64,
    overrun_since: u64,
    /// Packets that the present burst may still hand out.
    left: usize,
    delivered: u64,
    overrun: u64,
    /// Packets lost before they were shared: when the tap began, and now.
    lost_at_start: Option<u64>,
    lost: u64,
    /// Packets of interfaces that could not be described.
    not_described: u64,
    /// `None` from the first packet on.
    begin: Option<Begin>,
    /// The reader is where `begin` is.
    is_placed: bool,
    /// Packets before the position of the reader were overwritten, and none from before the beginning was read since.
    is_cut: bool,
    is_short: Arc<AtomicBool>,
    until: Option<End>,
    late: Option<Late>,
    /// The sequence number of the next packet when the tap was made, and the wall time.
    made_at: u64,
    made_ns: u64,
    /// The sequence number after the last packet to be read, once the tap was stopped.
    end: Option<u64>,
    late_overruns: u32,
    /// Packets before the beginning were skipped, and there may be more.
    is_skipping: bool,
    has_closed: bool,
    has_ended: bool,
    /// Returned by the next call of `arm`.
    fault: Option<Error>,
}

/// A tap has seen a packet from after its end. Packets from before it may still arrive.
#[derive(Debug)]
struct Late {
    end_ns: u64,
    /// When the tap stops waiting for them.
    deadline: u64,
}

impl Tap {
    /// Reads the notes and attaches to the first packet. `lost` is the publisher's count of lost packets, if it is known.
    pub(super) fn new(
        name: String,
        mut incoming: Incoming,
        lost: Option<u64>,
        link: Option<ShareLink>,
        config: &TapConfig,
    ) -> Result<Tap> {
        let made_at = incoming.seek_newest();
        let mut tap = Tap {
            name,
            incoming,
            link,
            clock: config.clock.clone(),
            poll_every_ns: (config.poll_every.as_nanos() as u64).max(1),
            is_held: false,
            is_taken: false,
            overrun_before: 0,
            overrun_since: 0,
            left: 0,
            delivered: 0,
            overrun: 0,
            lost_at_start: lost,
            lost: lost.unwrap_or(0),
            not_described: 0,
            begin: (config.begin != Begin::Newest).then_some(config.begin),
            is_placed: config.begin == Begin::Newest,
            is_cut: false,
            is_short: Arc::default(),
            until: config.end.clone(),
            late: None,
            made_at,
            made_ns: config.clock.wall_now(),
            end: None,
            late_overruns: 0,
            is_skipping: false,
            has_closed: false,
            has_ended: false,
            fault: None,
        };
        if let Err(damage) = tap.read_notes() {
            return Err(tap.damaged(damage));
        }
        if tap.incoming.interfaces.is_empty() {
            return Err(tap.damaged(ShareDamage("it describes no interface")));
        }
        Ok(tap)
    }

    /// Set at the first packet after [`Begin::At`] if earlier ones that are also after it were, or may have been, overwritten.
    pub(crate) fn is_short(&self) -> Arc<AtomicBool> {
        self.is_short.clone()
    }

    fn damaged(&self, ShareDamage(what): ShareDamage) -> Error {
        let error = Error::coded(
            Code::Damaged,
            &self.name,
            format!("the share is damaged: {what}"),
        );
        error.advise("Do not trust the process that publishes it")
    }

    /// Reads the notes that are new.
    fn read_notes(&mut self) -> std::result::Result<(), ShareDamage> {
        if let Some(lost) = self.incoming.read_notes()? {
            // It does not say what was lost before the first packet of this tap.
            self.lost = self.lost.max(lost);
        }
        Ok(())
    }

    fn set_lost(&mut self, lost: u64) {
        self.lost_at_start.get_or_insert(lost);
        self.lost = self.lost.max(lost);
    }

    /// Moves to the oldest packet. Done at the first read, not when the tap is made: its session opens a file in between, and packets
    /// are overwritten meanwhile.
    fn place(&mut self) {
        self.is_cut = self.incoming.seek_oldest();
        self.is_placed = true;
    }

    /// Fetches the next packet into the buffer, if there is one.
    fn fetch(&mut self) -> bool {
        if self.is_held {
            return true;
        }
        if !self.is_placed {
            self.place();
        }
        if self.is_late_over() {
            self.end_here();
        }
        self.is_skipping = false;
        self.incoming.begin();
        let (mut skipped, mut overruns) = (0, 0);
        while self.fault.is_none() && !self.has_ended {
            if self.end.is_some_and(|end| self.incoming.next() >= end) {
                return false;
            }
            match self.incoming.read() {
                Ok(Got::Packet(number)) => {
                    if self.is_early() || self.is_after_end(number) {
                        skipped += 1;
                        if skipped == MAX_SKIPPED {
                            self.is_skipping = true;
                            return false;
                        }
                        continue;
                    }
                    self.set_lost(self.incoming.head.lost);
                    self.overrun_before = std::mem::take(&mut self.overrun_since);
                    self.is_held = true;
                    return true;
                }
                Ok(Got::Overrun(lost)) => {
                    self.count_overrun(lost);
                    overruns += 1;
                    if overruns == MAX_OVERRUNS {
                        self.is_skipping = true;
                        return false;
                    }
                }
                Ok(Got::NotDescribed) => {
                    // Its time is not known, so it does not count where a time decides.
                    let is_unclear =
                        matches!(self.begin, Some(Begin::At(_))) || self.late.is_some();
                    self.not_described += u64::from(!is_unclear);
                    skipped += 1;
                    if skipped == MAX_SKIPPED {
                        self.is_skipping = true;
                        return false;
                    }
                }
                Ok(Got::Skipped) => {
                    self.is_skipping = true;
                    return false;
                }
                Ok(Got::Nothing) => return false,
                Ok(Got::Closed) => {
                    self.has_closed = true;
                    return false;
                }
                Err(damage) => {
                    self.fault = Some(self.damaged(damage));
                    return false;
                }
            }
        }
        false
    }

    /// Counts packets that were overwritten or skipped: not those before the first one, and not those published after the tap was stopped.
    /// If the tap ends at a time, the count may include packets from after it.
    fn count_overrun(&mut self, lost: u64) {
        self.late_overruns += u32::from(self.end.is_some());
        if self.late_overruns > MAX_LATE_OVERRUNS {
            self.fault = Some(self.damaged(ShareDamage("it does not end")));
            return;
        }
        if self.begin.is_some() {
            return self.place();
        }
        let beyond = self
            .end
            .map_or(0, |end| self.incoming.next().saturating_sub(end).min(lost));
        let lost = lost - beyond;
        if lost > MAX_LOST - self.overrun {
            self.fault = Some(self.damaged(ShareDamage("its sequence numbers are impossible")));
            return;
        }
        self.overrun += lost;
        self.overrun_since += lost;
    }

    /// What to do when no packet is there.
    fn is_over(&mut self) -> Result<bool> {
        if self.end.is_some() || self.has_closed {
            self.has_ended = true;
            let read = self.read_notes();
            read.map_err(|damage| self.damaged(damage))?;
            // In the same process, the session returns what failed.
            if self.has_closed && self.incoming.has_failed && self.link.is_some() {
                let error = Error::new(&self.name, "the capture that shares its packets failed")
                    .of_kind(std::io::ErrorKind::NotConnected);
                return Err(error.advise(ALL_ARE_READ));
            }
            return Ok(true);
        }
        // If the clock is set back, `wall` goes on.
        let now = self.clock.wall_now().max(self.clock.wall(self.clock.now()));
        let is_past = |end: &End| end.pass(now.saturating_sub(LATE_NS)).is_some();
        Ok(self.late.is_none() && self.until.as_ref().is_some_and(is_past))
    }

    /// Whether the packet in the buffer is from before the beginning.
    fn is_early(&mut self) -> bool {
        if matches!(self.begin, Some(Begin::At(time)) if self.incoming.head.time_ns < time) {
            self.is_cut = false;
            return true;
        }
        if self.begin.take().is_some() && self.is_cut {
            self.is_short.store(true, Relaxed); // read when the session has ended
        }
        false
    }

    /// Whether the packet in the buffer is from after the end.
    fn is_after_end(&mut self, sequence: u64) -> bool {
        let time = self.incoming.head.time_ns;
        let Some(until) = &self.until else {
            return false;
        };
        let clock_was_set_back = sequence < self.made_at && time > self.made_ns;
        if clock_was_set_back {
            return false;
        }
        if self.late.is_none() {
            let wait = match self.incoming.interfaces.len() {
                1 => LATE_IN_ORDER_NS,
                _ => LATE_NS,
            };
            self.late = until.pass(time).map(|end_ns| Late {
                end_ns,
                deadline: self.clock.now() + wait,
            });
        }
        self.late.as_ref().is_some_and(|late| time > late.end_ns)
    }

    /// Whether the tap no longer waits for packets from before its end.
    fn is_late_over(&self) -> bool {
        let is_over = |late: &Late| self.clock.now() >= late.deadline;
        self.late.as_ref().is_some_and(is_over)
    }

    /// Ends after the packets that are in memory now.
    fn end_here(&mut self) {
        if self.end.is_none() {
            self.end = Some(self.incoming.end());
        }
    }
}

impl Frames for Tap {
    #[inline]
    fn next_frame(&mut self) -> Option<Frame<'_>> {
        self.is_taken = self.left > 0 && self.fetch();
        if !self.is_taken {
            return None;
        }
        self.left -= 1;
        self.delivered += 1;
        self.is_held = false;
        let head = &self.incoming.head;
        Some(Frame {
            data: self.incoming.data(),
            wire_len: head.wire_len,
            time_ns: head.time_ns,
            interface: head.interface.into(),
            direction: head.direction,
            dropped_before: self.overrun_before,
            ..Frame::default()
        })
    }

    fn put_back(&mut self) {
        self.left = 0;
        if std::mem::take(&mut self.is_taken) {
            self.delivered -= 1;
            self.is_held = true;
        }
    }

    fn release(&mut self) {
        self.left = 0;
    }
}

impl Port for Tap {
    fn interfaces(&self) -> &[Interface] {
        &self.incoming.interfaces
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn receive(&mut self, budget: usize) -> Result<Burst<'_>> {
        self.left = budget;
        self.is_taken = false;
        Ok(Burst::new(self))
    }

    fn arm(&mut self) -> Result<Wake<'_>> {
        if self.fetch() {
            return Ok(Wake::Ready);
        }
        if let Some(fault) = self.fault.take() {
            self.has_ended = true;
            return Err(fault);
        }
        if self.has_ended {
            return Ok(Wake::End);
        }
        if self.is_skipping {
            return Ok(Wake::Ready);
        }
        if self.is_over()? {
            self.has_ended = true;
            return Ok(Wake::End);
        }
        if self.link.as_ref().is_some_and(ShareLink::is_gone) {
            // It may have published more, or have ended properly, before it closed the connection.
            if self.fetch() || self.is_skipping {
                return Ok(Wake::Ready);
            }
            self.has_ended = true;
            if self.is_over()? {
                return Ok(Wake::End);
            }
            let error = Error::new(&self.name, "the capture that shares its packets was killed")
                .of_kind(std::io::ErrorKind::NotConnected);
            return Err(error.advise(ALL_ARE_READ));
        }
        Ok(Wake::At(self.clock.now() + self.poll_every_ns))
    }

    fn stop(&mut self) -> Result<()> {
        self.end_here();
        Ok(())
    }

    fn counts(&mut self) -> Counts {
        let since = |at_start: u64| self.lost.saturating_sub(at_start);
        Counts {
            received: self.delivered + self.overrun,
            dropped: Some(self.overrun),
            interface_dropped: Some(self.lost_at_start.map_or(0, since) + self.not_described),
            filtered: Some(0),
        }
    }

    fn report(&self) -> PortReport<'_> {
        PortReport {
            ring_fill: self.incoming.fill(),
            ..PortReport::default()
        }
    }

    fn info(&self) -> PortInfo {
        PortInfo {
            backend: "share",
            copy: "copied from shared memory",
            ring_bytes: self.incoming.memory_bytes(),
            overruns: true,
            owner: self.link.as_ref().map(ShareLink::owner),
            clock: Some(self.clock.clone()),
            timestamps: "of the capture that shares its packets",
            ..PortInfo::default()
        }
    }
}

#[cfg(test)]
#[path = "tap_tests.rs"]
mod tests;
