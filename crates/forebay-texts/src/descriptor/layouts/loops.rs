//! The three loops by which layouts are compared, the same for each of them.

use super::Fields;

/// Reads one field: the sum of all sizes.
pub fn trivial<D: Fields>(descs: &[D]) -> u64 {
    descs.iter().map(|desc| u64::from(desc.size())).sum()
}

/// Receives: the sum of the sizes of valid packets, and the number that arrived at port 3.
pub fn rx<D: Fields>(descs: &[D]) -> (u64, u64) {
    let (mut bytes, mut packets) = (0, 0);
    for desc in descs {
        // Without a branch, which would often be mispredicted.
        bytes += u64::from(desc.size()) * u64::from(desc.is_valid());
        packets += u64::from(desc.port() == 3);
    }
    (bytes, packets)
}

/// Sends: times 100 ns apart from 0 on, ports 0 to 3 in rotation, valid if larger than 64 bytes.
pub fn tx<D: Fields>(descs: &mut [D]) {
    let mut time_ns = 0;
    let mut port = 0_u8;
    for desc in descs {
        desc.set_time(time_ns);
        let fits = desc.set_port(port % 4);
        debug_assert!(fits.is_some(), "every layout has four ports");
        desc.set_valid(desc.size() > 64);
        time_ns += 100;
        port = port.wrapping_add(1);
    }
}
