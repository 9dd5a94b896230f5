//! The first sequence numbers of TCP connections, in a table of fixed size.

use super::{address::Address, ends::Ends};

/// Connections with the same hash that are remembered together.
const WAYS: usize = 4;
const SETS: usize = 4096;

/// Both ends, the one with the lower port first: one entry for both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    low: Address,
    high: Address,
    ports: u32,
}

/// The numbers that are subtracted.
#[derive(Clone, Copy, Debug)]
struct Flow {
    key: Key,
    /// Of the end with the lower port, and of the other one.
    numbers: [u32; 2],
}

/// The connections seen last. An older one starts anew: its next packet shows absolute numbers.
#[derive(Default)]
pub struct Flows {
    /// Allocated at the first connection.
    sets: Vec<[Option<Flow>; WAYS]>,
}

/// What to subtract from the numbers of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Base {
    pub sequence: u32,
    pub acknowledged: u32,
    /// The numbers of selective acknowledgements are relative also in the packet that begins a connection.
    pub selective: u32,
}

impl Flows {
    /// The base of a packet with these numbers. One that `begins` a connection, and the first one seen of it, have none.
    pub fn base(
        &mut self,
        ends: &Ends,
        (source, destination): (u16, u16),
        (sequence, acknowledged): (u32, u32),
        begins: bool,
    ) -> Base {
        if self.sets.is_empty() {
            self.sets = vec![[None; WAYS]; SETS];
        }
        let is_reversed = match source.cmp(&destination) {
            std::cmp::Ordering::Equal => ends.source.bytes() > ends.destination.bytes(),
            order => order.is_gt(),
        };
        let mut ends = [(ends.source, source), (ends.destination, destination)];
        if is_reversed {
            ends.reverse();
        }
        let [(low, low_port), (high, high_port)] = ends;
        let ports = u32::from(low_port) << 16 | u32::from(high_port);
        let key = Key { low, high, ports };
        let set = &mut self.sets[hash(&key)];
        let is_same = |flow: &Option<Flow>| flow.is_some_and(|flow| flow.key == key);
        let found = set.iter().position(is_same);
        // The set is in the order of use.
        if found != Some(0) {
            set[..=found.unwrap_or(WAYS - 1)].rotate_right(1);
        }
        let (own, other) = (usize::from(is_reversed), usize::from(!is_reversed));
        if let Some(flow) = &set[0]
            && found.is_some()
            && !begins
        {
            return Base {
                sequence: flow.numbers[own],
                acknowledged: flow.numbers[other],
                selective: flow.numbers[other],
            };
        }
        let mut numbers = [sequence; 2];
        numbers[other] = acknowledged.wrapping_sub(1);
        set[0] = Some(Flow { key, numbers });
        Base {
            selective: numbers[other],
            ..Base::default()
        }
    }
}

fn hash(key: &Key) -> usize {
    let mut hash = u64::from(key.ports);
    for bytes in [key.low.bytes(), key.high.bytes()] {
        for word in bytes.chunks_exact(4) {
            let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            hash = (hash ^ u64::from(word))
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29);
        }
    }
    (hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize % SETS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(source: u8, destination: u8) -> Ends {
        Ends {
            source: Address::V4([10, 0, 0, source]),
            destination: Address::V4([10, 0, 0, destination]),
            is_fragment: false,
            are_printed: false,
        }
    }

    #[test]
    fn numbers_are_relative_to_the_first_of_each_direction() {
        let mut flows = Flows::default();
        let mut base = |ends: Ends, ports, numbers, begins| {
            let base = flows.base(&ends, ports, numbers, begins);
            [base.sequence, base.acknowledged, base.selective]
        };
        let first = base(ends(1, 2), (4000, 80), (1000, 501), false);
        assert_eq!(first, [0, 0, 500]);
        let back = base(ends(2, 1), (80, 4000), (501, 1001), false);
        assert_eq!(back, [500, 1000, 1000]);
        let again = base(ends(1, 2), (4000, 80), (9, 10), true);
        assert_eq!(again[..2], [0, 0]);
        let next = base(ends(1, 2), (4000, 80), (10, 10), false);
        assert_eq!(next[..2], [9, 9]);
    }

    #[test]
    fn the_oldest_connections_are_forgotten() {
        let mut flows = Flows::default();
        let many = (WAYS * SETS * 4) as u32;
        for number in 0..many {
            let port = (number % 60_000) as u16;
            flows.base(&ends((number / 60_000) as u8, 2), (port, 80), (1, 1), false);
        }
        assert_eq!(flows.sets.len(), SETS);
        assert_eq!(flows.base(&ends(0, 2), (0, 80), (1, 1), false).sequence, 0);
    }
}
