//! The conservation law: every packet that a source received is accounted for, exactly once.
//!
//! ```text
//!  received = written + counted + filtered + unread + dropped { kernel ring pool writer disk }
//! ```
//! The two sides come from different places: `received` and `kernel` from the source's own
//! counters, `written` from the store, `writer`, `disk` and `unread` from the store and from walking
//! what was left in the source. None is worked out from the others, so [`Ledger::check`] means something.
//!
//! Pure numbers; imports nothing.

use std::fmt;

/// Packets that were received and did not reach the output, by where they were lost.
///
/// ```
/// use forebay_net::ledger::Dropped;
/// let dropped = Dropped { kernel: None, disk: 4, ..Dropped::default() };
/// assert_eq!(dropped.known(), 4); // the kernel's are unknown, not 0
/// assert_eq!(dropped.by_cause()[0], ("kernel", None));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// In the source's own ring: the kernel's, or the simulated card's. `None`: it cannot tell.
    pub kernel: Option<u64>,
    /// In a ring between threads of ours; captures to a file have none.
    pub ring: u64,
    /// For want of a slot in a pool of ours; captures to a file have none.
    pub pool: u64,
    /// The reader of the output went away, or the drain was abandoned.
    pub writer: u64,
    /// The disk refused them (full, I/O error, quota), those behind the error in the source too.
    pub disk: u64,
}

impl Dropped {
    /// All that is known to be lost.
    pub fn known(&self) -> u64 {
        self.by_cause().iter().map(|(_, n)| n.unwrap_or(0)).sum()
    }

    /// Each cause with its count.
    pub fn by_cause(&self) -> [(&'static str, Option<u64>); 5] {
        [
            ("kernel", self.kernel),
            ("ring", Some(self.ring)),
            ("pool", Some(self.pool)),
            ("writer", Some(self.writer)),
            ("disk", Some(self.disk)),
        ]
    }
}

/// Where every packet went.
///
/// ```
/// use forebay_net::ledger::{Dropped, Ledger};
/// let mut ledger = Ledger {
///     received: 100, written: 90, unread: 3,
///     dropped: Dropped { kernel: Some(7), ..Default::default() },
///     ..Default::default()
/// };
/// assert_eq!(ledger.check(), Ok(()));
/// ledger.written -= 1;
/// assert_eq!(ledger.check().unwrap_err().missing, 1);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// What the sources say they received.
    pub received: u64,
    /// Whole packets that the output took.
    pub written: u64,
    /// Packets that were only counted, for want of an output.
    pub counted: u64,
    /// Packets that a filter of ours rejected.
    pub filtered: u64,
    /// Packets that the source accepted and nobody asked for: behind `-c`, or after giving up.
    pub unread: u64,
    /// Packets that were lost.
    pub dropped: Dropped,
    /// Lost by interfaces before the source saw them: outside the law. `None`: unknown.
    pub interface_dropped: Option<u64>,
}

/// The law does not hold, which is a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Received, but nowhere to be found; negative: more found than received.
    pub missing: i64,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the packet counts do not add up: {} unaccounted for. This is a bug in forebay; please report it",
            self.missing
        )
    }
}

impl std::error::Error for Violation {}

impl Ledger {
    /// All that the right side of the law adds up to.
    pub fn accounted(&self) -> u64 {
        self.written + self.counted + self.filtered + self.unread + self.dropped.known()
    }

    /// Checks the law.
    ///
    /// # Errors
    /// It does not hold.
    pub fn check(&self) -> Result<(), Violation> {
        match self.received as i64 - self.accounted() as i64 {
            0 => Ok(()),
            missing => Err(Violation { missing }),
        }
    }
}

/// Adds two counters of which either may be unknown: unknown stays unknown.
///
/// ```
/// # use forebay_net::ledger::add_known;
/// assert_eq!((add_known(Some(2), Some(3)), add_known(Some(2), None)), (Some(5), None));
/// ```
pub fn add_known(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    Some(a? + b?)
}
