//! How a store is built, and what memory and output it then has.

use super::{Abandon, buffer::BLOCK};
use crate::{
    Error, Result,
    memory::{self, HugePages, MapConfig},
};
use std::time::Duration;

/// When written data is made durable. The writer calls `fdatasync` on the file, and the first time for each file also syncs its
/// folder.
///
/// The most a crash can lose of the *accepted* records:
///
/// | policy | `kill -9` | power cut |
/// |---|---|---|
/// | any | what is not *written*: the buffers, that is, the flush period and the writer's backlog | what is not *durable* |
/// | `None` | | no bound |
/// | `Interval(t)` | | the buffers, and what was written in `t` plus the slowest sync ([`Totals::slowest_sync`](super::Totals)) |
/// | `File` | | the open file |
/// | `Always` | | the buffers, as with `kill -9` |
///
/// Under every policy, [`wait_for`](super::Appender::wait_for) can make everything durable that was accepted before the call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Never, except on request.
    None,
    /// When this much time has passed since the last sync and there is something to sync. Also as `File`.
    Interval(Duration),
    /// When an output is complete: at the end, and when the store moves on to the next output.
    #[default]
    File,
    /// After every buffer, before the next one is written.
    Always,
}

/// What [`claim`](super::Appender::claim) does with a record when no buffer is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// Wait for the writer.
    #[default]
    Wait,
    /// Drop the record and count it ([`Totals::dropped`](super::Totals)).
    DropNewest,
}

/// How far a store may grow beyond its first buffers.
///
/// The store adds a buffer when none is empty. From then on, a thread prepares further ones ahead, as many as the store began
/// with and within the limit; these stay ready until the store is closed. The store returns other buffers to the system once they
/// are written, down to the initial number. Memory of a store that never grows is touched only when it is filled. With [`WhenFull::Wait`], [`claim`](super::Appender::claim) and
/// [`Records`](crate::records::Records) wait for an empty buffer instead of growing the store.
///
/// ```
/// use forebay::store::{StoreConfig, Limit};
/// let config = StoreConfig { limit: Limit::Bytes(1 << 30), ..StoreConfig::default() };
/// assert!(config.validate().is_ok());
/// let all = StoreConfig { limit: Limit::Percent(100), ..StoreConfig::default() };
/// assert!(all.validate().unwrap_err().to_string().contains("90 percent"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Never grow.
    Fixed,
    /// Up to this many bytes in all buffers together. The initial buffers are always allowed, even if they exceed it.
    Bytes(u64),
    /// Up to this share, 1 to 90 percent, of the memory that is available when the store is created. Available is what the
    /// machine has, or what its cgroup leaves if that is less. The store does not grow if the system does not report it.
    Percent(u8),
}

/// The largest share of the available memory that a limit may allow, in percent.
const MAX_PERCENT: u8 = 90;

/// The largest number of buffers, whatever the limit: the kernel limits the number of mappings.
const MAX_BUFFERS: usize = 1 << 15;

/// How a store is built.
///
/// ```
/// use forebay::store::StoreConfig;
/// assert!(StoreConfig::default().validate().is_ok());
/// let one = StoreConfig { buffers: 1, ..StoreConfig::default() };
/// assert!(one.validate().unwrap_err().to_string().contains("at least 2"));
/// ```
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// Number of initial buffers, at least 2: one is filled while another is written.
    pub buffers: usize,
    /// How far the store may grow from there.
    pub limit: Limit,
    /// Bytes of each buffer, a multiple of 4096 and at least 4096.
    pub buffer_bytes: usize,
    /// Bytes of the longest record that will be reserved. Each buffer is made this much longer.
    pub record_bytes: usize,
    /// Bytes at which a buffer is handed over early, if the writer is idle. Applies to pipes and to writes through the page
    /// cache. Writing starts sooner, while the data is still in a CPU cache, but each buffer handed over wakes the writer.
    /// Without a thread the writer is always idle. More than `buffer_bytes`: no buffer leaves early.
    pub early_bytes: usize,
    /// Accepted records are written after this time at the latest, unless the writer has a backlog. The writer thread keeps this
    /// period by itself, even when nothing is appended; it checks every 10 ms at most. Without a thread the caller has to call
    /// [`tick`](super::Appender::tick) when [`due_at`](super::Appender::due_at) says so. Zero: also at every tick.
    pub flush_every: Duration,
    /// Write on a separate thread. If false, handing over a buffer writes it in the calling thread, which virtual time needs; the
    /// caller then keeps the flush period ([`tick`](super::Appender::tick)).
    pub thread: bool,
    /// When written data is made durable.
    pub sync: SyncPolicy,
    /// What happens to a record when no buffer is empty.
    pub when_full: WhenFull,
    /// Request huge pages.
    pub huge_pages: bool,
    /// Stops the store from any thread: nothing more is written.
    pub abandon: Abandon,
}

impl Default for StoreConfig {
    /// 16 buffers of 4 MiB, growing up to a quarter of the available memory. Buffers are handed over when full. Records of up to
    /// 64 KiB, a flush every second, a writer thread, huge pages, a sync at the end of each file. Waits when no buffer is empty.
    fn default() -> Self {
        StoreConfig {
            buffers: 16,
            limit: Limit::Percent(25),
            buffer_bytes: 4 << 20,
            record_bytes: 64 << 10,
            early_bytes: usize::MAX,
            flush_every: Duration::from_secs(1),
            thread: true,
            sync: SyncPolicy::default(),
            when_full: WhenFull::default(),
            huge_pages: true,
            abandon: Abandon::default(),
        }
    }
}

impl StoreConfig {
    /// Checks that each field is in its documented range.
    ///
    /// # Errors
    /// A field is out of its range.
    pub fn validate(&self) -> Result<()> {
        let bad = |what: String, advice: &str| Err(Error::new("store", what).advise(advice));
        if self.buffers < 2 {
            let what = format!("{} buffers are too few", self.buffers);
            return bad(
                what,
                "Use at least 2: one is filled while another is written",
            );
        }
        if self.buffer_bytes < BLOCK || !self.buffer_bytes.is_multiple_of(BLOCK) {
            let what = format!("buffers of {} bytes cannot be used", self.buffer_bytes);
            return bad(what, "Use a multiple of 4096");
        }
        if let Limit::Percent(share) = self.limit
            && !(1..=MAX_PERCENT).contains(&share)
        {
            let what = format!("a limit of {share} percent of the memory cannot be used");
            return bad(what, "Use 1 to 90 percent");
        }
        if self.record_bytes == 0 {
            let what = "records of 0 bytes cannot be stored".into();
            return bad(what, "Set record_bytes to the longest record");
        }
        Ok(())
    }

    /// Checks the ranges, and that enough memory is available. Creating a store runs the same check. Call it earlier to avoid
    /// creating or emptying an output for a store that cannot be built.
    ///
    /// # Errors
    /// A field is out of its range, the initial buffers need more than half of the memory available now, or the limit is more
    /// than 90 percent of it.
    pub fn check(&self) -> Result<()> {
        self.validate()?;
        let all = self.whole_buffer_bytes().saturating_mul(self.buffers);
        memory::check_all("store", all)?;
        if let Limit::Bytes(limit) = self.limit
            && let Some(most) = share_of_available(MAX_PERCENT)
            && limit > most
        {
            let what = format!("growing to {limit} bytes");
            let advice = format!(
                "Set the limit to {most} bytes or less, 90 percent of what is available now"
            );
            return Err(Error::new("store", what).advise(advice));
        }
        Ok(())
    }

    /// The largest number of buffers the store may have.
    pub(super) fn max_buffers(&self) -> usize {
        let bytes = match self.limit {
            Limit::Fixed => 0,
            Limit::Bytes(bytes) => bytes,
            Limit::Percent(share) => share_of_available(share).unwrap_or(0),
        };
        let buffers = usize::try_from(bytes).unwrap_or(usize::MAX) / self.buffer_bytes;
        buffers.min(MAX_BUFFERS).max(self.buffers)
    }

    /// How the memory of a buffer is mapped: pages are touched when the buffer is first filled.
    pub(super) fn map(&self) -> MapConfig {
        MapConfig {
            populate: false,
            huge_pages: self.huge_pages,
        }
    }

    /// Bytes mapped for each buffer: its capacity, plus room for bytes skipped before it, for a record that begins at its last byte
    /// and for the padding after it.
    pub(super) fn whole_buffer_bytes(&self) -> usize {
        let overhang = self.record_bytes.saturating_add(3 * BLOCK);
        self.buffer_bytes.saturating_add(overhang)
    }
}

fn share_of_available(percent: u8) -> Option<u64> {
    Some(memory::available()? as u64 / 100 * u64::from(percent))
}

/// What a store actually got.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct StoreInfo {
    /// Capacity of the initial buffers, in bytes.
    pub bytes: usize,
    /// Capacity of all buffers when the store has grown to its limit. The same as `bytes` if it does not grow.
    pub limit_bytes: usize,
    /// Capacity of each buffer.
    pub buffer_bytes: usize,
    /// Whole buffers bypass the page cache, or all but their first and last page.
    pub direct: bool,
    /// The output is in memory (tmpfs, ramfs). A power cut loses all of it, so nothing is ever durable.
    pub in_memory: bool,
    /// A separate thread writes.
    pub thread: bool,
    /// Whether the buffers are in huge pages.
    pub huge_pages: HugePages,
}
