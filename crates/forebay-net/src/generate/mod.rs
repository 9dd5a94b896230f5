//! Sends numbered frames on an interface. They are the frames that the [simulated card](crate::sim) generates.
//!
//! ```text
//!  begin markers ─▶ frames 0 1 2 …, each when it is due ─▶ drain ─▶ end markers with the number of frames
//!                     written into slots of the port, up to 64 at once if several are due
//! ```
//! At the receiving end, [`verify`](crate::verify) counts the frames that arrived and those that were lost.
//!
//! ```text
//! sent = frames + markers = accepted + failed{cause}
//! ```
//! The number of a frame that failed is not used again, so the receiving end counts this frame as lost.

#[cfg(test)]
mod tests;

use crate::{
    control::Control,
    label::{Kind, time_of},
    sim::{Generator, Spec, Stamps, Target},
    transmit::{self, Pace, PaceReport, TxCounts, TxPort},
};
use forebay::{Error, Result, packet::Packet, time::Clock};
use std::{
    hash::{BuildHasher, Hasher, RandomState},
    net::Ipv4Addr,
    time::Duration,
};

/// Frames handed over at once.
const BURST: u64 = 64;
/// Markers at the beginning and at the end: a short outage must not lose all of them.
const MARKERS: u32 = 5;
const MARKER_GAP: Duration = Duration::from_millis(10);
/// A delay of more than this is not caught up.
const MAX_LAG_NS: u64 = 100_000_000;
/// The longest wait before a report of progress may be due.
const LOOK: Duration = Duration::from_millis(10);

/// What to send.
#[derive(Clone, Copy, Debug)]
pub struct GenerateConfig {
    /// Rate, sizes, flows, seed, sender and number of frames. Without a sender a random one is used. The settings of the
    /// receiving side (`ring`, `host`, `stall`, `virtual_clock`, `cost_ns`) are not used.
    pub spec: Spec,
    /// Stop when frames are due that are later than this.
    pub stop_after: Option<Duration>,
    /// Source and destination of the Ethernet header, and of the IPv4 header. The defaults are those of the simulated card.
    pub from_mac: Option<[u8; 6]>,
    /// See [`from_mac`](Self::from_mac).
    pub to_mac: Option<[u8; 6]>,
    /// See [`from_mac`](Self::from_mac).
    pub from: Option<Ipv4Addr>,
    /// See [`from_mac`](Self::from_mac).
    pub to: Option<Ipv4Addr>,
    /// The time between two reports of progress.
    pub progress_every: Duration,
}

impl Default for GenerateConfig {
    /// What the simulated card receives by default, endless, with a report every 250 ms.
    fn default() -> Self {
        GenerateConfig {
            spec: Spec::default(),
            stop_after: None,
            from_mac: None,
            to_mac: None,
            from: None,
            to: None,
            progress_every: Duration::from_millis(250),
        }
    }
}

/// The state of a run, while it lasts and at its end.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Generated {
    /// The sender's number.
    pub sender: u16,
    /// Numbered frames that were handed to the port.
    pub frames: u64,
    /// Markers that were handed to the port.
    pub markers: u64,
    /// The counts of the port.
    pub counts: TxCounts,
    /// From the first frame to the last.
    pub elapsed: Duration,
    /// Time that was not caught up, after the port or this program stood still for more than 100 ms.
    pub postponed: Duration,
    /// Lag and gap errors; nothing at `rate=max`. Empty in reports of progress.
    pub pace: PaceReport,
    /// The end markers were sent.
    pub is_ended: bool,
    /// Why the run ended early.
    pub error: Option<Error>,
}

impl Generated {
    /// Whether every frame is accounted for.
    pub fn law_holds(&self) -> bool {
        let accounted = self.counts.accepted + self.counts.failed.total();
        self.frames + self.markers == self.counts.sent && self.counts.sent == accounted
    }

    /// Numbered frames a second, on average.
    pub fn frames_per_second(&self) -> f64 {
        match self.elapsed.is_zero() {
            true => 0.0,
            false => self.frames.saturating_sub(1) as f64 / self.elapsed.as_secs_f64(),
        }
    }
}

/// Sends frames until the count or time of `config` is reached, the port fails, or `control` requests a stop. Then sends the end
/// markers, and waits until nothing is pending. A second stop abandons what is pending, and sends no markers.
///
/// Waits for the port as long as its patience lasts. `observe` gets a report regularly.
///
/// ```no_run
/// use forebay::time::Clock;
/// use forebay_net::{control::Control, generate::{self, GenerateConfig}, open, transmit::TxConfig};
/// let mut port = open::transmit(&"eth0".parse()?, &TxConfig::default())?;
/// let config = GenerateConfig { spec: "rate=100M,size=imix,count=1M".parse()?, ..GenerateConfig::default() };
/// let sent = generate::run(port.as_mut(), &config, Clock::real(), &Control::new()?, &mut |_| {})?;
/// println!("{} of {} frames accepted", sent.counts.accepted, sent.counts.sent);
/// # Ok::<(), forebay::Error>(())
/// ```
///
/// # Errors
/// A frame would be longer than the interface allows, or the interface has no Ethernet frames. Nothing was sent. Later errors
/// are in [`Generated::error`].
pub fn run(
    port: &mut dyn TxPort,
    config: &GenerateConfig,
    clock: Clock,
    control: &Control,
    observe: &mut dyn FnMut(&Generated),
) -> Result<Generated> {
    let random = RandomState::new().build_hasher().finish() as u16;
    let spec = Spec {
        sender: Some(config.spec.sender.unwrap_or(random)),
        ..config.spec
    };
    let target = Target {
        from_mac: config.from_mac,
        to_mac: config.to_mac,
        from: config.from.map(|it| it.octets()),
        to: config.to.map(|it| it.octets()),
    };
    let generator = Generator::new(&spec, random, &target);
    check(port, &generator)?;
    let mut run = Generating {
        stamps: Stamps::new(&spec),
        generator,
        pace: Pace::start(clock.clone()),
        clock,
        next: 0,
        due: 0,
        postponed: 0,
        last: 0,
        state: Generated {
            sender: spec.sender.unwrap_or(random),
            ..Generated::default()
        },
        packets: Vec::with_capacity(BURST as usize),
        control,
    };
    let limit = spec.count.unwrap_or(u64::MAX - 1);
    if let Err(error) = run.send(port, limit, config, observe) {
        run.state.error = Some(error);
    }
    let mut state = run.report(port);
    state.error = run.state.error.take();
    state.pace = run.pace.report().clone();
    state.is_ended = run.state.is_ended;
    Ok(state)
}

/// Rejects frames that the interface cannot send.
fn check(port: &dyn TxPort, generator: &Generator) -> Result<()> {
    let name = port.name().to_owned();
    let link = port.interface().link;
    if link != crate::port::LinkType::ETHERNET {
        let what = format!("the frames are Ethernet, and the interface has {link}");
        return Err(Error::invalid(name, what).advise("Choose an Ethernet interface"));
    }
    let (longest, most) = (generator.max_len(), port.max_frame_bytes());
    if longest > most as usize {
        let what = format!(
            "frames of {} bytes (with check sequence) do not fit: it sends up to {}",
            longest + 4,
            most + 4
        );
        let mtu = longest - 14;
        return Err(Error::invalid(&name, what).advise(format!(
            "Choose a smaller size=, or ip link set {name} mtu {mtu}"
        )));
    }
    Ok(())
}

struct Generating<'a> {
    generator: Generator,
    /// `None` at `rate=max`.
    stamps: Option<Stamps>,
    pace: Pace,
    clock: Clock,
    /// The number of the next frame to compose, and when it is due without postponement.
    next: u64,
    due: u64,
    postponed: u64,
    /// When the last frames were handed over.
    last: u64,
    state: Generated,
    packets: Vec<Packet>,
    control: &'a Control,
}

impl Generating<'_> {
    fn report(&self, port: &dyn TxPort) -> Generated {
        Generated {
            sender: self.state.sender,
            frames: self.state.frames,
            markers: self.state.markers,
            counts: port.counts(),
            elapsed: Duration::from_nanos(self.last),
            postponed: Duration::from_nanos(self.postponed),
            ..Generated::default()
        }
    }

    fn send(
        &mut self,
        port: &mut dyn TxPort,
        limit: u64,
        config: &GenerateConfig,
        observe: &mut dyn FnMut(&Generated),
    ) -> Result<()> {
        self.mark(port, Kind::Begin)?;
        self.pace = Pace::start(self.clock.clone());
        let sent = self.send_frames(port, limit, config, observe);
        // Composed, but not taken.
        self.packets.clear();
        sent?;
        transmit::drain(port, self.control)?;
        if !self.control.gives_up() {
            let before = port.counts().accepted;
            self.mark(port, Kind::End)?;
            transmit::drain(port, self.control)?;
            self.state.is_ended = port.counts().accepted > before;
        }
        Ok(())
    }

    fn send_frames(
        &mut self,
        port: &mut dyn TxPort,
        limit: u64,
        config: &GenerateConfig,
        observe: &mut dyn FnMut(&Generated),
    ) -> Result<()> {
        let end = config
            .stop_after
            .map_or(u64::MAX, |it| it.as_nanos() as u64);
        let every = config.progress_every.as_nanos() as u64;
        let mut shown = 0;
        while !self.control.is_stopping() {
            let mut now = self.pace.now();
            if now >= shown + every {
                shown = now;
                observe(&self.report(port));
            }
            if port.counts().pending() > 0 {
                transmit::wait(port, self.control, Duration::ZERO)?;
            }
            let due = self.due + self.postponed;
            if self.next >= limit || due.max(now) >= end {
                return Ok(());
            }
            // At `rate=max` nothing is due, and the pace is not used.
            let at = self.pace.even(due);
            if now < at {
                let look = now + LOOK.as_nanos() as u64;
                now = self.pace.wait(at.min(look), self.control)?;
                if now < at {
                    continue;
                }
            } else if self.stamps.is_some() && now - due > MAX_LAG_NS {
                self.postponed += now - due;
                continue;
            }
            self.compose(port, limit, now);
            self.commit(port)?;
        }
        Ok(())
    }

    /// Writes the frames that are due now.
    fn compose(&mut self, port: &mut dyn TxPort, limit: u64, now: u64) {
        let time = time_of(self.clock.wall_now());
        let count = self.due_by(limit, now);
        port.reserve(count as usize, &mut self.packets);
        for packet in &mut self.packets {
            let len = self.generator.len_of(self.next);
            let Ok(room) = packet.put(len as u32) else {
                break; // the port's slots hold its longest frame
            };
            self.generator.write(self.next, time, room);
            if let Some(stamps) = &mut self.stamps {
                self.pace.sent(self.due + self.postponed, now);
                self.due = stamps.of(self.next);
            }
            self.next += 1;
        }
        if !self.packets.is_empty() {
            self.last = now;
        }
    }

    /// The number of frames that are due at `now`, at most a burst. There is at least one.
    fn due_by(&self, limit: u64, now: u64) -> u64 {
        let most = BURST.min(limit - self.next);
        let due = self.due + self.postponed;
        // A short lag must not change several gaps.
        let until = match transmit::is_late((due, now)) {
            true => now,
            false => due,
        };
        let since = until.saturating_sub(self.postponed);
        // The first frame is due at once, and each other one when the one before it has left the wire.
        let due = self
            .stamps
            .as_ref()
            .map_or(most, |it| 1 + it.arrived_at(since) - self.next);
        due.min(most)
    }

    /// Hands all composed frames over, and waits for room.
    fn commit(&mut self, port: &mut dyn TxPort) -> Result<()> {
        loop {
            let before = port.counts().sent;
            let committed = port.commit(&mut self.packets);
            self.state.frames += port.counts().sent - before;
            committed?;
            if self.packets.is_empty() {
                // Without a free slot nothing was composed.
                if port.counts().pending() > 0 {
                    transmit::wait(port, self.control, Duration::from_micros(50))?;
                }
                return Ok(());
            }
            if self.control.is_stopping() {
                return Ok(());
            }
            transmit::wait(port, self.control, LOOK)?;
        }
    }

    /// Sends markers. Between two of them there is time for a short outage to end.
    fn mark(&mut self, port: &mut dyn TxPort, kind: Kind) -> Result<()> {
        let len = self.generator.marker_len();
        for number in 0..MARKERS {
            if number > 0 && self.clock.is_virtual() {
                self.clock.sleep(MARKER_GAP);
            } else if number > 0 {
                std::thread::sleep(MARKER_GAP);
            }
            while port.reserve(1, &mut self.packets) == 0 {
                if self.control.gives_up() {
                    return Ok(());
                }
                transmit::wait(port, self.control, LOOK)?;
            }
            let time = time_of(self.clock.wall_now());
            if let Some(Ok(room)) = self.packets.first_mut().map(|it| it.put(len as u32)) {
                self.generator
                    .write_marker(self.state.frames, kind, time, room);
            }
            while !self.packets.is_empty() && !self.control.gives_up() {
                let before = port.counts().sent;
                let committed = port.commit(&mut self.packets);
                self.state.markers += port.counts().sent - before;
                committed?;
                transmit::wait(port, self.control, LOOK)?;
            }
            self.packets.clear();
        }
        Ok(())
    }
}
