//! The settings of a pool, and the check of their ranges.

use super::Desc;
use crate::{Error, Result};

const ON: &str = "packet pool";

/// Settings of a pool.
///
/// ```
/// use forebay::packet::{Pool, PoolConfig};
/// // Jumbo frames with room for an outer header.
/// let config = PoolConfig { slots: 512, slot_bytes: 9216, headroom: 192, ..PoolConfig::default() };
/// let mut pool = Pool::new(&config)?;
/// assert_eq!(pool.take().unwrap().tailroom(), 9024);
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// Number of packets that it can hold: 1 to 1,048,576; 2048 by default. Each costs 84 bytes beside its slot.
    pub slots: u32,
    /// Bytes of a slot, headroom included: 64 to 524,288, a multiple of 64; 2048 by default. AF_XDP needs 2048 or
    /// 4096 (Documentation/networking/af_xdp.rst, UMEM). Otherwise an odd multiple of 64, such as 2112, may be faster: slots
    /// a power of two apart all begin in the same few sets of a cache.
    pub slot_bytes: u32,
    /// Bytes left free before a new packet's data; 128 by default.
    pub headroom: u32,
    /// Fault the memory in when the pool is made (the default), so that no thread pays for it later.
    pub populate: bool,
    /// Ask for pages of 2 MiB where the pool is that large; [`Pool::huge_pages`](super::Pool::huge_pages) reports what it got.
    pub huge_pages: bool,
}

impl Default for PoolConfig {
    fn default() -> Self {
        PoolConfig {
            slots: 2048,
            slot_bytes: 2048,
            headroom: 128,
            populate: true,
            huge_pages: false,
        }
    }
}

impl PoolConfig {
    /// Checks everything that can be checked without the kernel.
    ///
    /// # Errors
    /// A number outside its range, or headroom that leaves no room for data.
    pub fn validate(&self) -> Result<()> {
        let wrong = |tried: String, advice: String| Err(Error::invalid(ON, tried).advise(advice));
        if self.slots == 0 || self.slots > Desc::MAX_SLOTS {
            return wrong(
                format!("making a pool of {} slots", self.slots),
                format!("Ask for 1 to {} slots", Desc::MAX_SLOTS),
            );
        }
        if !(64..=1 << 19).contains(&self.slot_bytes) || !self.slot_bytes.is_multiple_of(64) {
            return wrong(
                format!("making slots of {} bytes", self.slot_bytes),
                "Ask for a multiple of 64, from 64 to 524288".into(),
            );
        }
        if self.headroom >= self.slot_bytes {
            return wrong(
                format!(
                    "leaving {} bytes of headroom in slots of {}",
                    self.headroom, self.slot_bytes
                ),
                "Ask for larger slots or less headroom".into(),
            );
        }
        Ok(())
    }
}
