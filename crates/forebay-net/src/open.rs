//! From the names that people type to ports: `sim`, `sim:rate=10G`, `eth0`, `packet:eth0`.

use crate::{
    port::Port,
    sim::{Sim, Spec},
};
use forebay::{Error, Result, time::Clock};

/// What all ports of a session are opened with.
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

/// Opens the ports of one session, and the clock that they share.
///
/// ```
/// use forebay_net::open::{Options, ports};
/// let (ports, clock) = ports(&["sim:clock=virtual,count=10"], &Options::default())?;
/// assert_eq!(ports[0].interfaces()[0].name, "sim");
/// assert!(clock.is_virtual());
/// # Ok::<(), forebay::Error>(())
/// ```
///
/// # Errors
/// A name is unknown, a simulation's text cannot be understood, or the system refuses.
pub fn ports(names: &[impl AsRef<str>], options: &Options) -> Result<(Vec<Box<dyn Port>>, Clock)> {
    if options.ring_bytes == Some(0) {
        return Err(Error::new("-B", "a ring of 0 bytes holds nothing").advise("Try -B 64M"));
    }
    let requests = names
        .iter()
        .map(|name| Request::parse(name.as_ref()))
        .collect::<Result<Vec<_>>>()?;
    let is_virtual =
        |request: &Request<'_>| matches!(request, Request::Sim(spec) if spec.virtual_clock);
    let clock = match requests.iter().filter(|r| is_virtual(r)).count() {
        0 => Clock::real(),
        n if n == requests.len() => Clock::virtual_time(),
        _ => {
            return Err(
                Error::new("sim", "clock=virtual cannot be mixed with real time")
                    .advise("Give clock=virtual to every -i, or to none"),
            );
        }
    };
    let ports = requests
        .into_iter()
        .map(|request| request.open(options, &clock))
        .collect::<Result<_>>()?;
    Ok((ports, clock))
}

enum Request<'a> {
    Sim(Spec),
    Interface(&'a str),
}

impl<'a> Request<'a> {
    fn parse(name: &'a str) -> Result<Self> {
        Ok(match name.split_once(':') {
            None if name == "sim" => Request::Sim(Spec::default()),
            Some(("sim", text)) => Request::Sim(text.parse()?),
            Some(("packet", interface)) => Request::Interface(interface),
            _ => Request::Interface(name),
        })
    }

    fn open(self, options: &Options, clock: &Clock) -> Result<Box<dyn Port>> {
        match self {
            Request::Sim(mut spec) => {
                if let (Some(bytes), crate::sim::Host::OneSecond) = (options.ring_bytes, spec.host)
                {
                    spec.host = spec.host_of_bytes(bytes);
                }
                Ok(Box::new(Sim::new(spec, clock.clone())))
            }
            Request::Interface(name) => interface(name, options),
        }
    }
}

fn interface(name: &str, _options: &Options) -> Result<Box<dyn Port>> {
    Err(Error::new(name, "no such interface"))
}
