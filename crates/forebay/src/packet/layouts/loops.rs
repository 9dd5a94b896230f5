//! The three loops by which layouts are compared, the same for each of them.
//!
//! They go over as many whole descriptors as a slice has. Imports [`Fields`] only.
//!
//! ```
//! use forebay::packet::layouts::{loops, Layout, Packed, Values};
//! let values = |size, port| Values { size, port, valid: true, ..Values::default() };
//! let mut descs = [Packed::pack(&values(60, 3))?, Packed::pack(&values(1514, 1))?];
//! assert_eq!(loops::trivial(&descs), 1574);
//! assert_eq!(loops::rx(&descs), (1574, 1));
//! loops::tx(&mut descs);
//! assert_eq!(loops::rx(&descs), (1514, 0)); // 60 is not above 64; ports are 0 and 1 now
//! # Ok::<(), forebay::packet::DoesNotFit>(())
//! ```

use super::Fields;

/// Looks at one field: the sum of all sizes.
pub fn trivial<D: Fields>(descs: &[D]) -> u64 {
    descs.iter().map(|desc| u64::from(desc.size())).sum()
}

/// Receives: the sum of the sizes of sound packets, and how many came in at port 3.
pub fn rx<D: Fields>(descs: &[D]) -> (u64, u64) {
    let (mut bytes, mut packets) = (0, 0);
    for desc in descs {
        // Without a branch: whether a packet is sound is not to be guessed.
        bytes += u64::from(desc.size()) * u64::from(desc.is_valid());
        packets += u64::from(desc.port() == 3);
    }
    (bytes, packets)
}

/// Sends: times 100 ns apart from 0 on, ports 0 to 3 in turn, sound where larger than 64 bytes.
pub fn tx<D: Fields>(descs: &mut [D]) {
    tx_from(descs, 0);
}

/// Sends what is part of more: [`tx`], as if `before` others stood before the first.
#[inline]
pub fn tx_from<D: Fields>(descs: &mut [D], before: u64) {
    let mut time_ns = 100 * before;
    let mut port = before as u8;
    for desc in descs {
        desc.set_time(time_ns);
        let fits = desc.set_port(port % 4);
        debug_assert!(fits.is_ok(), "every layout has four ports");
        desc.set_valid(desc.size() > 64);
        time_ns += 100;
        port = port.wrapping_add(1);
    }
}
