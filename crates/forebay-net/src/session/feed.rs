//! A port of the session, and the state of each of its interfaces.

use super::output::Writing;
use crate::{
    filter::{self, Filter, FrameProgram, Programs},
    format::Described,
    ledger::add_known,
    port::{Block, Counts, Frame, InFile, Interface, Odd, Port, Statistics, Wake},
    share::Publisher,
};
use forebay::{Error, Result};

/// One interface of a port.
pub(super) struct Lane {
    /// Its description in the output; unused without an output.
    pub described: Described,
    /// Its number for the publisher; unused without one.
    pub shared: u32,
    /// Packets can be written exactly as they were read from a pcapng file.
    pub stands_as_read: bool,
    /// The filter compiled for this interface, if the session filters.
    program: Option<FrameProgram>,
    /// Frames taken from it, and those of them that earlier files reported.
    pub taken: u64,
    told: u64,
    /// Losses reported by packets that were rejected; the next matching packet reports them.
    pub owed: u64,
    /// Gaps marked on its frames, and the number of losses they report.
    pub gaps: u64,
    pub marked: u64,
}

impl Lane {
    /// Whether `frame` matches the filter.
    #[inline]
    pub fn passes(&self, frame: &Frame<'_>) -> bool {
        let program = self.program.as_ref();
        program.is_none_or(|program| program.accepts(frame))
    }
}

/// The counts reported for a port in one file, or in all files so far.
#[derive(Clone, Copy, Default)]
struct Share {
    delivered: u64,
    dropped: u64,
    interface_dropped: u64,
}

/// A port and its counts.
pub(super) struct Feed {
    pub port: Box<dyn Port>,
    /// Its interfaces, as far as the output knows them.
    pub lanes: Vec<Lane>,
    /// The same interfaces as the port describes them, for a closure that sees their packets.
    pub interfaces: Vec<Interface>,
    /// Frames taken from it.
    pub taken: u64,
    /// Frames that our filter rejected.
    pub filtered: u64,
    /// Frames left unread at the end, and frames that could not be written.
    pub unread: u64,
    pub refused: u64,
    /// Irregularities of its frames.
    pub odd: Odd,
    /// The counts that earlier files reported.
    told: Share,
    /// The filter, if the session filters.
    programs: Option<Programs>,
    /// The port is read to its end before the next one is polled.
    pub in_turn: bool,
    pub has_ended: bool,
    /// Why its first packet could not be read.
    pub unreadable: Option<Error>,
    /// Why this share ended, if it failed.
    pub failure: Option<Error>,
    /// The count of outages, and whether one lasts, as last reported.
    pub outages_told: (u64, bool),
}

impl Feed {
    pub fn new(port: Box<dyn Port>, filter: Option<&Filter>) -> Self {
        Feed {
            programs: filter
                .filter(|_| !port.info().filters)
                .map(|filter| Programs::new(filter.clone())),
            lanes: Vec::new(),
            interfaces: Vec::new(),
            taken: 0,
            filtered: 0,
            unread: 0,
            refused: 0,
            odd: Odd::default(),
            told: Share::default(),
            in_turn: port.info().in_turn,
            has_ended: false,
            unreadable: None,
            failure: None,
            outages_told: (0, false),
            port,
        }
    }

    /// The time of its next packet, which stays in the port.
    pub fn next_time(&mut self) -> Result<Option<u64>> {
        Ok(self.look_ahead()?.0)
    }

    /// The time of its next packet, which stays in the port, and the blocks before it, which do not.
    pub fn look_ahead(&mut self) -> Result<(Option<u64>, Vec<Block>)> {
        let mut burst = self.port.receive(1)?;
        let blocks = burst.take_blocks();
        let time_ns = burst.next_frame().map(|frame| frame.time_ns);
        if time_ns.is_some() {
            burst.put_back();
        }
        Ok((time_ns, blocks))
    }

    /// Whether the port has ended. The port stays armed: the session may be about to sleep on it, and an unneeded wake-up is
    /// harmless.
    pub fn is_at_end(&mut self) -> Result<bool> {
        Ok(matches!(self.port.arm()?, Wake::End))
    }

    /// Gaps marked on its frames.
    pub fn gaps(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.gaps).sum()
    }

    /// Whether the session filters its frames.
    pub fn filters(&self) -> bool {
        self.programs.is_some()
    }

    /// Whether packets of the port can match `filter`, for the interfaces known so far.
    ///
    /// # Errors
    /// The filter is not valid for any of the interfaces. For live ports, it was already compiled when they were opened.
    pub fn check(&self, filter: &Filter) -> std::result::Result<(), filter::Error> {
        match self.programs.is_some() || self.in_turn {
            true => Programs::new(filter.clone()).check(self.port.interfaces()),
            false => Ok(()),
        }
    }

    /// Creates a lane for each interface that the port knows so far, writes its description, and describes it to the publisher;
    /// `false`: the output has no room at the moment.
    pub fn introduce(
        &mut self,
        mut writing: Option<&mut Writing>,
        mut publisher: Option<&mut Publisher>,
    ) -> Result<bool> {
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
            self.interfaces.push(interface.clone());
            let store = writing.as_mut().map(|it| &mut it.store);
            let shared =
                (publisher.as_mut()).map(|it| it.introduce_in(interface, &described, store));
            self.lanes.push(Lane {
                described,
                shared: shared.unwrap_or_default(),
                stands_as_read: described.equals(interface, number as u32),
                program: programs.map(|programs| programs.of_interface(interface)),
                taken: 0,
                told: 0,
                owed: 0,
                gaps: 0,
                marked: 0,
            });
        }
        Ok(true)
    }

    /// The port's counts for a file, where the peer of a veth interface is a part of the interface.
    fn counts(&mut self) -> Counts {
        let counts = self.port.counts();
        let peer = self.port.report().socket_losses.peer;
        Counts {
            interface_dropped: add_known(counts.interface_dropped, peer),
            ..counts
        }
    }

    /// The statistics of each interface for a file from `begin` to `end` that another file follows: its packets and, for the
    /// first interface, the losses they report. Statistics of a file that is read are written to the last file.
    pub fn share(&mut self, begin: u64, end: u64) -> Vec<(Described, Statistics)> {
        if self.in_turn {
            return Vec::new();
        }
        let counts = self.counts();
        let so_far = Share {
            delivered: self.taken,
            dropped: self.lanes.iter().map(|lane| lane.marked).sum(),
            // Unknown at the moment: the next file reports it.
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

    /// The statistics of each interface at the end of a capture, less those of earlier files. The last file, or the only one,
    /// covers `begin` to `end`.
    pub fn statistics(&mut self, begin: u64, end: u64) -> Vec<(Described, Statistics)> {
        let counts = self.counts();
        // The session's filter has not seen unread frames.
        let unseen = if self.filters() { self.unread } else { 0 };
        let told = self.told;
        let filtered = self.filtered + counts.filtered.unwrap_or(0);
        let received = counts.received - filtered - unseen;
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
        let in_file = self.port.report().file_statistics;
        let of_lane = |(number, lane): (usize, &Lane)| {
            let known = match is_recorded {
                true => (*in_file.get(number)?)?,
                false => of_interface(number, &of_port, lane.taken - lane.told),
            };
            Some((lane.described, known))
        };
        self.lanes.iter().enumerate().filter_map(of_lane).collect()
    }
}

/// The statistics of a live port's interface: the port's counts belong to the first interface; for the others only the number of
/// packets taken is known.
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

/// A count less the part already reported. A mark may report a loss before its source counts it.
fn less(count: Option<u64>, told: u64) -> Option<u64> {
    Some(count?.saturating_sub(told))
}
