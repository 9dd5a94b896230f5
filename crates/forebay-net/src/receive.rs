//! Ports as sources: of a [`Driver`](forebay::receive::Driver), which keeps their packets in a pool and passes them to another
//! thread, and of a [`Poller`](forebay::poll::Poller), which shows their frames to a closure.
//!
//! | Source | Driven by | Each frame |
//! |---|---|---|
//! | [`FromPort`] | `Poller`, with a `Driver` | is copied into a packet of the pool |
//! | [`EachFrame`] | `Poller` | is shown to a closure in place |
//!
//! ```
//! use forebay::{poll::Poller, receive::{Driver, DriverConfig}, sync::Signal, time::Clock};
//! use forebay_net::{receive::FromPort, sim::Sim};
//! let clock = Clock::real();
//! let mut card = FromPort::new(Sim::new("rate=1G,count=100".parse()?, clock.clone()), clock.clone());
//! let (mut driver, mut packets) = Driver::new(&DriverConfig::default())?;
//! let stop = Signal::new()?; // another thread may raise it
//! let mut poller = Poller::new(64, clock);
//! assert_eq!(poller.run(&mut driver.with_source(&mut card), &stop)?, 100); // until the card has ended
//! assert_eq!((driver.stats().received, packets.len()), (100, 100));
//! assert_eq!(packets.pop().unwrap().into_packet().len(), 60);
//! # Ok::<(), forebay::Error>(())
//! ```

use crate::{
    packets::{NotCopied, copy_frame},
    port::{Frame, Port, Wake},
};
use forebay::{
    Error, Result,
    poll::{Limit, Source},
    receive::{Intake, PacketSource},
    time::Clock,
};
use std::{fmt, time::Duration};

/// The longest sleep on a descriptor. A port that has ended, or that another thread has stopped, is seen after it.
pub(crate) const MAX_SLEEP: Duration = Duration::from_millis(100);

/// A port that sleeps on `clock`, and whether it has ended.
#[derive(Debug)]
pub(crate) struct Sleeper<P> {
    pub port: P,
    clock: Clock,
    /// The port has another clock.
    clash: Option<Error>,
    pub has_ended: bool,
}

impl<P: Port> Sleeper<P> {
    pub fn new(port: P, clock: Clock) -> Sleeper<P> {
        Sleeper {
            clash: port.info().runs_on(&clock, port.name()).err(),
            port,
            clock,
            has_ended: false,
        }
    }

    pub fn arm(&mut self) -> Result<()> {
        if let Some(error) = self.clash.take() {
            return Err(error);
        }
        self.has_ended = matches!(self.port.arm()?, Wake::End);
        Ok(())
    }

    pub fn sleep(&mut self, limit: &Limit<'_>) -> Result<()> {
        match self.port.arm()? {
            Wake::Ready | Wake::End => {}
            Wake::At(then) => limit.sleep_until(&self.clock, then),
            Wake::Fd(fd) => limit
                .poll(&[fd], Some(MAX_SLEEP))
                .map_err(|cause| Error::new("interface", "waiting for packets").because(cause))?,
        }
        Ok(())
    }
}

/// The methods of a source that waits for the port of a [`Sleeper`].
macro_rules! sleeps {
    ($this:ident => $sleeper:expr) => {
        fn arm(&mut self) -> Result<()> {
            let $this = self;
            $sleeper.arm()
        }

        fn sleep(&mut self, limit: &Limit<'_>) -> Result<()> {
            let $this = self;
            $sleeper.sleep(limit)
        }

        fn disarm(&mut self) {
            let $this = self;
            $sleeper.port.disarm();
        }

        fn has_ended(&self) -> bool {
            let $this = self;
            $sleeper.has_ended
        }
    };
}
pub(crate) use sleeps;

/// A port whose frames are copied into packets.
#[derive(Debug)]
pub struct FromPort<P> {
    sleeper: Sleeper<P>,
    unfit: u64,
}

impl<P: Port> FromPort<P> {
    /// `port` as a source. `clock` is the one that the port was made with; [`Clock::real`] for all but the simulated card, shares and
    /// [copies](crate::af_xdp#copies) of an XDP program. With another one, [`arm`](PacketSource::arm) is an error.
    pub fn new(port: P, clock: Clock) -> FromPort<P> {
        FromPort {
            sleeper: Sleeper::new(port, clock),
            unfit: 0,
        }
    }

    /// Whether the port has ended: no more packets will come.
    pub fn has_ended(&self) -> bool {
        self.sleeper.has_ended
    }

    /// Frames that were skipped, because a packet cannot hold them: see [`NotCopied`].
    pub fn unfit(&self) -> u64 {
        self.unfit
    }

    /// The port, for its counts or to stop it.
    pub fn port(&mut self) -> &mut P {
        &mut self.sleeper.port
    }
}

impl<P: Port> PacketSource for FromPort<P> {
    type Error = Error;

    fn receive(&mut self, intake: &mut Intake<'_>) -> Result<()> {
        let mut burst = self.sleeper.port.receive(intake.room())?;
        while intake.room() > 0 {
            let Some(frame) = burst.next_frame() else {
                break;
            };
            match copy_frame(intake.pool(), &frame) {
                // A fresh packet becomes a descriptor, and there is room.
                Ok(packet) => self.unfit += u64::from(intake.push(packet).is_err()),
                Err(NotCopied::Exhausted) => {
                    burst.put_back();
                    intake.starve();
                    break;
                }
                Err(_) => self.unfit += 1,
            }
        }
        Ok(())
    }

    sleeps!(it => it.sleeper);
}

/// A port whose frames are shown to a closure, where they are.
///
/// ```
/// use forebay::{poll::Poller, sync::Signal, time::Clock};
/// use forebay_net::{port::Port, receive::EachFrame, sim::Sim};
/// let clock = Clock::virtual_time();
/// let card = Sim::new("rate=1G,count=1000".parse()?, clock.clone());
/// let mut poller = Poller::new(64, clock.clone());
/// let mut bytes = 0;
/// let mut source = EachFrame::new(card, clock, |frame| bytes += frame.data.len());
/// let stop = Signal::new()?; // another thread may raise it
/// let frames = poller.run(&mut source, &stop)?; // until the card has ended
/// assert_eq!((frames, source.port().counts().received), (1000, 1000));
/// assert_eq!(bytes, 60 * 1000);
/// # Ok::<(), forebay::Error>(())
/// ```
pub struct EachFrame<P, F> {
    sleeper: Sleeper<P>,
    each: F,
}

impl<P: Port, F: FnMut(&Frame<'_>)> EachFrame<P, F> {
    /// `port` as a source that calls `each` with each frame. `clock` is as for [`FromPort::new`].
    pub fn new(port: P, clock: Clock, each: F) -> EachFrame<P, F> {
        EachFrame {
            sleeper: Sleeper::new(port, clock),
            each,
        }
    }

    /// The port, for its counts or to stop it.
    pub fn port(&mut self) -> &mut P {
        &mut self.sleeper.port
    }
}

impl<P: Port, F: FnMut(&Frame<'_>)> Source for EachFrame<P, F> {
    type Error = Error;

    fn look(&mut self, budget: usize) -> Result<usize> {
        let mut burst = self.sleeper.port.receive(budget)?;
        let mut found = 0;
        while let Some(frame) = burst.next_frame() {
            found += 1;
            (self.each)(&frame);
        }
        Ok(found)
    }

    sleeps!(it => it.sleeper);
}

impl<P: fmt::Debug, F> fmt::Debug for EachFrame<P, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EachFrame").field(&self.sleeper).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Sim;
    use forebay::{
        packet::{PoolConfig, return_idle},
        poll::Poller,
        receive::{Driver, DriverConfig},
        sync::Signal,
    };
    use std::thread;

    /// More packets than the ring and the pool hold, with a reader that is slower than the card.
    #[test]
    fn every_frame_of_a_card_is_passed_on_or_counted_as_dropped_by_the_card() {
        let clock = Clock::real();
        let card = Sim::new("rate=1G,count=20k".parse().unwrap(), clock.clone());
        let mut source = FromPort::new(card, clock.clone());
        let config = DriverConfig {
            capacity: 16,
            pool: PoolConfig {
                slots: 64,
                ..PoolConfig::default()
            },
        };
        let (mut driver, packets) = Driver::new(&config).unwrap();
        let reader = thread::spawn(move || {
            let mut count = 0;
            for desc in packets {
                assert_eq!(desc.into_packet().as_slice().len(), 60);
                count += 1;
                return_idle();
            }
            count
        });
        let stop = Signal::new().unwrap();
        let mut poller = Poller::new(64, clock);
        let received = poller
            .run(&mut driver.with_source(&mut source), &stop)
            .unwrap();
        assert_eq!(driver.stats().received, received);
        let counts = source.port().counts();
        drop(driver);
        assert_eq!(reader.join().unwrap(), received);
        assert_eq!((source.unfit(), counts.received), (0, 20_000));
        assert_eq!(received + counts.dropped.unwrap(), 20_000);
    }

    /// A card that sends a frame each millisecond of its clock, without end.
    #[test]
    fn a_port_that_does_not_end_runs_until_it_is_stopped_or_its_time_ends() {
        for clock in [Clock::virtual_time(), Clock::real()] {
            let stop = Signal::new().unwrap();
            let card = Sim::new("rate=1000pps".parse().unwrap(), clock.clone());
            let mut poller = Poller::new(1, clock.clone());
            let mut seen = 0;
            let mut source = EachFrame::new(card, clock.clone(), |_| {
                seen += 1;
                if seen == 20 {
                    stop.raise();
                }
            });
            let short = Duration::from_millis(10);
            let first = poller.run_timeout(&mut source, &stop, short).unwrap();
            assert!(clock.now() >= 10_000_000);
            let second = poller.run(&mut source, &stop).unwrap();
            assert_eq!(first + second, 20);
            assert!(!source.has_ended());
        }
    }
}
