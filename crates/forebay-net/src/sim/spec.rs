//! The text after `sim:`, such as `rate=10G,size=imix,stall=2ms@100ms`.

use super::sizes::Sizes;
use crate::{label::MAX_FLOWS, units};
use forebay::{Error, Result, error::Code};
use std::{fmt, str::FromStr, time::Duration};

/// How fast frames arrive.
///
/// ```
/// use forebay_net::sim::Rate;
/// assert_eq!(Rate::BitsPerSecond(1_000_000_000).bits_per_second(), Some(1_000_000_000));
/// assert_eq!(Rate::Max.bits_per_second(), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Line rate of a wire, in bits a second.
    BitsPerSecond(u64),
    /// As fast as frames are taken: the ring is always full and nothing is lost.
    Max,
}

impl Rate {
    /// The speed of the wire in bits a second; `None` for [`Rate::Max`].
    pub fn bits_per_second(self) -> Option<u64> {
        match self {
            Rate::BitsPerSecond(rate) => Some(rate),
            Rate::Max => None,
        }
    }
}

/// The host's ring, which the card's ring feeds.
///
/// ```
/// use forebay_net::sim::{Host, Spec};
/// assert_eq!(Spec::default().host, Host::OneSecond);
/// assert_eq!(Spec::default().host_of_bytes(84_000), Host::Frames(1000)); // 64 + 20 bytes of wire
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// As many frames as arrive in one second.
    OneSecond,
    /// This many frames.
    Frames(u64),
    /// No host ring: frames are taken straight from the card.
    None,
}

/// The host does not poll the card for `length` at the end of every `period`.
///
/// ```
/// use forebay_net::sim::Spec;
/// use std::time::Duration;
/// let spec: Spec = "stall=2ms@100ms".parse()?;
/// assert_eq!(spec.stall.unwrap().length, Duration::from_millis(2));
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Length of a stall.
    pub length: Duration,
    /// Time from the start of one stall to the start of the next.
    pub period: Duration,
}

impl Stall {
    fn ns(self) -> (u64, u64) {
        (self.length.as_nanos() as u64, self.period.as_nanos() as u64)
    }

    /// Whether the host is stalled at `at`.
    pub(super) fn covers(self, at: u64) -> bool {
        let (length, period) = self.ns();
        at % period >= period - length
    }

    /// The next time this changes after `at`, and whether the host is stalled until then.
    pub(super) fn next_edge(self, at: u64) -> (u64, bool) {
        let (length, period) = self.ns();
        let begin = at - at % period;
        match self.covers(at) {
            true => (begin + period, true),
            false => (begin + period - length, false),
        }
    }

    /// `at`, or the end of the stall that covers it.
    pub(super) fn end_of(self, at: u64) -> u64 {
        match self.next_edge(at) {
            (end, true) => end,
            _ => at,
        }
    }
}

/// Settings of a simulated card.
///
/// As text: `rate=` bits a second (`1G`, `2.5G`, `max`) or frames a second (`500kpps`), `size=` bytes with the check sequence (64
/// to 9018) or `imix`, `flows=` 1, 2, 4 … 64, `sender=` 0 to 65535, `seed=`, `ring=` frames, `host=` frames or `none`, `count=` frames in all,
/// `stall=LENGTH@PERIOD`, `clock=real|virtual`, `cost=` nanoseconds a frame on the virtual clock.
///
/// ```
/// use forebay_net::sim::{Host, Rate, Spec};
/// let spec: Spec = "rate=10G,ring=64,host=none".parse()?;
/// assert_eq!((spec.rate, spec.ring, spec.host), (Rate::BitsPerSecond(10_000_000_000), 64, Host::None));
/// assert_eq!("rate=20kbit".parse::<Spec>()?.rate, Rate::BitsPerSecond(20_000));
/// assert!("rate=20k".parse::<Spec>().is_err()); // frames or bits?
/// assert!("rate=fast".parse::<Spec>().unwrap_err().to_string().contains("rate=fast"));
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Rate at which frames arrive.
    pub rate: Rate,
    /// Length of the frames.
    pub sizes: Sizes,
    /// The number of flows, each with its own source address and port: a power of two, 1 to 64.
    pub flows: u32,
    /// The sender's number in the [labels](crate::label); `None`: the lowest 16 bits of the seed.
    pub sender: Option<u16>,
    /// Seed of the order of sizes, the addresses and the ports.
    pub seed: u64,
    /// Slots of the card's own ring, at least 1.
    pub ring: u64,
    /// The host's ring.
    pub host: Host,
    /// Frames after which nothing more arrives.
    pub count: Option<u64>,
    /// Times at which the host does not poll.
    pub stall: Option<Stall>,
    /// Virtual time: the whole capture runs on one thread, and time moves only while it sleeps.
    pub virtual_clock: bool,
    /// Cost of taking a frame in virtual time, in nanoseconds.
    pub cost_ns: u64,
}

impl Default for Spec {
    /// 64-byte frames at 1 Gb/s in 64 flows, seed 1, 1024 slots, a host ring of one second, endless.
    fn default() -> Self {
        Spec {
            rate: Rate::BitsPerSecond(1_000_000_000),
            sizes: Sizes::Fixed(64),
            flows: 64,
            sender: None,
            seed: 1,
            ring: 1024,
            host: Host::OneSecond,
            count: None,
            stall: None,
            virtual_clock: false,
            cost_ns: 0,
        }
    }
}

impl Spec {
    /// Mean time between frames in nanoseconds; `None` at `rate=max`.
    pub fn mean_interval_ns(&self) -> Option<f64> {
        let rate = self.rate.bits_per_second()?;
        Some(self.sizes.mean_wire_bytes() * 8e9 / rate as f64)
    }

    /// Mean bits of a frame on the wire, with preamble, check sequence and gap.
    pub fn mean_wire_bits(&self) -> f64 {
        self.sizes.mean_wire_bytes() * 8.0
    }

    /// The host ring that `bytes` hold; a frame takes as many bytes as it occupies on the wire.
    pub fn host_of_bytes(&self, bytes: u64) -> Host {
        Host::Frames(((bytes as f64 / self.sizes.mean_wire_bytes()) as u64).max(1))
    }
}

/// Shorter periods would take longer to compute than to pass.
const SHORTEST_PERIOD: Duration = Duration::from_micros(1);
/// A larger `cost=` or `stall=` is certainly a typing error.
const LONGEST: Duration = Duration::from_secs(3600);

impl FromStr for Spec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut spec = Spec::default();
        let mut frames_per_second = None;
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let refuse = |why: &str| {
                Err(
                    Error::coded(Code::Invalid, "sim", format!("cannot understand '{part}'"))
                        .advise(why),
                )
            };
            let Some((key, value)) = part.split_once('=') else {
                return refuse("Write key=value, separated by commas: sim:rate=10G,size=imix");
            };
            let done = match key {
                "rate" => match value.strip_suffix("pps") {
                    Some(frames) => parse_frame_rate(frames).map(|it| frames_per_second = Some(it)),
                    None => parse_rate(value).map(|rate| {
                        spec.rate = rate;
                        frames_per_second = None;
                    }),
                },
                "size" => parse_sizes(value).map(|sizes| spec.sizes = sizes),
                "flows" => parse_flows(value).map(|flows| spec.flows = flows),
                "sender" => value.parse().ok().map(|it| spec.sender = Some(it)),
                "seed" => value.parse().ok().map(|seed| spec.seed = seed),
                "ring" => frames(value).map(|ring| spec.ring = ring),
                "host" => parse_host(value).map(|host| spec.host = host),
                "count" => units::count(value).map(|count| spec.count = Some(count)),
                "stall" => parse_stall(value).map(|stall| spec.stall = Some(stall)),
                "clock" => parse_clock(value).map(|is_virtual| spec.virtual_clock = is_virtual),
                "cost" => units::duration(value)
                    .filter(|&cost| cost <= LONGEST)
                    .map(|cost| spec.cost_ns = cost.as_nanos() as u64),
                _ => {
                    return refuse(
                        "The keys are rate, size, flows, sender, seed, ring, host, count, stall, clock and cost",
                    );
                }
            };
            if done.is_none() {
                return refuse(expected(key));
            }
        }
        if let Some(frames) = frames_per_second {
            let bits = spec.sizes.mean_wire_bytes() * 8.0 * frames as f64;
            spec.rate = parse_rate(&format!("{bits:.0}")).ok_or_else(|| {
                Error::coded(
                    Code::Invalid,
                    "sim",
                    format!("rate={frames}pps is more than 10 Tb/s"),
                )
            })?;
        }
        if spec.cost_ns > 0 && !spec.virtual_clock {
            return Err(
                Error::coded(Code::Invalid, "sim", "cost= needs clock=virtual")
                    .advise("On the real clock work takes the time that it takes"),
            );
        }
        Ok(spec)
    }
}

fn expected(key: &str) -> &'static str {
    match key {
        "rate" => {
            "rate is bits a second such as 1G, 2.5G, 100M or 20kbit, frames a second such as 500kpps, or max"
        }
        "size" => "size is 64 to 9018 bytes with the check sequence, or imix",
        "flows" => "flows is 1, 2, 4, 8, 16, 32 or 64",
        "sender" => "sender is a number from 0 to 65535",
        "seed" => "seed is a whole number",
        "ring" => "ring is a number of frames, 1 or more",
        "host" => "host is a number of frames, 1 or more, or none",
        "count" => "count is a number of frames such as 5M",
        "stall" => {
            "stall is LENGTH@PERIOD such as 2ms@100ms, the length below the period, that 1us or more"
        }
        "clock" => "clock is real or virtual",
        _ => "cost is a time a frame such as 500ns",
    }
}

fn frames(value: &str) -> Option<u64> {
    units::count(value).filter(|&n| n > 0 && n <= u32::MAX as u64)
}

fn parse_rate(value: &str) -> Option<Rate> {
    if value == "max" {
        return Some(Rate::Max);
    }
    // `20k` may be meant as frames a second.
    let bits = match value.strip_suffix("bit") {
        None if value.ends_with(['k', 'K']) => return None,
        bits => bits.unwrap_or(value),
    };
    // Above 10 Tb/s a frame would take less than a tenth of a nanosecond.
    let rate = units::count(bits).filter(|rate| (1..=10_000_000_000_000).contains(rate))?;
    Some(Rate::BitsPerSecond(rate))
}

fn parse_frame_rate(value: &str) -> Option<u64> {
    units::count(value).filter(|&it| it > 0)
}

fn parse_sizes(value: &str) -> Option<Sizes> {
    if value == "imix" {
        return Some(Sizes::Imix);
    }
    let size = value.parse().ok()?;
    (64..=9018).contains(&size).then_some(Sizes::Fixed(size))
}

fn parse_flows(value: &str) -> Option<u32> {
    let flows = value.parse::<u32>().ok()?;
    (flows.is_power_of_two() && flows <= MAX_FLOWS).then_some(flows)
}

fn parse_host(value: &str) -> Option<Host> {
    match value {
        "none" => Some(Host::None),
        value => frames(value).map(Host::Frames),
    }
}

/// Whether the clock is virtual.
fn parse_clock(value: &str) -> Option<bool> {
    ["real", "virtual"]
        .iter()
        .position(|&name| name == value)
        .map(|at| at == 1)
}

fn parse_stall(value: &str) -> Option<Stall> {
    let (length, period) = value.split_once('@')?;
    let stall = Stall {
        length: units::duration(length)?,
        period: units::duration(period)?,
    };
    let periods = SHORTEST_PERIOD..=LONGEST;
    (stall.length < stall.period && periods.contains(&stall.period)).then_some(stall)
}

impl fmt::Display for Spec {
    /// A description for people: `1 Gb/s, 64-byte frames, seed 1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rate {
            Rate::BitsPerSecond(rate) => write!(f, "{}b/s", units::scaled(rate as f64))?,
            Rate::Max => f.write_str("as fast as it goes")?,
        }
        match self.sizes {
            Sizes::Fixed(size) => write!(f, ", {size}-byte frames")?,
            Sizes::Imix => f.write_str(", imix frames")?,
        }
        write!(f, ", seed {}", self.seed)?;
        if self.virtual_clock {
            f.write_str(", virtual time")?;
        }
        Ok(())
    }
}
