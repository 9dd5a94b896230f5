//! Settings of an AF_XDP port, and the sizes derived from them.

use super::memory::Shape;
use crate::{link::Link, port::DEFAULT_SNAPLEN};
use forebay::{Error, Result, memory, time::Clock};
use std::time::Duration;

/// Settings for opening an interface with AF_XDP, beside those of its [`Spec`](super::Spec).
///
/// ```
/// let config = forebay_net::af_xdp::AfXdpConfig { take_traffic: true, ..Default::default() };
/// assert_eq!(config.ring_bytes, None);
/// ```
#[derive(Clone, Debug)]
pub struct AfXdpConfig {
    /// Memory for frames, of all queues together. With [`Spec::passes`](super::Spec::passes), that of the ring buffer: the largest power of
    /// two that is not above it, 64 MiB by default. Otherwise it is locked in memory. Default `None`: 64 MiB, or more if the interface has many
    /// queues with large rings. About half of it is in use: a receive ring has a power of two of slots, and more chunks than slots.
    pub ring_bytes: Option<u64>,
    /// The maximum number of bytes kept of a frame, at least 1. Default 262144.
    pub snaplen: u32,
    /// Also capture frames that are not addressed to this machine (promiscuous mode). Default true.
    pub promiscuous: bool,
    /// Open the interface also if this machine uses it. Default false. Every frame that the port receives is taken away from the
    /// kernel's network stack: connections over the interface stop working. Not needed with [`Spec::passes`](super::Spec::passes).
    pub take_traffic: bool,
    /// Treat the interface going down as an error that ends the port. Default false: the port waits until the interface is up again,
    /// and counts the outage in [`PortReport::outages`](crate::port::PortReport::outages). Deleting the interface always ends the port.
    pub stop_on_down: bool,
    /// How long frames may wait, so that the kernel wakes the reader less often: at most 1 ms, and less in a small ring. Default 0: it is woken by
    /// the first frame. Not used with fewer than 4096 slots a queue, with busy polling, with a virtual clock, or if frames are stamped when they are read. With [`Spec::passes`](super::Spec::passes), frames always wait.
    pub delay: Duration,
    /// The clock of [`Wake::At`](crate::port::Wake::At), which a port returns while frames may wait: the machine's. What reads such a port has a
    /// clone of this clock.
    pub clock: Clock,
}

impl Default for AfXdpConfig {
    fn default() -> Self {
        AfXdpConfig {
            ring_bytes: None,
            snaplen: DEFAULT_SNAPLEN,
            promiscuous: true,
            take_traffic: false,
            stop_on_down: false,
            delay: Duration::ZERO,
            clock: Clock::real(),
        }
    }
}

/// What the kernel keeps free before a frame in its chunk (`XDP_PACKET_HEADROOM`).
const HEADROOM: u32 = 256;
/// Ethernet header and two VLAN tags in addition to the payload.
const HEADERS: u32 = 22;
/// A chunk may be as large as a page.
const CHUNKS: [u32; 2] = [2048, 4096];
const MIN_SLOTS: u32 = 64;
/// Memory unless another amount was asked for.
const DEFAULT_BYTES: u64 = 64 << 20;
/// A ring buffer holds the longest frame, and counts with 31 bits.
const BUFFER_BYTES: std::ops::RangeInclusive<u64> = 256 << 10..=1 << 31;
/// If the driver does not report the size of its receive ring: veth's.
const HARDWARE_RING: u32 = 256;

impl AfXdpConfig {
    /// The sizes of each of `queues` queues of an interface whose own receive ring holds this number of frames.
    ///
    /// # Errors
    /// A value is out of range, or frames of this MTU do not fit into a chunk.
    pub(super) fn shape(
        &self,
        link: &Link,
        queues: u32,
        hardware_ring: Option<u32>,
    ) -> Result<Shape> {
        refuse_no_snaplen(self.snaplen)?;
        let chunk_bytes = chunk_bytes(link)?;
        // The hardware may hold as many chunks as its ring has slots.
        let spare = hardware_ring.unwrap_or(HARDWARE_RING).max(MIN_SLOTS);
        let of_all_queues =
            |chunks: u32| u64::from(chunks) * u64::from(chunk_bytes) * u64::from(queues.max(1));
        let bytes = self.ring_bytes.unwrap_or_else(|| {
            // Each queue has a ring as large as that of the hardware.
            let slots = spare.next_power_of_two();
            DEFAULT_BYTES.max(of_all_queues(slots.saturating_add(spare)))
        });
        let chunks = bytes / u64::from(chunk_bytes) / u64::from(queues.max(1));
        let chunks = u32::try_from(chunks).unwrap_or(u32::MAX).min(1 << 30);
        let slots = match chunks.checked_sub(spare) {
            Some(slots @ MIN_SLOTS..) => 1 << slots.ilog2(),
            _ => {
                return Err(Error::invalid(
                    &link.name,
                    format!(
                        "{} KiB are too little memory for {queues} queues",
                        bytes >> 10
                    ),
                )
                .advise(format!(
                    "Give -B at least {}",
                    of_all_queues(spare + MIN_SLOTS) >> 10
                )));
            }
        };
        Ok(Shape {
            chunk_bytes,
            chunks: slots + spare,
            slots,
        })
    }
}

impl AfXdpConfig {
    /// The size of the ring buffer of an interface whose frames pass: a power of two.
    ///
    /// # Errors
    /// A value is out of range, or there is not that much memory.
    pub(super) fn buffer_bytes(&self, name: &str) -> Result<u32> {
        refuse_no_snaplen(self.snaplen)?;
        let bytes = self.ring_bytes.unwrap_or(DEFAULT_BYTES);
        if bytes < *BUFFER_BYTES.start() {
            let what = format!(
                "{} KiB are too little memory for a ring buffer",
                bytes >> 10
            );
            let advice = format!("Give -B at least {}", BUFFER_BYTES.start() >> 10);
            return Err(Error::invalid(name, what).advise(advice));
        }
        let bytes = 1 << bytes.min(*BUFFER_BYTES.end()).ilog2();
        let available = memory::available().map(|it| it as u64);
        if let Some(available) = available.filter(|it| bytes > it / 2) {
            let what = format!(
                "{} MiB are more than half of the {} MiB of memory available",
                bytes >> 20,
                available >> 20
            );
            return Err(Error::invalid(name, what).advise("Choose a smaller size with -B"));
        }
        Ok(bytes as u32)
    }
}

fn refuse_no_snaplen(snaplen: u32) -> Result<()> {
    match snaplen {
        0 => Err(
            Error::invalid("", "a snapshot length of 0 captures nothing")
                .advise("Choose 1 or more, or 262144 for all"),
        ),
        _ => Ok(()),
    }
}

/// Checks that there is memory for `queues` queues of this shape: it is faulted in, and the kernel locks it.
///
/// # Errors
/// It is more than half of the memory that is available.
pub(super) fn fits_memory(
    name: &str,
    shape: Shape,
    queues: u32,
    available: Option<usize>,
) -> Result<()> {
    let wanted = shape.bytes() as u64 * u64::from(queues);
    match available.map(|it| it as u64) {
        Some(available) if wanted > available / 2 => {
            let what = format!(
                "{} MiB for {queues} queues are more than half of the {} MiB of memory available",
                wanted >> 20,
                available >> 20
            );
            Err(Error::invalid(name, what)
                .advise("Choose a smaller size with -B, fewer queues with queue=N, or a smaller ring: ethtool -G"))
        }
        _ => Ok(()),
    }
}

/// The size of chunks into which frames of this interface fit.
///
/// # Errors
/// They fit into none.
pub(super) fn chunk_bytes(link: &Link) -> Result<u32> {
    let room = |chunk_bytes: u32| chunk_bytes - HEADROOM - HEADERS;
    let fits = |&chunk_bytes: &u32| link.mtu <= room(chunk_bytes);
    CHUNKS.into_iter().find(fits).ok_or_else(|| {
        let tried = format!(
            "frames of its MTU of {} bytes are too long for AF_XDP",
            link.mtu
        );
        Error::new(&link.name, tried).advise(format!(
            "Use -i {0}, or: ip link set {0} mtu {1}",
            link.name,
            room(CHUNKS[1])
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(ring_bytes: u64, mtu: u32, queues: u32, hardware: Option<u32>) -> Result<Shape> {
        let config = AfXdpConfig {
            ring_bytes: Some(ring_bytes),
            ..AfXdpConfig::default()
        };
        let link = Link {
            name: "eth0".into(),
            mtu,
            ..Link::default()
        };
        config.shape(&link, queues, hardware)
    }

    #[test]
    fn the_fill_ring_has_chunks_for_the_hardware_and_for_our_own_ring() {
        for (ring_bytes, mtu, queues, hardware, expected) in [
            (64 << 20, 1500, 1, None, (2048, 16_384 + 256, 16_384)),
            (64 << 20, 1500, 4, Some(4096), (2048, 4096 + 4096, 4096)),
            (64 << 20, 3000, 1, None, (4096, 8192 + 256, 8192)),
            (1 << 20, 1500, 1, None, (2048, 256 + 256, 256)),
        ] {
            let shape = shape(ring_bytes, mtu, queues, hardware).unwrap();
            let found = (shape.chunk_bytes, shape.chunks, shape.slots);
            assert_eq!(found, expected);
            assert!(shape.bytes() as u64 * u64::from(queues) <= ring_bytes);
        }
    }

    #[test]
    fn without_a_size_many_queues_with_large_rings_have_enough_memory() {
        let link = Link {
            mtu: 1500,
            ..Link::default()
        };
        let shape = |queues, ring| AfXdpConfig::default().shape(&link, queues, ring).unwrap();
        assert_eq!(shape(1, None).slots, 16_384);
        for ring in [512, 4096, 8160, 8192] {
            let shape = shape(64, Some(ring));
            assert!(shape.slots >= ring && shape.chunks == shape.slots + ring);
        }
    }

    #[test]
    fn memory_for_all_queues_that_does_not_fit_is_refused() {
        let shape = shape(1 << 30, 3000, 64, Some(8192));
        let Err(error) = shape else {
            panic!("{shape:?}");
        };
        assert!(error.to_string().contains("Give -B at least 2113536"));
        let link = Link {
            mtu: 3000,
            ..Link::default()
        };
        let config = AfXdpConfig::default();
        let shape = config.shape(&link, 64, Some(8192)).unwrap();
        let fits = |available| fits_memory("eth0", shape, 64, available);
        assert!(fits(None).is_ok() && fits(Some(8 << 30)).is_ok());
        let error = fits(Some((8 << 30) - 2)).unwrap_err().to_string();
        assert!(
            error.starts_with(
                "eth0: 4096 MiB for 64 queues are more than half of the 8191 MiB of memory available. Choose"
            ),
            "{error}"
        );
    }

    #[test]
    fn too_little_memory_and_long_frames_are_errors_with_advice() {
        let error = shape(512 << 10, 1500, 1, None).unwrap_err().to_string();
        let expected = "eth0: 512 KiB are too little memory for 1 queues. Give -B at least 640";
        assert_eq!(error, expected);
        let error = shape(64 << 20, 9000, 1, None).unwrap_err().to_string();
        assert_eq!(
            error,
            "eth0: frames of its MTU of 9000 bytes are too long for AF_XDP. \
             Use -i eth0, or: ip link set eth0 mtu 3818"
        );
        assert!(shape(64 << 20, 3818, 1, None).is_ok() && shape(64 << 20, 3819, 1, None).is_err());
    }
}
