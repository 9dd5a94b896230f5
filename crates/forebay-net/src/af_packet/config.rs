//! Settings of a packet socket, checked before anything is opened, and the ring shape derived from them. Apart from the amount
//! of free memory, nothing outside this module is read.

use super::ring::Blocks;
use crate::filter::Filter;
use crate::port::{DEFAULT_SNAPLEN, MAX_SNAPLEN, TimeSource};
use forebay::{Error, Result, error::Code};
use std::time::Duration;

/// Settings for opening an interface.
///
/// ```
/// use forebay_net::af_packet::AfPacketConfig;
/// let config = AfPacketConfig { ring_bytes: 8 << 20, promiscuous: false, ..AfPacketConfig::default() };
/// config.validate()?;
/// assert!(AfPacketConfig { ring_bytes: 100, ..config }.validate().is_err());
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct AfPacketConfig {
    /// Total bytes of the ring that the kernel fills. This is kernel memory that cannot be swapped. Default 64 MiB; at least
    /// 8 pages; rounded down to whole blocks.
    pub ring_bytes: u64,
    /// Bytes of one block. The kernel and the program hand the ring to each other block by block. A power of two, at least a
    /// page; default 1 MiB. Halved until the ring has 8 blocks, then doubled until a frame of the interface's MTU fits.
    pub block_bytes: u32,
    /// How long the kernel may keep a block that is not full: 1 ms to 10 s, in whole milliseconds. Default 100 ms. While the
    /// kernel's timer closes a block, the kernel drops frames that arrive on another processor even though there is room, so
    /// longer times lose fewer frames.
    pub retire: Duration,
    /// Also capture frames that are not addressed to this machine (promiscuous mode). Default true.
    pub promiscuous: bool,
    /// The maximum number of bytes kept of a frame, at least 1. Default 262144.
    pub snaplen: u32,
    /// The filter, which the kernel runs. It counts the frames that do not match only where [`Counts::filtered`](crate::port::Counts::filtered)
    /// is known.
    pub filter: Option<Filter>,
    /// The Ethernet protocol of frames to capture. Default `ETH_P_ALL` (3): all of them. With another one, only frames that arrive are
    /// captured.
    pub protocol: u16,
    /// Capture only incoming frames. Default false. The loopback interface always does this, since it would otherwise show each
    /// frame twice.
    pub incoming_only: bool,
    /// Report which offloads were not done ([`Frame::unfinished`](crate::port::Frame::unfinished)). Blocks then have room for
    /// frames of 64 KiB, whatever the MTU. Default false.
    pub reports_unfinished: bool,
    /// The clock that stamps frames. Default `None`, the system's. With [`TimeSource::Hardware`] the interface must be able to stamp
    /// every frame, and be set to do so; this changes no setting. Each frame for which the hardware gave no time has one of
    /// the system's clock; [`PortReport::hardware_times`](crate::port::PortReport::hardware_times) counts the others.
    pub time: Option<TimeSource>,
    /// With all interfaces (`any`), use only those with Ethernet frames, for an output that holds one link type. Default false.
    pub ethernet_only: bool,
    /// Treat the interface going down as an error that ends the port. Default false: the port waits until the interface is up
    /// again, and counts the outage in [`PortReport::outages`](crate::port::PortReport::outages). Deleting the interface always ends the
    /// port.
    pub stop_on_down: bool,
}

impl Default for AfPacketConfig {
    fn default() -> Self {
        AfPacketConfig {
            ring_bytes: 64 << 20,
            block_bytes: 1 << 20,
            retire: Duration::from_millis(100),
            promiscuous: true,
            snaplen: DEFAULT_SNAPLEN,
            filter: None,
            protocol: libc::ETH_P_ALL as u16,
            time: None,
            incoming_only: false,
            reports_unfinished: false,
            ethernet_only: false,
            stop_on_down: false,
        }
    }
}

/// The kernel gets a new block while we hold the old ones. With fewer blocks it would soon have none, and drops could no longer
/// be attributed exactly.
const LEAST_BLOCKS: u64 = 8;

impl AfPacketConfig {
    /// Checks that the values are consistent.
    ///
    /// # Errors
    /// A value is out of range. The error names the value and its range.
    pub fn validate(&self) -> Result<()> {
        let page = page_bytes();
        let least = LEAST_BLOCKS * page;
        let wrong = |what: String, advice: String| {
            Err(Error::coded(Code::Invalid, "ring", what).advise(advice))
        };
        if self.ring_bytes < least {
            return wrong(
                format!("a ring of {} bytes is too small", self.ring_bytes),
                format!(
                    "It needs {LEAST_BLOCKS} blocks of a page: give -B at least {}",
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
            return Err(
                Error::invalid("", "a snapshot length of 0 captures nothing")
                    .advise("Choose 1 or more, or 262144 for all"),
            );
        }
        Ok(())
    }

    /// Computes the ring's shape on an interface with this MTU.
    pub(super) fn blocks(&self, mtu: u32) -> Blocks {
        let page = page_bytes();
        let mut bytes = u64::from(self.block_bytes);
        while bytes > page && self.ring_bytes / bytes < LEAST_BLOCKS {
            bytes /= 2;
        }
        // Ethernet header and two VLAN tags in addition to the payload. A frame without offloads has at most 64 KiB.
        let longest = match self.reports_unfinished {
            _ if self.snaplen > DEFAULT_SNAPLEN => MAX_SNAPLEN, // the segments that BIG TCP merges
            true => 65_536,                                     // merged segments
            false => mtu.min(65_536),
        };
        let frame = self.snaplen.min(longest + 22);
        let blocks = |bytes: u64, count: u64| Blocks {
            bytes: bytes as u32,
            count: u32::try_from(count).unwrap_or(u32::MAX),
        };
        while u64::from(blocks(bytes, 1).frame_bytes()) < u64::from(frame) {
            bytes *= 2;
        }
        blocks(bytes, (self.ring_bytes / bytes).max(LEAST_BLOCKS))
    }

    /// Rejects a ring so large that the kernel would have to swap or kill processes: it allocates the whole ring at once.
    pub(super) fn fits_memory(&self, blocks: Blocks) -> Result<()> {
        let wanted = blocks.total_bytes() as u64;
        match available_bytes() {
            Some(available) if wanted > available / 2 => Err(Error::invalid(
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

    /// Whole milliseconds, at least one: with 0 the kernel would choose.
    pub(super) fn retire_ms(&self) -> u32 {
        let ms = u32::try_from(self.retire.as_millis());
        ms.unwrap_or(u32::MAX).max(1)
    }
}

fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// The memory that the kernel can provide without swapping; `None` if the kernel does not report it.
fn available_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_rings_keep_eight_blocks_and_a_whole_frame() {
        let shape = |ring_bytes, mtu| {
            let config = AfPacketConfig {
                ring_bytes,
                ..AfPacketConfig::default()
            };
            config.blocks(mtu)
        };
        for (ring_bytes, bytes, count) in [
            (64 << 20, 1 << 20, 64),
            (2 << 20, 256 << 10, 8),
            (3 << 20, 256 << 10, 12),
        ] {
            assert_eq!(shape(ring_bytes, 1500), Blocks { bytes, count });
        }
        assert_eq!(shape(32 << 10, 1500).count, 8);
        let jumbo = shape(32 << 10, 9000);
        assert!(jumbo.frame_bytes() >= 9022 && jumbo.count == 8, "{jumbo:?}");
    }

    #[test]
    fn a_ring_beyond_the_memory_is_refused_before_it_is_tried() {
        let config = AfPacketConfig {
            ring_bytes: 1 << 50,
            ..AfPacketConfig::default()
        };
        let error = config.fits_memory(config.blocks(1500)).unwrap_err();
        let expected = "memory available. Choose a smaller one with -B";
        assert!(error.to_string().contains(expected), "{error}");
    }

    #[test]
    fn senseless_values_are_named() {
        type Change = fn(&mut AfPacketConfig);
        let changes: [(Change, &str); 4] = [
            (|it| it.ring_bytes = 4096, "too small"),
            (|it| it.block_bytes = 5000, "power of two"),
            (|it| it.retire = Duration::ZERO, "retired"),
            (|it| it.snaplen = 0, "captures nothing"),
        ];
        for (change, words) in changes {
            let mut config = AfPacketConfig::default();
            change(&mut config);
            let text = config.validate().unwrap_err().to_string();
            assert!(text.contains(words), "{text}");
        }
        AfPacketConfig::default().validate().unwrap();
    }
}
