//! The last numbers of one sender: which of them have arrived.
//!
//! ```text
//!            next − len                       next
//!  ── left ──────┼────── bits: 1 has arrived ───┼──── not yet ───▶
//!   gaps are     │   a lower number here is     │  a number here moves the window
//!   counted      │   reordered or a duplicate   │
//! ```
//! A number that leaves the window without having arrived belongs to a gap. A gap is a run of missing numbers. The memory is fixed. A
//! frame costs at most one walk over the window, whatever number it carries.

/// What an arriving number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// Higher than all before it.
    InOrder,
    /// Lower than the highest, by this distance, and not seen before.
    Reordered(u64),
    /// Seen before.
    Duplicate,
    /// Lower than the window, so it may have been seen before or not.
    Late,
}

#[derive(Clone, Debug)]
pub(super) struct Window {
    /// The bit of a number is at the number modulo the length. The length is a power of two, and at least 64.
    bits: Box<[u64]>,
    /// One more than the highest number seen.
    next: u64,
    /// Numbers below this one were sent before the first one was seen, and are not missing.
    first: u64,
    gaps: Gaps,
}

/// Runs of missing numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Gaps {
    pub count: u64,
    pub longest: u64,
    /// Length of the run that ends with the last number.
    run: u64,
}

impl Gaps {
    fn missing(&mut self, numbers: u64) {
        if numbers > 0 {
            self.count += u64::from(self.run == 0);
            self.run += numbers;
            self.longest = self.longest.max(self.run);
        }
    }

    fn present(&mut self) {
        self.run = 0;
    }
}

impl Window {
    pub fn new(len: u64) -> Self {
        let words = len.next_power_of_two().max(64) / 64;
        Window {
            bits: vec![0; words as usize].into(),
            next: 0,
            first: u64::MAX,
            gaps: Gaps::default(),
        }
    }

    fn len(&self) -> u64 {
        self.bits.len() as u64 * 64
    }

    fn place(&self, number: u64) -> (usize, u64) {
        let at = number & (self.len() - 1);
        ((at / 64) as usize, 1 << (at % 64))
    }

    /// One more than the highest number seen.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The lowest number that belongs to this reception; `u64::MAX` before the first.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The sender's beginning was seen: every number from 0 on is expected.
    pub fn begin(&mut self) {
        self.first = 0;
    }

    /// Notes a number, which must be less than `u64::MAX`.
    #[inline]
    pub fn see(&mut self, number: u64) -> Arrival {
        if number >= self.next {
            self.advance(number);
            return Arrival::InOrder;
        }
        let distance = self.next - 1 - number;
        if distance >= self.len() {
            return Arrival::Late;
        }
        let (word, bit) = self.place(number);
        if self.bits[word] & bit != 0 {
            return Arrival::Duplicate;
        }
        self.bits[word] |= bit;
        self.first = self.first.min(number);
        Arrival::Reordered(distance)
    }

    /// Moves the window, so that `number` is the highest in it.
    #[inline]
    fn advance(&mut self, number: u64) {
        if self.first == u64::MAX {
            self.first = number;
            // Nothing before it is in the window, and nothing is missing.
            self.next = number;
        }
        let (begin, end) = (self.next, number + 1);
        let len = self.len();
        if end - begin <= len {
            // Each new number takes the place of one that leaves.
            self.leave(begin, end);
        } else {
            self.leave(begin, begin + len);
            // These have never been in the window.
            let left = (end - len).saturating_sub(self.first.max(begin));
            self.gaps.missing(left);
        }
        let (word, bit) = self.place(number);
        self.bits[word] |= bit;
        self.next = end;
    }

    /// Counts and clears the bits at the places of `begin..end`, which are those of numbers one length of the window lower.
    #[inline]
    fn leave(&mut self, begin: u64, end: u64) {
        let mut at = begin;
        while at < end {
            let (word, bit) = self.place(at);
            let rest = (end - at).min(u64::from(64 - bit.trailing_zeros()));
            let mask = u64::MAX >> (64 - rest) << bit.trailing_zeros();
            let present = self.bits[word] & mask;
            self.bits[word] &= !mask;
            // Places below `first` hold no number of this reception.
            if let Some(number) = at.checked_sub(self.len())
                && number + rest > self.first
            {
                self.count(number, rest, present >> bit.trailing_zeros());
            }
            at += rest;
        }
    }

    /// Counts `len` numbers from `begin` on, whose bits are the lowest of `bits`.
    fn count(&mut self, begin: u64, len: u64, bits: u64) {
        let skipped = self.first.saturating_sub(begin);
        let (mut bits, mut left) = (bits >> skipped, len - skipped);
        while left > 0 {
            let ones = u64::from(bits.trailing_ones()).min(left);
            if ones > 0 {
                self.gaps.present();
                bits = bits.checked_shr(ones as u32).unwrap_or(0);
                left -= ones;
                continue;
            }
            let zeros = u64::from(bits.trailing_zeros()).min(left);
            self.gaps.missing(zeros);
            bits = bits.checked_shr(zeros as u32).unwrap_or(0);
            left -= zeros;
        }
    }

    /// The gaps so far, if the sender has sent the numbers below `end`.
    pub fn gaps(&self, end: u64) -> Gaps {
        let mut all = self.clone();
        if all.first == u64::MAX {
            all.gaps.missing(end); // only markers arrived
            return all.gaps;
        }
        let begin = all.next;
        all.leave(begin, begin.saturating_add(all.len()));
        let never_seen = end.saturating_sub(begin.max(all.first));
        all.gaps.missing(never_seen);
        all.gaps
    }
}
