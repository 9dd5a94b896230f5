//! A receive driver: takes packets from a source into a pool, and passes them to another thread over a ring.
//!
//! ```text
//!  source ──▶ Intake::push ──▶ batch ──▶ ring of PacketDesc ──▶ the other thread: into_packet(), read, drop
//!    ▲           ▲ slots of a Pool ◀────────────────────────────────────────────────────┘
//!    └── Poller: polls under load, asleep while the source is idle
//! ```
//!
//! The driver does not drop packets. While the ring is full or the pool has no free slot, it takes none from the source; the source keeps
//! those that arrive, or drops and counts them. Packets that [`Driver::turn`] takes are visible to the other thread when this call
//! returns.
//!
//! ```
//! use forebay::receive::{Driver, DriverConfig, fill_with};
//! use std::{convert::Infallible, time::Duration};
//! let (mut driver, mut packets) = Driver::new(&DriverConfig::default())?;
//! let mut number = 0_u8;
//! let mut source = fill_with(Duration::from_millis(1), |packet| {
//!     packet.put(1).unwrap()[0] = number; // a fresh packet of 2048 bytes
//!     number += 1;
//!     Ok::<_, Infallible>(number <= 100) // true: the packet is filled; false: there is none now
//! });
//! let Ok(taken) = driver.turn(&mut source);
//! assert_eq!((taken, packets.len()), (64, 64)); // one turn takes at most the budget, by default 64
//! let first = packets.try_pop().unwrap().into_packet();
//! assert_eq!(first.as_slice(), [0]);
//! assert_eq!(driver.stats().received, 64);
//! # Ok::<(), forebay::Error>(())
//! ```
//!
//! # Misuse
//!
//! A forgotten driver (`mem::forget`) leaks its ring and its pool, and the consumer waits for it as if it were still in use. If a source
//! panics, the next turn passes on the packets that the source pushed before.

use crate::{
    Error,
    packet::{Counts, Packet, PacketDesc, Pool, PoolConfig},
    poll::{Limit, Modes, Poller, Source},
    ring::spsc::{Consumer, Producer, RingConfig, RingStats, ring_with},
    sync::{Block, Park, Signal, Wait},
    time::Clock,
};
use std::time::Duration;

/// How long the driver waits for room before it returns, and for a slot before it asks the source again.
const PATIENCE: Duration = Duration::from_millis(10);

/// Settings of a [`Driver`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverConfig {
    /// Packets in the ring at most: 1 or more; 1024 by default.
    pub capacity: usize,
    /// Packets that one turn takes at most: 1 or more; 64 by default.
    pub budget: usize,
    /// How long the poller may [rest](Poller::resting) instead of arming; zero, the default, for never.
    pub rest: Duration,
    /// The slots, 2048 by default. With twice as many as the ring holds, the other thread can keep some.
    pub pool: PoolConfig,
}

impl Default for DriverConfig {
    fn default() -> Self {
        DriverConfig {
            capacity: 1024,
            budget: 64,
            rest: Duration::ZERO,
            pool: PoolConfig::default(),
        }
    }
}

/// A source of packets for a [`Driver`]. [`fill_with`] makes one of a closure; `forebay_net::receive::FromPort` makes one of a
/// port.
pub trait PacketSource {
    /// The error of a failed call.
    type Error;

    /// Pushes the packets that are there into `intake`, until it [is full](Intake::room). Never blocks.
    ///
    /// # Errors
    /// An error of the source. Packets pushed before are passed on.
    fn receive(&mut self, intake: &mut Intake<'_>) -> Result<(), Self::Error>;

    /// Requests a wake-up at the next packet: see [`Source::arm`].
    ///
    /// # Errors
    /// An error of the source.
    fn arm(&mut self) -> Result<(), Self::Error>;

    /// Sleeps until that wake-up within `limit`, or returns early: see [`Source::sleep`].
    ///
    /// # Errors
    /// An error of the source.
    fn sleep(&mut self, limit: &Limit<'_>) -> Result<(), Self::Error>;

    /// Cancels the request for a wake-up.
    fn disarm(&mut self);

    /// Whether no packet will follow, so that [`Driver::run`] returns. The default is false.
    fn has_ended(&self) -> bool {
        false
    }
}

/// Where a source puts its packets during one call.
#[derive(Debug)]
pub struct Intake<'a> {
    pool: &'a mut Pool,
    batch: &'a mut Vec<PacketDesc>,
    /// The length that the batch may reach.
    limit: usize,
    starves: &'a mut bool,
}

impl Intake<'_> {
    /// Number of packets that it still takes.
    #[inline]
    pub fn room(&self) -> usize {
        self.limit - self.batch.len()
    }

    /// The pool, to make packets of.
    #[inline]
    pub fn pool(&mut self) -> &mut Pool {
        self.pool
    }

    /// A fresh packet. `None`: there is no room, or no free slot.
    #[inline]
    pub fn take(&mut self) -> Option<Packet> {
        let packet = (self.room() > 0).then(|| self.pool.take())?;
        *self.starves |= packet.is_none();
        packet
    }

    /// Passes a packet on.
    ///
    /// # Errors
    /// Returns the packet: there is no room, or it [cannot become a descriptor](Packet::into_desc).
    #[inline]
    pub fn push(&mut self, packet: Packet) -> Result<(), Packet> {
        match self.room() {
            0 => Err(packet),
            _ => packet.into_desc().map(|desc| self.batch.push(desc)),
        }
    }

    /// Reports that the pool has no free slot for a packet of the source; the driver waits for one before it asks again.
    #[inline]
    pub fn starve(&mut self) {
        *self.starves = true;
    }
}

/// The counts of a [`Driver`] so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DriverStats {
    /// Packets passed to the ring.
    pub received: u64,
    /// Turns that ended without a packet because the ring was full.
    pub ring_full: u64,
    /// Checks of the source during which the pool ran out of slots.
    pub pool_empty: u64,
    /// The ring.
    pub ring: RingStats,
    /// The pool.
    pub pool: Counts,
    /// The time spent busy and asleep.
    pub modes: Modes,
}

/// Takes packets from a source into a pool, and passes them on over a ring. Belongs to one thread at a time.
#[derive(Debug)]
pub struct Driver<W: Wait = Park> {
    pool: Pool,
    producer: Producer<PacketDesc, W>,
    /// Packets of this turn; or of an earlier one, if its source panicked.
    batch: Vec<PacketDesc>,
    poller: Poller,
    ring_full: u64,
    pool_empty: u64,
}

impl Driver {
    /// A driver in real time, whose ring sleeps while it waits, and the consumer for the other thread.
    ///
    /// # Errors
    /// A 0 in `config`, or not enough memory or memory maps.
    pub fn new(config: &DriverConfig) -> crate::Result<(Driver, Consumer<PacketDesc>)> {
        Driver::with(config, Clock::real())
    }
}

impl<W: Block> Driver<W> {
    /// A driver whose ring waits by `W`, with the time of `clock`.
    ///
    /// # Errors
    /// Those of [`new`](Driver::new).
    pub fn with(
        config: &DriverConfig,
        clock: Clock,
    ) -> crate::Result<(Self, Consumer<PacketDesc, W>)> {
        if config.budget == 0 {
            return Err(Error::invalid("driver", "taking 0 packets a turn")
                .advise("Ask for a budget of at least 1"));
        }
        let (producer, consumer) = ring_with(&RingConfig {
            capacity: config.capacity,
            ..RingConfig::default()
        })?;
        let driver = Driver {
            pool: Pool::new(&config.pool)?,
            producer,
            batch: Vec::with_capacity(config.budget),
            poller: Poller::new(config.budget, clock).resting(config.rest),
            ring_full: 0,
            pool_empty: 0,
        };
        Ok((driver, consumer))
    }

    /// One turn: takes packets from `source` and passes them on; returns how many. If there are none, sleeps until the source wakes
    /// it, or returns early. While the ring is full, waits up to 10 ms for the consumer; if the consumer [is
    /// gone](Driver::consumer_is_gone), it returns at once.
    ///
    /// # Errors
    /// An error of the source, unchanged.
    #[inline]
    pub fn turn<S: PacketSource>(&mut self, source: &mut S) -> Result<usize, S::Error> {
        self.turn_within(source, &Limit::NONE)
    }

    /// Takes turns until the source [has ended](PacketSource::has_ended), the [consumer is gone](Driver::consumer_is_gone), or
    /// `stop` is raised, which may happen in another thread or in a signal handler. Returns the number of packets taken.
    ///
    /// That the consumer is gone is noticed when the source wakes up. If the source may sleep for long, the thread that drops the
    /// consumer should raise `stop`, too.
    ///
    /// # Errors
    /// An error of the source, unchanged.
    ///
    /// ```
    /// use forebay::{receive::{Driver, DriverConfig, fill_with}, sync::Signal};
    /// use std::{convert::Infallible, time::Duration};
    /// let (mut driver, packets) = Driver::new(&DriverConfig::default())?;
    /// let stop = Signal::new()?;
    /// let mut left = 100;
    /// let mut source = fill_with(Duration::from_millis(1), |_packet| {
    ///     if left == 0 { stop.raise(); } // usually done by another thread
    ///     left -= 1;
    ///     Ok::<_, Infallible>(left >= 0)
    /// });
    /// let Ok(taken) = driver.run(&mut source, &stop);
    /// assert_eq!((taken, packets.len()), (100, 100));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn run<S: PacketSource>(&mut self, source: &mut S, stop: &Signal) -> Result<u64, S::Error> {
        self.run_timeout(source, stop, Duration::MAX)
    }

    /// Like [`run`](Driver::run), for up to `timeout` of the driver's clock.
    ///
    /// # Errors
    /// Those of `run`.
    pub fn run_timeout<S: PacketSource>(
        &mut self,
        source: &mut S,
        stop: &Signal,
        timeout: Duration,
    ) -> Result<u64, S::Error> {
        let limit = self.poller.limit(stop, timeout);
        let mut taken = 0;
        while !(limit.is_over() || source.has_ended() || self.consumer_is_gone()) {
            taken += self.turn_within(source, &limit)? as u64;
        }
        Ok(taken)
    }

    #[inline]
    fn turn_within<S: PacketSource>(
        &mut self,
        source: &mut S,
        limit: &Limit<'_>,
    ) -> Result<usize, S::Error> {
        if self.producer.wait_vacant_timeout(1, PATIENCE) == 0 {
            self.ring_full += u64::from(!self.consumer_is_gone());
            return Ok(0);
        }
        let (pool, producer, batch) = (&mut self.pool, &mut self.producer, &mut self.batch);
        let (mut pool_empty, starves) = (0, false);
        let mut turn = Turn {
            source,
            pool,
            producer,
            batch,
            starves,
            pool_empty: &mut pool_empty,
        };
        let found = self.poller.turn_within(&mut turn, limit);
        self.pool_empty += pool_empty;
        found
    }

    /// Whether the other thread has dropped its end. Packets that are still in the ring return to the pool when the driver is
    /// dropped.
    pub fn consumer_is_gone(&self) -> bool {
        self.producer.consumer_is_gone()
    }

    /// The counts so far.
    pub fn stats(&self) -> DriverStats {
        DriverStats {
            received: self.producer.pushed(),
            ring_full: self.ring_full,
            pool_empty: self.pool_empty,
            ring: self.producer.stats(),
            pool: self.pool.counts(),
            modes: self.poller.modes(),
        }
    }
}

/// What the poller drives during a turn.
struct Turn<'a, S, W: Wait> {
    source: &'a mut S,
    pool: &'a mut Pool,
    producer: &'a mut Producer<PacketDesc, W>,
    batch: &'a mut Vec<PacketDesc>,
    /// Whether the last look found no free slot for a packet.
    starves: bool,
    pool_empty: &'a mut u64,
}

impl<S: PacketSource, W: Wait> Turn<'_, S, W> {
    /// Passes the batch on. There is room: no more was gathered than was vacant, and only the driver pushes.
    fn flush(&mut self) -> usize {
        self.producer.push_burst(&mut self.batch.drain(..))
    }
}

impl<S: PacketSource, W: Wait> Source for Turn<'_, S, W> {
    type Error = S::Error;

    #[inline]
    fn look(&mut self, budget: usize) -> Result<usize, S::Error> {
        let left_over = self.flush(); // by a source that panicked
        self.starves = false;
        let received = self.source.receive(&mut Intake {
            pool: &mut *self.pool,
            limit: budget.min(self.producer.vacant()),
            batch: &mut *self.batch,
            starves: &mut self.starves,
        });
        *self.pool_empty += u64::from(self.starves);
        let found = left_over + self.flush();
        received.map(|()| found)
    }

    fn arm(&mut self) -> Result<(), S::Error> {
        self.source.arm()
    }

    fn sleep(&mut self, limit: &Limit<'_>) -> Result<(), S::Error> {
        if !self.starves {
            return self.source.sleep(limit);
        }
        // The source has a packet, so it would not sleep: only a slot that returns can help.
        if let Some(packet) = self.pool.take_timeout(PATIENCE) {
            let _ = self.pool.put_back(packet); // its own
        }
        Ok(())
    }

    fn disarm(&mut self) {
        self.source.disarm();
    }
}

/// A source that fills one fresh packet a call: `fill` returns whether there was one. While there is none, the driver sleeps for
/// `rest` at a time.
///
/// A packet that `fill` was shown and did not fill returns to the pool. So does one that `fill` made unfit to [become a
/// descriptor](Packet::into_desc), by keeping a share of it or exchanging it: it is not passed on.
pub fn fill_with<E, F>(rest: Duration, fill: F) -> impl PacketSource<Error = E>
where
    F: FnMut(&mut Packet) -> Result<bool, E>,
{
    struct Fill<F>(Duration, F);
    impl<E, F: FnMut(&mut Packet) -> Result<bool, E>> PacketSource for Fill<F> {
        type Error = E;

        fn receive(&mut self, intake: &mut Intake<'_>) -> Result<(), E> {
            while let Some(mut packet) = intake.take() {
                if !(self.1)(&mut packet)? || intake.push(packet).is_err() {
                    break;
                }
            }
            Ok(())
        }
        fn arm(&mut self) -> Result<(), E> {
            Ok(())
        }
        fn sleep(&mut self, limit: &Limit<'_>) -> Result<(), E> {
            std::thread::sleep(limit.left().map_or(self.0, |left| left.min(self.0)));
            Ok(())
        }
        fn disarm(&mut self) {}
    }
    Fill(rest, fill)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use forebay_testing::dice::times;
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        thread,
    };

    fn small(capacity: usize, slots: u32) -> DriverConfig {
        let pool = PoolConfig {
            slots,
            ..PoolConfig::default()
        };
        DriverConfig {
            capacity,
            budget: 8,
            pool,
            ..DriverConfig::default()
        }
    }

    /// A closure that fills in the numbers up to `end`.
    fn numbers(end: u64) -> impl FnMut(&mut Packet) -> Result<bool, &'static str> {
        let mut next = 0;
        move |packet| {
            packet
                .put(8)
                .unwrap()
                .copy_from_slice(&u64::to_ne_bytes(next));
            next += 1;
            Ok(next <= end)
        }
    }

    fn number(desc: PacketDesc) -> u64 {
        u64::from_ne_bytes(desc.into_packet().as_slice().try_into().unwrap())
    }

    const REST: Duration = Duration::from_micros(10);

    #[test]
    fn every_packet_arrives_once_and_in_order_whatever_is_scarce() {
        let end = times(20_000, 50);
        for (capacity, slots) in [(64, 256), (1, 64), (64, 4)] {
            let (mut driver, consumer) = Driver::new(&small(capacity, slots)).unwrap();
            let reader = thread::spawn(move || {
                for (expected, desc) in consumer.into_iter().enumerate() {
                    assert_eq!(number(desc), expected as u64);
                    crate::packet::return_idle();
                }
            });
            let mut source = fill_with(REST, numbers(end));
            while driver.stats().received < end {
                driver.turn(&mut source).unwrap();
            }
            assert_eq!(driver.turn(&mut source), Ok(0), "there are no more");
            let stats = driver.stats();
            assert_eq!((stats.received, stats.ring.pushed), (end, end));
            drop(driver);
            reader.join().unwrap();
        }
    }

    #[test]
    fn a_full_ring_and_an_empty_pool_hold_the_source_up_and_are_counted() {
        let (mut driver, mut consumer) = Driver::new(&small(4, 8)).unwrap();
        let mut source = fill_with(REST, numbers(100));
        assert_eq!(driver.turn(&mut source), Ok(4));
        assert_eq!(driver.turn(&mut source), Ok(0));
        let stats = driver.stats();
        assert_eq!(
            (stats.received, stats.ring_full, stats.pool_empty),
            (4, 1, 0)
        );
        let mut kept: Vec<_> = consumer.try_iter().collect();
        assert_eq!(driver.turn(&mut source), Ok(4)); // the last slots
        kept.extend(consumer.try_iter());
        assert_eq!(driver.turn(&mut source), Ok(0));
        assert_eq!(driver.stats().pool_empty, 2, "both looks found no slot");
        kept.truncate(7);
        assert_eq!(driver.turn(&mut source), Ok(1));
        let last = consumer.try_pop().unwrap();
        assert_eq!(
            number(last),
            8,
            "the packet that found no slot was not lost"
        );
        drop(consumer);
        assert!(driver.consumer_is_gone());
    }

    #[test]
    fn packets_of_a_source_that_fails_or_panics_are_passed_on() {
        let (mut driver, mut consumer) = Driver::new(&small(64, 64)).unwrap();
        let (mut fill, mut left) = (numbers(100), 3);
        let mut source = fill_with(REST, |packet: &mut Packet| {
            left -= 1;
            match left {
                0 => Err("broken"),
                -3 => panic!("a planted panic"),
                _ => fill(packet),
            }
        });
        assert_eq!(driver.turn(&mut source), Err("broken"));
        assert_eq!(consumer.len(), 2);
        catch_unwind(AssertUnwindSafe(|| driver.turn(&mut source))).unwrap_err();
        drop(source);
        let nothing = &mut fill_with(REST, |_| Ok::<_, ()>(false));
        assert_eq!(driver.turn(nothing), Ok(2));
        let all: Vec<_> = consumer.try_iter().map(number).collect();
        assert_eq!(all, [0, 1, 2, 3]);
        assert_eq!(driver.pool.refill(), 64);
    }

    #[test]
    fn it_runs_until_it_is_stopped_its_time_ends_or_an_end_is_gone() {
        let (mut driver, consumer) = Driver::new(&small(64, 64)).unwrap();
        let stop = Signal::new().unwrap();
        let mut idle = fill_with(REST, |_| Ok::<_, ()>(false));
        let short = Duration::from_millis(1);
        assert_eq!(driver.run_timeout(&mut idle, &stop, short), Ok(0));
        thread::scope(|scope| {
            let raising = scope.spawn(|| stop.raise());
            assert_eq!(driver.run(&mut idle, &stop), Ok(0));
            raising.join().unwrap(); // ThreadSanitizer does not see how a scope waits
        });
        assert!(stop.clear());
        let mut source = fill_with(REST, numbers(10));
        let reader = thread::spawn(move || consumer.into_iter().take(10).map(number).count());
        // The reader leaves after the tenth.
        assert_eq!(driver.run(&mut source, &stop), Ok(10));
        assert_eq!(reader.join().unwrap(), 10);
    }

    #[test]
    fn an_intake_takes_no_more_than_its_room() {
        struct Greedy;
        impl PacketSource for Greedy {
            type Error = ();
            fn receive(&mut self, intake: &mut Intake<'_>) -> Result<(), ()> {
                while let Some(packet) = intake.take() {
                    intake.push(packet).map_err(|_| ())?;
                }
                let packet = intake.pool().take().unwrap();
                assert!(intake.room() == 0 && intake.push(packet).is_err());
                Ok(())
            }
            fn arm(&mut self) -> Result<(), ()> {
                Ok(())
            }
            fn sleep(&mut self, _limit: &Limit<'_>) -> Result<(), ()> {
                Ok(())
            }
            fn disarm(&mut self) {}
        }
        let (mut driver, consumer) = Driver::new(&small(64, 64)).unwrap();
        assert_eq!(driver.turn(&mut Greedy), Ok(8));
        assert_eq!(consumer.len(), 8);
        let error = Driver::new(&DriverConfig {
            budget: 0,
            ..small(1, 1)
        })
        .unwrap_err();
        assert!(error.to_string().contains("at least 1"), "{error}");
    }
}
