//! What to ask of a packet socket, checked before anything is opened; and the shape of the ring
//! that comes of it. Pure: it reads the size of free memory, nothing else.

use super::ring::Blocks;
use crate::filter::Filter;
use forebay::{Error, Result};
use std::time::Duration;

/// What to ask for when an interface is opened.
///
/// ```
/// use forebay_net::af_packet::Config;
/// let config = Config { ring_bytes: 8 << 20, promiscuous: false, ..Config::default() };
/// config.validate()?;
/// assert!(Config { ring_bytes: 100, ..config }.validate().is_err());
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// Bytes of the ring that the kernel fills, all its blocks together. It is kernel memory that
    /// cannot be swapped. Default 64 MiB; at least 8 pages; rounded down to whole blocks.
    pub ring_bytes: u64,
    /// Bytes of one block, the unit in which the ring changes hands: a power of two, at least a
    /// page. Default 1 MiB. Halved until the ring has 8 blocks, doubled until a frame of the
    /// interface's MTU fits.
    pub block_bytes: u32,
    /// How long the kernel may keep a block that is not full: 1 ms to 10 s, whole milliseconds.
    /// Default 100 ms. While its timer closes a block it drops frames that come on another
    /// processor, though there is room: the less often the better.
    pub retire: Duration,
    /// Also frames that are not addressed to this machine. Default true.
    pub promiscuous: bool,
    /// The most bytes kept of a frame, from 1. Default 262144.
    pub snaplen: u32,
    /// Which frames are wanted; the kernel leaves the others out, and does not count them.
    pub filter: Option<Filter>,
    /// Only frames that come in. Default false; the loopback interface always does this, since it
    /// would show each frame twice.
    pub incoming_only: bool,
    /// Of all interfaces (`any`) only those with Ethernet frames, for an output that holds one link type. Default false.
    pub ethernet_only: bool,
    /// The interface going down is an error that ends the port. Default false: the port waits until the interface is up again, and
    /// counts that in [`Port::outages`](crate::port::Port::outages). An interface that is deleted always ends it.
    pub stop_on_down: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            ring_bytes: 64 << 20,
            block_bytes: 1 << 20,
            retire: Duration::from_millis(100),
            promiscuous: true,
            snaplen: 262_144,
            filter: None,
            incoming_only: false,
            ethernet_only: false,
            stop_on_down: false,
        }
    }
}

/// The kernel gets a new block while we hold the old ones; with fewer it would soon have none, and
/// drops could no longer be placed exactly.
const LEAST_BLOCKS: u64 = 8;

impl Config {
    /// Whether the values make sense together.
    ///
    /// # Errors
    /// Says which value does not, and what it may be.
    pub fn validate(&self) -> Result<()> {
        let page = page_bytes();
        let least = LEAST_BLOCKS * page;
        let wrong = |what: String, advice: String| Err(Error::new("ring", what).advise(advice));
        if self.ring_bytes < least {
            return wrong(
                format!("{} bytes are too few", self.ring_bytes),
                format!(
                    "It needs {LEAST_BLOCKS} blocks of a page: -B {} at least",
                    least >> 10
                ),
            );
        }
        if !self.block_bytes.is_power_of_two()
            || u64::from(self.block_bytes) < page
            || self.block_bytes > 1 << 30
        {
            return wrong(
                format!("blocks of {} bytes are not possible", self.block_bytes),
                format!("A block is a power of two, from {page} bytes to 1 GiB"),
            );
        }
        if self.retire < Duration::from_millis(1) || self.retire > Duration::from_secs(10) {
            return wrong(
                format!("blocks cannot be retired after {:?}", self.retire),
                "Choose 1 ms to 10 s".into(),
            );
        }
        if self.snaplen == 0 {
            return Err(Error::new("", "a snapshot length of 0 keeps nothing")
                .advise("Choose 1 or more, or 262144 for all"));
        }
        Ok(())
    }

    /// The ring's shape on an interface with this MTU.
    pub(super) fn blocks(&self, mtu: u32) -> Blocks {
        let page = page_bytes();
        let mut bytes = u64::from(self.block_bytes);
        while bytes > page && self.ring_bytes / bytes < LEAST_BLOCKS {
            bytes /= 2;
        }
        // Ethernet header and two VLAN tags beside the payload; 64 KiB is the most a plain frame has.
        let frame = self.snaplen.min(mtu.min(65_536) + 22);
        while u64::from(
            Blocks {
                bytes: bytes as u32,
                count: 1,
            }
            .frame_bytes(),
        ) < u64::from(frame)
        {
            bytes *= 2;
        }
        let count = (self.ring_bytes / bytes).max(LEAST_BLOCKS);
        Blocks {
            bytes: bytes as u32,
            count: u32::try_from(count).unwrap_or(u32::MAX),
        }
    }

    /// Refuses a ring for which the kernel would have to swap or kill: it takes all of it at once.
    pub(super) fn fits_memory(&self, blocks: Blocks) -> Result<()> {
        let wanted = blocks.total_bytes() as u64;
        match available_bytes() {
            Some(available) if wanted > available / 2 => Err(Error::new(
                "ring",
                format!(
                    "{} MiB are more than half of the {} MiB of memory available",
                    wanted >> 20,
                    available >> 20
                ),
            )
            .advise("Choose a smaller one with -B")),
            _ => Ok(()),
        }
    }

    /// Whole milliseconds, at least one: 0 would let the kernel choose.
    pub(super) fn retire_ms(&self) -> u32 {
        u32::try_from(self.retire.as_millis())
            .unwrap_or(u32::MAX)
            .max(1)
    }
}

fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// What the kernel says it can give without swapping; `None` where it does not say.
fn available_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim()
        .strip_suffix(" kB")?
        .parse::<u64>()
        .ok()
        .map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_rings_keep_eight_blocks_and_a_whole_frame() {
        let shape = |ring_bytes, mtu| {
            Config {
                ring_bytes,
                ..Config::default()
            }
            .blocks(mtu)
        };
        assert_eq!(
            shape(64 << 20, 1500),
            Blocks {
                bytes: 1 << 20,
                count: 64
            }
        );
        assert_eq!(
            shape(2 << 20, 1500),
            Blocks {
                bytes: 256 << 10,
                count: 8
            }
        );
        assert_eq!(
            shape(3 << 20, 1500),
            Blocks {
                bytes: 256 << 10,
                count: 12
            }
        );
        assert_eq!(shape(32 << 10, 1500).count, 8);
        let jumbo = shape(32 << 10, 9000);
        assert!(jumbo.frame_bytes() >= 9022 && jumbo.count == 8, "{jumbo:?}");
    }

    #[test]
    fn a_ring_beyond_the_memory_is_refused_before_it_is_tried() {
        let config = Config {
            ring_bytes: 1 << 50,
            ..Config::default()
        };
        let error = config.fits_memory(config.blocks(1500)).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("memory available. Choose a smaller one with -B"),
            "{error}"
        );
    }

    #[test]
    fn senseless_values_are_named() {
        for (config, words) in [
            (
                Config {
                    ring_bytes: 4096,
                    ..Config::default()
                },
                "too few",
            ),
            (
                Config {
                    block_bytes: 5000,
                    ..Config::default()
                },
                "power of two",
            ),
            (
                Config {
                    retire: Duration::ZERO,
                    ..Config::default()
                },
                "retired",
            ),
            (
                Config {
                    snaplen: 0,
                    ..Config::default()
                },
                "keeps nothing",
            ),
        ] {
            let text = config.validate().unwrap_err().to_string();
            assert!(text.contains(words), "{text}");
        }
        Config::default().validate().unwrap();
    }
}
