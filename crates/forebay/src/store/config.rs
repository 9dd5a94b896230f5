//! How a store is built, and what it then is made of.

use super::{Abandon, buffer::BLOCK};
use crate::{
    Error, Result,
    memory::{self, HugePages, MapConfig},
};
use std::time::Duration;

/// When what was written is made durable: an `fdatasync` by the writer, and the folder's at the first one of a file.
///
/// What a crash may take, at most, of what was *accepted*:
///
/// | policy | `kill -9` | power cut |
/// |---|---|---|
/// | any | what is not *written*: the buffers; in time, the flush period and the writer's backlog | what is not *durable* |
/// | `None` | | no bound |
/// | `Interval(t)` | | besides the buffers, `t` and the slowest sync ([`Totals::slowest_sync`](super::Totals)) |
/// | `File` | | the open file |
/// | `Always` | | the buffers, as with `kill -9` |
///
/// [`wait_for`](super::Appender::wait_for) makes everything durable that was accepted before, under any of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Never, unless somebody asks for it.
    None,
    /// Once this time has gone by since the last one, while there is something to make durable; and as `File`.
    Interval(Duration),
    /// When an output is complete: at the end, and where the store goes on to the next one.
    #[default]
    File,
    /// After every buffer, before the next one is written.
    Always,
}

/// What [`claim`](super::Appender::claim) does with a record while no buffer is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// It waits for the writer.
    #[default]
    Wait,
    /// It drops the record and counts that ([`Totals::dropped`](super::Totals)).
    DropNewest,
}

/// How far a store grows beyond its first buffers.
///
/// It makes another buffer when none is empty, and gives buffers back to the system after they are written, down to the first ones.
/// Memory that is never needed is never touched. A store that may wait instead ([`WhenFull::Wait`], through
/// [`claim`](super::Appender::claim) and [`Records`](super::Records)) waits and does not grow.
///
/// ```
/// use forebay::store::{Config, Limit};
/// let config = Config { limit: Limit::Bytes(1 << 30), ..Config::default() };
/// assert!(config.validate().is_ok());
/// let all = Config { limit: Limit::Percent(100), ..Config::default() };
/// assert!(all.validate().unwrap_err().to_string().contains("90 percent"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// It never grows.
    Fixed,
    /// Up to this many bytes in all buffers together, or the first buffers where those are more.
    Bytes(u64),
    /// Up to this share of the memory that is available when the store is made (what the machine has, or a cgroup leaves if that is
    /// less): 1 to 90 percent. Where the system does not say how much that is, the store does not grow.
    Percent(u8),
}

/// The largest share of the available memory that a store may be allowed.
const MAX_PERCENT: u8 = 90;

/// Buffers that a store has at most, whatever its limit: the system counts mappings.
const MAX_BUFFERS: usize = 1 << 15;

/// How a store is built.
///
/// ```
/// use forebay::store::Config;
/// assert!(Config::default().validate().is_ok());
/// let one = Config { buffers: 1, ..Config::default() };
/// assert!(one.validate().unwrap_err().to_string().contains("at least 2"));
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// Buffers to begin with, at least 2: one being filled, one being written.
    pub buffers: usize,
    /// How far the store grows from there.
    pub limit: Limit,
    /// Bytes of each, at least 4096 and a multiple of it.
    pub buffer_bytes: usize,
    /// The longest record that will be reserved; buffers are made longer by so much.
    pub record_bytes: usize,
    /// Through the page cache or into a pipe, a buffer with so much in it leaves if the writer has nothing to do: it writes sooner,
    /// and what it writes is still in a cache; but each buffer that leaves wakes it. Without a thread it never has anything else to do. More than
    /// `buffer_bytes`: none leaves early.
    pub early_bytes: usize,
    /// What was accepted is written after this time at the latest, unless the writer is behind. The writer thread sees to that by
    /// itself, also while nobody appends; it looks every 10 ms at most. Without a thread it holds only where the caller calls
    /// [`tick`](super::Appender::tick) when [`due_at`](super::Appender::due_at) says. Zero: also at every tick.
    pub flush_every: Duration,
    /// Write on a thread of its own. Off, handing a buffer over writes it, which is what virtual time needs; the caller then keeps
    /// the flush period ([`tick`](super::Appender::tick)).
    pub thread: bool,
    /// When what was written is made durable.
    pub sync: SyncPolicy,
    /// What becomes of a record that finds no room.
    pub when_full: WhenFull,
    /// Ask for huge pages.
    pub huge_pages: bool,
    /// How the outside can give the store up.
    pub abandon: Abandon,
}

impl Default for Config {
    /// 16 buffers of 4 MiB, and more on demand up to a quarter of the available memory. They leave when they are full; records up to 64 KiB, a flush a second, a writer thread, huge pages; a sync at
    /// the end of a file, and patience where no buffer is empty.
    fn default() -> Self {
        Config {
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

impl Config {
    /// Checks the ranges given at each field.
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

    /// Checks the ranges, and that there is memory for so much. A store does so itself; asked before, nobody makes or
    /// empties an output for a store that cannot be had.
    ///
    /// # Errors
    /// A field is out of its range, the first buffers are more than half of the memory that is available now, or the limit is more
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

    /// Buffers that there may be.
    pub(super) fn max_buffers(&self) -> usize {
        let bytes = match self.limit {
            Limit::Fixed => 0,
            Limit::Bytes(bytes) => bytes,
            Limit::Percent(share) => share_of_available(share).unwrap_or(0),
        };
        let buffers = usize::try_from(bytes).unwrap_or(usize::MAX) / self.buffer_bytes;
        buffers.min(MAX_BUFFERS).max(self.buffers)
    }

    /// How the memory of a buffer is mapped: touched when it is first filled.
    pub(super) fn map(&self) -> MapConfig {
        MapConfig {
            populate: false,
            huge_pages: self.huge_pages,
        }
    }

    /// Each buffer, with room for a record that begins at its last byte, and for the padding after it.
    pub(super) fn whole_buffer_bytes(&self) -> usize {
        let overhang = self.record_bytes.saturating_add(2 * BLOCK);
        self.buffer_bytes.saturating_add(overhang)
    }
}

fn share_of_available(percent: u8) -> Option<u64> {
    Some(memory::available()? as u64 / 100 * u64::from(percent))
}

/// What a store is made of.
#[derive(Clone, Copy, Debug)]
pub struct Got {
    /// Capacity of the first buffers.
    pub bytes: usize,
    /// Capacity of all buffers when the store has grown to its limit; the same as `bytes` where it does not grow.
    pub limit_bytes: usize,
    /// Capacity of each.
    pub buffer_bytes: usize,
    /// Whole buffers go past the page cache.
    pub direct: bool,
    /// The output is memory (tmpfs, ramfs): a power cut takes all of it, so nothing is ever durable.
    pub in_memory: bool,
    /// A thread of its own writes.
    pub thread: bool,
    /// Whether the buffers lie in huge pages.
    pub huge_pages: HugePages,
}
