//! A range of times.

use crate::format::time_index::Stretch;

/// The longest unit of time in a file, by which a time that is read may be before the one that was written.
pub(super) const COARSEST_NS: u64 = 1_000_000_000;

/// A range of times: packets from one time on, and before another one.
///
/// ```
/// use forebay_net::file::TimeRange;
/// let range = TimeRange::new(5, 8).unwrap();
/// assert!(range.contains(5) && range.contains(7) && !range.contains(8));
/// assert_eq!(TimeRange::new(8, 8), None);
/// assert!(TimeRange::default().contains(u64::MAX));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRange {
    first: u64,
    /// The last time less the first.
    span: u64,
}

impl Default for TimeRange {
    /// All times.
    fn default() -> Self {
        TimeRange {
            first: 0,
            span: u64::MAX,
        }
    }
}

impl TimeRange {
    /// Times from `from_ns` on and before `to_ns`, in nanoseconds since 1970; `None`: there is none. With [`u64::MAX`], it has no end.
    pub fn new(from_ns: u64, to_ns: u64) -> Option<TimeRange> {
        let last = match to_ns {
            u64::MAX => u64::MAX,
            _ => to_ns.checked_sub(1)?,
        };
        Some(TimeRange {
            first: from_ns,
            span: last.checked_sub(from_ns)?,
        })
    }

    /// Whether it has this time.
    #[inline(always)]
    pub fn contains(self, time_ns: u64) -> bool {
        time_ns.wrapping_sub(self.first) <= self.span
    }

    pub(super) fn is_all(self) -> bool {
        self == TimeRange::default()
    }

    /// Whether a stretch may have a packet of this range.
    pub(super) fn may_be_in(self, stretch: &Stretch) -> bool {
        let last = self.first + self.span;
        stretch.latest.saturating_add(COARSEST_NS) >= self.first
            && stretch.earliest.saturating_sub(COARSEST_NS) <= last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_its_first_time_and_not_its_end() {
        let times = [0, 1, 2, 5, u64::MAX - 1, u64::MAX];
        for from in times {
            for to in times {
                let range = TimeRange::new(from, to);
                for time in times {
                    let is_in = from <= time && (time < to || to == u64::MAX);
                    assert_eq!(
                        range.is_some_and(|range| range.contains(time)),
                        is_in,
                        "{time} in {from}..{to}"
                    );
                }
            }
        }
    }
}
