//! The innermost loop: moves the frames of one burst through the stages into the output.

use super::{
    feed::Lane,
    output::Writing,
    stages::{Stage, Verdict},
};
use crate::port::{Burst, EncodedRun, Frame, Handover, Odd};
use forebay::{Error, Result};

/// The frames taken from a burst.
#[derive(Default)]
pub(super) struct Took {
    /// Frames that were written or counted.
    pub packets: u64,
    /// Frames that the filter rejected.
    pub filtered: u64,
    /// Wire length of the frames taken, in bytes.
    pub wire_bytes: u64,
    /// Frames taken with fewer bytes than they had on the wire.
    pub cut: u64,
    /// The time of the first of these, if there is one.
    pub first_ns: u64,
    /// Irregularities of the frames taken.
    pub odd: Odd,
}

/// Why the loop ended.
pub(super) enum Stop {
    /// The burst ended, or the packet limit is reached.
    AtEnd,
    /// No buffer is empty.
    NoRoom,
    /// The caller's closure did not take the next packet.
    Refused,
    /// The file is full.
    Full,
    /// The output failed.
    Failed(Error),
    /// The next frame is from an interface without a lane.
    UnknownInterface,
}

/// Takes at most `most` frames, of each `snaplen` bytes. Each passes `stages`.
///
/// Frames not taken are put back: a frame for which there is no room is the first of the next burst.
#[inline(never)]
pub(super) fn take<S: Stage>(
    burst: &mut Burst<'_>,
    lanes: &mut [Lane],
    mut writing: Option<&mut Writing>,
    mut stages: S,
    (most, snaplen): (u64, u32),
) -> (Took, Stop) {
    if let Some(writing) = &mut writing {
        match writing.put_blocks(burst.take_blocks()) {
            Ok(true) => {}
            Ok(false) => return (Took::default(), Stop::NoRoom),
            Err(error) => return (Took::default(), Stop::Failed(error)),
        }
    }
    let begin = writing
        .as_ref()
        .map_or(0, |writing| writing.store.output_bytes());
    let mut took = match &mut writing {
        Some(writing) if S::IS_EMPTY => match take_run(burst, lanes, writing, most) {
            Ok(took) => took,
            Err(stop) => return (Took::default(), stop),
        },
        _ => Took::default(),
    };
    // Separate from `took`: see docs/performance-notes.md.
    let mut odd = Odd::default();
    let of_run = took.packets;
    // The largest number until the first packet, so that one branch finds it and packets that are out of order.
    let mut latest_ns = u64::MAX;
    let mut early = Early::new();
    let stop = loop {
        if took.packets >= most {
            break Stop::AtEnd;
        }
        // Accessed by reference, in place. A move would load the whole frame right after its parts were stored, which the
        // processor cannot forward from its store buffer.
        let mut next = burst.next_frame();
        let Some(frame) = next.as_mut() else {
            break Stop::AtEnd;
        };
        let Some(lane) = lanes.get_mut(frame.interface as usize) else {
            burst.put_back();
            break Stop::UnknownInterface;
        };
        match stages.admit(frame, lane, writing.as_deref()) {
            Verdict::Take => {}
            Verdict::Reject => {
                lane.owed = lane.owed.saturating_add(frame.dropped_before);
                took.filtered += 1;
                continue;
            }
            Verdict::FileFull => {
                burst.put_back();
                break Stop::Full;
            }
            Verdict::Later => {
                burst.put_back();
                break Stop::AtEnd;
            }
        }
        if !S::IS_EMPTY {
            frame.dropped_before = frame.dropped_before.saturating_add(lane.owed);
        }
        let frame = &*frame;
        let wire_len = frame.wire_len;
        let is_cut = snaplen.min(frame.data.len() as u32) < wire_len;
        let mut is_refused = false;
        // A closure for each call: one closure for all would be in memory, and stored there for each packet.
        let put = match &mut writing {
            _ if !is_plain(frame) => {
                let accept = || accepts(&mut stages, frame, &mut is_refused);
                take_special(writing.as_deref_mut(), frame, lane, &mut odd, accept)
            }
            Some(writing) => {
                let accept = || accepts(&mut stages, frame, &mut is_refused);
                writing.put_plain(frame, &lane.described, accept)
            }
            None => Ok(accepts(&mut stages, frame, &mut is_refused)),
        };
        match put {
            Ok(true) => stages.taken(frame, lane, writing.as_deref_mut()),
            Ok(false) => {
                burst.put_back();
                break match is_refused {
                    true => Stop::Refused,
                    false => Stop::NoRoom,
                };
            }
            Err(error) => {
                burst.put_back();
                break Stop::Failed(error);
            }
        }
        if !S::IS_EMPTY {
            lane.owed = 0;
        }
        match frame.time_ns < latest_ns {
            false => latest_ns = frame.time_ns,
            true => {
                latest_ns = early.note(frame.time_ns, (took.packets > of_run).then_some(latest_ns))
            }
        }
        took.packets += 1;
        lane.taken += 1;
        took.wire_bytes += u64::from(wire_len);
        took.cut += u64::from(is_cut);
    };
    if of_run == 0 {
        took.first_ns = early.first_ns;
    }
    if took.packets > 0
        && let Some(writing) = writing
    {
        let times = (early.earliest_ns, latest_ns);
        let (end, times) = (writing.store.output_bytes(), (of_run == 0).then_some(times));
        writing.index.add_packets(begin, end, times);
    }
    took.odd = odd;
    (took, stop)
}

/// Asks the stages whether to keep a packet that has its place in the output, and notes the answer.
#[inline(always)]
fn accepts<S: Stage>(stages: &mut S, frame: &Frame<'_>, is_refused: &mut bool) -> bool {
    *is_refused = !stages.accept(frame);
    !*is_refused
}

/// The times of the first packet and of packets that are earlier than one before them. Only these change it, so it costs the others
/// nothing.
struct Early {
    first_ns: u64,
    earliest_ns: u64,
}

impl Early {
    /// Of no packet yet, or of packets with the largest time only, which are not below it.
    fn new() -> Self {
        Early {
            first_ns: u64::MAX,
            earliest_ns: u64::MAX,
        }
    }

    /// Notes a packet that is the first one or earlier than `latest_ns`. Returns the latest time.
    #[cold]
    #[inline(never)]
    fn note(&mut self, time_ns: u64, latest_ns: Option<u64>) -> u64 {
        self.earliest_ns = self.earliest_ns.min(time_ns);
        latest_ns.unwrap_or_else(|| {
            self.first_ns = time_ns;
            time_ns
        })
    }
}

/// Whether a packet has no metadata except its bytes, its length and its time.
#[inline(always)]
fn is_plain(frame: &Frame<'_>) -> bool {
    frame.options.len() as u64 | frame.dropped_before == 0 && frame.marks.is_empty()
}

/// Writes a packet that follows a gap, has options or irregularities, and counts these. Such packets are rare; in this separate
/// function they cost the others only one branch. `false`: no buffer is empty or `accept` disagreed, and nothing was written.
#[cold]
#[inline(never)]
fn take_special(
    writing: Option<&mut Writing>,
    frame: &Frame<'_>,
    lane: &mut Lane,
    odd: &mut Odd,
    accept: impl FnOnce() -> bool,
) -> Result<bool> {
    if let Some(writing) = writing {
        let options = match writing.metadata.is_kept {
            true => frame.options,
            false => &[],
        };
        let copied = Frame { options, ..*frame };
        if !writing.put(&copied, &lane.described, accept)? {
            return Ok(false);
        }
        if !frame.options.is_empty() {
            writing.count_left(frame);
        }
    } else if !accept() {
        return Ok(false);
    }
    odd.count(frame.marks);
    if frame.dropped_before > 0 {
        lane.gaps += 1;
        lane.marked += frame.dropped_before;
    }
    Ok(true)
}

fn took_of(run: &EncodedRun<'_>) -> Took {
    Took {
        packets: run.frames as u64,
        filtered: 0,
        wire_bytes: run.wire_bytes,
        cut: run.cut,
        first_ns: run.time_ns,
        odd: Odd::default(),
    }
}

/// Lends or copies the run at the beginning of the burst, if there is one and the output takes its packets as they were read.
#[inline(never)]
fn take_run(
    burst: &mut Burst<'_>,
    lanes: &mut [Lane],
    writing: &mut Writing,
    most: u64,
) -> std::result::Result<Took, Stop> {
    let Some(burst) = burst.encoded_runs() else {
        return Ok(Took::default());
    };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    if writing.takes_loans()
        && let Some(run) = burst.next_run(most, Handover::Lend)
        && let Some(lane) = lane_as_read(lanes, &run)
        && writing.fits_as_read(&run)
    {
        let took = took_of(&run);
        return match writing.lend(run.frames as u64, || burst.take_run(Handover::Lend)) {
            Ok(true) => {
                lane.taken += took.packets;
                Ok(took)
            }
            Ok(false) => Err(Stop::NoRoom),
            Err(error) => Err(Stop::Failed(error)),
        };
    }
    let Some(run) = burst.next_run(most, Handover::Copy) else {
        return Ok(Took::default());
    };
    let Some(lane) = lane_as_read(lanes, &run) else {
        return Ok(Took::default());
    };
    let took = match writing.put_run(&run) {
        None => return Ok(Took::default()),
        Some(Ok(false)) => return Err(Stop::NoRoom),
        Some(Err(error)) => return Err(Stop::Failed(error)),
        Some(Ok(true)) => took_of(&run),
    };
    lane.taken += took.packets;
    burst.take_run(Handover::Copy);
    Ok(took)
}

/// The lane of a run, if its packets are written exactly as they were read.
fn lane_as_read<'a>(lanes: &'a mut [Lane], run: &EncodedRun<'_>) -> Option<&'a mut Lane> {
    let lane = lanes.get_mut(run.interface as usize);
    lane.filter(|lane| lane.stands_as_read)
}
