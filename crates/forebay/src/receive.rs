//! A receive driver: takes packets from a source into a pool, and passes them to another thread over a ring. A
//! [`Poller`](crate::poll::Poller) runs it.
//!
//! ```text
//!  source ──▶ Intake::push ──▶ batch ──▶ ring of PacketDesc ──▶ the other thread: into_packet(), read, drop
//!    ▲           ▲ slots of a Pool ◀────────────────────────────────────────────────────┘
//!    └── Poller, whose source is [`WithSource`]: polls under load, asleep while the source is idle
//! ```
//!
//! The driver does not drop packets. While the ring is full or the pool has no free slot, it takes none from the source; the source keeps
//! those that arrive, or drops and counts them. Packets that a turn of the poller takes are visible to the other thread when that
//! turn returns.
//!
//! ```
//! use forebay::{poll::Poller, receive::{Driver, DriverConfig, fill_with}, time::Clock};
//! use std::{convert::Infallible, time::Duration};
//! let mut number = 0_u8;
//! let mut source = fill_with(Duration::from_millis(1), |packet| {
//!     packet.put(1).unwrap()[0] = number; // a fresh packet of 2048 bytes
//!     number += 1;
//!     Ok::<_, Infallible>(number <= 100) // true: the packet is filled; false: there is none now
//! });
//! let (mut driver, mut packets) = Driver::new(&DriverConfig::default())?;
//! let mut poller = Poller::new(64, Clock::real());
//! let Ok(taken) = poller.turn(&mut driver.with_source(&mut source));
//! assert_eq!((taken, packets.len()), (64, 64)); // one turn takes at most the budget of the poller
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
    packet::{Packet, PacketDesc, Pool, PoolConfig, PoolCounts},
    poll::{Limit, Source},
    ring::spsc::{Consumer, Producer, RingConfig, RingStats, WaitError, ring_with},
    sync::{Block, Park, Wait},
};
use std::time::Duration;

/// How long the driver waits for room in the ring, or for a slot, before it asks the source again.
const PATIENCE: Duration = Duration::from_millis(10);

/// Settings of a [`Driver`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverConfig {
    /// Packets in the ring at most: 1 or more; 1024 by default.
    pub capacity: usize,
    /// The slots, 2048 by default. With twice as many as the ring holds, the other thread can keep some.
    pub pool: PoolConfig,
}

impl Default for DriverConfig {
    fn default() -> Self {
        DriverConfig {
            capacity: 1024,
            pool: PoolConfig::default(),
        }
    }
}

/// A source of packets for a [`Driver`]. [`fill_with`] makes one of a closure; `forebay_net::receive::FromPort` makes one of a
/// port. All calls but [`receive`](PacketSource::receive) are those of a [`Source`].
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

    /// Whether no packet will follow, so that [`Poller::run`](crate::poll::Poller::run) returns. The default is false.
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
#[non_exhaustive]
pub struct DriverStats {
    /// Packets passed to the ring.
    pub received: u64,
    /// How often the driver waited 10 ms in vain for room in the ring. [`RingStats::times_full`] also counts shorter waits.
    pub ring_full: u64,
    /// Checks of the source during which the pool ran out of slots.
    pub pool_empty: u64,
    /// The ring.
    pub ring: RingStats,
    /// The pool.
    pub pool: PoolCounts,
}

/// Takes packets from a source into a pool, and passes them on over a ring. Belongs to one thread at a time.
///
/// A [`Poller`](crate::poll::Poller) runs it [with a source](Driver::with_source).
#[derive(Debug)]
pub struct Driver<W: Wait = Park> {
    pool: Pool,
    producer: Producer<PacketDesc, W>,
    /// Packets of this look; or of an earlier one, if its source panicked.
    batch: Vec<PacketDesc>,
    ring_full: u64,
    pool_empty: u64,
}

impl Driver {
    /// A driver whose ring sleeps while it waits, and the consumer for the other thread.
    ///
    /// # Errors
    /// A 0 in `config`, or not enough memory or memory maps.
    pub fn new(config: &DriverConfig) -> crate::Result<(Driver, Consumer<PacketDesc>)> {
        Driver::with(config)
    }
}

impl<W: Block> Driver<W> {
    /// A driver whose ring waits by `W`.
    ///
    /// # Errors
    /// Those of [`new`](Driver::new).
    pub fn with(config: &DriverConfig) -> crate::Result<(Self, Consumer<PacketDesc, W>)> {
        let (producer, consumer) = ring_with(&RingConfig {
            capacity: config.capacity,
            ..RingConfig::default()
        })?;
        let driver = Driver {
            pool: Pool::new(&config.pool)?,
            producer,
            batch: Vec::new(),
            ring_full: 0,
            pool_empty: 0,
        };
        Ok((driver, consumer))
    }

    /// This driver, taking packets from `source`: for a [`Poller`](crate::poll::Poller), whose budget is the most packets that one
    /// turn takes.
    ///
    /// [`Poller::run`](crate::poll::Poller::run) returns when the source [has ended](PacketSource::has_ended) or the [consumer is
    /// gone](Driver::consumer_is_gone). That the consumer is gone is noticed when the source wakes up. If the source may sleep for
    /// long, the thread that drops the consumer should also raise the signal that stops the poller.
    ///
    /// ```
    /// use forebay::{poll::Poller, receive::{Driver, DriverConfig, fill_with}, sync::Signal, time::Clock};
    /// use std::{convert::Infallible, time::Duration};
    /// let (mut driver, packets) = Driver::new(&DriverConfig::default())?;
    /// let stop = Signal::new()?;
    /// let mut left = 100;
    /// let mut source = fill_with(Duration::from_millis(1), |_packet| {
    ///     if left == 0 { stop.raise(); } // usually done by another thread
    ///     left -= 1;
    ///     Ok::<_, Infallible>(left >= 0)
    /// });
    /// let Ok(taken) = Poller::new(64, Clock::real()).run(&mut driver.with_source(&mut source), &stop);
    /// assert_eq!((taken, packets.len()), (100, 100));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn with_source<'a, S: PacketSource>(
        &'a mut self,
        source: &'a mut S,
    ) -> WithSource<'a, S, W> {
        WithSource {
            driver: self,
            source,
            lacks: Lack::Nothing,
        }
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
        }
    }

    /// Passes the batch on. There is room: no more was gathered than was vacant, and only the driver pushes.
    fn flush(&mut self) -> usize {
        self.producer.push_burst(&mut self.batch.drain(..))
    }
}

/// A [`Driver`] with the source that it takes packets from: what a [`Poller`](crate::poll::Poller) runs.
#[derive(Debug)]
pub struct WithSource<'a, S, W: Wait = Park> {
    driver: &'a mut Driver<W>,
    source: &'a mut S,
    lacks: Lack,
}

/// What the driver lacked at its last look, and waits for instead of for its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lack {
    Nothing,
    RoomInRing,
    Slot,
}

impl<S: PacketSource, W: Block> Source for WithSource<'_, S, W> {
    type Error = S::Error;

    #[inline]
    fn look(&mut self, budget: usize) -> Result<usize, S::Error> {
        let driver = &mut *self.driver;
        let left_over = driver.flush(); // by a source that panicked
        let room = budget.min(driver.producer.vacant());
        if room == 0 {
            self.lacks = Lack::RoomInRing;
            return Ok(left_over);
        }
        driver.batch.reserve(room);
        let mut starves = false;
        let received = self.source.receive(&mut Intake {
            pool: &mut driver.pool,
            limit: room,
            batch: &mut driver.batch,
            starves: &mut starves,
        });
        self.lacks = if starves { Lack::Slot } else { Lack::Nothing };
        driver.pool_empty += u64::from(starves);
        let found = left_over + driver.flush();
        received.map(|()| found)
    }

    fn arm(&mut self) -> Result<(), S::Error> {
        self.source.arm()
    }

    fn sleep(&mut self, limit: &Limit<'_>) -> Result<(), S::Error> {
        let driver = &mut *self.driver;
        let patience = limit.left().map_or(PATIENCE, |left| left.min(PATIENCE));
        match self.lacks {
            Lack::Nothing => return self.source.sleep(limit),
            // The source may have packets that the driver cannot take, and would then not sleep.
            Lack::RoomInRing => {
                let answer = driver.producer.wait_vacant_timeout(1, patience);
                driver.ring_full += u64::from(answer == Err(WaitError::TimedOut));
            }
            Lack::Slot => {
                if let Some(packet) = driver.pool.take_timeout(patience) {
                    let _ = driver.pool.put_back(packet); // its own
                }
            }
        }
        Ok(())
    }

    fn disarm(&mut self) {
        self.source.disarm();
    }

    fn has_ended(&self) -> bool {
        self.source.has_ended() || self.driver.consumer_is_gone()
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
    use crate::{poll::Poller, sync::Signal, time::Clock};
    use forebay_testing::dice::times;
    use std::{
        cell::Cell,
        panic::{AssertUnwindSafe, catch_unwind},
        thread,
    };

    fn small(capacity: usize, slots: u32) -> DriverConfig {
        let pool = PoolConfig {
            slots,
            ..PoolConfig::default()
        };
        DriverConfig { capacity, pool }
    }

    fn poller() -> Poller {
        Poller::new(8, Clock::real())
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
            let mut source = fill_with(REST, numbers(end));
            let (mut driver, consumer) = Driver::new(&small(capacity, slots)).unwrap();
            let mut poller = poller();
            let reader = thread::spawn(move || {
                for (expected, desc) in consumer.into_iter().enumerate() {
                    assert_eq!(number(desc), expected as u64);
                    crate::packet::return_idle();
                }
            });
            while driver.stats().received < end {
                poller.turn(&mut driver.with_source(&mut source)).unwrap();
            }
            assert_eq!(
                poller.turn(&mut driver.with_source(&mut source)),
                Ok(0),
                "there are no more"
            );
            let stats = driver.stats();
            assert_eq!((stats.received, stats.ring.pushed), (end, end));
            drop(driver);
            reader.join().unwrap();
        }
    }

    #[test]
    fn a_full_ring_and_an_empty_pool_hold_the_source_up_and_are_counted() {
        let mut source = fill_with(REST, numbers(100));
        let (mut driver, mut consumer) = Driver::new(&small(4, 8)).unwrap();
        let mut poller = poller();
        assert_eq!(poller.turn(&mut driver.with_source(&mut source)), Ok(4));
        assert_eq!(poller.turn(&mut driver.with_source(&mut source)), Ok(0));
        let stats = driver.stats();
        assert_eq!(
            (stats.received, stats.ring_full, stats.pool_empty),
            (4, 1, 0)
        );
        let mut kept: Vec<_> = consumer.try_iter().collect();
        assert_eq!(poller.turn(&mut driver.with_source(&mut source)), Ok(4)); // the last slots
        kept.extend(consumer.try_iter());
        assert_eq!(poller.turn(&mut driver.with_source(&mut source)), Ok(0));
        assert_eq!(driver.stats().pool_empty, 2, "both looks found no slot");
        kept.truncate(7);
        assert_eq!(poller.turn(&mut driver.with_source(&mut source)), Ok(1));
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
        let (mut fill, mut left) = (numbers(100), 3);
        let mut source = fill_with(REST, |packet: &mut Packet| {
            left -= 1;
            match left {
                0 => Err("broken"),
                -3 => panic!("a planted panic"),
                ..-3 => Ok(false),
                _ => fill(packet),
            }
        });
        let (mut driver, mut consumer) = Driver::new(&small(64, 64)).unwrap();
        let mut poller = poller();
        assert_eq!(
            poller.turn(&mut driver.with_source(&mut source)),
            Err("broken")
        );
        assert_eq!(consumer.len(), 2);
        catch_unwind(AssertUnwindSafe(|| {
            poller.turn(&mut driver.with_source(&mut source))
        }))
        .unwrap_err();
        assert_eq!(poller.turn(&mut driver.with_source(&mut source)), Ok(2));
        let all: Vec<_> = consumer.try_iter().map(number).collect();
        assert_eq!(all, [0, 1, 2, 3]);
        assert_eq!(driver.pool.refill(), 64);
    }

    #[test]
    fn it_runs_until_it_is_stopped_its_time_ends_or_an_end_is_gone() {
        let is_idle = Cell::new(true);
        let mut fill = numbers(10);
        let mut source = fill_with(REST, |packet: &mut Packet| match is_idle.get() {
            true => Ok(false),
            false => fill(packet),
        });
        let (mut driver, consumer) = Driver::new(&small(64, 64)).unwrap();
        let (mut poller, stop) = (poller(), Signal::new().unwrap());
        let short = Duration::from_millis(1);
        assert_eq!(
            poller.run_timeout(&mut driver.with_source(&mut source), &stop, short),
            Ok(0)
        );
        thread::scope(|scope| {
            let raising = scope.spawn(|| stop.raise());
            assert_eq!(
                poller.run(&mut driver.with_source(&mut source), &stop),
                Ok(0)
            );
            raising.join().unwrap(); // ThreadSanitizer does not see how a scope waits
        });
        assert!(stop.clear());
        is_idle.set(false);
        let reader = thread::spawn(move || consumer.into_iter().take(10).map(number).count());
        // The reader leaves after the tenth.
        assert_eq!(
            poller.run(&mut driver.with_source(&mut source), &stop),
            Ok(10)
        );
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
        assert_eq!(poller().turn(&mut driver.with_source(&mut Greedy)), Ok(8));
        assert_eq!(consumer.len(), 8);
    }
}
