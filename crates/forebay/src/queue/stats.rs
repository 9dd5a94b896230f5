//! The counts of a queue.

/// Counts of a queue since it was made. Each reserved message is counted in exactly one of `received`, `dropped`,
/// `aborted`, `torn` and `queued`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Messages that got a sequence number, whether they were committed or not.
    pub reserved: u64,
    /// Messages that receivers have taken.
    pub received: u64,
    /// Messages that senders dropped as the oldest, under the policy [`WhenFull::DropOldest`](super::WhenFull::DropOldest).
    pub dropped: u64,
    /// Messages that their senders aborted, once receivers have passed over them.
    pub aborted: u64,
    /// Messages whose senders died while filling them, once receivers have passed over them; 0 in a queue of one process.
    pub torn: u64,
    /// Messages in the queue, including those being filled.
    pub queued: u64,
    /// How often a received message was delivered to another receiver because the first one died.
    pub redelivered: u64,
    /// Received messages whose receivers died while they held them, and that are not delivered again.
    pub abandoned: u64,
    /// Bytes in use, headers included: from the oldest message that is unread or being read to the newest.
    pub used_bytes: usize,
}

impl Stats {
    /// Whether each reserved message is counted exactly once.
    pub fn adds_up(&self) -> bool {
        let columns = [
            self.received,
            self.dropped,
            self.aborted,
            self.torn,
            self.queued,
        ];
        // In 128 bits: another process may have written any numbers into the shared memory.
        columns.map(u128::from).iter().sum::<u128>() == u128::from(self.reserved)
    }
}
