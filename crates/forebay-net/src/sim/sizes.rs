//! The sizes of frames, and what each occupies of the wire.

use crate::label::mix;

/// Preamble, start-of-frame delimiter and inter-frame gap: bytes of wire that no capture sees.
pub(super) const WIRE_OVERHEAD: u64 = 20;

/// Which frame sizes the card receives; sizes include the 4 bytes of the check sequence.
///
/// ```
/// use forebay_net::sim::{Sizes, Spec};
/// assert_eq!("size=imix".parse::<Spec>()?.sizes, Sizes::Imix);
/// assert_eq!(Spec::default().sizes, Sizes::Fixed(64)); // caplen 60
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// All frames have this size, 64 to 9018 bytes.
    Fixed(u32),
    /// The "Internet mix": of 12 frames 7 of 64 bytes, 4 of 594, 1 of 1518, in a seeded order.
    Imix,
}

impl Sizes {
    /// The cycle of sizes, which repeats forever.
    pub(super) fn cycle(self, seed: u64) -> Vec<u32> {
        match self {
            Sizes::Fixed(size) => vec![size],
            Sizes::Imix => {
                let mut cycle = [[64; 7].as_slice(), &[594; 4], &[1518]].concat();
                for at in (1..cycle.len()).rev() {
                    let other = mix(seed ^ at as u64) % (at as u64 + 1);
                    cycle.swap(at, other as usize);
                }
                cycle
            }
        }
    }

    /// Mean bytes on the wire, overhead included.
    pub(super) fn mean_wire_bytes(self) -> f64 {
        let cycle = self.cycle(0);
        let bytes: u64 = cycle.iter().map(|&size| size as u64 + WIRE_OVERHEAD).sum();
        bytes as f64 / cycle.len() as f64
    }
}
