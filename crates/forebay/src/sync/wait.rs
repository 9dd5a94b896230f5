//! How an end of a ring waits: a type parameter, so that ends that only spin pay nothing for sleeping.
//!
//! `eventfd` and `task` have two more ways.

use super::{Bell, Deadline, hint, planted, thread};
use crate::Result;
use std::time::{Duration, Instant};

/// A way to wait for the other end.
///
/// Each end of a ring owns one. The other end calls [`wake`](Wait::wake) after everything it publishes.
///
/// ```
/// use forebay::sync::{Park, Spin, Wait};
/// use std::time::{Duration, Instant};
/// let mut checks = 0;
/// let is_ready = Spin.wait(None, &mut || { checks += 1; checks == 3 });
/// assert!(is_ready);
/// assert!(!Park::default().wait(Some(Instant::now() + Duration::from_millis(1)), &mut || false));
/// ```
pub trait Wait: Sized + Send + Sync {
    /// Makes one without waiters.
    ///
    /// # Errors
    /// A system resource that it needs is not available: a descriptor, for [`Eventfd`](super::Eventfd).
    fn new() -> Result<Self>;

    /// Wakes the thread or task that waits here. Called after each publication and when the other end is dropped: keep it cheap.
    fn wake(&self);

    /// Blocks the thread until `ready` returns true or the `deadline` passes (`None`: no deadline), and returns the last result of
    /// `ready`.
    ///
    /// After a publication and its call of [`wake`](Wait::wake), this must call `ready` again instead of sleeping on.
    fn wait(&self, deadline: Option<Instant>, ready: &mut dyn FnMut() -> bool) -> bool;
}

/// A way to wait that blocks the thread: all but [`Task`](super::Task).
///
/// Ends that wait in such a way have the blocking calls of a ring (`push`, `pop`, `iter`) and the traits of `std::io`.
pub trait Block: Wait {}

impl Block for Spin {}
impl Block for Park {}

/// Checks in a loop, and yields the processor after some checks. The other end needs no fence and no system call.
///
/// ```
/// use forebay::{ring::spsc::{ring_with, RingConfig}, sync::Spin};
/// let (mut producer, mut consumer) = ring_with::<u8, Spin>(&RingConfig::default())?;
/// std::thread::spawn(move || producer.push(7));
/// assert_eq!(consumer.pop(), Ok(7));
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Spin;

/// Checks for about 6 µs, then sleeps in the kernel until woken.
///
/// If the other end last ran on the same processor, it yields that processor instead of checking. Other threads that are ready
/// to run there may then keep it for a time slice.
///
/// The other end pays one load per publication, and a system call only if this end sleeps. If the kernel has no `membarrier`, or
/// a sandbox forbids it from the start, the other end also pays a full fence per publication, some 20 cycles on x86-64. If a
/// sandbox forbids `membarrier` later, a waiting end panics.
///
/// No wake-up is lost: after arming, the sleeper checks once more. Arming briefly interrupts every running thread of the
/// process. If threads must not be disturbed, use [`Spin`].
///
/// ```
/// let (mut producer, mut consumer) = forebay::ring::spsc::ring::<u8>(8)?; // waits by parking
/// std::thread::spawn(move || producer.push(7));
/// assert_eq!(consumer.pop(), Ok(7));
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Park {
    bell: Bell,
}

/// Checks before each yield; a pause instruction takes about 25 ns.
const CHECKS_BEFORE_YIELD: u32 = if cfg!(loom) { 1 } else { 64 };

/// Checks before the first sleep. They take about as long as a sleep and its wake-up, so that waiting never costs more than
/// twice the cheaper of the two.
const CHECKS_BEFORE_SLEEP: u32 = if cfg!(loom) { 1 } else { 256 };

/// Yields before the first sleep, if the other end needs the same processor. One is enough for an end that can run; the second
/// helps if another thread was scheduled first.
const YIELDS_BEFORE_SLEEP: u32 = 2;

impl Wait for Spin {
    fn new() -> Result<Self> {
        Ok(Spin)
    }

    #[inline(always)]
    fn wake(&self) {}

    fn wait(&self, deadline: Option<Instant>, ready: &mut dyn FnMut() -> bool) -> bool {
        loop {
            for _ in 0..CHECKS_BEFORE_YIELD {
                if ready() {
                    return true;
                }
                hint::spin_loop();
            }
            if left(deadline) == Some(Duration::ZERO) {
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

    fn wait(&self, deadline: Option<Instant>, ready: &mut dyn FnMut() -> bool) -> bool {
        let (arm, sleep) = (|| self.bell.arm(), |left| self.bell.sleep(left));
        wait_asleep(deadline, ready, &self.bell, arm, sleep)
    }
}

/// Checks some times, then in a loop: arms `bell` by `arm`, checks once more and sleeps by `sleep` (true unless its time limit
/// expired). Between checks it pauses, or yields the processor if the other end needs the same one.
pub(super) fn wait_asleep(
    deadline: Option<Instant>,
    ready: &mut dyn FnMut() -> bool,
    bell: &Bell,
    arm: impl Fn(),
    sleep: impl Fn(Option<Duration>) -> bool,
) -> bool {
    let (checks, pause): (u32, fn()) = match bell.ringer_is_here() {
        true => (YIELDS_BEFORE_SLEEP, thread::yield_now),
        false => (CHECKS_BEFORE_SLEEP, hint::spin_loop),
    };
    for _ in 0..checks {
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
        let woken = sleep(left(deadline));
        bell.disarm();
        if ready() {
            return true;
        }
        if !woken {
            return false;
        }
    }
}

/// Calls `look` until it returns something: 40 times with a pause before each call, which takes about a microsecond, then
/// `yields` times after yielding the processor, unless `deadline` passes. For locks and queues, whose other threads may need
/// this processor, before the first sleep.
pub(crate) fn spin_then_yield<T>(
    yields: u32,
    deadline: &Deadline,
    mut look: impl FnMut() -> Option<T>,
) -> Option<T> {
    const SPINS: u32 = 40;
    let rounds = if cfg!(loom) { 0 } else { SPINS + yields };
    for round in 0..rounds {
        if round < SPINS {
            hint::spin_loop();
        } else if deadline.is_over() {
            return None; // the thread that got the processor may have kept it for long
        } else {
            thread::yield_now();
        }
        let found = look();
        if found.is_some() {
            return found;
        }
    }
    None
}

/// The remaining time: `None` is forever, zero is expired.
fn left(deadline: Option<Instant>) -> Option<Duration> {
    deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
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

    /// The number of checks in each of `rounds` waits on processor `sleeps`. A thread on `waker` wakes each wait late.
    fn checks<W: Wait + 'static>(sleeps: usize, waker: usize, rounds: u32) -> Vec<u32> {
        let shared = Arc::new((W::new().unwrap(), AtomicU32::new(0), AtomicU32::new(0)));
        let theirs = shared.clone();
        let waking = thread::spawn(move || {
            stay_on(waker);
            let (wait, asked, published) = &*theirs;
            for round in 1..=rounds {
                // Wake late, when the other thread has long made its last check and sleeps.
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
                let mut checks = 0;
                let seen = wait.wait(None, &mut || {
                    checks += 1;
                    published.load(Acquire) == round
                });
                assert!(seen);
                checks
            };
            (1..=rounds).map(wait_for).collect()
        });
        waking.join().unwrap();
        waiting.join().unwrap()
    }

    #[test]
    fn an_end_does_not_keep_checking_while_it_holds_the_processor_of_the_other() {
        fn few<W: Wait + 'static>(cpu: usize) {
            let checks = checks::<W>(cpu, cpu, 8);
            // Before the first wake-up nothing is known; and now and then a thread sleeps twice.
            let few = checks[1..].iter().filter(|&&checks| checks < 16).count();
            assert!(few >= 6, "{checks:?}");
        }
        let cpu = allowed()[0];
        few::<Park>(cpu);
        few::<Eventfd>(cpu);
        few::<Task>(cpu);
    }

    #[test]
    fn an_end_keeps_checking_for_a_while_if_the_other_has_its_own_processor() {
        let [first, second, ..] = allowed()[..] else {
            return eprintln!("skipped: needs two processors");
        };
        let checks = checks::<Park>(first, second, 8);
        // Some waits may begin late, when there is already something.
        let long = checks[1..]
            .iter()
            .any(|&checks| checks > CHECKS_BEFORE_SLEEP);
        assert!(long, "{checks:?}");
    }
}
