//! Moves frames from each port's bursts into the output. This is the source that the poller drives.

use super::{
    config::SessionConfig,
    feed::Feed,
    order::{InOrder, TimeOrder},
    output::Writing,
    packet_times::PacketTimes,
    rotator::Rotator,
    sleeper::Sleeper,
    stages::{ByFilter, Each, FileLimits, Offer},
    summary::Event,
    taking::{self, Stop},
};
use crate::{control::Control, format::Described, port::Statistics, share::Publisher};
use forebay::{Error, poll, time::Clock};
use std::time::Duration;

/// The side that failed. It determines what can still be saved.
#[derive(Debug)]
pub(super) enum Broken {
    Port(Error),
    Store(Error),
}

/// Why frames are no longer taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Discard {
    /// The packet limit is reached, or the drain was given up.
    Unread,
    /// The output rejects them.
    Refused,
}

/// What has no room for the next packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blocked {
    /// No buffer of the store is empty.
    Store,
    /// The caller's closure did not take it.
    Caller,
}

/// When the caller's closure is asked again after it did not take a packet.
const ASK_AGAIN_NS: u64 = 1_000_000;

pub(super) struct Intake {
    pub feeds: Vec<Feed>,
    pub writing: Option<Writing>,
    /// Packets that may still be taken.
    left: u64,
    /// If set, frames that the ports hold are only counted, in this category.
    discarding: Option<Discard>,
    /// The ports are detached and being drained.
    is_stopping: bool,
    /// What stopped the last poll.
    blocked: Option<Blocked>,
    /// Sees every packet before it counts as taken.
    pub each: Option<Box<dyn Each>>,
    pub publisher: Option<Publisher>,
    snaplen: u32,
    pub wire_bytes: u64,
    /// Packets taken with fewer bytes than they had on the wire.
    pub cut: u64,
    rotator: Rotator,
    /// Files are read, and times decide about the output.
    times: Option<PacketTimes>,
    /// Several live ports are read in the order of time.
    order: Option<TimeOrder>,
    sleeper: Sleeper,
    clock: Clock,
    deadline: u64,
    /// When the caller wants to do something else.
    pub pause_at: u64,
}

impl Intake {
    /// Call [`introduce_all`](Intake::introduce_all) before any packet is taken: it describes the interfaces to `writing`.
    pub fn new(
        feeds: Vec<Feed>,
        writing: Option<Writing>,
        config: &SessionConfig,
        clock: Clock,
        control: Control,
    ) -> Self {
        let reads_files = feeds.iter().all(|feed| feed.in_turn);
        let stop_after = config.stop_after.map_or(u64::MAX, |after| {
            u64::try_from(after.as_nanos()).unwrap_or(u64::MAX)
        });
        let has_series = writing.as_ref().is_some_and(|it| it.series.is_some());
        let is_timed = reads_files && (has_series || stop_after < u64::MAX);
        let sleeper = Sleeper::new(feeds.len(), clock.clone(), control);
        Intake {
            order: TimeOrder::of(&feeds, &clock),
            feeds,
            writing,
            left: config.count.unwrap_or(u64::MAX),
            discarding: None,
            is_stopping: false,
            blocked: None,
            each: None,
            publisher: None,
            snaplen: config.snaplen,
            wire_bytes: 0,
            cut: 0,
            rotator: Rotator::new(clock.clone(), reads_files),
            times: is_timed.then(|| PacketTimes::new(stop_after)),
            sleeper,
            // The first tick sets it.
            deadline: clock.now(),
            pause_at: u64::MAX,
            clock,
        }
    }

    /// Whether all sources are regular files, in which packets do not arrive while they are read.
    pub fn is_all_there(&self) -> bool {
        let mut reports = self.feeds.iter().map(|feed| feed.port.report());
        reports.all(|report| report.reading.is_some())
    }

    /// Publishes every packet when it is taken, from the first one on.
    pub fn share(&mut self, mut publisher: Publisher) {
        publisher.truncate(self.snaplen);
        self.publisher = Some(publisher);
    }

    /// Ends the share, if there is one, and returns the number of packets published. If the capture `has_failed`, its readers report that.
    pub fn end_share(&mut self, lost_in_sources: u64, has_failed: bool) -> Option<u64> {
        let store = self.writing.as_mut().map(|it| &mut it.store);
        let publisher = self.publisher.take()?;
        Some(publisher.finish_in(lost_in_sources, has_failed, store))
    }

    /// Takes up to `budget` frames of one port. Returns their number, and what had no room for more.
    #[inline]
    fn take(
        &mut self,
        at: usize,
        budget: usize,
        order: Option<InOrder<'_>>,
    ) -> std::result::Result<(usize, Option<Blocked>), Broken> {
        // Blocks that found no room stay in memory: they are written before more are read.
        if let Some(writing) = &mut self.writing
            && !writing.put_blocks(Vec::new()).map_err(Broken::Store)?
        {
            return Ok((0, Some(Blocked::Store)));
        }
        let feed = &mut self.feeds[at];
        let filters = feed.filters();
        if let Some(error) = feed.unreadable.take() {
            return Err(Broken::Port(error));
        }
        let mut burst = match feed.port.receive(budget) {
            Ok(burst) => burst,
            Err(error) => {
                feed.has_ended = self.is_stopping;
                return Err(Broken::Port(error));
            }
        };
        let writing = self.writing.as_mut();
        let is_limited = writing.as_ref().is_some_and(|it| it.is_limited());
        let offer = self.each.as_mut().map(|each| Offer {
            each,
            interfaces: &feed.interfaces,
            snaplen: self.snaplen,
        });
        let publisher = self.publisher.as_mut().filter(|it| it.copies());
        let filter = filters.then_some(ByFilter);
        let limits = is_limited.then_some(FileLimits);
        let (burst_of, lanes) = (&mut burst, &mut feed.lanes);
        let left = (self.left, self.snaplen);
        // The loop is compiled once for any list, and again for the short lists that most sessions have.
        let times = self.times.as_mut();
        let (took, stop) = match (order, filter, limits, offer, publisher) {
            (None, filter, limits, offer, publisher) if times.is_some() => {
                let stages = (filter, (times, (limits, (offer, publisher))));
                taking::take(burst_of, lanes, writing, stages, left)
            }
            (None, None, None, None, None) => taking::take(burst_of, lanes, writing, (), left),
            (None, Some(filter), None, None, None) => {
                taking::take(burst_of, lanes, writing, filter, left)
            }
            (None, None, Some(limits), None, None) => {
                taking::take(burst_of, lanes, writing, limits, left)
            }
            (None, Some(filter), Some(limits), None, None) => {
                taking::take(burst_of, lanes, writing, (filter, limits), left)
            }
            (None, None, None, Some(offer), None) => {
                taking::take(burst_of, lanes, writing, offer, left)
            }
            (None, None, None, None, Some(publisher)) => {
                taking::take(burst_of, lanes, writing, publisher, left)
            }
            (None, filter, limits, offer, publisher) => {
                let stages = (filter, (limits, (offer, publisher)));
                taking::take(burst_of, lanes, writing, stages, left)
            }
            (Some(order), filter, limits, offer, publisher) => {
                let stages = (order, (filter, (limits, (offer, publisher))));
                taking::take(burst_of, lanes, writing, stages, left)
            }
        };
        drop(burst);
        if let Some(publisher) = &mut self.publisher {
            publisher.publish_from(self.writing.as_mut().map(|it| &mut it.store));
        }
        let is_refused = matches!(stop, Stop::Refused);
        feed.taken += took.packets;
        feed.filtered += took.filtered;
        feed.odd += took.odd;
        self.left -= took.packets;
        self.wire_bytes += took.wire_bytes;
        self.cut += took.cut;
        if took.packets > 0 {
            self.rotator.first_ns.get_or_insert(took.first_ns);
        }
        let has_room = match stop {
            Stop::AtEnd => {
                // The last file does not wait for a packet that it would not take.
                let has_all = |writing: &Writing| writing.is_full() && !writing.allows_another();
                if is_limited && self.writing.as_ref().is_some_and(has_all) {
                    self.left = 0;
                }
                true
            }
            Stop::NoRoom | Stop::Refused => false,
            Stop::Full => self.leave_full_file().map_err(Broken::Store)?,
            Stop::Failed(error) => return Err(Broken::Store(error)),
            Stop::UnknownInterface => {
                let introduced = feed.introduce(self.writing.as_mut(), self.publisher.as_mut());
                introduced.map_err(Broken::Store)?
            }
        };
        let blocked = match has_room {
            true => None,
            false if is_refused => Some(Blocked::Caller),
            false => Some(Blocked::Store),
        };
        Ok(((took.packets + took.filtered) as usize, blocked))
    }

    /// Takes up to `budget` frames of all ports, in the order of their times.
    fn take_in_order(
        &mut self,
        order: &mut TimeOrder,
        budget: usize,
    ) -> std::result::Result<usize, Broken> {
        let is_stopping = self.is_stopping;
        for (at, feed) in self.feeds.iter_mut().enumerate() {
            order.look_at(at, feed, is_stopping).map_err(Broken::Port)?;
        }
        let mut found = 0;
        // A port that stamps packets when they are read has given the next one a later time.
        let mut is_stuck = false;
        while found < budget
            && self.left > 0
            && let Some((at, until_ns)) = order.next(&self.feeds)
        {
            let (most, until_ns) = match is_stuck {
                true => (1, u64::MAX),
                false => (budget - found, until_ns),
            };
            let (taken, blocked) = self.take(at, most, Some(order.stage(at, until_ns)))?;
            found += taken;
            self.blocked = blocked;
            if blocked.is_some() {
                break;
            }
            is_stuck = taken == 0;
            let feed = &mut self.feeds[at];
            order.look_at(at, feed, is_stopping).map_err(Broken::Port)?;
        }
        Ok(found)
    }

    /// Handles a full file, or what is due before the next packet of a file that is read: switches to the next one, or ends the capture. `false`: the output has no room for that.
    fn leave_full_file(&mut self) -> Result<bool, Error> {
        if let Some(times) = &mut self.times {
            self.rotator.packet_ns = times.now;
            if let Some((now, is_first)) = times.take_waiting() {
                let reached = match &mut self.writing {
                    _ if times.is_over(now) => None,
                    Some(writing) => {
                        (self.rotator).reach_packet(&mut self.feeds, writing, (now, is_first))?
                    }
                    None => Some(true),
                };
                if reached.is_none() {
                    self.left = 0;
                }
                return Ok(reached.unwrap_or(true));
            }
        }
        match &mut self.writing {
            Some(writing) if writing.allows_another() => {
                self.rotator.next_file(&mut self.feeds, writing, false)
            }
            _ => {
                self.left = 0;
                Ok(true)
            }
        }
    }

    /// Switches to the next file if it is due, or if `is_asked`.
    pub fn keep_rotation(&mut self, now: u64, is_asked: bool) -> std::result::Result<(), Broken> {
        let Some(writing) = &mut self.writing else {
            return Ok(());
        };
        if self.discarding.is_some() {
            return Ok(());
        }
        if let Some(times) = &self.times {
            self.rotator.packet_ns = times.now;
        }
        let begun = (self.rotator).next_file_if_due(&mut self.feeds, writing, now, is_asked);
        begun.map_err(Broken::Store)
    }

    #[inline]
    fn is_between_files(&self) -> bool {
        self.writing.as_ref().is_some_and(Writing::is_between_files)
    }

    /// Continues the steps between two files. `false`: the output has no room for them.
    #[inline]
    fn settle(&mut self) -> std::result::Result<bool, Broken> {
        match &mut self.writing {
            Some(writing) if writing.is_between_files() => writing.settle().map_err(Broken::Store),
            _ => Ok(true),
        }
    }

    /// Whether the duration of the last file has elapsed.
    pub fn is_time_up(&self) -> bool {
        self.rotator.is_time_up
    }

    /// Sets the time at which the files begin, and starts what runs beside the capture.
    pub fn begin(&mut self, now: u64) -> std::result::Result<(), Broken> {
        self.rotator.begin(now);
        match &mut self.writing {
            Some(writing) => writing.begin_capture().map_err(Broken::Store),
            None => Ok(()),
        }
    }

    /// Reports to the writer how much waits to be written, and takes nothing more if the disk has no room for it.
    #[inline]
    pub fn keep_space_free(&mut self) {
        if let Some(writing) = &mut self.writing
            && let Some(space) = &writing.space
        {
            space.awaits(writing.store.totals().pending_bytes);
            if space.is_short() {
                self.left = 0;
            }
        }
    }

    /// The statistics of each interface at `end`, for the end of the file.
    pub fn statistics(&mut self, end: u64) -> Vec<(Described, Statistics)> {
        self.rotator.statistics(&mut self.feeds, end)
    }

    /// Writes the descriptions of all present interfaces. `false`: the output has no room.
    pub fn introduce_all(&mut self) -> Result<bool, Error> {
        if let Some(writing) = &mut self.writing
            && !writing.settle()?
        {
            return Ok(false);
        }
        for feed in &mut self.feeds {
            if !feed.introduce(self.writing.as_mut(), self.publisher.as_mut())? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub fn flush(&mut self) -> std::result::Result<(), Broken> {
        match &mut self.writing {
            Some(writing) if self.discarding.is_none() => {
                writing.store.flush().map_err(Broken::Store)
            }
            _ => Ok(()),
        }
    }

    /// Flushes when the flush period has elapsed, and sets the time of the next call, at the latest `next`.
    pub fn tick(&mut self, now: u64, next: u64) -> std::result::Result<(), Broken> {
        let next = next.min(self.pause_at);
        self.deadline = next;
        if let Some(writing) = &mut self.writing
            && self.discarding.is_none()
        {
            writing.store.tick(now).map_err(Broken::Store)?;
            // A due buffer that could not be sent waits for the writer, not for the clock.
            let due = writing.store.due_at().filter(|&due| due > now);
            let next_file = self.rotator.due_at(writing, now);
            self.deadline = due.into_iter().chain(next_file).fold(next, u64::min);
        }
        Ok(())
    }

    /// Waits briefly for the writer to return a buffer, and reports how much is left to write.
    pub fn wait_empty(&mut self, observe: &mut dyn FnMut(Event<'_>)) {
        if let Some(writing) = &mut self.writing {
            writing.wait_empty(observe);
        }
    }

    /// Counts the frames that a port still holds, without taking them.
    fn discard(
        &mut self,
        at: usize,
        budget: usize,
        why: Discard,
    ) -> std::result::Result<usize, Broken> {
        let feed = &mut self.feeds[at];
        let mut burst = match feed.port.receive(budget) {
            Ok(burst) => burst,
            Err(error) => {
                feed.has_ended = true;
                return Err(Broken::Port(error));
            }
        };
        let mut found = 0;
        while burst.next_frame().is_some() {
            found += 1;
        }
        drop(burst);
        match why {
            Discard::Unread => feed.unread += found as u64,
            Discard::Refused => feed.refused += found as u64,
        }
        Ok(found)
    }

    /// Whether the packet limit is reached.
    pub fn is_satisfied(&self) -> bool {
        self.left == 0
    }

    /// Whether all ports have ended.
    pub fn is_ended(&self) -> bool {
        self.feeds.iter().all(|feed| feed.has_ended)
    }

    /// Whether every source waits for us, so that a full store loses nothing.
    pub fn all_wait(&self) -> bool {
        self.feeds.iter().all(|feed| feed.port.info().waits)
    }

    /// Detaches all ports. From here on, an error of a port ends that port. Returns the errors of ports that could not be
    /// detached.
    pub fn stop_ports(&mut self) -> Vec<Error> {
        self.is_stopping = true;
        let stop = |feed: &mut Feed| {
            let failed = feed.port.stop().err();
            // A port that cannot be detached would never end.
            feed.has_ended |= failed.is_some();
            failed
        };
        self.feeds.iter_mut().filter_map(stop).collect()
    }

    fn sleep_until(&mut self, deadline: u64) -> std::result::Result<(), Broken> {
        let reader = self.writing.as_ref().and_then(|it| it.reader.as_ref());
        // After an error, only the ports are awaited.
        let reader = reader.filter(|_| self.discarding.is_none());
        let slept = self.sleeper.sleep(deadline, reader);
        match slept.map_err(Broken::Port)? {
            Some(left) => Err(Broken::Store(left)),
            None => Ok(()),
        }
    }

    /// From here on frames are only counted. The first reason is kept.
    pub fn take_nothing_more(&mut self, why: Discard) {
        self.discarding.get_or_insert(why);
        self.blocked = None;
        // Nothing waits for others any more.
        self.order = None;
    }
}

impl poll::Source for Intake {
    type Error = Broken;

    #[inline]
    fn look(&mut self, budget: usize) -> std::result::Result<usize, Broken> {
        let mut found = 0;
        self.blocked = None;
        if let Some(each) = &mut self.each {
            each.looking();
        }
        if self.discarding.is_none() && !self.settle()? {
            self.blocked = Some(Blocked::Store);
            return Ok(0);
        }
        if self.discarding.is_none()
            && let Some(mut order) = self.order.take()
        {
            let found = self.take_in_order(&mut order, budget);
            self.order = Some(order);
            return found;
        }
        let mut is_reading = false;
        let has_others = self.feeds.len() > 1;
        for at in 0..self.feeds.len() {
            let feed = &self.feeds[at];
            if feed.has_ended {
                continue;
            }
            if let Some(why) = self.discarding {
                found += self.discard(at, budget, why)?;
                continue;
            }
            // Of sources that are read in sequence, only the first that has not ended is polled.
            if feed.in_turn && is_reading {
                continue;
            }
            let (taken, blocked) = self.take(at, budget, None)?;
            found += taken;
            self.blocked = self.blocked.or(blocked);
            if blocked.is_some() && self.is_between_files() {
                break;
            }
            let feed = &mut self.feeds[at];
            if feed.in_turn {
                // Other ports may be so busy that the poller never arms: then the end has to be checked here.
                let is_idle = taken == 0 && blocked.is_none() && has_others;
                feed.has_ended |= is_idle && feed.is_at_end().map_err(Broken::Port)?;
                is_reading = !feed.has_ended;
            }
        }
        if found == 0
            && self.blocked.is_none()
            && let Some(each) = &mut self.each
            && let [feed] = &mut self.feeds[..]
        {
            each.found_nothing(&mut *feed.port, feed.taken + feed.filtered);
        }
        Ok(found)
    }

    fn arm(&mut self) -> std::result::Result<(), Broken> {
        self.sleeper.reset();
        let mut is_reading = false;
        for (at, feed) in self.feeds.iter_mut().enumerate() {
            let holds = |order: &TimeOrder| order.holds(at);
            if feed.has_ended
                || feed.in_turn && is_reading
                || self.order.as_ref().is_some_and(holds)
            {
                continue;
            }
            let noted = feed.port.arm().and_then(|wake| self.sleeper.note(at, wake));
            match noted {
                Ok(goes_on) => {
                    feed.has_ended = !goes_on;
                    is_reading |= feed.in_turn && goes_on;
                }
                // The other sources go on, and the summary has the error.
                Err(error) if feed.port.info().overruns => {
                    feed.has_ended = true;
                    feed.failure = Some(error);
                }
                Err(error) => {
                    feed.has_ended = self.is_stopping;
                    return Err(Broken::Port(error));
                }
            }
        }
        if let Some(then) = self.order.as_ref().and_then(TimeOrder::look_again_at) {
            self.sleeper.wake_at(then);
        }
        Ok(())
    }

    fn sleep(&mut self, _limit: &poll::Limit<'_>) -> std::result::Result<(), Broken> {
        if self.is_satisfied() && self.discarding.is_none() || self.is_ended() {
            return Ok(());
        }
        match (self.blocked, &mut self.writing) {
            // The ports have frames and we have no room: only the writer can help.
            (Some(Blocked::Store), Some(writing)) => {
                let left = self.pause_at.saturating_sub(self.clock.now());
                let wait = Duration::from_nanos(left).min(Duration::from_millis(20));
                if !writing.store.wait_empty(wait) && self.clock.is_virtual() {
                    self.clock.sleep_until(self.deadline);
                }
                Ok(())
            }
            // The closure cannot wake this thread, so it is asked again soon.
            (Some(Blocked::Caller), _) => {
                self.sleeper.reset();
                let again = self.clock.now().saturating_add(ASK_AGAIN_NS);
                self.sleep_until(again.min(self.deadline))
            }
            _ => self.sleep_until(self.deadline),
        }
    }

    fn disarm(&mut self) {
        for feed in &mut self.feeds {
            feed.port.disarm();
        }
    }
}
