use super::*;
use crate::sync::{
    Arc, Bell,
    atomic::{AtomicU32, Ordering::Relaxed},
    model, thread,
};

/// A producer's items, and the bell that it rings after each: like a network card and its interrupt.
#[derive(Default)]
struct Card {
    /// Written by the producer, read by the poller. Relaxed: the bell's fences order it.
    items: AtomicU32,
    bell: Bell,
}

struct Queue {
    card: Arc<Card>,
    taken: u32,
}

impl Source for Queue {
    type Error = ();
    fn look(&mut self, budget: usize) -> Result<usize, ()> {
        let found = (self.card.items.load(Relaxed) - self.taken).min(budget as u32);
        self.taken += found;
        Ok(found as usize)
    }
    fn arm(&mut self) -> Result<(), ()> {
        self.card.bell.arm();
        Ok(())
    }
    fn sleep(&mut self, limit: &Limit<'_>) -> Result<(), ()> {
        self.card.bell.sleep(limit.left());
        Ok(())
    }
    fn disarm(&mut self) {
        self.card.bell.disarm();
    }
}

/// An item that arrives between the last check and the arming ends the sleep. Otherwise the poller would sleep
/// forever, which loom reports as a deadlock.
fn every_item_wakes() {
    model(|| {
        let card = Arc::new(Card::default());
        let theirs = card.clone();
        let producer = thread::spawn(move || {
            for _ in 0..2 {
                theirs.items.fetch_add(1, Relaxed);
                theirs.bell.ring();
            }
        });
        let mut poller = Poller::new(64, Clock::virtual_time());
        let mut queue = Queue { card, taken: 0 };
        while queue.taken < 2 {
            poller.turn(&mut queue).unwrap();
        }
        producer.join().unwrap();
    });
}

#[test]
fn no_item_is_slept_over() {
    every_item_wakes();
}

#[cfg(loom)]
#[test]
fn the_model_finds_a_poller_without_its_second_look() {
    crate::sync::planted_bug_is_found(
        "poller-without-second-look",
        "poll::tests::no_item_is_slept_over",
    );
}

/// Items at set times; each wakes an armed poller at once.
#[cfg(not(loom))]
struct Timed {
    clock: Clock,
    times: Vec<u64>,
    taken: usize,
    armed: u64,
}

#[cfg(not(loom))]
impl Source for Timed {
    type Error = ();
    fn look(&mut self, budget: usize) -> Result<usize, ()> {
        let come = self.times.partition_point(|&time| time <= self.clock.now());
        let found = (come - self.taken).min(budget);
        self.taken += found;
        Ok(found)
    }
    fn arm(&mut self) -> Result<(), ()> {
        self.armed += 1;
        Ok(())
    }
    fn sleep(&mut self, limit: &Limit<'_>) -> Result<(), ()> {
        let next = self.times.get(self.taken).copied();
        limit.sleep_until(&self.clock, next.unwrap_or(u64::MAX));
        Ok(())
    }
    fn disarm(&mut self) {}
    fn has_ended(&self) -> bool {
        self.taken == self.times.len()
    }
}

/// Rests of 1 ms, all sleeps, and armings until all items are taken, by a poller with that budget.
#[cfg(not(loom))]
fn rests(budget: usize, times: Vec<u64>) -> (u64, u64, u64) {
    let clock = Clock::virtual_time();
    let mut poller = Poller::new(budget, clock.clone()).resting(Duration::from_millis(1));
    let (taken, armed) = (0, 0);
    let mut timed = Timed {
        clock,
        times,
        taken,
        armed,
    };
    while timed.taken < timed.times.len() {
        poller.turn(&mut timed).unwrap();
    }
    let modes = poller.modes();
    assert_eq!(modes.asleep, Duration::from_nanos(timed.clock.now()));
    (modes.rests, modes.sleeps, timed.armed)
}

#[cfg(not(loom))]
#[test]
fn it_rests_where_a_few_items_come_in_that_time() {
    let steady = |every: u64, items: u64| (1..=items).map(|number| number * every).collect();
    // Ten items per rest: the first one wakes it, and then it rests.
    assert_eq!(rests(64, steady(100_000, 1001)), (100, 101, 1));
    assert_eq!(rests(11, steady(100_000, 1001)), (100, 101, 1));
    // Two, the minimum for a rest, and one.
    assert_eq!(rests(64, steady(500_000, 101)), (50, 51, 1));
    assert_eq!(rests(64, steady(1_000_000, 100)), (0, 100, 100));
    // A whole budget of items, however soon the first one wakes it, and far more.
    assert_eq!(rests(10, steady(100_000, 1000)), (0, 1000, 1000));
    assert_eq!(rests(64, steady(700, 1000)), (0, 1000, 1000));
    assert_eq!(rests(1, steady(100_000, 100)), (0, 100, 100));
    // After a rest without items it arms, and an item after a pause wakes it.
    let pause = 1_000_000_000;
    assert_eq!(
        rests(64, vec![100_000, pause, pause + 1_500_000]),
        (1, 4, 3)
    );
}

/// Fails at its second look, or otherwise when it sleeps.
#[cfg(not(loom))]
struct Failing {
    looks_left: u32,
    armed: bool,
}

#[cfg(not(loom))]
impl Source for Failing {
    type Error = &'static str;
    fn look(&mut self, _budget: usize) -> Result<usize, Self::Error> {
        self.looks_left = self.looks_left.checked_sub(1).ok_or("look")?;
        Ok(0)
    }
    fn arm(&mut self) -> Result<(), Self::Error> {
        self.armed = true;
        Ok(())
    }
    fn sleep(&mut self, _limit: &Limit<'_>) -> Result<(), Self::Error> {
        Err("sleep")
    }
    fn disarm(&mut self) {
        self.armed = false;
    }
}

#[cfg(not(loom))]
#[test]
fn a_source_that_fails_while_it_is_armed_is_disarmed() {
    for (looks_left, error) in [(1, "look"), (2, "sleep")] {
        let mut poller = Poller::new(64, Clock::virtual_time());
        let mut failing = Failing {
            looks_left,
            armed: false,
        };
        assert_eq!(poller.turn(&mut failing), Err(error));
        assert!(!failing.armed, "after a failed {error}");
    }
}

/// In virtual time: items after 1, 2 and 9 seconds.
#[cfg(not(loom))]
#[test]
fn it_runs_until_its_time_ends_it_is_stopped_or_the_source_has_ended() {
    const SECOND: u64 = 1_000_000_000;
    let clock = Clock::virtual_time();
    let stop = Signal::new().unwrap();
    let mut poller = Poller::new(64, clock.clone()).resting(Duration::from_secs(20));
    let mut timed = Timed {
        clock: clock.clone(),
        times: vec![SECOND, 2 * SECOND, 9 * SECOND],
        taken: 0,
        armed: 0,
    };
    let three = Duration::from_secs(3);
    // After the first item it rests, until its time ends.
    assert_eq!(poller.run_timeout(&mut timed, &stop, three), Ok(1));
    assert_eq!(clock.now(), 3 * SECOND);
    stop.raise();
    assert_eq!(poller.run(&mut timed, &stop), Ok(0));
    assert_eq!((clock.now(), timed.taken), (3 * SECOND, 1));
    assert!(stop.clear());
    // Whatever the time, what is there is found.
    assert_eq!(poller.run_timeout(&mut timed, &stop, Duration::ZERO), Ok(1));
    assert_eq!(poller.run_timeout(&mut timed, &stop, Duration::MAX), Ok(1));
    assert_eq!(clock.now(), 23 * SECOND, "a rest has its whole length");
    assert_eq!(poller.run(&mut timed, &stop), Ok(0));
}

/// Sleeps within the limit only: on no descriptor, until a late time, or in its own way.
#[cfg(not(any(loom, miri)))]
struct Idle(Clock, fn(&Clock, &Limit<'_>));

#[cfg(not(any(loom, miri)))]
impl Source for Idle {
    type Error = ();
    fn look(&mut self, _budget: usize) -> Result<usize, ()> {
        Ok(0)
    }
    fn arm(&mut self) -> Result<(), ()> {
        Ok(())
    }
    fn sleep(&mut self, limit: &Limit<'_>) -> Result<(), ()> {
        (self.1)(&self.0, limit);
        Ok(())
    }
    fn disarm(&mut self) {}
}

#[cfg(not(any(loom, miri)))]
#[test]
fn a_sleeping_source_is_woken_by_the_signal_and_by_the_end_of_the_time() {
    let sleeps: [fn(&Clock, &Limit<'_>); 3] = [
        |_, limit| limit.poll(&[], None).unwrap(),
        |clock, limit| limit.sleep_until(clock, u64::MAX),
        |_, limit| thread::sleep(limit.left().unwrap()),
    ];
    for sleep in sleeps {
        let (clock, stop) = (Clock::real(), Signal::new().unwrap());
        let mut poller = Poller::new(64, clock.clone());
        let mut idle = Idle(clock, sleep);
        let short = Duration::from_millis(1);
        assert_eq!(poller.run_timeout(&mut idle, &stop, short), Ok(0));
        std::thread::scope(|scope| {
            let raising = scope.spawn(|| stop.raise());
            assert_eq!(poller.run(&mut idle, &stop), Ok(0));
            raising.join().unwrap(); // ThreadSanitizer does not see how a scope waits
        });
    }
}

/// `Clock::real` begins at 0, so the clock of a source may be older or newer than the poller's.
#[cfg(not(any(loom, miri)))]
#[test]
fn a_sleep_by_the_clock_of_the_source_ends_when_the_time_of_the_poller_ends() {
    let older = Clock::real();
    thread::sleep(Duration::from_millis(30));
    let newer = Clock::real();
    for (of_source, of_poller) in [(&older, &newer), (&newer, &older)] {
        let mut idle = Idle(of_source.clone(), |clock, limit| {
            limit.sleep_until(clock, u64::MAX);
        });
        let mut poller = Poller::new(64, of_poller.clone());
        let (stop, time) = (Signal::new().unwrap(), Duration::from_millis(10));
        let begun = poller.modes().sleeps;
        assert_eq!(poller.run_timeout(&mut idle, &stop, time), Ok(0));
        let sleeps = poller.modes().sleeps - begun;
        assert!(sleeps < 5, "it slept {sleeps} times for one end");
    }
}

#[cfg(not(loom))]
#[test]
fn a_turn_takes_its_budget_and_does_not_sleep_on_it() {
    let card = Arc::new(Card::default());
    card.items.store(100, Relaxed);
    let clock = Clock::virtual_time();
    let mut poller = Poller::new(64, clock.clone());
    let mut queue = Queue { card, taken: 0 };
    assert_eq!(poller.turn(&mut queue), Ok(64));
    clock.sleep(Duration::from_secs(3));
    assert_eq!(poller.turn(&mut queue), Ok(36));
    let modes = poller.modes();
    assert_eq!((modes.looks, modes.sleeps), (2, 0));
    assert_eq!(
        (modes.busy, modes.asleep),
        (Duration::from_secs(3), Duration::ZERO)
    );
    assert_eq!(modes.busy_share(), 1.0);
}
