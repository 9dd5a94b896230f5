//! Decides when to let bytes gather in the input's pipe before reading them, and room in the output's pipe before writing. Pure: times
//! are arguments.
//!
//! ```text
//!   in the pipe   ▁ take ▁ take        ▁ take   ▂ take   ▁ pause ▅ take ▁ pause ▅ take
//!                 └ now and then ┘     └ soon after another, and pages at a time: a flow ┘
//! ```
//!
//! A producer that writes one page at a time wakes its reader for each page, and the reader wakes the next process. On few cores
//! that costs more than moving the bytes. While bytes flow, a short pause collects many pages; a single page is never held back.
//!
//! The same holds at the other end: the reader of a full pipe wakes its writer after every read. So after the first room, the writer
//! pauses: as long as the reader probably needs for a part of what the pipe still holds. A reader that is too fast for that gets no pause.

use super::kernel_pipe::LARGE;
use forebay::time::Clock;
use rustix::event::Timespec;
use std::time::Duration;

/// How long bytes gather. A pipe of 1 MiB has room for the bytes of that time, up to 4 GB/s.
pub(super) const PAUSE: Duration = Duration::from_micros(200);

/// At this many bytes there is no pause.
const ENOUGH: usize = 1 << 18;

/// Smaller amounts are treated as messages, not as a flow.
const PAGE: usize = 4096;

/// Records each read, to detect whether bytes flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// The time of the last read in nanoseconds, and its number of bytes.
    last: u64,
    taken: usize,
}

impl Pace {
    /// Whether to pause before `waiting` bytes are read.
    pub fn is_ahead(&self, waiting: usize, now: u64) -> bool {
        let is_soon = now.saturating_sub(self.last) < 2 * PAUSE.as_nanos() as u64;
        is_soon && self.taken >= PAGE && (1..ENOUGH).contains(&waiting)
    }

    pub fn took(&mut self, bytes: usize, now: u64) {
        (self.last, self.taken) = (now, bytes);
    }
}

/// A pause in which a stalled reader may start to read fast again.
const LONGEST_PAUSE: Duration = Duration::from_millis(2);

/// The kernel ends a pause up to this much late (`PR_SET_TIMERSLACK`): there is none that is shorter.
const SHORTEST_PAUSE: Duration = Duration::from_micros(50);

/// The reader should take this much of a large pipe during a pause, and not more than that.
const PART: u64 = LARGE as u64 / 8;
const MORE: u64 = LARGE as u64 / 2;

/// Records what a large pipe took, to determine how long room gathers in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pause: Duration,
    /// The bytes that the pipe had taken before the last pause.
    before: u64,
}

impl Default for Room {
    fn default() -> Self {
        Room {
            pause: PAUSE,
            before: 0,
        }
    }
}

impl Room {
    /// The pause before the next bytes go into a pipe that was full and has taken `total` bytes so far. `None`: its reader is so fast that it
    /// would empty the pipe meanwhile, and wait.
    pub fn pause(&mut self, total: u64) -> Option<Timespec> {
        match total - self.before {
            0..PART => self.pause = (2 * self.pause).clamp(SHORTEST_PAUSE, LONGEST_PAUSE),
            MORE.. => self.pause /= 2,
            _ => {}
        }
        self.before = total;
        (self.pause >= SHORTEST_PAUSE).then_some(Timespec {
            tv_sec: 0,
            tv_nsec: self.pause.as_nanos() as i64,
        })
    }
}

/// The time from now until `time` on `clock`.
pub(super) fn until(time: u64, clock: &Clock) -> Timespec {
    let ns = time.saturating_sub(clock.now());
    Timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1000;

    #[test]
    fn pages_that_arrive_soon_after_one_another_gather() {
        let mut pace = Pace::default();
        pace.took(PAGE, 10_000 * US);
        assert!(pace.is_ahead(PAGE, 10_003 * US));
        assert!(!pace.is_ahead(ENOUGH, 10_003 * US), "enough bytes wait");
        assert!(!pace.is_ahead(0, 10_003 * US), "the end is not delayed");
    }

    #[test]
    fn a_pause_lasts_as_long_as_the_reader_needs_for_a_part_of_the_pipe() {
        let mut room = Room::default();
        let pauses = [
            0,
            PART - 1,
            2 * PART,
            3 * PART,
            3 * PART + MORE,
            3 * PART + 2 * MORE,
        ];
        let mut us = |total| room.pause(total).map_or(0, |it| it.tv_nsec as u64 / US);
        assert_eq!(pauses.map(&mut us), [400, 800, 800, 800, 400, 200]);
        let last = pauses[5];
        // A reader that empties the pipe in every pause gets none.
        let fast = [1, 2, 3, 4].map(|more| us(last + more * MORE));
        assert_eq!(fast, [100, 50, 0, 0]);
        let slow = (0..9).map(|_| us(last + 4 * MORE));
        assert!(slow.eq([50, 100, 200, 400, 800, 1600, 2000, 2000, 2000]));
    }

    #[test]
    fn bytes_after_an_idle_time_and_small_amounts_are_read_at_once() {
        let mut pace = Pace::default();
        assert!(!pace.is_ahead(PAGE, 10_000 * US));
        pace.took(PAGE, 10_000 * US);
        assert!(!pace.is_ahead(PAGE, 10_400 * US));
        pace.took(100, 10_400 * US);
        assert!(!pace.is_ahead(PAGE, 10_401 * US), "a message before it");
    }
}
