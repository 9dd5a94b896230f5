//! The word that lets calls in to one object, and decides which call ends it.
//!
//! ```text
//!  bits  63 … 32      31     30         29 … 0
//!        generation   open   exclusive  calls inside
//! ```
//! | edge | from | to | meaning |
//! |---|---|---|---|
//! | OPEN | `open`, Release | `enter`, Acquire | the object was stored before calls use it |
//! | LEFT | `leave`, Release | the change that leaves all bits below 32 zero, Acquire | all calls have ended before the object does |
//! | RENEWED | `renew`, Release | `generation`, Acquire | the object has ended before the next one is stored |
//!
//! Exactly one change makes the lower half zero, since no call enters after the bit `open` is cleared. The caller that made it ends
//! the object.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

use Ordering::{AcqRel, Acquire, Relaxed, Release};

const OPEN: u64 = 1 << 31;
const EXCLUSIVE: u64 = 1 << 30;
const CALLS: u64 = EXCLUSIVE - 1;
const STATE: u64 = (1 << 32) - 1;

/// Why a call was not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shut {
    /// The object is closed, or another one has its place.
    Closed,
    /// Another call is inside.
    Busy,
}

/// How a call uses the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    Shared,
    Exclusive,
}

#[derive(Debug)]
pub struct Gate(AtomicU64);

impl Gate {
    pub fn new() -> Gate {
        Gate(AtomicU64::new(0))
    }

    /// The generation that calls have to name once it is open. The caller has the closed gate to itself, and may store the object after this.
    pub fn generation(&self) -> u32 {
        (self.0.load(Acquire) >> 32) as u32 // RENEWED
    }

    /// Lets calls in. The caller has the closed gate to itself.
    pub fn open(&self) {
        let word = self.0.load(Relaxed); // Only this caller changes it.
        self.0.store(word | OPEN, Release); // OPEN
    }

    pub fn enter(&self, generation: u32, entry: Entry) -> Result<(), Shut> {
        let mut word = self.0.load(Relaxed); // The exchange below orders it.
        loop {
            if word >> 32 != u64::from(generation) || word & OPEN == 0 {
                return Err(Shut::Closed);
            }
            let occupied = match entry {
                Entry::Shared => word & EXCLUSIVE != 0 || word & CALLS == CALLS,
                Entry::Exclusive => word & (EXCLUSIVE | CALLS) != 0,
            };
            if occupied {
                return Err(Shut::Busy);
            }
            let inside = match entry {
                Entry::Shared => word + 1,
                Entry::Exclusive => word | EXCLUSIVE,
            };
            match self.0.compare_exchange_weak(word, inside, Acquire, Relaxed) {
                Ok(_) => return Ok(()), // OPEN
                Err(now) => word = now,
            }
        }
    }

    /// Ends a call. True: the object was closed meanwhile, and the caller must end it.
    pub fn leave(&self, entry: Entry) -> bool {
        let after = match entry {
            Entry::Shared => self.0.fetch_sub(1, AcqRel) - 1, // LEFT
            Entry::Exclusive => self.0.fetch_and(!EXCLUSIVE, AcqRel) & !EXCLUSIVE, // LEFT
        };
        after & STATE == 0
    }

    /// Lets no more calls in. True: no call is inside, and the caller must end the object.
    pub fn close(&self, generation: u32) -> Result<bool, Shut> {
        let mut word = self.0.load(Relaxed); // The exchange below orders it.
        loop {
            if word >> 32 != u64::from(generation) || word & OPEN == 0 {
                return Err(Shut::Closed);
            }
            let shut = word & !OPEN;
            match self.0.compare_exchange_weak(word, shut, AcqRel, Relaxed) {
                Ok(_) if planted("close-beside-calls") => return Ok(true),
                Ok(_) => return Ok(shut & STATE == 0), // LEFT
                Err(now) => word = now,
            }
        }
    }

    /// Makes the place ready for the next object, by the caller that ended this one. Generations have 24 bits. False: all were used, and
    /// the place is not used again, since old handles would name the next object.
    pub fn renew(&self) -> bool {
        let word = self.0.load(Relaxed); // Only this caller changes a closed gate that no call is inside.
        let next = ((word >> 32) + 1) & 0x00ff_ffff;
        self.0.store(next << 32, Release); // RENEWED
        next != 0
    }
}

/// Whether `FOREBAY_PLANT` names this bug, in builds for loom.
fn planted(bug: &str) -> bool {
    cfg!(loom) && std::env::var_os("FOREBAY_PLANT").is_some_and(|planted| planted == bug)
}

#[cfg(all(test, not(loom)))]
mod generations {
    use super::{AtomicU64, Entry, Gate, Shut};

    #[test]
    fn a_place_whose_generations_are_used_up_is_not_used_again() {
        let gate = Gate(AtomicU64::new(0x00ff_fffe << 32));
        assert!(gate.renew());
        assert!(!gate.renew());
        assert_eq!(gate.enter(0, Entry::Shared), Err(Shut::Closed));
    }
}

#[cfg(all(test, loom))]
mod tests {
    #![allow(unsafe_code)]

    use super::{Entry, Gate, Shut};
    use loom::{cell::UnsafeCell, sync::Arc, thread};

    struct Object {
        gate: Gate,
        alive: UnsafeCell<bool>,
    }

    impl Object {
        fn end(&self) {
            self.alive.with_mut(|alive| {
                // SAFETY: loom reports an access beside this one.
                assert!(std::mem::replace(unsafe { &mut *alive }, false));
            });
            assert!(self.gate.renew());
        }

        fn call(&self, entry: Entry) {
            if self.gate.enter(0, entry).is_ok() {
                // SAFETY: loom reports an access beside this one.
                self.alive.with(|alive| assert!(unsafe { *alive }));
                if self.gate.leave(entry) {
                    self.end();
                }
            }
        }
    }

    /// Calls in two threads, and a third one closes: no call sees the object after its end, which comes once. With up to two preemptions.
    fn calls_and_a_close(entries: [Entry; 2]) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(move || {
            let object = Arc::new(Object {
                gate: Gate::new(),
                alive: UnsafeCell::new(true),
            });
            assert_eq!(object.gate.generation(), 0);
            object.gate.open();
            let calls = entries.map(|entry| {
                let object = object.clone();
                thread::spawn(move || object.call(entry))
            });
            if object.gate.close(0).unwrap() {
                object.end();
            }
            for call in calls {
                call.join().unwrap();
            }
            assert_eq!(object.gate.enter(0, Entry::Shared), Err(Shut::Closed));
            assert_eq!(object.gate.generation(), 1);
            object.gate.open();
            assert_eq!(object.gate.enter(0, Entry::Shared), Err(Shut::Closed));
            object.alive.with(|alive| {
                // SAFETY: all threads have ended.
                assert!(!unsafe { *alive });
            });
        });
    }

    #[test]
    fn shared_calls_end_before_the_object() {
        calls_and_a_close([Entry::Shared, Entry::Shared]);
    }

    #[test]
    fn exclusive_calls_end_before_the_object() {
        calls_and_a_close([Entry::Exclusive, Entry::Shared]);
    }

    #[test]
    fn planted_bugs_are_found() {
        let test = "gate::tests::shared_calls_end_before_the_object";
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env("FOREBAY_PLANT", "close-beside-calls")
            .output()
            .unwrap();
        let report = String::from_utf8_lossy(&child.stdout);
        assert!(report.contains("running 1 test"), "no such test: {test}");
        assert!(!child.status.success(), "it was not found");
    }
}
