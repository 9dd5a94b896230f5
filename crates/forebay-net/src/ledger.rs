//! The counts of a run. Every packet that a source received is in exactly one of them, so they add up to the number received.
//!
//! This equation is called the *conservation law*, or just *the law*. [`Ledger`] holds the counts, and [`Ledger::check`] verifies the
//! law:
//!
//! ```text
//!  received = written + counted + filtered + unread + dropped { kernel rx_ring fill_ring peer overrun ring pool writer disk }
//! ```
//! No count is computed from the others, so a packet that was forgotten or counted twice makes the check fail. `received`, `kernel`
//! and `overrun` are counters of the source. The one exception: where the kernel filters and counts what it rejects, it reports the
//! packets that passed, and `received` is these plus the rejected ones. `written` is a counter of the store. For `writer`, `disk` and `unread`, the session counts
//! the packets that the store could not write, and those that are left in the source at the end.

use crate::port::{Counts, Port, SocketLosses};
use std::ops::AddAssign;

/// Packets that were received and did not reach the output, by where they were lost.
///
/// ```
/// use forebay_net::ledger::Dropped;
/// let mut dropped = Dropped::default();
/// dropped.disk = 4;
/// assert_eq!(dropped.known(), 4); // the kernel's are unknown, not 0
/// assert_eq!(dropped.by_cause()[0], ("kernel", None));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dropped {
    /// Lost in the source's ring: the kernel's, or the simulated card's; with AF_XDP, lost for another reason than those below. `None`: the source cannot report it.
    pub kernel: Option<u64>,
    /// Lost because the receive ring of an AF_XDP socket was full.
    pub rx_ring: u64,
    /// Lost because the fill ring of an AF_XDP socket had no memory for a packet.
    pub fill_ring: u64,
    /// Lost on the way into a veth interface that is read with AF_XDP: counted by its peer. `None`: the peer cannot be asked.
    pub peer: Option<u64>,
    /// Overwritten in the memory of a [share](crate::share) before this reader had read them.
    pub overrun: u64,
    /// Lost in a ring between two of our threads; a capture to a file has none.
    pub ring: u64,
    /// Lost because a pool had no free slot; a capture to a file has no pool.
    pub pool: u64,
    /// Lost because the reader of the output left, or the end of the capture was aborted.
    pub writer: u64,
    /// Refused by the disk (full, I/O error, quota), including packets that the source still held after the error.
    pub disk: u64,
}

impl Dropped {
    /// Sum of all known losses.
    pub fn known(&self) -> u64 {
        self.by_cause().iter().map(|(_, n)| n.unwrap_or(0)).sum()
    }

    /// Packets that the sources lost, in rings of the kernel or in the memory of a share. `None`: a source cannot report it.
    pub fn in_sources(&self) -> Option<u64> {
        add_known(self.by_kernel(), add_known(self.peer, Some(self.overrun)))
    }

    /// Packets that the kernel lost between an interface and this program. `None`: a source cannot report it.
    pub fn by_kernel(&self) -> Option<u64> {
        add_known(self.kernel, Some(self.rx_ring + self.fill_ring))
    }

    /// Each cause with its count. The names are those in the command's JSON, and [`set`](Dropped::set) takes them.
    pub fn by_cause(&self) -> [(&'static str, Option<u64>); 9] {
        // All of them, so that a new one is not forgotten here.
        let Dropped {
            kernel,
            rx_ring,
            fill_ring,
            peer,
            overrun,
            ring,
            pool,
            writer,
            disk,
        } = *self;
        [
            ("kernel", kernel),
            ("rx_ring", Some(rx_ring)),
            ("fill_ring", Some(fill_ring)),
            ("peer", peer),
            ("overrun", Some(overrun)),
            ("ring", Some(ring)),
            ("pool", Some(pool)),
            ("writer", Some(writer)),
            ("disk", Some(disk)),
        ]
    }

    /// Sets the count of a cause with a name of [`by_cause`](Dropped::by_cause); `false`: there is no such cause. Only some counts can be
    /// unknown; of the others, `None` means 0.
    ///
    /// ```
    /// use forebay_net::ledger::Dropped;
    /// let mut dropped = Dropped::default();
    /// assert!(dropped.set("disk", Some(4)) && !dropped.set("moon", Some(1)));
    /// assert_eq!((dropped.disk, dropped.known()), (4, 4));
    /// ```
    pub fn set(&mut self, cause: &str, count: Option<u64>) -> bool {
        let known = count.unwrap_or(0);
        match cause {
            "kernel" => self.kernel = count,
            "rx_ring" => self.rx_ring = known,
            "fill_ring" => self.fill_ring = known,
            "peer" => self.peer = count,
            "overrun" => self.overrun = known,
            "ring" => self.ring = known,
            "pool" => self.pool = known,
            "writer" => self.writer = known,
            "disk" => self.disk = known,
            _ => return false,
        }
        true
    }
}

/// If a count of one of them is unknown, so is the sum.
impl AddAssign for Dropped {
    fn add_assign(&mut self, other: Dropped) {
        let Dropped {
            kernel,
            rx_ring,
            fill_ring,
            peer,
            overrun,
            ring,
            pool,
            writer,
            disk,
        } = other;
        self.kernel = add_known(self.kernel, kernel);
        self.rx_ring += rx_ring;
        self.fill_ring += fill_ring;
        self.peer = add_known(self.peer, peer);
        self.overrun += overrun;
        self.ring += ring;
        self.pool += pool;
        self.writer += writer;
        self.disk += disk;
    }
}

/// Where every packet went.
///
/// ```
/// use forebay_net::Ledger;
/// let mut ledger = Ledger::default();
/// (ledger.received, ledger.written, ledger.unread) = (100, 90, 3);
/// ledger.dropped.kernel = Some(7);
/// assert_eq!(ledger.check(), Ok(()));
/// ledger.written -= 1;
/// assert_eq!(ledger.check().unwrap_err().missing, 1);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ledger {
    /// Packets that the sources report as received.
    pub received: u64,
    /// Packets that were written completely.
    pub written: u64,
    /// Packets that were only counted, because there is no output.
    pub counted: u64,
    /// Packets rejected by a filter that we run, or that the kernel runs and counts.
    pub filtered: u64,
    /// Packets received after the `-c` limit was reached, or still queued when the capture was aborted.
    pub unread: u64,
    /// Packets that were lost.
    pub dropped: Dropped,
    /// Packets lost by interfaces before the source saw them, and for a [share](crate::share) those that the publishing capture had
    /// lost, outside the law. `None`: unknown.
    pub interface_dropped: Option<u64>,
}

/// The law does not hold. This is a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// Packets that were received and are in no column; negative if there are too many in the columns.
    pub missing: i64,
}

forebay::coded!([] Violation, "", {
    Violation { missing } => Code::Panic,
        "the packet counts do not add up: {missing} unaccounted for. This is a bug in forebay; please report it";
});

impl Ledger {
    /// Adds the counts of another thread, which reads the same interface. Rejected packets are part of the sum only if both count them, or
    /// neither lets the kernel filter: `is_uncounted` says of the sum and of the other one whether the kernel rejects packets uncounted.
    pub(crate) fn add_thread(&mut self, other: &Ledger, is_uncounted: [bool; 2]) {
        let mut other = *other;
        if is_uncounted[0] != is_uncounted[1] {
            for it in [&mut *self, &mut other] {
                it.received -= it.filtered;
                it.filtered = 0;
            }
        }
        let Ledger {
            received,
            written,
            counted,
            filtered,
            unread,
            dropped,
            interface_dropped,
        } = other;
        self.received += received;
        self.written += written;
        self.counted += counted;
        self.filtered += filtered;
        self.unread += unread;
        self.dropped += dropped;
        // Each thread reports the losses of the whole interface.
        self.interface_dropped = match (self.interface_dropped, interface_dropped) {
            (Some(a), Some(b)) => Some(a.max(b)),
            _ => None,
        };
    }

    /// The counts before those of any source: every loss is known to be 0.
    pub(crate) fn of_no_source() -> Self {
        Ledger {
            dropped: Dropped {
                kernel: Some(0),
                peer: Some(0),
                ..Dropped::default()
            },
            interface_dropped: Some(0),
            ..Ledger::default()
        }
    }

    /// What a port received and lost. What became of the packets that it handed out is up to the caller.
    pub fn of_port(port: &mut dyn Port) -> Self {
        let mut ledger = Ledger::of_no_source();
        let counts = port.counts();
        let losses = port.report().socket_losses;
        ledger.add_source(&counts, &losses, port.info().overruns);
        ledger.received += ledger.dropped.peer.unwrap_or(0);
        ledger
    }

    /// Adds a source's own counts. `overruns`: its drops are packets that were overwritten before they
    /// were read. Once all sources are added, `received` needs the sum of `dropped.peer`, too, if all of it is known.
    pub(crate) fn add_source(&mut self, counts: &Counts, losses: &SocketLosses, overruns: bool) {
        self.received += counts.received;
        self.filtered += counts.filtered.unwrap_or(0);
        let dropped = &mut self.dropped;
        dropped.rx_ring += losses.rx_ring;
        dropped.fill_ring += losses.fill_ring;
        dropped.peer = add_known(dropped.peer, losses.peer);
        let others = |dropped: u64| dropped - losses.rx_ring - losses.fill_ring;
        match overruns {
            true => dropped.overrun += counts.dropped.unwrap_or(0),
            false => dropped.kernel = add_known(dropped.kernel, counts.dropped.map(others)),
        }
        self.interface_dropped = add_known(self.interface_dropped, counts.interface_dropped);
    }

    /// Sum of the right side of the law.
    pub fn accounted(&self) -> u64 {
        self.written + self.counted + self.filtered + self.unread + self.dropped.known()
    }

    /// Checks the law.
    ///
    /// # Errors
    /// [`Violation`] if it does not hold.
    pub fn check(&self) -> Result<(), Violation> {
        balanced(self.received, self.accounted())
    }
}

/// Checks that both sides of a law are equal.
///
/// # Errors
/// [`Violation`] if they are not.
pub(crate) fn balanced(received: u64, accounted: u64) -> Result<(), Violation> {
    match received as i64 - accounted as i64 {
        0 => Ok(()),
        missing => Err(Violation { missing }),
    }
}

/// Adds the counts of another thread that reads the same interface. Rejected frames are part of the sum only if each thread counts
/// them.
pub(crate) fn add_thread(sum: &mut Counts, other: &Counts) {
    let passed = |it: &Counts| it.received - it.filtered.unwrap_or(0);
    let filtered = add_known(sum.filtered, other.filtered);
    *sum = Counts {
        received: passed(sum) + passed(other) + filtered.unwrap_or(0),
        dropped: add_known(sum.dropped, other.dropped),
        // Each port reports the losses of the whole interface.
        interface_dropped: sum.interface_dropped.max(other.interface_dropped),
        filtered,
    };
}

/// Adds two counters. If one is unknown, so is the sum.
///
/// ```
/// # use forebay_net::ledger::add_known;
/// assert_eq!((add_known(Some(2), Some(3)), add_known(Some(2), None)), (Some(5), None));
/// ```
pub fn add_known(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    Some(a? + b?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_is_set_by_the_name_of_its_cause_is_read_back_and_added() {
        let mut all = Dropped {
            kernel: Some(0),
            peer: Some(0),
            ..Dropped::default()
        };
        for (number, (cause, _)) in (1..).zip(Dropped::default().by_cause()) {
            let mut one = Dropped {
                kernel: Some(0),
                peer: Some(0),
                ..Dropped::default()
            };
            assert!(one.set(cause, Some(number)));
            assert!(one.by_cause().contains(&(cause, Some(number))), "{cause}");
            assert_eq!(one.known(), number, "{cause} only");
            all += one;
        }
        let added = all.by_cause().map(|(_, count)| count.unwrap());
        assert!(added.into_iter().eq(1..=added.len() as u64), "{all:?}");
        all += Dropped::default();
        assert_eq!((all.kernel, all.peer), (None, None), "unknown");
    }

    #[test]
    fn rejected_packets_are_received_only_if_each_thread_counts_them() {
        let counts = |received, filtered| Counts {
            received,
            dropped: Some(1),
            filtered,
            ..Counts::default()
        };
        let mut sum = counts(10, Some(4));
        add_thread(&mut sum, &counts(20, Some(5)));
        assert_eq!(
            sum,
            Counts {
                dropped: Some(2),
                ..counts(30, Some(9))
            }
        );
        add_thread(&mut sum, &counts(7, None));
        assert_eq!(
            sum,
            Counts {
                dropped: Some(3),
                ..counts(28, None)
            }
        );
        let of = |received, filtered| Ledger {
            received,
            filtered,
            ..Ledger::default()
        };
        let mut sum = of(10, 4);
        sum.add_thread(&of(20, 5), [false, false]);
        assert_eq!((sum.received, sum.filtered), (30, 9));
        sum.add_thread(&of(7, 0), [false, true]);
        sum.add_thread(&of(8, 3), [true, false]);
        assert_eq!((sum.received, sum.filtered), (33, 0));
    }
}
