//! What users rely on at the end of a store: the bytes left to write and to sync are always known, and abandoning ends both.

use super::{
    testing::{Tried, append, config, open},
    *,
};
use std::{io, time::Duration};

/// The state of a [`Slow`] disk, and the steps it may take.
#[derive(Default)]
struct Plate {
    written: u64,
    /// Those of these bytes that are in its cache.
    cached: u64,
    syncs: u64,
    /// Number of writes and writebacks allowed.
    steps: u64,
}

/// A disk with a cache that takes one step each time it is allowed to.
#[derive(Clone, Default)]
struct Slow(Tried<Plate>);

const PIECE: u64 = 1000;

impl Slow {
    fn allow(&self, steps: u64) {
        self.0.lock().steps += steps;
    }

    fn step(&self, act: impl FnOnce(&mut Plate)) {
        let mut plate = self.0.lock_when(|plate| plate.steps > 0);
        plate.steps -= 1;
        act(&mut plate);
    }
}

impl Sink for Slow {
    fn write(&mut self, bytes: &[u8], _: u64) -> io::Result<usize> {
        self.step(|plate| {
            plate.written += bytes.len() as u64;
            plate.cached += bytes.len() as u64;
        });
        Ok(bytes.len())
    }
    fn write_back(&mut self, wait: bool) -> io::Result<u64> {
        if wait {
            self.step(|plate| plate.cached = plate.cached.saturating_sub(PIECE));
        }
        Ok(self.0.lock().cached)
    }
    fn sync(&mut self) -> io::Result<bool> {
        self.0.lock().syncs += 1;
        Ok(true)
    }
}

/// The store's counts once they satisfy the condition.
fn totals_when(closing: &Closing, is_so: impl Fn(&Totals) -> bool) -> Totals {
    loop {
        let totals = closing.totals();
        if is_so(&totals) {
            return totals;
        }
        std::thread::sleep(Duration::from_micros(20));
    }
}

#[test]
fn what_is_left_to_write_and_to_sync_shrinks_to_nothing() {
    let slow = Slow::default();
    let mut store = open(slow.clone(), &config(true));
    append(&mut store, 2998, 0).unwrap();
    assert_eq!(store.totals().pending_bytes, 3000);
    let closing = store.close();
    let totals = closing.totals();
    assert_eq!(
        (
            totals.pending_bytes,
            totals.unsynced_bytes,
            totals.is_syncing
        ),
        (3000, 0, false)
    );
    slow.allow(1);
    for left in [3000, 2000, 1000] {
        totals_when(&closing, |totals| {
            totals.is_syncing && totals.unsynced_bytes == left
        });
        slow.allow(1);
    }
    let end = closing.finish();
    assert_eq!(
        (end.totals.pending_bytes, end.totals.unsynced_bytes),
        (0, 0)
    );
    assert!(end.durable);
    assert_eq!(slow.0.lock().syncs, 1);
}

#[test]
fn giving_up_while_the_disk_takes_its_time_keeps_what_is_written_and_promises_nothing() {
    let slow = Slow::default();
    let mut store = open(slow.clone(), &config(true));
    append(&mut store, 2998, 0).unwrap();
    let closing = store.close();
    slow.allow(2);
    totals_when(&closing, |totals| totals.unsynced_bytes == 2000);
    let closing = closing.wait(Duration::from_millis(1)).unwrap_err();
    closing.abandon();
    slow.allow(1);
    let end = closing.finish();
    assert_eq!(
        (end.totals.written, end.totals.durable, end.durable),
        (1, 0, false)
    );
    assert_eq!(slow.0.lock().syncs, 0, "no sync was waited for");
}
