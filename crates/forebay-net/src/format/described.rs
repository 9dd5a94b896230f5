//! An interface as a file describes it.

use super::ticks::Ticks;
use crate::port::{Interface, Resolution};

/// The number and the time unit of an interface in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Described {
    pub(super) number: u32,
    pub(super) ticks: Ticks,
}

impl Described {
    /// The number of the interface.
    #[inline]
    pub(crate) fn number(self) -> u32 {
        self.number
    }

    /// Whether packets of `interface`, which has this number in another pcapng file, are encoded identically in this one.
    pub(crate) fn equals(self, interface: &Interface, number: u32) -> bool {
        self.number == number && self.ticks.resolution() == interface.resolution
    }

    /// The same interface with times in microseconds, or in its own unit if that is coarser.
    pub(crate) fn in_microseconds(self) -> Described {
        let ticks = match self.ticks.per_second() > 1_000_000 {
            true => Ticks::Decimal(1_000),
            false => self.ticks,
        };
        Described { ticks, ..self }
    }

    /// The unit of its times.
    pub(crate) fn resolution(self) -> Resolution {
        self.ticks.resolution()
    }

    /// Whether its time unit is smaller than that of `other`.
    pub fn is_finer_than(self, other: Described) -> bool {
        self.ticks.per_second() > other.ticks.per_second()
    }
}
