//! From the names that people type to ports: `sim`, `sim:rate=10G`, `eth0`, `packet:eth0`.

use crate::{
    af_packet::{self, AfPacket},
    port::Port,
    sim::{Host, Sim, Spec},
};
use forebay::{Error, Result, time::Clock};
use std::str::FromStr;

/// What all ports of a session are opened with.
///
/// ```
/// let options = forebay_net::open::Options { ring_bytes: Some(256 << 20), ..Default::default() };
/// assert!(options.promiscuous);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes of each source's ring; `None`: 64 MiB of kernel ring, a second of the simulated card.
    pub ring_bytes: Option<u64>,
    /// Ask interfaces for all frames, not only ours.
    pub promiscuous: bool,
    /// Bytes of a frame that need to be kept.
    pub snaplen: u32,
}

impl Default for Options {
    /// The sources' own ring sizes, promiscuous, whole frames.
    fn default() -> Self {
        Options {
            ring_bytes: None,
            promiscuous: true,
            snaplen: 262_144,
        }
    }
}

/// The name of a port, understood.
///
/// ```
/// use forebay_net::open::Name;
/// assert!(matches!("sim:rate=10G".parse(), Ok(Name::Sim(_))));
/// assert!(matches!("packet:sim".parse(), Ok(Name::Interface(name)) if name == "sim"));
/// assert!("sim:rate=fast".parse::<Name>().is_err());
/// ```
#[derive(Clone, Debug)]
pub enum Name {
    /// `sim`, `sim:KEY=VALUE,…`: a simulated card.
    Sim(Spec),
    /// `eth0`, `packet:eth0`: an interface of this machine, through AF_PACKET.
    Interface(String),
}

impl FromStr for Name {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text.split_once(':') {
            None if text == "sim" => Name::Sim(Spec::default()),
            Some(("sim", spec)) => Name::Sim(spec.parse()?),
            Some(("packet", interface)) => Name::Interface(interface.into()),
            _ => Name::Interface(text.into()),
        })
    }
}

/// The clock that ports of these names share: virtual if they are all simulated so.
///
/// ```
/// use forebay_net::open;
/// assert!(open::clock(&["sim:clock=virtual".parse()?])?.is_virtual());
/// assert!(open::clock(&["sim:clock=virtual".parse()?, "eth0".parse()?]).is_err());
/// # Ok::<(), forebay::Error>(())
/// ```
///
/// # Errors
/// Virtual and real time are mixed.
pub fn clock(names: &[Name]) -> Result<Clock> {
    let is_virtual = |name: &&Name| matches!(name, Name::Sim(spec) if spec.virtual_clock);
    match names.iter().filter(is_virtual).count() {
        0 => Ok(Clock::real()),
        n if n == names.len() => Ok(Clock::virtual_time()),
        _ => Err(
            Error::new("sim", "clock=virtual cannot be mixed with real time")
                .advise("Give clock=virtual to every -i, or to none"),
        ),
    }
}

/// Opens the ports of one session on `clock`.
///
/// ```
/// use forebay_net::open::{self, Options};
/// let names = ["sim:clock=virtual,count=10".parse()?];
/// let clock = open::clock(&names)?;
/// let ports = open::ports(&names, &Options::default(), &clock)?;
/// assert_eq!(ports[0].interfaces()[0].name, "sim");
/// # Ok::<(), forebay::Error>(())
/// ```
///
/// # Errors
/// There is no such interface, or the system refuses.
pub fn ports(names: &[Name], options: &Options, clock: &Clock) -> Result<Vec<Box<dyn Port>>> {
    names
        .iter()
        .map(|name| open(name, options, clock))
        .collect()
}

fn open(name: &Name, options: &Options, clock: &Clock) -> Result<Box<dyn Port>> {
    match name {
        Name::Sim(spec) => {
            let mut spec = *spec;
            if let (Some(bytes), Host::OneSecond) = (options.ring_bytes, spec.host) {
                spec.host = spec.host_of_bytes(bytes);
            }
            Ok(Box::new(Sim::new(spec, clock.clone())))
        }
        Name::Interface(name) => {
            let mut config = af_packet::Config {
                promiscuous: options.promiscuous,
                snaplen: options.snaplen,
                ..af_packet::Config::default()
            };
            if let Some(bytes) = options.ring_bytes {
                config.ring_bytes = bytes;
            }
            Ok(Box::new(AfPacket::open(name, &config)?))
        }
    }
}
