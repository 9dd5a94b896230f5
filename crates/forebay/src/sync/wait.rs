//! How an end of a ring waits: a type parameter, so that who only spins pays nothing for sleeping.
//!
//! It builds on `bell`. `eventfd` and `task` have two more ways. Read `ring::spsc` next, where it is used.

use super::{Bell, hint, planted, thread};
use crate::Result;
use std::time::{Duration, Instant};

/// A way to wait for the other end.
///
/// Each end of a ring owns one; the other end calls [`wake`](Wait::wake) after everything it publishes.
///
/// ```
/// use forebay::sync::{Park, Spin, Wait};
/// use std::time::Duration;
/// let mut looks = 0;
/// let seen = Spin.wait(None, &mut || { looks += 1; looks == 3 });
/// assert!(seen);
/// assert!(!Park::default().wait(Some(Duration::from_millis(1)), &mut || false));
/// ```
pub trait Wait: Sized + Send + Sync {
    /// Makes one on which nobody waits yet.
    ///
    /// # Errors
    /// What it needs of the system could not be had: a descriptor, for [`Eventfd`](super::Eventfd).
    fn new() -> Result<Self>;

    /// Wakes whoever waits here. Called after each publication and when the other end is dropped: keep it cheap.
    fn wake(&self);

    /// Waits until `ready` says true or `limit` is over (`None`: for ever), and returns the last answer of `ready`.
    ///
    /// What is published before the call of [`wake`](Wait::wake) that belongs to it must not be slept over.
    fn wait(&self, limit: Option<Duration>, ready: &mut dyn FnMut() -> bool) -> bool;
}

/// Looks again and again, giving the processor away after some looks. No fence, no system call on the other end.
///
/// ```
/// let (mut producer, mut consumer) = forebay::ring::spsc::ring::<u8>(8)?; // spins
/// std::thread::spawn(move || producer.push(7));
/// assert_eq!(consumer.pop_wait(None), Ok(7));
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Spin;

/// Looks for about six microseconds, then sleeps in the kernel until woken.
///
/// Where the other end last ran on the same processor, it gives that processor away instead of looking. If other threads want
/// that processor too, they may keep it for a time slice.
///
/// The other end pays a load a publication, and a system call only when somebody really sleeps. (Where the kernel has no
/// `membarrier`, or a sandbox forbids it from the start, also a full fence, some 20 cycles on x86-64. Forbidding it later
/// makes a waiting end panic.) No wake-up is lost: after arming, the sleeper looks once more. Arming interrupts every
/// thread of the process that runs then, for a moment: where threads must not be disturbed, have ends [`Spin`].
///
/// ```
/// use forebay::{ring::spsc::{ring_with, Config}, sync::Park};
/// let config = Config { capacity: 8, ..Config::default() };
/// let (mut producer, mut consumer) = ring_with::<u8, Park>(&config)?;
/// std::thread::spawn(move || producer.push(7));
/// assert_eq!(consumer.pop_wait(None), Ok(7));
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Park {
    bell: Bell,
}

/// Looks before each yield; a pause instruction is 25 ns or so.
const LOOKS_BEFORE_YIELD: u32 = if cfg!(loom) { 1 } else { 64 };

/// Looks before the first sleep: about as long as a sleep and its wake-up cost, so that waiting never costs more than
/// twice what the better of both would have.
const LOOKS_BEFORE_SLEEP: u32 = if cfg!(loom) { 1 } else { 256 };

/// Times the processor is given away before the first sleep, where the other end needs that one too. Once is enough for an end
/// that can run; a second time serves one that another thread has overtaken.
const YIELDS_BEFORE_SLEEP: u32 = 2;

impl Wait for Spin {
    fn new() -> Result<Self> {
        Ok(Spin)
    }

    #[inline(always)]
    fn wake(&self) {}

    fn wait(&self, limit: Option<Duration>, ready: &mut dyn FnMut() -> bool) -> bool {
        let deadline = Deadline::after(limit);
        loop {
            for _ in 0..LOOKS_BEFORE_YIELD {
                if ready() {
                    return true;
                }
                hint::spin_loop();
            }
            if deadline.left() == Some(Duration::ZERO) {
                return ready();
            }
            thread::yield_now();
        }
    }
}

impl Wait for Park {
    fn new() -> Result<Self> {
        Ok(Park::default())
    }

    #[inline(always)]
    fn wake(&self) {
        self.bell.ring();
    }

    fn wait(&self, limit: Option<Duration>, ready: &mut dyn FnMut() -> bool) -> bool {
        let (arm, sleep) = (|| self.bell.arm(), |left| self.bell.sleep(left));
        wait_asleep(limit, ready, &self.bell, arm, sleep)
    }
}

/// Looks some times, then arms `bell` by `arm`, looks once more and sleeps by `sleep` (true unless the time was up),
/// again and again. Between looks it pauses, or gives the processor away where the other end needs the same one.
pub(super) fn wait_asleep(
    limit: Option<Duration>,
    ready: &mut dyn FnMut() -> bool,
    bell: &Bell,
    arm: impl Fn(),
    sleep: impl Fn(Option<Duration>) -> bool,
) -> bool {
    let deadline = Deadline::after(limit);
    let (looks, pause): (u32, fn()) = match bell.ringer_is_here() {
        true => (YIELDS_BEFORE_SLEEP, thread::yield_now),
        false => (LOOKS_BEFORE_SLEEP, hint::spin_loop),
    };
    for _ in 0..looks {
        if ready() {
            return true;
        }
        pause();
    }
    loop {
        arm();
        if !planted("park-without-second-look") && ready() {
            bell.disarm();
            return true;
        }
        let woken = sleep(deadline.left());
        bell.disarm();
        if ready() {
            return true;
        }
        if !woken {
            return false;
        }
    }
}

/// The end of a time limit; one beyond the clock's range is none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    pub(crate) fn after(limit: Option<Duration>) -> Deadline {
        Deadline(limit.and_then(|limit| Instant::now().checked_add(limit)))
    }

    /// What is left: `None` for ever, zero when it is over.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.0
            .map(|end| end.saturating_duration_since(Instant::now()))
    }
}

#[cfg(all(test, not(any(loom, miri))))]
mod tests {
    use super::*;
    use crate::sync::{
        Arc, Eventfd, Task,
        atomic::{
            AtomicU32,
            Ordering::{Acquire, Release},
        },
    };
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    /// The processors that this process may use.
    fn allowed() -> Vec<usize> {
        let set = sched_getaffinity(None).unwrap();
        (0..CpuSet::MAX_CPU)
            .filter(|&cpu| set.is_set(cpu))
            .collect()
    }

    fn stay_on(cpu: usize) {
        let mut set = CpuSet::new();
        set.set(cpu);
        sched_setaffinity(None, &set).unwrap();
    }

    /// How often each of `rounds` waits on `sleeps` looks, for a thread on `waker` that wakes it every time it sleeps.
    fn looks<W: Wait + 'static>(sleeps: usize, waker: usize, rounds: u32) -> Vec<u32> {
        let shared = Arc::new((W::new().unwrap(), AtomicU32::new(0), AtomicU32::new(0)));
        let theirs = shared.clone();
        let waking = thread::spawn(move || {
            stay_on(waker);
            let (wait, asked, published) = &*theirs;
            for round in 1..=rounds {
                // Late enough that the other thread sleeps: it has long looked for the last time.
                while asked.load(Acquire) < round {
                    thread::sleep(Duration::from_micros(100));
                }
                thread::sleep(Duration::from_millis(5));
                published.store(round, Release);
                wait.wake();
            }
        });
        let waiting = thread::spawn(move || {
            stay_on(sleeps);
            let (wait, asked, published) = &*shared;
            let wait_for = |round| {
                asked.store(round, Release);
                let mut looks = 0;
                let seen = wait.wait(None, &mut || {
                    looks += 1;
                    published.load(Acquire) == round
                });
                assert!(seen);
                looks
            };
            (1..=rounds).map(wait_for).collect()
        });
        waking.join().unwrap();
        waiting.join().unwrap()
    }

    #[test]
    fn an_end_does_not_look_again_and_again_while_it_holds_the_processor_of_the_other() {
        fn few<W: Wait + 'static>(cpu: usize) {
            let looks = looks::<W>(cpu, cpu, 8);
            // Nothing is known before the first wake-up; and now and then a thread sleeps twice.
            let few = looks[1..].iter().filter(|&&looks| looks < 16).count();
            assert!(few >= 6, "{looks:?}");
        }
        let cpu = allowed()[0];
        few::<Park>(cpu);
        few::<Eventfd>(cpu);
        few::<Task>(cpu);
    }

    #[test]
    fn an_end_looks_for_a_while_where_the_other_has_a_processor_of_its_own() {
        let [first, second, ..] = allowed()[..] else {
            return eprintln!("skipped: needs two processors");
        };
        let looks = looks::<Park>(first, second, 8);
        // Some waits may begin late, when there is something already.
        let long = looks[1..].iter().any(|&looks| looks > LOOKS_BEFORE_SLEEP);
        assert!(long, "{looks:?}");
    }
}
