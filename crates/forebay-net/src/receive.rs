//! Ports as sources of a [`Driver`](forebay::receive::Driver), which keeps their packets in a pool and passes them to another thread.
//!
//! ```
//! use forebay::{receive::{Driver, DriverConfig}, time::Clock};
//! use forebay_net::{receive::FromPort, sim::Sim};
//! let clock = Clock::real();
//! let mut card = FromPort::new(Sim::new("rate=1G,count=100".parse()?, clock.clone()), clock);
//! let (mut driver, mut packets) = Driver::new(&DriverConfig::default())?;
//! while !card.has_ended() {
//!     driver.turn(&mut card)?;
//! }
//! assert_eq!((driver.stats().received, packets.len()), (100, 100));
//! assert_eq!(packets.pop().unwrap().into_packet().len(), 60);
//! # Ok::<(), forebay::Error>(())
//! ```

use crate::{
    packets::{NotCopied, copy_frame},
    port::{Port, Wake},
};
use forebay::{
    Error, Result,
    receive::{Intake, PacketSource},
    time::Clock,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The longest sleep on a descriptor. A port that has ended, or that another thread has stopped, is seen after it.
const MAX_SLEEP: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// A port whose frames are copied into packets.
#[derive(Debug)]
pub struct FromPort<P> {
    port: P,
    clock: Clock,
    has_ended: bool,
    unfit: u64,
}

impl<P: Port> FromPort<P> {
    /// `port` as a source. `clock` is the one that the port was made with; [`Clock::real`] for all but the simulated card.
    pub fn new(port: P, clock: Clock) -> FromPort<P> {
        FromPort {
            port,
            clock,
            has_ended: false,
            unfit: 0,
        }
    }

    /// Whether the port has ended: no more packets will come.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Frames that were skipped, because a packet cannot hold them: see [`NotCopied`].
    pub fn unfit(&self) -> u64 {
        self.unfit
    }

    /// The port, for its counts or to stop it.
    pub fn port(&mut self) -> &mut P {
        &mut self.port
    }
}

impl<P: Port> PacketSource for FromPort<P> {
    type Error = Error;

    fn receive(&mut self, intake: &mut Intake<'_>) -> Result<()> {
        let mut burst = self.port.receive(intake.room())?;
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

    fn arm(&mut self) -> Result<()> {
        self.has_ended = matches!(self.port.arm()?, Wake::End);
        Ok(())
    }

    fn sleep(&mut self) -> Result<()> {
        match self.port.arm()? {
            Wake::Ready | Wake::End => {}
            Wake::At(then) => self.clock.sleep_until(then),
            // An interrupted sleep is a short one.
            Wake::Fd(fd) => drop(poll(
                &mut [PollFd::new(&fd, PollFlags::IN)],
                Some(&MAX_SLEEP),
            )),
        }
        Ok(())
    }

    fn disarm(&mut self) {
        self.port.disarm();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Sim;
    use forebay::{
        packet::{PoolConfig, return_idle},
        receive::{Driver, DriverConfig},
    };
    use std::thread;

    /// More packets than the ring and the pool hold, with a reader that is slower than the card.
    #[test]
    fn every_frame_of_a_card_is_passed_on_or_counted_as_dropped_by_the_card() {
        let clock = Clock::real();
        let card = Sim::new("rate=1G,count=20k".parse().unwrap(), clock.clone());
        let mut source = FromPort::new(card, clock);
        let config = DriverConfig {
            capacity: 16,
            pool: PoolConfig {
                slots: 64,
                ..PoolConfig::default()
            },
            ..DriverConfig::default()
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
        while !source.has_ended() {
            driver.turn(&mut source).unwrap();
        }
        let (received, counts) = (driver.stats().received, source.port().counts());
        drop(driver);
        assert_eq!(reader.join().unwrap(), received);
        assert_eq!((source.unfit(), counts.received), (0, 20_000));
        assert_eq!(received + counts.dropped.unwrap(), 20_000);
    }
}
