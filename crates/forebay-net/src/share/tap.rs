//! The reading side: a share as a port.

use super::{
    handshake::Link,
    tap_config::{Begin, End, TapConfig},
    wire::{Damage, HEAD, Head, MAX_INTERFACES, MAX_LOST, MAX_NOTE, MAX_PACKET, Note},
};
use crate::port::{Burst, Counts, Frame, Frames, Interface, Port, PortInfo, Wake};
use forebay::{
    Error, Result,
    ring::broadcast::{Reader, RecvError},
    time::Clock,
};
/// Packets before the beginning that one call skips, so that it returns soon.
const MAX_SKIPPED: usize = 1024;
/// Overruns in a row that one call counts. Only a publisher that keeps overwriting packets causes more.
const MAX_OVERRUNS: usize = 16;
/// Overruns after a tap was stopped: an honest publisher causes fewer, as each skips an eighth of what is in memory.
const MAX_LATE_OVERRUNS: u32 = 64;
/// How long after its end a tap still waits for packets: the kernel holds them back for up to 100 ms.
const LATE_NS: u64 = 300_000_000;

/// A port that reads the packets of a share.
///
/// Each tap reads at its own speed. If it is so slow that packets are overwritten before it has read them, it skips them
/// and, while the capture runs, an eighth of the packets in memory, because those are overwritten next. It counts exactly the packets
/// that it has skipped: in [`Counts::dropped`], and in [`Frame::dropped_before`] of the next packet. What the publishing capture itself has lost
/// since the tap began is [`Counts::interface_dropped`]: these packets were lost before they were shared.
///
/// When the capture ends properly, the tap ends after the last packet. When its process is killed, the tap delivers what is in
/// memory and then returns an error.
pub struct Tap {
    name: String,
    packets: Reader,
    /// The connection to the publisher, if it is another process.
    link: Option<Link>,
    interfaces: Vec<Interface>,
    clock: Clock,
    poll_every_ns: u64,
    /// The last packet fetched, in `buffer`.
    head: Head,
    len: usize,
    buffer: Box<[u8]>,
    /// The packet in `buffer` was not handed out yet, or was put back.
    is_held: bool,
    /// Overruns before the packet in `buffer`, and since it.
    overrun_before: u64,
    overrun_since: u64,
    /// Packets that the present burst may still hand out.
    left: usize,
    delivered: u64,
    overrun: u64,
    /// Packets lost before they were shared: when the tap began, and now.
    lost_at_start: Option<u64>,
    lost: u64,
    begin: Option<Begin>,
    until: Option<End>,
    /// The sequence number after the last packet to be read, once the tap was stopped.
    end: Option<u64>,
    late_overruns: u32,
    /// Packets before the beginning were skipped, and there may be more.
    is_skipping: bool,
    has_closed: bool,
    has_ended: bool,
    fault: Option<Error>,
}

impl Tap {
    /// Reads the notes and attaches to the first packet. `lost` is the publisher's count of lost packets, if it is known.
    pub(super) fn new(
        name: String,
        mut packets: Reader,
        lost: Option<u64>,
        link: Option<Link>,
        config: &TapConfig,
    ) -> Result<Tap> {
        match config.begin {
            Begin::Newest => packets.seek_newest(),
            Begin::Oldest | Begin::At(_) => packets.seek_oldest(),
        };
        let mut tap = Tap {
            name,
            packets,
            link,
            interfaces: Vec::new(),
            clock: config.clock.clone(),
            poll_every_ns: (config.poll_every.as_nanos() as u64).max(1),
            head: Head::default(),
            len: 0,
            buffer: vec![0; HEAD + MAX_PACKET].into(),
            is_held: false,
            overrun_before: 0,
            overrun_since: 0,
            left: 0,
            delivered: 0,
            overrun: 0,
            lost_at_start: lost,
            lost: lost.unwrap_or(0),
            begin: (config.begin != Begin::Newest).then_some(config.begin),
            until: config.end.clone(),
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
        if tap.interfaces.is_empty() {
            return Err(tap.damaged(Damage("it describes no interface")));
        }
        Ok(tap)
    }

    fn damaged(&self, Damage(what): Damage) -> Error {
        let error = Error::new(&self.name, format!("the share is damaged: {what}"));
        error.advise("Do not trust the process that publishes it")
    }

    /// Reads the notes that are new.
    fn read_notes(&mut self) -> std::result::Result<(), Damage> {
        // A longer note than is possible is noticed by its length.
        while let Some(note) = self.packets.note(self.interfaces.len(), MAX_NOTE + 1) {
            match Note::parse(&note)? {
                Note::Interface(_) if self.interfaces.len() >= MAX_INTERFACES => {
                    return Err(Damage("it describes too many interfaces"));
                }
                Note::Interface(interface) => self.interfaces.push(interface),
                Note::End { lost } => {
                    // It does not say what was lost before the first packet of this tap.
                    self.lost = self.lost.max(lost);
                    break;
                }
            }
        }
        Ok(())
    }

    fn set_lost(&mut self, lost: u64) {
        self.lost_at_start.get_or_insert(lost);
        self.lost = self.lost.max(lost);
    }

    /// Fetches the next packet into the buffer, if there is one.
    fn fetch(&mut self) -> bool {
        if self.is_held {
            return true;
        }
        self.is_skipping = false;
        let (mut skipped, mut overruns) = (0, 0);
        while self.fault.is_none() && !self.has_ended {
            if self.end.is_some_and(|end| self.packets.stats().next >= end) {
                return false;
            }
            match self.packets.try_recv(&mut self.buffer) {
                Ok(received) => {
                    if let Err(damage) = self.decode(received.len) {
                        self.fault = Some(self.damaged(damage));
                        return false;
                    }
                    if matches!(self.begin, Some(Begin::At(time)) if self.head.time_ns < time) {
                        skipped += 1;
                        if skipped == MAX_SKIPPED {
                            self.is_skipping = true;
                            return false;
                        }
                        continue;
                    }
                    if self.has_passed(self.head.time_ns) {
                        self.has_ended = true;
                        return false;
                    }
                    self.begin = None;
                    self.set_lost(self.head.lost);
                    self.overrun_before = std::mem::take(&mut self.overrun_since);
                    self.is_held = true;
                    return true;
                }
                Err(RecvError::Overrun { lost }) => {
                    self.count_overrun(lost);
                    overruns += 1;
                    if overruns == MAX_OVERRUNS {
                        self.is_skipping = true;
                        return false;
                    }
                }
                Err(RecvError::Empty | RecvError::TimedOut) => return false,
                Err(RecvError::Closed) => {
                    self.has_closed = true;
                    return false;
                }
                Err(RecvError::TooSmall { .. }) => {
                    self.fault = Some(self.damaged(Damage("a packet is too long")));
                    return false;
                }
                Err(RecvError::Broken) => {
                    self.fault = Some(self.damaged(Damage("a packet lies outside the memory")));
                    return false;
                }
            }
        }
        false
    }

    /// Counts packets that were overwritten or skipped: not those before the first one, and not those published after the tap was stopped.
    fn count_overrun(&mut self, lost: u64) {
        self.late_overruns += u32::from(self.end.is_some());
        if self.late_overruns > MAX_LATE_OVERRUNS {
            self.fault = Some(self.damaged(Damage("it does not end")));
            return;
        }
        if self.begin.is_some() {
            return;
        }
        let beyond = self.end.map_or(0, |end| {
            self.packets.stats().next.saturating_sub(end).min(lost)
        });
        let lost = lost - beyond;
        if lost > MAX_LOST - self.overrun {
            self.fault = Some(self.damaged(Damage("its sequence numbers are impossible")));
            return;
        }
        self.overrun += lost;
        self.overrun_since += lost;
    }

    /// Checks the message in the buffer.
    fn decode(&mut self, len: usize) -> std::result::Result<(), Damage> {
        let message = self.buffer.get(..len).unwrap_or_default();
        let head = Head::parse(message)?;
        if head.interface as usize >= self.interfaces.len() {
            self.read_notes()?;
        }
        if head.interface as usize >= self.interfaces.len() {
            return Err(Damage(
                "a packet is from an interface that is not described",
            ));
        }
        (self.head, self.len) = (head, len);
        Ok(())
    }

    /// What to do when no packet is there.
    fn is_over(&mut self) -> Result<bool> {
        if self.end.is_some() || self.has_closed {
            self.has_ended = true;
            let read = self.read_notes();
            read.map_err(|damage| self.damaged(damage))?;
            return Ok(true);
        }
        let now = self.clock.wall_now();
        Ok(self.has_passed(now.saturating_sub(LATE_NS)))
    }

    /// Whether this time is after the end.
    fn has_passed(&self, time_ns: u64) -> bool {
        self.until
            .as_ref()
            .is_some_and(|end| end.has_passed(time_ns))
    }
}

impl Frames for Tap {
    #[inline]
    fn next_frame(&mut self) -> Option<Frame<'_>> {
        if self.left == 0 || !self.fetch() {
            return None;
        }
        self.left -= 1;
        self.delivered += 1;
        self.is_held = false;
        Some(Frame {
            data: &self.buffer[HEAD..self.len],
            wire_len: self.head.wire_len,
            time_ns: self.head.time_ns,
            interface: self.head.interface,
            direction: self.head.direction,
            dropped_before: self.overrun_before,
            ..Frame::default()
        })
    }

    fn put_back(&mut self) {
        self.left = 0;
        self.delivered -= 1;
        self.is_held = true;
    }

    fn release(&mut self) {
        self.left = 0;
    }
}

impl Port for Tap {
    fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn receive(&mut self, budget: usize) -> Result<Burst<'_>> {
        if let Some(fault) = self.fault.take() {
            self.has_ended = true;
            return Err(fault);
        }
        self.left = budget;
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
        if self.link.as_ref().is_some_and(Link::is_gone) {
            // It may have published more, or have ended properly, before it closed the connection.
            if self.fetch() || self.is_skipping {
                return Ok(Wake::Ready);
            }
            self.has_ended = true;
            if self.is_over()? {
                return Ok(Wake::End);
            }
            let error = Error::new(&self.name, "the capture that shares its packets was killed");
            return Err(error.advise("All packets that it had shared are read"));
        }
        Ok(Wake::At(self.clock.now() + self.poll_every_ns))
    }

    fn disarm(&mut self) {}

    fn stop(&mut self) -> Result<()> {
        let intact = self.packets.intact();
        // No more packets can be in memory than heads.
        let max = (2 * self.packets.largest() / HEAD) as u64;
        let count = (intact.end - intact.start).min(max);
        self.end.get_or_insert(intact.start + count);
        Ok(())
    }

    fn counts(&mut self) -> Counts {
        let since = |at_start: u64| self.lost.saturating_sub(at_start);
        Counts {
            received: self.delivered + self.overrun,
            dropped: Some(self.overrun),
            interface_dropped: Some(self.lost_at_start.map_or(0, since)),
            filtered: Some(0),
        }
    }

    fn ring_fill(&self) -> Option<f64> {
        let intact = self.packets.intact();
        // Before the first packet is overwritten, it is not known how many fit.
        let held = (intact.end - intact.start) as f64;
        let unread = intact.end.saturating_sub(self.packets.stats().next) as f64;
        (intact.start > 0 && held > 0.0).then(|| (unread / held).min(1.0))
    }

    fn info(&self) -> PortInfo {
        PortInfo {
            backend: "tap",
            copy: "copied from shared memory",
            ring_bytes: 2 * self.packets.largest() as u64,
            overruns: true,
            owner: self.link.as_ref().map(Link::owner),
            timestamps: "of the capture that shares its packets",
            ..PortInfo::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::Publisher;

    #[test]
    fn a_publisher_that_overtakes_all_the_time_cannot_keep_a_stopped_tap_from_ending() {
        let mut publisher = Publisher::new(1 << 20).unwrap();
        publisher.introduce(&Interface::default());
        let mut tap = publisher.source().tap(&TapConfig::default()).unwrap();
        tap.stop().unwrap();
        for _ in 0..=MAX_LATE_OVERRUNS {
            assert!(tap.fault.is_none());
            tap.count_overrun(1);
        }
        let error = tap.arm().unwrap_err().to_string();
        assert!(error.contains("it does not end"), "{error}");
        assert!(matches!(tap.arm(), Ok(Wake::End)));
    }

    #[test]
    fn impossible_overruns_are_an_error_and_not_counted() {
        let mut publisher = Publisher::new(1 << 20).unwrap();
        publisher.introduce(&Interface::default());
        for (before, jump) in [(0, u64::MAX), (5, MAX_LOST - 4)] {
            let mut tap = publisher.source().tap(&TapConfig::default()).unwrap();
            tap.count_overrun(before);
            tap.count_overrun(jump);
            let counts = tap.counts();
            assert_eq!((counts.received, counts.dropped), (before, Some(before)));
            let error = tap.arm().unwrap_err().to_string();
            assert!(error.contains("impossible"), "{error}");
        }
    }
}
