//! The keys with the most bytes, in memory of a fixed size: the space-saving algorithm (see docs/top.md).
//!
//! A key that is not tracked takes the place of the tracked key with the fewest bytes, and inherits its count as possible error.
//!
//! Invariants, for `n` bytes in all and room for `k` keys:
//! - The bytes of a tracked key are at least `bytes - error` and at most `bytes`.
//! - A key that is not tracked has at most as many bytes as each tracked one: at most `n / k`.

use std::{collections::HashMap, hash::Hash};

/// A tracked key.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot<K, V> {
    pub key: K,
    /// The most bytes that the key can have.
    pub bytes: u64,
    /// Of these, the bytes that may belong to other keys.
    pub error: u64,
    /// Packets since the key is tracked.
    pub packets: u64,
    /// What else is known of the key since then.
    pub about: V,
    /// Its position in the heap.
    place: usize,
}

impl<K, V> Slot<K, V> {
    /// Bytes that certainly belong to the key: those since it is tracked.
    pub fn certain_bytes(&self) -> u64 {
        self.bytes - self.error
    }
}

#[derive(Debug)]
pub struct Sketch<K, V> {
    capacity: usize,
    slots: Vec<Slot<K, V>>,
    /// The slot of each key.
    found: HashMap<K, usize>,
    /// Slots as a binary heap: the one with the fewest bytes first.
    heap: Vec<usize>,
}

impl<K: Copy + Eq + Hash, V: Default> Sketch<K, V> {
    /// Tracks up to `capacity` keys, at least 1.
    pub fn new(capacity: usize) -> Self {
        Sketch {
            capacity: capacity.max(1),
            slots: Vec::new(),
            found: HashMap::new(),
            heap: Vec::new(),
        }
    }

    /// Counts packets of a key, and returns what else is known of it.
    pub fn add(&mut self, key: K, packets: u64, bytes: u64) -> &mut V {
        let at = match self.found.get(&key) {
            Some(&at) => at,
            None if self.slots.len() < self.capacity => {
                let at = self.slots.len();
                self.slots.push(Slot {
                    key,
                    bytes: 0,
                    error: 0,
                    packets: 0,
                    about: V::default(),
                    place: at,
                });
                self.heap.push(at);
                self.found.insert(key, at);
                self.sift_up(at);
                at
            }
            None => {
                let at = self.heap[0];
                let slot = &mut self.slots[at];
                self.found.remove(&slot.key);
                (slot.key, slot.error, slot.packets) = (key, slot.bytes, 0);
                slot.about = V::default();
                self.found.insert(key, at);
                at
            }
        };
        let slot = &mut self.slots[at];
        slot.bytes += bytes;
        slot.packets += packets;
        self.sift_down(self.slots[at].place);
        &mut self.slots[at].about
    }

    /// What else is known of a tracked key.
    pub fn about(&self, key: &K) -> Option<&V> {
        self.found.get(key).map(|&at| &self.slots[at].about)
    }

    /// The tracked keys, in no order.
    pub fn slots(&self) -> &[Slot<K, V>] {
        &self.slots
    }

    fn bytes_at(&self, place: usize) -> u64 {
        self.slots[self.heap[place]].bytes
    }

    fn swap(&mut self, one: usize, two: usize) {
        self.heap.swap(one, two);
        self.slots[self.heap[one]].place = one;
        self.slots[self.heap[two]].place = two;
    }

    fn sift_up(&mut self, mut place: usize) {
        while place > 0 && self.bytes_at(place) < self.bytes_at((place - 1) / 2) {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
    }

    fn sift_down(&mut self, mut place: usize) {
        loop {
            let children = (2 * place + 1)..(2 * place + 3).min(self.heap.len());
            let Some(least) = children.min_by_key(|&child| self.bytes_at(child)) else {
                return;
            };
            if self.bytes_at(place) <= self.bytes_at(least) {
                return;
            }
            self.swap(place, least);
            place = least;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_testing::dice::rounds;
    use proptest::prelude::*;

    /// Packets of few busy keys and many others, as traffic is.
    fn traffic() -> impl Strategy<Value = Vec<(u16, u64)>> {
        let key = prop_oneof![0_u16..4, 0_u16..40, any::<u16>()];
        prop::collection::vec((key, 0_u64..2000), 0..2000)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(rounds(256)))]

        #[test]
        fn counts_are_within_their_bounds(packets in traffic(), capacity in 1_usize..64) {
            let mut sketch = Sketch::<u16, ()>::new(capacity);
            let mut exact: HashMap<u16, (u64, u64)> = HashMap::new();
            for &(key, bytes) in &packets {
                sketch.add(key, 1, bytes);
                let (count, sum) = exact.entry(key).or_default();
                (*count, *sum) = (*count + 1, *sum + bytes);
            }
            let all: u64 = exact.values().map(|it| it.1).sum();
            let slots = sketch.slots();
            prop_assert_eq!(slots.len(), exact.len().min(capacity));
            prop_assert_eq!(slots.iter().map(|slot| slot.bytes).sum::<u64>(), all);
            // Keys that are not tracked have at most this many bytes.
            let least = match slots.len() == capacity {
                true => slots.iter().map(|slot| slot.bytes).min().unwrap(),
                false => 0,
            };
            prop_assert!(least <= all / capacity as u64);
            for slot in slots {
                let (count, bytes) = exact.remove(&slot.key).unwrap();
                prop_assert!((slot.certain_bytes()..=slot.bytes).contains(&bytes));
                prop_assert!(slot.packets <= count && slot.error <= least);
                // Without an error, the counts are exact.
                prop_assert!(slot.error > 0 || slot.bytes == bytes);
            }
            prop_assert!(exact.values().all(|it| it.1 <= least));
        }

        #[test]
        fn with_room_for_all_keys_the_counts_are_exact(packets in traffic()) {
            let mut sketch = Sketch::<u16, ()>::new(1 << 16);
            let mut exact: HashMap<u16, (u64, u64)> = HashMap::new();
            for &(key, bytes) in &packets {
                sketch.add(key, 1, bytes);
                let (count, sum) = exact.entry(key).or_default();
                (*count, *sum) = (*count + 1, *sum + bytes);
            }
            let found = sketch.slots().iter().map(|it| (it.key, (it.packets, it.bytes)));
            prop_assert_eq!(found.collect::<HashMap<_, _>>(), exact);
        }
    }
}
