//! Bursts of frames, each as one system call sends it.

use serde::{Deserialize, Serialize};

/// Bytes of Ethernet's, IP's and UDP's headers.
pub const HEADERS: usize = 14 + 20 + 8;

/// Most datagrams that the kernel cuts one send into (`UDP_MAX_SEGMENTS`), and most bytes.
const DATAGRAMS: usize = 64;
const SEND_BYTES: usize = 65_507;

/// Frames of one size that are sent at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Burst {
    /// Bytes of a frame, without the check sequence, which no interface shows.
    pub frame_bytes: usize,
    pub frames: usize,
}

impl Burst {
    /// As many frames of this size as one system call sends.
    pub fn of(frame_bytes: usize) -> Burst {
        Burst {
            frame_bytes,
            frames: DATAGRAMS.min(SEND_BYTES / (frame_bytes - HEADERS)),
        }
    }

    /// A cycle of bursts in the proportions of the "Internet mix": of 12 frames 7 have 64 bytes, 4 have 594 and 1 has 1518, with
    /// their check sequences.
    pub fn imix() -> Vec<Burst> {
        let cycle: [(usize, usize); 3] = [(60, 7), (590, 4), (1514, 1)];
        let burst = |(frame_bytes, frames)| Burst {
            frame_bytes,
            frames: 8 * frames,
        };
        cycle.map(burst).to_vec()
    }
}
