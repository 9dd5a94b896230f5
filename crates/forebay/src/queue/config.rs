//! The settings of a queue.

use crate::{Error, Result, memory::MapConfig};

/// What a sender does when the queue is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// It waits for room, within its time limit, in a line with other senders.
    #[default]
    Wait,
    /// It returns [`SendError::Full`](super::SendError::Full) at once, whatever its time limit.
    Refuse,
    /// It drops the messages that would be received next, until there is room, and counts them: [`Stats::dropped`](super::Stats::dropped). A message
    /// that is being read or filled cannot be dropped; for that it waits.
    DropOldest,
}

impl WhenFull {
    /// Whether a sender may wait at all.
    pub(super) fn waits(self) -> bool {
        self != WhenFull::Refuse
    }
}

/// Settings of a queue.
///
/// ```
/// use forebay::queue::{QueueConfig, WhenFull, queue_with};
/// let (sender, receiver) = queue_with(&QueueConfig {
///     capacity_bytes: 4096,
///     when_full: WhenFull::DropOldest,
///     ..QueueConfig::default()
/// })?;
/// for number in 0..1000_u64 {
///     sender.send(number.to_ne_bytes()).unwrap(); // 24 bytes of the 4096 each
/// }
/// assert_eq!(receiver.take().unwrap().sequence(), 830);
/// assert_eq!(receiver.stats().unwrap().dropped, 830);
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Bytes of memory, rounded up to whole pages: at least 1; 1 MiB by default. A message takes its length, rounded
    /// up to a multiple of 8, plus 16.
    pub capacity_bytes: usize,
    /// What senders do when the queue is full; they wait by default.
    pub when_full: WhenFull,
    /// Fault the memory in when the queue is made (the default), so that no thread pays for it later.
    pub populate: bool,
    /// Ask for pages of 2 MiB if the queue is that large.
    pub huge_pages: bool,
}

impl Default for QueueConfig {
    fn default() -> Self {
        QueueConfig {
            capacity_bytes: 1 << 20,
            when_full: WhenFull::default(),
            populate: true,
            huge_pages: false,
        }
    }
}

impl QueueConfig {
    /// Checks everything that can be checked without the kernel.
    ///
    /// # Errors
    /// A capacity of 0.
    pub fn validate(&self) -> Result<()> {
        match self.capacity_bytes {
            0 => Err(Error::invalid("queue", "making a queue of 0 bytes")
                .advise("Ask for a capacity of at least 1; it is rounded up to a page")),
            _ => Ok(()),
        }
    }

    pub(super) fn memory(&self) -> MapConfig {
        MapConfig {
            populate: self.populate,
            huge_pages: self.huge_pages,
        }
    }
}
