//! The paths of slots in every order of a few steps: under loom all orders, elsewhere one.
//!
//! Three slots, up to three packets; under loom a block names at most two slots. A slot's bytes are a cell that loom watches: an
//! access without a handover from the access before is found. `planted_bugs_are_found` tests these tests.

use super::{
    references::References,
    remote_free::{Chain, NONE, Returns},
    shared::{Cold, SlotFacts},
};
use crate::sync::{Arc, model, thread};

#[cfg(loom)]
use loom::cell::UnsafeCell;

/// Bytes of a slot without loom: a number in a lock that must be free.
#[cfg(not(loom))]
#[derive(Default)]
struct Bytes(std::sync::Mutex<u32>);
#[cfg(loom)]
struct Bytes(UnsafeCell<u32>);

impl Bytes {
    #[cfg(not(loom))]
    fn write(&self, value: u32) {
        *self.0.try_lock().expect("one at a time") = value;
    }
    #[cfg(not(loom))]
    fn read(&self) -> u32 {
        *self.0.try_lock().expect("one at a time")
    }
    #[cfg(loom)]
    #[allow(unsafe_code)]
    fn write(&self, value: u32) {
        self.0.with_mut(|cell| {
            // SAFETY: loom runs one thread at a time, and reports accesses without a right.
            unsafe { *cell = value }
        });
    }
    #[cfg(loom)]
    #[allow(unsafe_code)]
    fn read(&self) -> u32 {
        self.0.with(|cell| {
            // SAFETY: as in `write`.
            unsafe { *cell }
        })
    }
}

#[cfg(loom)]
impl Default for Bytes {
    fn default() -> Self {
        Bytes(UnsafeCell::new(0))
    }
}

struct Slots {
    returns: Returns,
    bytes: [Bytes; 3],
}

fn slots() -> Arc<Slots> {
    Arc::new(Slots {
        returns: Returns::new(3),
        bytes: Default::default(),
    })
}

/// What a thread does with a packet: reads it, writes to it, returns its slot.
fn use_and_return(slots: &Slots, packets: &[(u32, u32)]) -> bool {
    let mut chain = Chain::EMPTY;
    for &(slot, value) in packets {
        let bytes = &slots.bytes[slot as usize];
        assert_eq!(bytes.read(), value);
        bytes.write(value + 100);
        slots.returns.link(&mut chain, slot, u32::MAX);
    }
    slots.returns.push(chain)
}

/// The owner takes what has returned.
fn take_all(slots: &Slots, home: &mut Vec<u32>) {
    let arrived = slots.returns.take_all();
    slots.returns.walk(arrived, |slot| home.push(slot));
}

#[test]
fn two_slots_carry_three_packets_and_return_once_each() {
    model(|| {
        let slots = slots();
        let threads = [(0, 1), (1, 2)].map(|(slot, value)| {
            slots.bytes[slot as usize].write(value);
            let slots = slots.clone();
            thread::spawn(move || assert!(!use_and_return(&slots, &[(slot, value)])))
        });
        let mut home = Vec::new();
        while home.is_empty() {
            take_all(&slots, &mut home);
            thread::yield_now();
        }
        // The third packet lies in the slot that returned first.
        slots.bytes[home[0] as usize].write(3);
        for thread in threads {
            thread.join().unwrap();
        }
        take_all(&slots, &mut home);
        home.sort_unstable();
        assert_eq!(home, [0, 1]);
    });
}

#[test]
fn a_chain_of_two_blocks_returns_whole_and_its_slots_can_be_used_again() {
    model(|| {
        let slots = slots();
        let packets = [(0, 1), (1, 2), (2, 3)];
        for (slot, value) in packets {
            slots.bytes[slot as usize].write(value);
        }
        let other = slots.clone();
        let thread = thread::spawn(move || assert!(!use_and_return(&other, &packets)));
        let mut home = Vec::new();
        while home.is_empty() {
            take_all(&slots, &mut home);
            thread::yield_now();
        }
        for (slot, _) in packets {
            slots.bytes[slot as usize].write(4);
        }
        home.sort_unstable();
        assert_eq!(home, [0, 1, 2]);
        thread.join().unwrap();
    });
}

#[test]
fn a_pool_that_ends_with_slots_in_use_is_freed_once_by_the_last_side() {
    model(|| {
        let slots = slots();
        let threads = [(0, 1), (1, 2)].map(|(slot, value)| {
            slots.bytes[slot as usize].write(value);
            let slots = slots.clone();
            thread::spawn(move || {
                let last = use_and_return(&slots, &[(slot, value)]);
                if last {
                    free(&slots);
                }
                usize::from(last)
            })
        });
        let mut home = 0;
        slots.returns.close(|_| home += 1);
        let mut freed = 0;
        if slots.returns.expect(2 - home) {
            free(&slots);
            freed += 1;
        }
        freed += threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum::<usize>();
        assert_eq!(freed, 1);
    });

    /// Stands for unmapping the memory.
    fn free(slots: &Slots) {
        slots.bytes.iter().for_each(|bytes| bytes.write(0));
    }
}

/// The owner has no slot and sleeps until one is returned.
#[test]
fn an_owner_that_waits_is_woken_by_the_thread_that_returns_a_slot() {
    model(|| {
        let slots = slots();
        slots.bytes[0].write(1);
        let other = slots.clone();
        let thread = thread::spawn(move || assert!(!use_and_return(&other, &[(0, 1)])));
        let mut home = Vec::new();
        let woken = slots.returns.wait(None, &mut || {
            take_all(&slots, &mut home);
            !home.is_empty()
        });
        assert!(woken);
        slots.bytes[0].write(2);
        thread.join().unwrap();
    });
}

/// Two packets share a slot; the last one writes to it, as the next packet there will.
#[test]
fn a_shared_slot_is_returned_once_after_all_have_read_it() {
    model(|| {
        let shared = Arc::new((References::new(), Bytes::default()));
        shared.1.write(7);
        shared.0.share();
        let other = shared.clone();
        let thread = thread::spawn(move || leave(&other));
        let last = leave(&shared);
        assert!(thread.join().unwrap() != last, "one of the two is the last");
        assert!(shared.0.is_alone());
    });

    fn leave((references, bytes): &(References, Bytes)) -> bool {
        #[cfg(loom)]
        assert_eq!(bytes.read(), 7);
        let last = references.release();
        if last {
            bytes.write(8);
        }
        last
    }
}

#[test]
fn the_only_holder_of_a_slot_may_write() {
    model(|| {
        let shared = Arc::new((References::new(), Bytes::default()));
        shared.1.write(7);
        shared.0.share();
        let other = shared.clone();
        let thread = thread::spawn(move || {
            #[cfg(loom)]
            assert_eq!(other.1.read(), 7);
            assert!(!other.0.release() || cfg!(not(loom)));
        });
        while !shared.0.is_alone() {
            thread::yield_now();
        }
        shared.1.write(8);
        thread.join().unwrap();
    });
}

/// Two threads borrow one packet, share it at the same time, and send their copies: neither is refused.
#[test]
fn threads_that_share_at_the_same_time_agree_on_where_the_data_is() {
    const COLD: Cold = Cold {
        offset: 14,
        len: 0,
        wire_more: 4,
        next: NONE,
    };
    model(|| {
        let facts = Arc::new(SlotFacts::new());
        let other = facts.clone();
        let thread = thread::spawn(move || share_and_send(&other));
        share_and_send(&facts);
        thread.join().unwrap();
        let gone = [(); 3].map(|()| facts.references.release());
        assert_eq!(gone, [false, false, true]);
    });

    fn share_and_send(facts: &SlotFacts) {
        facts.share(COLD);
        assert!(facts.settle(COLD), "refused without a reason");
    }
}

/// Loom finds each planted bug in the model for it; ThreadSanitizer finds one where real threads meet.
#[cfg(any(loom, forebay_one_view))]
#[test]
fn planted_bugs_are_found() {
    const THREE: &str = "models::two_slots_carry_three_packets_and_return_once_each";
    const CHAIN: &str =
        "models::a_chain_of_two_blocks_returns_whole_and_its_slots_can_be_used_again";
    const END: &str = "models::a_pool_that_ends_with_slots_in_use_is_freed_once_by_the_last_side";
    const WAIT: &str = "models::an_owner_that_waits_is_woken_by_the_thread_that_returns_a_slot";
    const SHARED: &str = "models::a_shared_slot_is_returned_once_after_all_have_read_it";
    const ALONE: &str = "models::the_only_holder_of_a_slot_may_write";
    const AGREE: &str = "models::threads_that_share_at_the_same_time_agree_on_where_the_data_is";
    if crate::sync::finds_no_race() {
        return;
    }
    let plants = if cfg!(loom) {
        vec![
            ("return-relaxed", THREE),
            ("return-relaxed", CHAIN),
            ("collect-relaxed", THREE),
            ("collect-relaxed", CHAIN),
            ("return-without-cas", THREE),
            ("home-relaxed", END),
            ("return-without-wake", WAIT),
            ("park-without-second-look", WAIT),
            ("bell-arm-without-fence", WAIT),
            ("release-relaxed", SHARED),
            ("alone-relaxed", ALONE),
            ("share-relaxed", AGREE),
        ]
    } else {
        let test = "pool_threads_tests::slots_return_from_many_threads_once_each";
        vec![("return-relaxed", test), ("collect-relaxed", test)]
    };
    crate::sync::planted_bugs_are_found("packet", &plants);
}
