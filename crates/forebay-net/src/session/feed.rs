//! A port of the session, and the way of each of its interfaces into the output.

use super::output::Writing;
use crate::{
    filter::{self, Filter, Programs, bpf::Program},
    format::Described,
    port::{Frame, InFile, Odd, Port, Statistics, Wake},
};
use forebay::Result;
use std::sync::Arc;

/// One interface of a port.
pub(super) struct Lane {
    /// How the output knows it; without an output nobody asks.
    pub described: Described,
    /// Its packets stand in the output as in a pcapng file that it was read from.
    pub stands_as_read: bool,
    /// The filter in this interface's terms, if it falls to us.
    program: Option<Arc<Program>>,
    /// Frames of it that we took, and of them those that files before this one told.
    pub taken: u64,
    told: u64,
    /// Losses that rejected packets told of; the next one that passes tells of them.
    pub owed: u64,
    /// Gaps marked on a frame of it, and the losses they tell of.
    pub gaps: u64,
    pub marked: u64,
}

impl Lane {
    /// Whether the filter lets `frame` pass. If not, what it tells of a loss is kept.
    #[inline]
    pub fn passes(&mut self, frame: &Frame<'_>) -> bool {
        let Some(program) = &self.program else {
            return true;
        };
        let passes = program.run(frame.data, frame.wire_len) > 0;
        if !passes {
            self.owed = self.owed.saturating_add(frame.dropped_before);
        }
        passes
    }

    /// `frame`, telling of the losses that are owed too.
    #[cold]
    pub fn telling<'a>(&self, frame: &Frame<'a>) -> Frame<'a> {
        Frame {
            dropped_before: frame.dropped_before.saturating_add(self.owed),
            ..*frame
        }
    }
}

/// What of a port's packets is told in one file, or in all so far.
#[derive(Clone, Copy, Default)]
struct Share {
    delivered: u64,
    dropped: u64,
    interface_dropped: u64,
}

/// A port and what came from it.
pub(super) struct Feed {
    pub port: Box<dyn Port>,
    /// Its interfaces, as far as they are known to the output.
    pub lanes: Vec<Lane>,
    /// Frames that we took from it.
    pub taken: u64,
    /// Frames that our filter rejected.
    pub filtered: u64,
    /// Frames it held that nobody took, and those that nobody could take any more.
    pub unread: u64,
    pub refused: u64,
    /// Frames that were not taken quite as the file has them.
    pub odd: Odd,
    /// What files before this one told.
    told: Share,
    /// The filter, if it falls to us.
    programs: Option<Programs>,
    /// It is read to its end before the next one is looked at.
    pub in_turn: bool,
    pub has_ended: bool,
    /// The count of outages, and whether one lasts, as last reported.
    pub outages_told: (u64, bool),
}

impl Feed {
    pub fn new(port: Box<dyn Port>, filter: Option<&Filter>) -> Self {
        Feed {
            programs: filter
                .filter(|_| !port.got().filters)
                .map(|filter| Programs::new(filter.clone())),
            lanes: Vec::new(),
            taken: 0,
            filtered: 0,
            unread: 0,
            refused: 0,
            odd: Odd::default(),
            told: Share::default(),
            in_turn: port.got().in_turn,
            has_ended: false,
            outages_told: (0, false),
            port,
        }
    }

    /// Whether nothing will ever come from it. The port stays armed: somebody may sleep on it just
    /// now, and to nobody else it is more than a wake-up too many.
    pub fn is_at_end(&mut self) -> Result<bool> {
        Ok(matches!(self.port.arm()?, Wake::End))
    }

    /// Gaps marked on its frames.
    pub fn gaps(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.gaps).sum()
    }

    /// Whether its frames have to pass a filter of ours.
    pub fn filters(&self) -> bool {
        self.programs.is_some()
    }

    /// Whether packets of the port can match `filter`, as far as its interfaces are known by now.
    ///
    /// # Errors
    /// What is wrong with the filter for them. Ports that are no files had it compiled when they were opened.
    pub fn check(&self, filter: &Filter) -> std::result::Result<(), filter::Error> {
        match self.programs.is_some() || self.in_turn {
            true => Programs::new(filter.clone()).check(self.port.interfaces()),
            false => Ok(()),
        }
    }

    /// Makes a lane for each interface that the port knows by now, and tells the output of it;
    /// `false`: the output has no room for that at the moment.
    pub fn introduce(&mut self, mut writing: Option<&mut Writing>) -> Result<bool> {
        let known = self.lanes.len();
        for (number, interface) in self.port.interfaces().iter().enumerate().skip(known) {
            let described = match &mut writing {
                None => Some(Described::default()),
                Some(writing) => writing.introduce(interface)?,
            };
            let Some(described) = described else {
                return Ok(false);
            };
            let broken = |left: &InFile| left.left.broken + left.section.left.broken;
            self.odd.broken_options += interface.in_file.as_deref().map_or(0, broken);
            let programs = self.programs.as_mut();
            self.lanes.push(Lane {
                described,
                stands_as_read: described.is_as(interface, number as u32),
                program: programs.map(|programs| programs.of(interface.link)),
                taken: 0,
                told: 0,
                owed: 0,
                gaps: 0,
                marked: 0,
            });
        }
        Ok(true)
    }

    /// What is to be told of each of its interfaces in a file from `begin` to `end` behind which others follow: the
    /// packets in it, and of the first one the losses that they tell of. What a file that is read says of itself is told in the
    /// last one.
    pub fn share(&mut self, begin: u64, end: u64) -> Vec<(Described, Statistics)> {
        if self.in_turn {
            return Vec::new();
        }
        let counts = self.port.counts();
        let so_far = Share {
            delivered: self.taken,
            dropped: self.lanes.iter().map(|lane| lane.marked).sum(),
            // Unknown for the moment: the next file tells of it.
            interface_dropped: counts
                .interface_dropped
                .unwrap_or(self.told.interface_dropped),
        };
        let told = std::mem::replace(&mut self.told, so_far);
        let delivered = so_far.delivered - told.delivered;
        let dropped = so_far.dropped - told.dropped;
        let interface_dropped = so_far
            .interface_dropped
            .saturating_sub(told.interface_dropped);
        let share = Statistics {
            time_ns: end,
            began_ns: Some(begin),
            ended_ns: Some(end),
            interface_received: None,
            interface_dropped: counts.interface_dropped.map(|_| interface_dropped),
            received: Some(delivered + dropped),
            dropped: counts.dropped.map(|_| dropped),
            delivered: Some(delivered),
        };
        let of_lane = |(number, lane): (usize, &mut Lane)| {
            let told = std::mem::replace(&mut lane.told, lane.taken);
            (
                lane.described,
                of_interface(number, &share, lane.taken - told),
            )
        };
        self.lanes.iter_mut().enumerate().map(of_lane).collect()
    }

    /// What is known of each of its interfaces at the end of a capture, less what was told before. The last file, or the
    /// only one, is from `begin` to `end`.
    pub fn statistics(&mut self, begin: u64, end: u64) -> Vec<(Described, Statistics)> {
        let counts = self.port.counts();
        // What nobody took, no filter of ours has seen.
        let unseen = if self.filters() { self.unread } else { 0 };
        let told = self.told;
        let received = counts.received - self.filtered - unseen;
        let is_recorded = self.in_turn;
        let of_port = Statistics {
            time_ns: end,
            began_ns: Some(begin),
            ended_ns: Some(end),
            interface_received: None,
            interface_dropped: less(counts.interface_dropped, told.interface_dropped),
            received: less(Some(received), told.delivered + told.dropped),
            dropped: less(counts.dropped, told.dropped),
            delivered: less(Some(self.taken), told.delivered),
        };
        let of_lane = |(number, lane): (usize, &Lane)| {
            let known = match is_recorded {
                true => self.port.recorded(number as u32)?,
                false => of_interface(number, &of_port, lane.taken - lane.told),
            };
            Some((lane.described, known))
        };
        self.lanes.iter().enumerate().filter_map(of_lane).collect()
    }
}

/// What is told of an interface of a port that is no file: its counts are those of the first, and of the others only what was
/// taken of each is known.
fn of_interface(number: usize, of_port: &Statistics, taken: u64) -> Statistics {
    match number {
        0 => *of_port,
        _ => Statistics {
            interface_dropped: None,
            received: None,
            dropped: None,
            delivered: Some(taken),
            ..*of_port
        },
    }
}

/// A count without what was told of it; a mark may tell of a loss before its source counts it.
fn less(count: Option<u64>, told: u64) -> Option<u64> {
    Some(count?.saturating_sub(told))
}
