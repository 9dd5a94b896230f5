//! One sample: a thread attends the card, by an interrupt for each packet or by polling that interrupts begin, and
//! another one processes.

use super::path::{HELD, ManyAtOnce, Path, Receiver, Sender};
use crate::method::{
    counters::Count,
    cycles,
    processors::{pair, pin},
};
use anyhow::{Result, ensure};
use forebay::{
    poll::{Limit, Poller, Source},
    receive::{Driver, DriverConfig, Intake, PacketSource},
    sync::Spin,
    time::Clock,
};
use forebay_net::{
    packets::copy_frame,
    port::{Port, Wake},
    sim::{Host, Rate, Sim, Spec},
};
use rustix::time::{ClockId, clock_gettime};
use std::{
    hint::{self, black_box},
    sync::{
        Barrier,
        atomic::{
            AtomicBool,
            Ordering::{Acquire, Release},
        },
    },
    thread,
    time::{Duration, Instant},
};

/// The source text's interrupt: 1000 cycles at 1.2 GHz.
pub const INTERRUPT: Duration = Duration::from_nanos(833);

/// The source text's wire: 1.488 million frames of 64 bytes a second.
pub const LINE_RATE: u64 = 1_000_000_000;

/// Packets that a poll may take.
const BUDGET: usize = 64;

/// How long a poller rests that does.
pub const REST: Duration = Duration::from_micros(500);

/// How packets are fetched from the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attendance {
    /// Each packet interrupts, and its interrupt fetches it.
    Interrupts,
    /// An interrupt begins polling, which goes on while there are packets.
    Polling,
    /// The same, with rests where few come.
    Resting,
    /// Polling that never ends, packets or not.
    Spinning,
}

/// What comes over the wire in a sample.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Frames of 64 bytes, back to back at this rate.
    pub bits_per_second: u64,
    /// How long.
    pub length: Duration,
}

impl Load {
    /// How long half of the card's ring of 1024 takes to fill: 344 µs at the line rate.
    pub fn half_ring(&self) -> Duration {
        Duration::from_micros(344 * LINE_RATE / self.bits_per_second)
    }
}

/// What one sample says. All packets are accounted for.
pub struct Sample {
    pub received: u64,
    pub processed: u64,
    pub lost: u64,
    pub elapsed: Duration,
    /// Time that both threads had a processor, less what was spun in wait of a packet where that stands for sleeping.
    pub busy: Duration,
    /// Of it, what interrupts cost.
    pub interrupts: Duration,
    /// Times that the thread that attends the card went to sleep.
    pub sleeps: u64,
    /// The longest that one of the threads was kept from its work.
    pub away: Duration,
    pub misses: Option<u64>,
    /// Cycles in a nanosecond.
    pub ghz: Option<f64>,
}

/// Takes a sample of a path.
pub fn sample<P: Path>(attendance: Attendance, load: Load) -> Result<Sample> {
    let (mut sender, receiver) = P::new()?;
    let clock = Clock::real();
    take(receiver, move || {
        attend(clock, load, |attendant, until| match (until, attendance) {
            (None, _) => attendant.fetch(&mut sender, BUDGET).map(|_| Duration::ZERO),
            (Some(end), Attendance::Interrupts) => attendant.by_interrupts(&mut sender, end),
            (Some(end), Attendance::Polling) => {
                attendant.by_polling(&mut sender, end, Duration::ZERO)
            }
            (Some(end), Attendance::Resting) => attendant.by_polling(&mut sender, end, REST),
            (Some(end), Attendance::Spinning) => attendant.by_spinning(&mut sender, end),
        })
    })
}

/// Takes a sample of the library's own driver: its pool, its ring, its poller.
pub fn driven(_: Attendance, load: Load) -> Result<Sample> {
    let clock = Clock::real();
    let config = DriverConfig {
        capacity: HELD,
        ..DriverConfig::default()
    };
    let (mut driver, consumer) = Driver::<Spin>::with(&config)?;
    let mut poller = Poller::new(BUDGET, clock.clone());
    take(ManyAtOnce(consumer), move || {
        attend(clock, load, |attendant, until| {
            let Some(end) = until else {
                poller.turn(&mut driver.with_source(attendant))?;
                return Ok(Duration::ZERO);
            };
            while attendant.seen < end {
                poller.turn(&mut driver.with_source(attendant))?;
                attendant.see();
            }
            attendant.account.sleeps = poller.modes().sleeps;
            Ok(Duration::ZERO)
        })
    })
}

/// Runs both threads: `attend` on the first processor, and the one that processes on the second.
fn take(
    mut receiver: impl Receiver,
    attend: impl FnOnce() -> Result<(Sim, Account)> + Send,
) -> Result<Sample> {
    let (first, second) = pair()?;
    let (ready, over) = (Barrier::new(2), AtomicBool::new(false));
    let before = cycles::per_ns();
    let (attended, processed) = thread::scope(|scope| {
        let processing = scope.spawn(|| {
            let pinned = pin(second);
            ready.wait();
            pinned.map(|()| process(&mut receiver, &over))
        });
        let attending = scope.spawn(|| {
            let pinned = pin(first);
            ready.wait();
            let attended = pinned.and_then(|()| attend());
            over.store(true, Release); // publishes everything sent before
            attended
        });
        let attended = attending.join().expect("it does not panic");
        (attended, processing.join().expect("it does not panic"))
    });
    let after = cycles::per_ns();
    let ((mut card, attended), processed) = (attended?, processed?);
    let counts = card.counts();
    let lost = counts.dropped.unwrap_or(0);
    ensure!(
        counts.received == processed.packets + lost,
        "{} packets came, {} were processed and {lost} lost",
        counts.received,
        processed.packets
    );
    Ok(Sample {
        received: counts.received,
        processed: processed.packets,
        lost,
        elapsed: attended.elapsed,
        busy: attended.busy + processed.busy,
        interrupts: attended.interrupts,
        sleeps: attended.sleeps,
        away: attended.away.max(processed.away),
        misses: attended
            .misses
            .zip(processed.misses)
            .map(|(attending, processing)| attending + processing),
        ghz: cycles::mean(before, after),
    })
}

/// What one thread says of itself.
#[derive(Default)]
struct Account {
    packets: u64,
    elapsed: Duration,
    busy: Duration,
    interrupts: Duration,
    sleeps: u64,
    away: Duration,
    misses: Option<u64>,
}

/// Time that this thread has had a processor.
pub fn on_processor() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Spins until `then`; returns the time afterwards.
fn spin_until(then: Instant) -> Instant {
    loop {
        let now = Instant::now();
        if now >= then {
            return now;
        }
    }
}

/// The card, and the thread that fetches from it.
struct Attendant {
    card: Sim,
    clock: Clock,
    account: Account,
    /// When the card wants to wake us, if it does.
    wake: Option<u64>,
    /// When we last knew that we had the processor.
    seen: Instant,
}

/// Attends the card: `work` does so until a time, and returns how long it spun for a packet; without a time it fetches once.
fn attend(
    clock: Clock,
    load: Load,
    mut work: impl FnMut(&mut Attendant, Option<Instant>) -> Result<Duration>,
) -> Result<(Sim, Account)> {
    let spec = Spec {
        rate: Rate::BitsPerSecond(load.bits_per_second),
        host: Host::None,
        ..Spec::default()
    };
    let misses = Count::misses();
    let had = on_processor();
    let begun = Instant::now();
    let mut attendant = Attendant {
        card: Sim::new(spec, clock.clone()),
        clock,
        account: Account::default(),
        wake: None,
        seen: begun,
    };
    let end = begun + load.length;
    let waited = work(&mut attendant, Some(end))?;
    attendant.card.stop()?;
    attendant.account.elapsed = begun.elapsed();
    // What the card still holds is not lost: it is fetched as the path has room.
    while !matches!(attendant.card.arm()?, Wake::End) {
        work(&mut attendant, None)?;
    }
    let mut account = attendant.account;
    account.busy = (on_processor() - had).saturating_sub(waited);
    account.misses = misses.end();
    Ok((attendant.card, account))
}

impl Attendant {
    /// Fetches up to `most` packets that are there; says how many.
    fn fetch(&mut self, sender: &mut impl Sender, most: usize) -> Result<usize> {
        let mut burst = self.card.receive(most)?;
        let mut fetched = 0;
        while let Some(frame) = burst.next_frame() {
            if !sender.send(&frame) {
                burst.put_back();
                break;
            }
            fetched += 1;
        }
        drop(burst);
        sender.flush();
        Ok(fetched)
    }

    /// Until `end`; says how long no packet was there.
    fn by_interrupts(&mut self, sender: &mut impl Sender, end: Instant) -> Result<Duration> {
        let mut waited = Duration::ZERO;
        while self.seen < end {
            let fetched = self.fetch(sender, 1)?;
            let handled = Instant::now();
            let mut done = handled;
            if fetched > 0 {
                // It is spent after its packet arrived: the total is the same, and the packet is known to exist.
                done = spin_until(handled + INTERRUPT);
                self.account.interrupts += done - handled;
            } else {
                waited += handled - self.seen;
            }
            self.account.away = self.account.away.max(done - self.seen);
            self.seen = done;
        }
        Ok(waited)
    }

    /// Until `end`; it does not spin in wait. A rest is no time away, as far as it is meant.
    fn by_polling(
        &mut self,
        sender: &mut impl Sender,
        end: Instant,
        rest: Duration,
    ) -> Result<Duration> {
        let mut poller = Poller::new(BUDGET, self.clock.clone()).resting(rest);
        let mut rests = 0;
        while self.seen < end {
            let found = poller.turn(&mut Polled(self, sender))?;
            let now = Instant::now();
            let mut away = now - self.seen;
            if found == 0 && !rest.is_zero() && poller.modes().rests > rests {
                rests += 1;
                away = away.saturating_sub(rest);
            }
            self.account.away = self.account.away.max(away);
            self.seen = now;
        }
        self.account.sleeps = poller.modes().sleeps;
        Ok(Duration::ZERO)
    }

    /// Until `end`; all that it spins is its own cost.
    fn by_spinning(&mut self, sender: &mut impl Sender, end: Instant) -> Result<Duration> {
        while self.seen < end {
            self.fetch(sender, BUDGET)?;
            self.see();
        }
        Ok(Duration::ZERO)
    }
}

impl Attendant {
    /// Notes that this thread has the processor.
    fn see(&mut self) {
        let now = Instant::now();
        self.account.away = self.account.away.max(now - self.seen);
        self.seen = now;
    }

    fn request(&mut self) -> Result<()> {
        self.wake = match self.card.arm()? {
            Wake::At(then) => Some(then),
            _ => None,
        };
        Ok(())
    }

    /// Sleeps until the card wakes us; the interrupt costs its time.
    fn rest(&mut self) {
        let Some(then) = self.wake else { return };
        self.clock.sleep_until(then);
        let late = Duration::from_nanos(self.clock.now().saturating_sub(then));
        self.account.away = self.account.away.max(late);
        let woken = Instant::now();
        self.seen = spin_until(woken + INTERRUPT);
        self.account.interrupts += self.seen - woken;
    }
}

/// The card for a poller, and where its packets go.
struct Polled<'a, S>(&'a mut Attendant, &'a mut S);

impl<S: Sender> Source for Polled<'_, S> {
    type Error = anyhow::Error;

    fn look(&mut self, budget: usize) -> Result<usize> {
        self.0.fetch(self.1, budget)
    }

    fn arm(&mut self) -> Result<()> {
        self.0.request()
    }

    fn sleep(&mut self, _limit: &Limit<'_>) -> Result<()> {
        self.0.rest();
        Ok(())
    }

    fn disarm(&mut self) {
        self.0.card.disarm();
    }
}

/// The card for the library's driver.
impl PacketSource for Attendant {
    type Error = anyhow::Error;

    fn receive(&mut self, intake: &mut Intake<'_>) -> Result<()> {
        let mut burst = self.card.receive(intake.room())?;
        while intake.room() > 0 {
            let Some(frame) = burst.next_frame() else {
                break;
            };
            let Ok(packet) = copy_frame(intake.pool(), &frame) else {
                burst.put_back();
                intake.starve();
                break;
            };
            let is_taken = intake.push(packet).is_ok();
            ensure!(is_taken, "there is room for a fresh packet");
        }
        Ok(())
    }

    fn arm(&mut self) -> Result<()> {
        self.request()
    }

    fn sleep(&mut self, _limit: &Limit<'_>) -> Result<()> {
        self.rest();
        Ok(())
    }

    fn disarm(&mut self) {
        self.card.disarm();
    }
}

/// Processes packets until the sender has ended and none is left.
fn process<R: Receiver>(receiver: &mut R, over: &AtomicBool) -> Account {
    let misses = Count::misses();
    let had = on_processor();
    let mut account = Account::default();
    let mut sum = 0;
    let mut waited = Duration::ZERO;
    let mut seen = Instant::now();
    loop {
        // Asked before the look, so that what is sent before the end is seen.
        let last = over.load(Acquire);
        let mut found = 0;
        while found < BUDGET {
            match receiver.receive(&mut |frame| sum += header_sum(frame)) {
                0 => break,
                some => found += some,
            }
        }
        account.packets += found as u64;
        if found == 0 && last {
            break;
        }
        if found == 0 {
            receiver.idle();
            hint::spin_loop();
        }
        let now = Instant::now();
        // A sleeping thread should not run, and its waiting counts as its own time only.
        if found > 0 || !R::SLEEPS {
            account.away = account.away.max(now - seen);
        }
        if found == 0 && !R::SLEEPS {
            waited += now - seen;
        }
        seen = now;
    }
    black_box(sum);
    account.busy = (on_processor() - had).saturating_sub(waited);
    account.misses = misses.end();
    account
}

/// What is done with a packet: its IPv4 header is summed, as a receiver does to check it.
pub fn header_sum(frame: &[u8]) -> u64 {
    let header = frame.get(14..34).unwrap_or_default();
    let words = header.chunks_exact(2);
    words
        .map(|word| u64::from(u16::from_be_bytes([word[0], word[1]])))
        .sum()
}
