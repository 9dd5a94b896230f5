//! Opens ports by the names that users type: `sim`, `sim:rate=10G`, `eth0`, `packet:eth0`, `xdp:eth0`, `share:lan`,
//! `ssh:host/eth0`.

mod name;

pub use name::Name;

#[cfg(feature = "live")]
use crate::{
    af_packet::{self, AfPacket, Shut},
    af_xdp::{self, AfXdp, AfXdpConfig},
};
use crate::{
    file::{File, TimeRange, parallel},
    filter::{Filter, View},
    port::{DEFAULT_SNAPLEN, Fanout, LinkType, Owner, Port, TimeSource},
    remote,
    share::{self, Connection, ShareName, TapConfig},
    sim::{Host, Sim, Spec},
    transmit::{TxConfig, TxPort},
};
use forebay::{Error, Result, error::Code, time::Clock};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// Options for all ports of a session.
///
/// ```
/// let options = forebay_net::open::Options { ring_bytes: Some(256 << 20), ..Default::default() };
/// assert!(options.promiscuous);
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of each source's ring; `None`: 64 MiB for the kernel's ring, one second for the simulated card.
    pub ring_bytes: Option<u64>,
    /// Promiscuous mode: capture all frames, not only ours.
    pub promiscuous: bool,
    /// Bytes of each frame that are needed.
    pub snaplen: u32,
    /// How long an interface may hold frames back, to hand over many at once.
    pub delay: Duration,
    /// Filter that the kernel applies for live ports, and the reading threads for large files. Other ports cannot: see
    /// [`reader_filters`](Options::reader_filters).
    pub filter: Option<Filter>,
    /// The reader of the ports has the same filter, and applies it if the port [does not](crate::port::PortInfo::filters). A session does
    /// ([`SessionConfig::filter`](crate::session::SessionConfig::filter)). If not set, a port that cannot filter is an error.
    pub reader_filters: bool,
    /// Packets of these times only, of files. Other ports cannot leave packets out by their times: an error.
    pub times: Option<TimeRange>,
    /// The output holds one link type: `any` then captures only interfaces with Ethernet frames.
    pub one_link_type: bool,
    /// The clock that stamps frames of interfaces; `None`: the system's.
    pub time: Option<TimeSource>,
    /// Receive no frames that this machine sends.
    pub incoming_only: bool,
    /// Report for each frame of an interface which offloads were not done
    /// ([`Frame::unfinished`](crate::port::Frame::unfinished)). Not for AF_XDP, where the kernel does not report it.
    pub reports_unfinished: bool,
    /// An interface that goes down ends its port, instead of being waited for.
    pub stop_on_down: bool,
    /// Open an interface with AF_XDP also if this machine uses it, and take its traffic away. Not needed with
    /// [`Spec::passes`](crate::af_xdp::Spec::passes).
    pub take_traffic: bool,
}

impl Default for Options {
    /// Default ring sizes, promiscuous, whole frames, 100 ms.
    fn default() -> Self {
        Options {
            ring_bytes: None,
            promiscuous: true,
            snaplen: DEFAULT_SNAPLEN,
            delay: Duration::from_millis(100),
            filter: None,
            reader_filters: false,
            times: None,
            one_link_type: false,
            time: None,
            incoming_only: false,
            reports_unfinished: false,
            stop_on_down: false,
            take_traffic: false,
        }
    }
}

/// The clock that these ports share: virtual if all of them are simulated with `clock=virtual`.
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
            Error::invalid("sim", "clock=virtual cannot be mixed with real time")
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
/// There is no such interface, the system refuses, or a port cannot apply the filter of `options`
/// ([`reader_filters`](Options::reader_filters)).
pub fn ports(names: &[Name], options: &Options, clock: &Clock) -> Result<Vec<Box<dyn Port>>> {
    let begun = begin(names, options, clock)?;
    begun.into_iter().map(Opening::finish).collect()
}

/// A port that is about to be opened ([`begin`]).
pub struct Opening {
    begun: Begun,
    /// It is an error if the port does not filter.
    must_filter: bool,
}

enum Begun {
    Port(Box<dyn Port>),
    #[cfg(feature = "live")]
    Shut(Box<Shut>),
    Share(Connection, TapConfig),
    Ssh(remote::Connection),
    File(PathBuf, Option<Filter>, Option<TimeRange>),
}

/// Does the first part of [`ports`]: opens interfaces, connects to shares, and starts ssh. Reads nothing of what others have written. A program
/// can then give up the rights to do so, before the second part ([`Opening::finish`]).
///
/// ```
/// use forebay_net::open::{self, Opening, Options};
/// let names = ["sim:clock=virtual,count=10".parse()?];
/// let clock = open::clock(&names)?;
/// let begun = open::begin(&names, &Options::default(), &clock)?;
/// let ports = begun.into_iter().map(Opening::finish).collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(ports[0].interfaces()[0].name, "sim");
/// # Ok::<(), forebay::Error>(())
/// ```
///
/// # Errors
/// There is no such interface or share, or the system refuses.
pub fn begin(names: &[Name], options: &Options, clock: &Clock) -> Result<Vec<Opening>> {
    let begun = names
        .iter()
        .map(|name| begin_one(name, options, clock, names.len() == 1));
    let begun: Vec<_> = begun.collect::<Result<_>>()?;
    // Only now do interfaces accept frames: what comes while others are opened would fill their rings.
    let accepting = |begun| {
        let begun = match begun {
            #[cfg(feature = "live")]
            Begun::Shut(shut) => Begun::Port(Box::new(shut.accept()?)),
            begun => begun,
        };
        Ok(Opening::of(begun, options))
    };
    begun.into_iter().map(accepting).collect()
}

impl Opening {
    fn of(begun: Begun, options: &Options) -> Self {
        let must_filter = options.filter.is_some() && !options.reader_filters;
        Opening { begun, must_filter }
    }

    /// The name and the process of a share; `None` for other ports.
    pub fn owner(&self) -> Option<(&ShareName, Owner)> {
        match &self.begun {
            Begun::Share(connection, _) => Some((connection.name(), connection.owner())),
            _ => None,
        }
    }

    /// Reads the first bytes of a share, of another machine's packets or of a file. Opens the file.
    ///
    /// # Errors
    /// The file cannot be opened; or it, or the share, is damaged or not one. Or the port was to filter, and cannot.
    pub fn finish(self) -> Result<Box<dyn Port>> {
        let port: Box<dyn Port> = match self.begun {
            Begun::Port(port) => port,
            #[cfg(feature = "live")]
            Begun::Shut(shut) => Box::new(shut.accept()?),
            Begun::Share(connection, config) => Box::new(connection.attach(&config)?),
            Begun::Ssh(connection) => Box::new(connection.attach()?),
            Begun::File(path, filter, times) => open_file(&path, filter.as_ref(), times)?,
        };
        match self.must_filter && !port.info().filters {
            false => Ok(port),
            true => Err(Error::invalid(port.name(), "the interface cannot filter").advise(
                "Give the filter to the session as well, and set Options::reader_filters; or use forebay_net::Capture",
            )),
        }
    }
}

/// Opens a file, or standard input, and reads it with several threads if that is faster.
fn open_file(
    path: &Path,
    filter: Option<&Filter>,
    times: Option<TimeRange>,
) -> Result<Box<dyn Port>> {
    let is_stdin = path == Path::new("-");
    let file = match is_stdin {
        true => File::stdin()?,
        false => File::open(path)?,
    };
    let file = file.between(times.unwrap_or_default());
    match filter {
        _ if is_stdin => Ok(Box::new(file)),
        Some(filter) => parallel::filtered(file, filter),
        // Passing over packets takes about as long as filtering them.
        None if times.is_some() => parallel::filtered(file, &Filter::everything()),
        None => Ok(Box::new(file)),
    }
}

/// As [`begin`], opens `count` ports that share the frames of one interface or of one simulated card, for [`threads`](crate::threads). `mode`
/// selects the port that gets a frame; a simulated card always lets its ports take turns.
///
/// ```
/// use forebay_net::{open::{self, Options}, port::Fanout};
/// let name = "sim:count=10".parse()?;
/// let clock = open::clock(std::slice::from_ref(&name))?;
/// let begun = open::begin_members(&name, &Options::default(), &clock, 2, Fanout::Hash)?;
/// assert_eq!(begun.len(), 2);
/// # Ok::<(), forebay::Error>(())
/// ```
///
/// # Errors
/// Neither an interface nor a simulated card has this name; the card has a virtual clock, which threads cannot share; or the system
/// refuses.
#[cfg_attr(not(feature = "live"), allow(unused_variables))]
pub fn begin_members(
    name: &Name,
    options: &Options,
    clock: &Clock,
    count: usize,
    mode: Fanout,
) -> Result<Vec<Opening>> {
    let ports: Vec<Box<dyn Port>> = match name {
        Name::Sim(spec) if spec.virtual_clock => {
            let error = Error::invalid("sim", "several threads cannot share a virtual clock");
            return Err(error.advise("Leave clock=virtual out"));
        }
        Name::Sim(spec) => {
            let spec = with_ring(*spec, options);
            let cards = Sim::members(spec, clock, count as u64).into_iter();
            cards.map(|it| Box::new(it) as Box<dyn Port>).collect()
        }
        #[cfg(feature = "live")]
        Name::Interface(name) => {
            let config = live_config(options);
            let ports = AfPacket::open_fanout(name, &config, count, mode)?.into_iter();
            ports.map(|it| Box::new(it) as Box<dyn Port>).collect()
        }
        _ => {
            refuse_without_live(name)?;
            let error = Error::invalid("threads", "only an interface has several receive rings");
            return Err(error.advise("Name one interface, or a simulated card"));
        }
    };
    let begun = ports.into_iter().map(Begun::Port);
    Ok(begun.map(|begun| Opening::of(begun, options)).collect())
}

/// The card with the ring that `options` ask for.
fn with_ring(mut spec: Spec, options: &Options) -> Spec {
    if let (Some(bytes), Host::OneSecond) = (options.ring_bytes, spec.host) {
        spec.host = spec.host_of_bytes(bytes);
    }
    spec
}

/// The link type and view that a filter for the first interface of this port is compiled for. Does not capture.
///
/// ```
/// use forebay_net::{filter::View, open, port::LinkType};
/// assert_eq!(open::link_of(&"sim".parse()?)?, (LinkType::ETHERNET, View::Packet));
/// # Ok::<(), forebay::Error>(())
/// ```
///
/// # Errors
/// There is no such interface or file, or none that can be captured from.
pub fn link_of(name: &Name) -> Result<(LinkType, View)> {
    match name {
        Name::Sim(_) => Ok((LinkType::ETHERNET, View::Packet)),
        #[cfg(feature = "live")]
        Name::Interface(name) => Ok((af_packet::link_of(name)?, View::Socket)),
        Name::Xdp(_) => Ok((LinkType::ETHERNET, View::Packet)),
        _ => {
            let options = Options::default();
            let begun = begin_one(name, &options, &Clock::real(), true)?;
            let port = Opening::of(begun, &options).finish()?;
            let first = port.interfaces().first();
            let ethernet = (LinkType::ETHERNET, View::Packet);
            Ok(first.map_or(ethernet, |it| (it.link, View::of(it))))
        }
    }
}

/// Opens a port that sends frames, on an interface.
///
/// ```
/// use forebay_net::{open, transmit::TxConfig};
/// assert!(open::transmit(&"sim".parse()?, &TxConfig::default()).is_err());
/// # Ok::<(), forebay::Error>(())
/// ```
///
/// # Errors
/// The name is not that of one interface, there is no such interface, or the system refuses.
#[cfg_attr(not(feature = "live"), allow(unused_variables))]
pub fn transmit(name: &Name, config: &TxConfig) -> Result<Box<dyn TxPort>> {
    let cannot = |name: &str, what| {
        Err(Error::invalid(name, format!("sending to {what}"))
            .advise("Name one interface of this machine, such as eth0"))
    };
    if name.is_any() {
        return cannot(&name.to_string(), "all interfaces at once");
    }
    refuse_without_live(name)?;
    match name {
        #[cfg(feature = "live")]
        Name::Interface(name) => Ok(Box::new(af_packet::AfPacketTx::open(name, config)?)),
        #[cfg(feature = "live")]
        Name::Xdp(spec) => Ok(Box::new(af_xdp::AfXdpTx::open(spec, config)?)),
        Name::Sim(_) => cannot("sim", "the simulated card, which only receives"),
        Name::Share(_) => cannot("share", "shared packets, which are only read"),
        Name::Ssh(_) => cannot("ssh", "another machine"),
        _ => cannot(&name.to_string(), "a file"),
    }
}

/// Opens a port that sends frames on an interface from which another port of this program receives.
///
/// # Errors
/// As [`transmit`].
pub(crate) fn transmit_beside(name: &Name, config: &TxConfig) -> Result<Box<dyn TxPort>> {
    match name {
        // With AF_XDP a queue has one socket, which receives. So a packet socket sends.
        Name::Xdp(spec) => transmit(&Name::Interface(spec.interface.clone()), config),
        name => transmit(name, config),
    }
}

/// Opens two interfaces that share their memory, for a bridge: to receive, and to send what the other one receives. `None`: their
/// backends cannot, as only two ports of AF_XDP can.
///
/// # Errors
/// As [`ports`].
#[cfg_attr(not(feature = "live"), allow(unused_variables))]
pub(crate) fn pair(
    names: [&Name; 2],
    options: &Options,
    send: &TxConfig,
) -> Result<Option<[ReceivesAndSends; 2]>> {
    match names {
        #[cfg(feature = "live")]
        [Name::Xdp(a), Name::Xdp(b)] => {
            let pair =
                af_xdp::open_pair([a, b], &xdp_config(options, &Clock::real(), false), send)?;
            let boxed = |(port, relay)| -> ReceivesAndSends { (Box::new(port), Box::new(relay)) };
            Ok(Some(pair.map(boxed)))
        }
        _ => Ok(None),
    }
}

/// Both halves of an interface.
pub(crate) type ReceivesAndSends = (Box<dyn Port>, Box<dyn TxPort>);

/// `is_alone`: the session has no other port.
#[cfg_attr(not(feature = "live"), allow(unused_variables))]
fn begin_one(name: &Name, options: &Options, clock: &Clock, is_alone: bool) -> Result<Begun> {
    refuse_without_live(name)?;
    if options.times.is_some() && name.is_live() {
        let what = "leaving packets out by their times, which is only possible for files";
        return Err(Error::invalid(name.to_string(), what).advise("Leave the times out"));
    }
    Ok(match name {
        Name::Sim(spec) => {
            let spec = with_ring(*spec, options);
            Begun::Port(Box::new(Sim::new(spec, clock.clone())))
        }
        Name::File(path) => Begun::File(path.clone(), options.filter.clone(), options.times),
        Name::Ssh(spec) => {
            let filter = options.filter.as_ref().map_or("", Filter::text);
            let asked = remote::Asked {
                snaplen: options.snaplen,
                promiscuous: options.promiscuous,
                ring_bytes: options.ring_bytes,
            };
            Begun::Ssh(remote::Connection::start(spec, filter, asked, clock)?)
        }
        #[cfg(feature = "live")]
        Name::Interface(name) => Begun::Shut(Box::new(Shut::open(name, &live_config(options))?)),
        #[cfg(feature = "live")]
        Name::Xdp(spec) => {
            let config = xdp_config(options, clock, is_alone);
            Begun::Port(Box::new(AfXdp::open(spec, &config)?))
        }
        #[cfg(not(feature = "live"))]
        Name::Interface(_) | Name::Xdp(_) => unreachable!("refused above"),
        Name::Share(name) => {
            let config = TapConfig {
                poll_every: (options.delay / 10).max(Duration::from_millis(1)),
                clock: clock.clone(),
                ..TapConfig::default()
            };
            Begun::Share(share::connect(name)?, config)
        }
    })
}

/// Delays below this one have small blocks, which still hold any frame.
#[cfg(feature = "live")]
const SHORT_DELAY: Duration = Duration::from_millis(10);
/// Other rings have this number of blocks or more, if each then still holds any frame.
#[cfg(feature = "live")]
const ENOUGH_BLOCKS: u64 = 64;
#[cfg(feature = "live")]
const SMALL_BLOCK_BYTES: u32 = 128 << 10;

#[cfg(feature = "live")]
fn live_config(options: &Options) -> af_packet::AfPacketConfig {
    let mut config = af_packet::AfPacketConfig {
        promiscuous: options.promiscuous,
        snaplen: options.snaplen,
        retire: options.delay,
        filter: options.filter.clone(),
        ethernet_only: options.one_link_type,
        incoming_only: options.incoming_only,
        reports_unfinished: options.reports_unfinished,
        time: options.time,
        stop_on_down: options.stop_on_down,
        ..af_packet::AfPacketConfig::default()
    };
    if let Some(bytes) = options.ring_bytes {
        config.ring_bytes = bytes;
    }
    // A block is used up when its time has ended, even if it holds a single frame: more blocks last longer. But each full one
    // wakes the reader.
    let enough = config.ring_bytes / ENOUGH_BLOCKS;
    while config.block_bytes > SMALL_BLOCK_BYTES
        && (options.delay < SHORT_DELAY || u64::from(config.block_bytes) > enough)
    {
        config.block_bytes /= 2;
    }
    config
}

#[cfg(feature = "live")]
fn xdp_config(options: &Options, clock: &Clock, may_wait: bool) -> AfXdpConfig {
    AfXdpConfig {
        ring_bytes: options.ring_bytes,
        snaplen: options.snaplen,
        promiscuous: options.promiscuous,
        take_traffic: options.take_traffic,
        stop_on_down: options.stop_on_down,
        // A caller that asks for a short delay wants frames at once.
        delay: match may_wait && options.delay > SHORT_DELAY {
            true => options.delay,
            false => Duration::ZERO,
        },
        clock: clock.clone(),
    }
}

/// Refuses interfaces in a build that cannot use them.
fn refuse_without_live(name: &Name) -> Result<()> {
    match name.interface() {
        Some(interface) if cfg!(not(feature = "live")) => {
            let what = "opening the interface: this build cannot use interfaces";
            let error = Error::coded(Code::Unsupported, interface, what);
            Err(error.advise("Enable the feature `live` of forebay-net"))
        }
        _ => Ok(()),
    }
}

#[cfg(all(test, not(feature = "live")))]
mod tests {
    use super::*;

    #[test]
    fn without_live_capture_an_interface_is_an_error_that_names_the_feature() {
        let names = ["eth0".parse().unwrap()];
        let opened = ports(&names, &Options::default(), &Clock::real());
        for error in [opened.err(), link_of(&names[0]).err()] {
            let text = error.expect("no live capture").to_string();
            assert!(
                text.starts_with("eth0: ") && text.contains("`live`"),
                "{text}"
            );
        }
    }
}

#[cfg(all(test, feature = "live"))]
mod tests {
    use super::*;

    #[test]
    fn short_delays_and_small_rings_have_more_blocks() {
        let cases = [(1, 64, 512), (9, 64, 512), (10, 64, 64), (100, 64, 64)];
        let small = [
            (100, 63, 126),
            (100, 32, 64),
            (9, 32, 256),
            (10, 8, 64),
            (100, 2, 16),
        ];
        for (ms, mib, blocks) in cases.into_iter().chain(small) {
            let config = live_config(&Options {
                delay: Duration::from_millis(ms),
                ring_bytes: Some(mib << 20),
                ..Options::default()
            });
            let count = config.ring_bytes / u64::from(config.block_bytes);
            assert_eq!(count, blocks, "{ms} ms, {mib} MiB");
        }
    }
}
