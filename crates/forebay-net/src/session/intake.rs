//! The taking side: each port's burst, frame by frame, into the output. What the poller drives.

use super::{Config, Control, Progress, Source, output::Writing, sleeper::Sleeper, statistics_of};
use crate::{format::Statistics, ledger::add_known, port::Port};
use forebay::{Error, Result, poll, store, time::Clock};
use std::time::Duration;

/// Which side broke: it decides what can still be saved.
#[derive(Debug)]
pub(super) enum Broken {
    Port(Error),
    Store(Error),
}

impl Broken {
    pub fn into_inner(self) -> Error {
        match self {
            Broken::Port(error) | Broken::Store(error) => error,
        }
    }
}

/// A port and what came from it.
struct Feed {
    port: Box<dyn Port>,
    /// The number of its first interface in the file.
    base: u32,
    /// Frames that we took from it.
    taken: u64,
    /// Frames it held that nobody took.
    unread: u64,
    /// Gaps marked on a frame.
    gaps: u64,
    has_ended: bool,
}

pub(super) struct Intake {
    feeds: Vec<Feed>,
    writing: Option<Writing>,
    /// Packets that may still be taken.
    left: u64,
    /// What the ports hold is counted as unread.
    discarding: bool,
    /// The ports are detached and being drained.
    is_stopping: bool,
    /// The last look found no empty buffer.
    is_blocked: bool,
    wire_bytes: u64,
    sleeper: Sleeper,
    clock: Clock,
    deadline: u64,
}

impl Intake {
    pub fn new(
        ports: Vec<Box<dyn Port>>,
        writing: Option<Writing>,
        config: &Config,
        clock: Clock,
        control: Control,
    ) -> Self {
        let sleeper = Sleeper::new(ports.len(), clock.clone(), control);
        let mut base = 0;
        let feeds = ports
            .into_iter()
            .map(|port| {
                let feed = Feed {
                    base,
                    taken: 0,
                    unread: 0,
                    gaps: 0,
                    has_ended: false,
                    port,
                };
                base += feed.port.interfaces().len() as u32;
                feed
            })
            .collect();
        Intake {
            feeds,
            writing,
            left: config.count.unwrap_or(u64::MAX),
            discarding: false,
            is_stopping: false,
            is_blocked: false,
            wire_bytes: 0,
            sleeper,
            deadline: clock.now() + config.progress_every.as_nanos() as u64,
            clock,
        }
    }

    /// Takes up to `budget` frames of one port; says how many, and whether the output had no room.
    #[inline]
    fn take(&mut self, at: usize, budget: usize) -> std::result::Result<(usize, bool), Broken> {
        let feed = &mut self.feeds[at];
        let mut burst = match feed.port.receive(budget) {
            Ok(burst) => burst,
            Err(error) => {
                feed.has_ended = self.is_stopping;
                return Err(Broken::Port(error));
            }
        };
        let (mut found, mut gaps, mut bytes) = (0, 0, 0);
        let mut stopped = Ok(false);
        while let Some(frame) = burst.next_frame() {
            let (wire_len, follows_gap) = (frame.wire_len, frame.dropped_before > 0);
            if let Some(writing) = &mut self.writing {
                match writing.put(&frame, feed.base + frame.interface) {
                    Ok(true) => {}
                    Ok(false) => stopped = Ok(true),
                    Err(error) => stopped = Err(Broken::Store(error)),
                }
                if !matches!(stopped, Ok(false)) {
                    burst.put_back();
                    break;
                }
            }
            found += 1;
            gaps += follows_gap as u64;
            bytes += wire_len as u64;
        }
        drop(burst);
        feed.taken += found as u64;
        feed.gaps += gaps;
        self.wire_bytes += bytes;
        self.left -= found as u64;
        Ok((found, stopped?))
    }

    /// Counts what a port still holds, without taking it.
    fn discard(&mut self, at: usize, budget: usize) -> std::result::Result<usize, Broken> {
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
        feed.unread += found as u64;
        Ok(found)
    }

    /// Whether as many packets are taken as were asked for.
    pub fn is_satisfied(&self) -> bool {
        self.left == 0
    }

    /// Whether nothing will ever come from any port.
    pub fn is_ended(&self) -> bool {
        self.feeds.iter().all(|feed| feed.has_ended)
    }

    /// Whether every source waits for us, so that a full store loses nothing.
    pub fn all_wait(&self) -> bool {
        self.feeds.iter().all(|feed| feed.port.got().waits)
    }

    /// Detaches all ports; from here on an error of one is its end. Gives the errors of those that would not.
    pub fn stop_ports(&mut self) -> Vec<Error> {
        self.is_stopping = true;
        let stopped = self.feeds.iter_mut().map(|feed| feed.port.stop());
        stopped.filter_map(Result::err).collect()
    }

    /// From here on frames are counted as unread.
    pub fn take_nothing_more(&mut self) {
        self.discarding = true;
        self.is_blocked = false;
    }

    pub fn flush(&mut self) -> std::result::Result<(), Broken> {
        match &mut self.writing {
            Some(writing) if !self.discarding => writing.flush().map_err(Broken::Store),
            _ => Ok(()),
        }
    }

    /// Keeps the flush period, and notes when to come back: `next` at the latest.
    pub fn tick(&mut self, now: u64, next: u64) -> std::result::Result<(), Broken> {
        self.deadline = next;
        if let Some(writing) = &mut self.writing
            && !self.discarding
        {
            writing.tick(now).map_err(Broken::Store)?;
            if let Some(due) = writing.store.due_at() {
                // A buffer that is due and cannot leave waits for the writer, not for the clock.
                self.deadline = next.min(due.max(now + 1_000_000));
            }
        }
        Ok(())
    }

    pub fn progress(&mut self, elapsed_ns: u64, asked: bool) -> Progress {
        let mut dropped = Some(0);
        for feed in &mut self.feeds {
            dropped = add_known(dropped, feed.port.counts().dropped);
        }
        let mut progress = Progress {
            elapsed: Duration::from_nanos(elapsed_ns),
            asked,
            taken: self.taken(),
            wire_bytes: self.wire_bytes,
            dropped,
            ..Progress::default()
        };
        if let Some(writing) = &mut self.writing {
            let totals = writing.store.totals();
            progress.written = totals.written;
            progress.written_bytes = totals.written_bytes;
            progress.accepted_bytes = writing.accepted_bytes;
            progress.fill = writing.store.fill_level();
            let all = writing.store.got().bytes as f64;
            progress.vacant_bytes = ((1.0 - progress.fill) * all) as u64;
        }
        progress
    }

    fn taken(&self) -> u64 {
        self.feeds.iter().map(|feed| feed.taken).sum()
    }

    /// Packets that were taken and not kept, for want of an output.
    pub fn counted(&self) -> u64 {
        match self.writing {
            Some(_) => 0,
            None => self.taken(),
        }
    }

    pub fn unread(&self) -> u64 {
        self.feeds.iter().map(|feed| feed.unread).sum()
    }

    pub fn gaps(&self) -> u64 {
        self.feeds.iter().map(|feed| feed.gaps).sum()
    }

    /// The counts of each port, for the end of the file.
    pub fn statistics(&mut self, span: (u64, u64)) -> Vec<Statistics> {
        let feeds = self.feeds.iter_mut();
        feeds
            .map(|feed| statistics_of(&mut *feed.port, feed.taken, span))
            .collect()
    }

    pub fn sources(&self) -> Vec<Source> {
        let feeds = self.feeds.iter();
        feeds
            .map(|feed| Source {
                interfaces: feed.port.interfaces().to_vec(),
                got: feed.port.got(),
            })
            .collect()
    }

    pub fn store_got(&self) -> Option<store::Got> {
        self.writing.as_ref().map(|writing| writing.store.got())
    }

    pub fn into_writing(self) -> Option<Writing> {
        self.writing
    }
}

impl poll::Source for Intake {
    type Error = Broken;

    #[inline]
    fn look(&mut self, budget: usize) -> std::result::Result<usize, Broken> {
        let mut found = 0;
        self.is_blocked = false;
        for at in 0..self.feeds.len() {
            if self.feeds[at].has_ended {
                continue;
            }
            if self.discarding {
                found += self.discard(at, budget)?;
                continue;
            }
            let allowed = self.left.min(budget as u64) as usize;
            let (taken, is_blocked) = self.take(at, allowed)?;
            found += taken;
            self.is_blocked |= is_blocked;
        }
        Ok(found)
    }

    fn arm(&mut self) -> std::result::Result<(), Broken> {
        self.sleeper.reset();
        for (at, feed) in self.feeds.iter_mut().enumerate() {
            if feed.has_ended {
                continue;
            }
            let noted = feed.port.arm().and_then(|wake| self.sleeper.note(at, wake));
            match noted {
                Ok(goes_on) => feed.has_ended = !goes_on,
                Err(error) => {
                    feed.has_ended = self.is_stopping;
                    return Err(Broken::Port(error));
                }
            }
        }
        Ok(())
    }

    fn sleep(&mut self) -> std::result::Result<(), Broken> {
        if self.is_satisfied() && !self.discarding || self.is_ended() {
            return Ok(());
        }
        match &mut self.writing {
            // The ports have frames and we have no room: only the writer can help.
            Some(writing) if self.is_blocked => {
                if !writing.store.wait_empty(Duration::from_millis(20)) && self.clock.is_virtual() {
                    self.clock.sleep_until(self.deadline);
                }
                Ok(())
            }
            _ => self.sleeper.sleep(self.deadline).map_err(Broken::Port),
        }
    }

    fn disarm(&mut self) {
        for feed in &mut self.feeds {
            feed.port.disarm();
        }
    }
}
