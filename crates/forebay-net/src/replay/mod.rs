//! Sends the packets of capture files on an interface, with their original gaps or at a rate.
//!
//! ```text
//!  files ─▶ filter ─▶ slot of the port: cut? rewrite ─▶ │ ready: up to 64 │ ─▶ due? ─▶ TxPort ─▶ interface
//!             └──────▶ memory, with `preload` ─────────▶ │ frames and due  │   Pace
//!                                                        │ times           │
//! ```
//!
//! One thread reads files, prepares packets and sends them. While no packet is due, it prepares the next ones. A slow disk delays
//! packets, and [`PaceReport`] shows by how much. To avoid this, read the files into memory first ([`ReplayConfig::preload`]).
//! Preloaded packets that are sent unchanged are not copied again, if the port can send from memory ([`TxPort::send_now`]).
//!
//! ```text
//! read = filtered + skipped + sent + unsent        sent = accepted + failed{cause}
//! ```
//!
//! These equations hold at the end of a run; [`ReplaySummary::law`] checks them. *Skipped* packets are in the file only in part, and were
//! left out ([`CutFrames::Skip`]). *Unsent* ones were left when the run ended early.
//!
//! The first packet of each file, and of each further round, follows the previous packet without a gap.
//!
//! ```no_run
//! use forebay::time::Clock;
//! use forebay_net::{control::Control, open, replay::{Replay, ReplayConfig, Speed}, transmit::{Rate, TxConfig}};
//!
//! let config = ReplayConfig {
//!     files: vec!["web.pcapng".into()],
//!     speed: Speed::Packets(Rate::per_second(10_000.0).unwrap()),
//!     ..ReplayConfig::default()
//! };
//! let mut port = open::transmit(&"veth0".parse()?, &TxConfig::default())?;
//! let replay = Replay::new(config, Clock::real(), Control::new()?);
//! let summary = replay.run(port.as_mut(), &mut |_| {});
//! assert_eq!(summary.law(), Ok(()));
//! # Ok::<(), forebay::Error>(())
//! ```

mod compose;
mod config;
mod rewrite;
mod schedule;
mod source;

pub use config::{CutFrames, ReplayConfig, Speed};
pub use rewrite::{Outcome, Rewrite};

use crate::{
    control::Control,
    transmit::{self, Pace, PaceReport, TxCounts, TxPort},
};
use compose::Composer;
use forebay::{Error, Result, packet::Packet, time::Clock};
use schedule::Schedule;
use source::{Input, ReplaySource};
use std::{collections::VecDeque, time::Duration};

/// Packets composed in advance, and handed over together if they are due.
const READY: usize = 64;
/// Packets composed for each packet sent, until `READY` are there.
const AHEAD: usize = 2;
/// Work between two packets must not begin later than this before one is due.
const SPARE_NS: u64 = 5_000;
/// A report of progress must not begin later than this before a packet is due.
const REPORT_NS: u64 = 1_000_000;
/// Packets that stay in memory are scheduled for sending in groups of at least this many.
const AT_ONCE: usize = 8;
/// Packets that the interface has not accepted are tried again until this long before the next one is due: such an attempt may sleep.
const PENDING_NS: u64 = 200_000;
/// If the interface takes nothing for this long, the schedule is postponed by that time.
const STALL_NS: u64 = 100_000_000;

/// The counts of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplayCounts {
    /// Packets read from the files, in all rounds.
    pub read: u64,
    /// Of these, rejected by the filter.
    pub filtered: u64,
    /// Packets that the files hold only in part.
    pub cut: u64,
    /// Of these, left out because of [`CutFrames::Skip`].
    pub skipped: u64,
    /// Packets that were read but not sent, because of a stop or an error.
    pub unsent: u64,
    /// Packets that were changed by [`Rewrite`].
    pub rewritten: u64,
    /// Packets that may need a change in bytes that they do not contain ([`Outcome::incomplete`]).
    pub incomplete: u64,
    /// Complete rounds through all files.
    pub rounds: u64,
    /// What became of the packets that were sent.
    pub sent: TxCounts,
}

/// A report while packets are sent.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ReplayProgress {
    /// Time since the first packet was due.
    pub elapsed: Duration,
    /// The counts so far.
    pub counts: ReplayCounts,
    /// The share of the present file that has been read, 0 to 1, if its size is known.
    pub done: Option<f64>,
    /// When the next packet is due, counted as `elapsed`; `None` while none is ready.
    pub next_due: Option<Duration>,
    /// The interface accepts no packets now.
    pub is_stalled: bool,
    /// Files are being read into memory, and nothing is sent yet.
    pub is_preloading: bool,
}

/// The result of a replay.
#[derive(Debug)]
#[non_exhaustive]
pub struct ReplaySummary {
    /// The final counts.
    pub counts: ReplayCounts,
    /// Lags and gap errors; empty for [`Speed::Top`].
    pub pace: PaceReport,
    /// Time from the first packet to the last, without `stalled`.
    pub elapsed: Duration,
    /// The time by which the schedule was postponed, because the interface accepted nothing for 100 ms or longer.
    pub stalled: Duration,
    /// A stop was requested.
    pub stopped: bool,
    /// Why the replay ended early.
    pub error: Option<Error>,
}

impl ReplaySummary {
    /// Checks that every packet is counted once.
    ///
    /// # Errors
    /// The two sums that differ.
    pub fn law(&self) -> std::result::Result<(), String> {
        let ReplayCounts {
            read,
            filtered,
            skipped,
            unsent,
            sent,
            ..
        } = self.counts;
        let (accepted, failed) = (sent.accepted, sent.failed.total());
        if read != filtered + skipped + sent.sent + unsent {
            return Err(format!(
                "{read} read, but {filtered} filtered + {skipped} skipped + {} sent + {unsent} unsent",
                sent.sent
            ));
        }
        if sent.sent != accepted + failed {
            let sent = sent.sent;
            return Err(format!(
                "{sent} sent, but {accepted} accepted + {failed} failed"
            ));
        }
        Ok(())
    }

    /// Packets a second that the interface accepted, after the first one; 0 for fewer than two packets.
    pub fn packets_per_second(&self) -> f64 {
        let after_first = self.counts.sent.accepted.saturating_sub(1);
        match self.elapsed.is_zero() {
            true => 0.0,
            false => after_first as f64 / self.elapsed.as_secs_f64(),
        }
    }

    /// Bits a second that the interface accepted.
    pub fn bits_per_second(&self) -> f64 {
        let sent = &self.counts.sent;
        let bits = 8.0 * sent.accepted_bytes as f64 / sent.accepted.max(1) as f64;
        bits * self.packets_per_second()
    }
}

/// A replay that can be run once.
pub struct Replay {
    config: ReplayConfig,
    clock: Clock,
    control: Control,
}

impl Replay {
    /// A replay that `control` can stop.
    pub fn new(config: ReplayConfig, clock: Clock, control: Control) -> Replay {
        Replay {
            config,
            clock,
            control,
        }
    }

    /// Sends everything on `port`. Blocks until the end, a stop, or an error. `show` is called now and then, on this thread, between
    /// two packets.
    ///
    /// After a stop, packets that the port has taken are still sent; a second stop abandons them.
    pub fn run(
        self,
        port: &mut dyn TxPort,
        show: &mut dyn FnMut(&ReplayProgress),
    ) -> ReplaySummary {
        let interface = port.interface();
        let mut run = Replaying {
            source: ReplaySource::new(&self.config, interface.link, &interface.name),
            composer: Composer::new(&self.config),
            ready: VecDeque::with_capacity(READY),
            sends_from_memory: false,
            now: 0,
            has_pending: false,
            pace: Pace::start(self.clock.clone()),
            schedule: Schedule::new(&self.config),
            ended: None,
            stalled_since: None,
            stalled: 0,
            unsent: 0,
            finished_at: 0,
            shown: 0,
            replay: self,
        };
        let ended = run.send_all(port, show);
        let stopped = run.replay.control.is_stopping();
        run.unsent += run.ready.len() as u64;
        let drained = transmit::drain(port, &run.replay.control);
        if port.counts().accepted > 0 {
            run.finished_at = run.finished_at.max(match run.replay.config.speed {
                Speed::Top => run.pace.now(),
                _ => run.pace.report().elapsed_ns,
            });
        }
        ReplaySummary {
            counts: run.counts(port),
            pace: run.pace.report().clone(),
            elapsed: Duration::from_nanos(run.finished_at),
            stalled: Duration::from_nanos(run.stalled),
            stopped,
            error: ended.and(drained).err(),
        }
    }
}

/// A packet to send.
enum Ready {
    Packet(Packet),
    /// The frame at this place of the source's memory.
    Kept(usize),
}

struct Replaying {
    replay: Replay,
    source: ReplaySource,
    composer: Composer,
    /// Packets to send, and when they are due.
    ready: VecDeque<(u64, Ready)>,
    /// Packets are not copied into slots.
    sends_from_memory: bool,
    pace: Pace,
    /// When the last packet was sent.
    now: u64,
    /// Packets may be pending.
    has_pending: bool,
    schedule: Schedule,
    /// The source has no more frames, because of an error if there is one.
    ended: Option<Result<()>>,
    /// Since when packets are pending that the interface does not accept.
    stalled_since: Option<u64>,
    stalled: u64,
    unsent: u64,
    finished_at: u64,
    /// The time of the last report.
    shown: u64,
}

impl Replaying {
    fn counts(&self, port: &dyn TxPort) -> ReplayCounts {
        ReplayCounts {
            read: self.source.read,
            filtered: self.source.filtered,
            cut: self.composer.cut,
            skipped: self.composer.skipped,
            unsent: self.unsent,
            rewritten: self.composer.rewritten,
            incomplete: self.composer.incomplete,
            rounds: self.source.complete,
            sent: port.counts(),
        }
    }

    fn send_all(
        &mut self,
        port: &mut dyn TxPort,
        show: &mut dyn FnMut(&ReplayProgress),
    ) -> Result<()> {
        self.source.check_files()?;
        if self.replay.config.preload {
            let control = self.replay.control.clone();
            self.show(port, show, true);
            self.source.preload(|| !control.is_stopping());
            self.sends_from_memory = self.composer.changes_nothing() && port.info().sends_now;
        }
        let mut reserved = Vec::with_capacity(READY);
        let mut batch = Vec::with_capacity(READY);
        self.compose(port, &mut reserved, READY)?;
        self.pace = Pace::start(self.replay.clock.clone());
        while !self.replay.control.is_stopping() {
            if self.ready.is_empty() {
                self.compose(port, &mut reserved, READY)?;
            }
            let Some(&(due, _)) = self.ready.front() else {
                if let Some(ended) = self.ended.take() {
                    return ended;
                }
                self.wait_for_room(port, self.next_report())?;
                self.show_if_due(port, show, self.pace.now());
                continue;
            };
            let at = self.pace.even(due);
            let now = self.wait(port, show, at)?;
            if now < at {
                continue;
            }
            self.now = now;
            let count = self.count_due(due, now);
            let sent = self.send(port, count, &mut batch);
            self.unsent += batch.len() as u64;
            batch.clear();
            sent?;
            // What takes little time is done for several packets at once. The rest is spread evenly.
            let vacant = READY - self.ready.len();
            match self.sends_from_memory {
                true if vacant >= AT_ONCE => self.compose(port, &mut reserved, vacant)?,
                true => {}
                false => self.compose(port, &mut reserved, count + AHEAD)?,
            }
            self.show_if_due(port, show, now);
        }
        Ok(())
    }

    /// Waits until `due` and returns the time then. Returns earlier to let pending packets advance, after a report of progress, and
    /// after a request for a stop.
    fn wait(
        &mut self,
        port: &mut dyn TxPort,
        show: &mut dyn FnMut(&ReplayProgress),
        due: u64,
    ) -> Result<u64> {
        let report = self.next_report();
        self.has_pending = self.has_pending && port.counts().pending() > 0;
        while self.has_pending {
            self.wait_for_room(port, due.min(report))?;
            self.has_pending = port.counts().pending() > 0;
            let left = due.min(report).saturating_sub(self.pace.now());
            if left < PENDING_NS || self.replay.control.is_stopping() {
                break;
            }
        }
        // The clock is not read if it is known already that there is no time to spare.
        if due.saturating_sub(self.now) <= SPARE_NS
            || due.saturating_sub(self.pace.now()) <= SPARE_NS
        {
            return self.pace.wait(due, &self.replay.control);
        }
        if report.saturating_add(REPORT_NS) < due {
            let now = self.pace.wait(report, &self.replay.control)?;
            self.show_if_due(port, show, now);
            return Ok(now);
        }
        self.pace.sleep(due, &self.replay.control)?;
        // What the port has to look up from time to time, it looks up now instead of when the packet is due.
        port.advance()?;
        self.pace.wait(due, &self.replay.control)
    }

    /// How many packets to hand over together: those that are due at the same time, or, if the sender has to catch up, all that are
    /// late.
    fn count_due(&self, due: u64, now: u64) -> usize {
        let until = match transmit::is_late((due, now)) {
            true => now,
            false => due,
        };
        self.ready.iter().take_while(|it| it.0 <= until).count()
    }

    /// Hands the first `count` ready packets over, and waits for room. After a stop some may be left in `ready` or `batch`.
    fn send(&mut self, port: &mut dyn TxPort, count: usize, batch: &mut Vec<Packet>) -> Result<()> {
        if self.replay.config.speed != Speed::Top {
            for (due, _) in self.ready.iter().take(count) {
                self.pace.sent(*due, self.now);
            }
        }
        let mut left = count;
        if self.sends_from_memory {
            let kept = |ready: &(u64, Ready)| match ready.1 {
                Ready::Kept(place) => self.source.kept(place).map(|input| input.data),
                Ready::Packet(_) => None,
            };
            let sent = port.send_now(&mut self.ready.iter().take(count).map_while(kept));
            for _ in 0..sent {
                self.ready.pop_front();
            }
            left -= sent;
            if left == 0 {
                return Ok(());
            }
        }
        self.has_pending = true;
        for _ in 0..left {
            let packet = match self.ready.pop_front() {
                None => break,
                Some((_, Ready::Packet(packet))) => packet,
                Some((due, Ready::Kept(place))) => {
                    self.ready.push_front((due, Ready::Kept(place)));
                    let Some(packet) = self.fill_kept(port, place)? else {
                        break;
                    };
                    self.ready.pop_front();
                    packet
                }
            };
            batch.push(packet);
            // A short queue may have fewer slots than there are packets.
            if batch.len() >= port.info().queue_frames as usize {
                self.commit(port, batch)?;
            }
        }
        self.commit(port, batch)
    }

    /// The frame at a place in memory, in a slot. Waits for room; `None` after a stop.
    fn fill_kept(&mut self, port: &mut dyn TxPort, place: usize) -> Result<Option<Packet>> {
        let mut slot = Vec::with_capacity(1);
        while port.reserve(1, &mut slot) == 0 {
            if self.replay.control.is_stopping() {
                return Ok(None);
            }
            self.wait_for_room(port, u64::MAX)?;
        }
        let (Some(mut packet), Some(input)) = (slot.pop(), self.source.kept(place)) else {
            return Ok(None);
        };
        self.composer.fill(&mut packet, &input)?;
        Ok(Some(packet))
    }

    /// Hands these packets over, and waits for room. After a stop some may be left.
    fn commit(&mut self, port: &mut dyn TxPort, batch: &mut Vec<Packet>) -> Result<()> {
        loop {
            port.commit(batch)?;
            if batch.is_empty() || self.replay.control.is_stopping() {
                return Ok(());
            }
            self.wait_for_room(port, u64::MAX)?;
        }
    }

    /// Lets pending packets advance until `until`, or until nothing is pending.
    fn wait_for_room(&mut self, port: &mut dyn TxPort, until: u64) -> Result<()> {
        let since = *self.stalled_since.get_or_insert_with(|| self.pace.now());
        let before = port.counts().pending();
        let limit = Duration::from_nanos(until.saturating_sub(self.pace.now()).min(10_000_000));
        let pending = transmit::wait(port, &self.replay.control, limit)? as u64;
        if pending == before && pending > 0 {
            return Ok(());
        }
        // Something was accepted.
        self.stalled_since = None;
        let stalled = self.pace.now().saturating_sub(since);
        if stalled >= STALL_NS {
            self.stalled += stalled;
            self.pace.postpone(stalled);
            self.shown = self.shown.min(self.pace.now());
        }
        Ok(())
    }

    /// Composes up to `n` packets, so that up to `READY` are ready.
    fn compose(
        &mut self,
        port: &mut dyn TxPort,
        reserved: &mut Vec<Packet>,
        n: usize,
    ) -> Result<()> {
        let n = n.min(READY - self.ready.len());
        if self.ended.is_some() || n == 0 {
            return Ok(());
        }
        if !self.sends_from_memory {
            port.reserve(n, reserved);
        }
        let mut left = match self.sends_from_memory {
            true => n,
            false => reserved.len(),
        };
        while left > 0 {
            let mut packet = reserved.pop();
            let is_at_limit = self.replay.config.limit == Some(self.schedule.packets);
            let (composer, schedule) = (&mut self.composer, &mut self.schedule);
            let mut composed = Ok(false);
            let mut due = 0;
            let mut take = |input: Input<'_>| {
                if !composer.takes(&input) {
                    return;
                }
                let mut len = input.data.len() as u32;
                composed = Ok(true);
                if let Some(packet) = &mut packet {
                    composed = composer.fill(packet, &input).map(|()| true);
                    len = packet.len();
                }
                due = schedule.due(len, input.time_ns, input.is_first);
            };
            let is_there = match is_at_limit {
                true => Ok(false),
                false => self.source.next(&mut take),
            };
            if !matches!(is_there, Ok(true)) {
                // Packets that were read before a damaged place are still sent.
                self.ended = Some(is_there.map(drop));
                reserved.clear();
                return Ok(());
            }
            match composed {
                Ok(true) => {
                    let place = self.source.place();
                    let ready = packet.map_or(Ready::Kept(place), Ready::Packet);
                    self.ready.push_back((due, ready));
                    left -= 1;
                }
                Ok(false) => reserved.extend(packet), // it is still empty
                Err(error) => {
                    self.unsent += 1;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// When the next report of progress is due.
    fn next_report(&self) -> u64 {
        let every = u64::try_from(self.replay.config.progress_every.as_nanos());
        self.shown.saturating_add(every.unwrap_or(u64::MAX))
    }

    fn show_if_due(&mut self, port: &dyn TxPort, show: &mut dyn FnMut(&ReplayProgress), now: u64) {
        if now >= self.next_report() {
            self.shown = now;
            self.show(port, show, false);
        }
    }

    fn show(&self, port: &dyn TxPort, show: &mut dyn FnMut(&ReplayProgress), is_preloading: bool) {
        let share = |(done, all): (u64, u64)| done as f64 / all.max(1) as f64;
        show(&ReplayProgress {
            elapsed: Duration::from_nanos(self.pace.now()),
            counts: self.counts(port),
            done: self.source.reading().map(share),
            next_due: self.ready.front().map(|it| Duration::from_nanos(it.0)),
            is_stalled: self.stalled_since.is_some(),
            is_preloading,
        });
    }
}
