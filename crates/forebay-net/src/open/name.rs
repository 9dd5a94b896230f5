//! The names of ports, and what is known about a port by its name.

use crate::{af_xdp, remote, share::ShareName, sim::Spec};
use forebay::{Error, Result};
use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

/// The name of all interfaces together.
const ANY: &str = "any";

/// The bits of capabilities, by their numbers in `linux/capability.h`.
const NET_ADMIN: u64 = 1 << 12;
const NET_RAW: u64 = 1 << 13;
const IPC_LOCK: u64 = 1 << 14;
const BPF: u64 = 1 << 39;

/// A parsed port name.
///
/// ```
/// use forebay_net::open::Name;
/// assert!(matches!("sim:rate=10G".parse(), Ok(Name::Sim(_))));
/// assert!(matches!("packet:sim".parse(), Ok(Name::Interface(name)) if name == "sim"));
/// assert!(matches!("xdp:eth0".parse(), Ok(Name::Xdp(spec)) if spec.interface == "eth0"));
/// assert!(matches!("share:lan".parse(), Ok(Name::Share(name)) if name.to_string() == "lan"));
/// assert_eq!("tap:lan".parse::<Name>()?.to_string(), "share:lan"); // the old name
/// assert!("sim:rate=fast".parse::<Name>().is_err());
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Name {
    /// `sim` or `sim:KEY=VALUE,…`: a simulated card.
    Sim(Spec),
    /// `eth0`, `packet:eth0`: an interface of this machine; `any`: all of them. Uses AF_PACKET.
    Interface(String),
    /// `xdp:eth0` or `xdp:eth0,KEY=VALUE,…`: an interface of this machine. Uses AF_XDP, which takes its frames, or with `pass=yes` an XDP
    /// program that copies them.
    Xdp(af_xdp::Spec),
    /// `share:NAME`: the packets that another capture shares under this name. Also called `tap:NAME`, which was its first name.
    Share(ShareName),
    /// `ssh:HOST/INTERFACE`: an interface of another machine.
    Ssh(remote::Target),
    /// A capture file, or standard input if it is `-`. Never parsed from text: the command has a separate option for files.
    File(PathBuf),
}

impl FromStr for Name {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text.split_once(':') {
            None if text == "sim" => Name::Sim(Spec::default()),
            Some(("sim", spec)) => Name::Sim(spec.parse()?),
            Some(("share" | "tap", name)) => Name::Share(name.parse()?),
            Some(("ssh", spec)) => Name::Ssh(spec.parse()?),
            Some(("xdp", spec)) => Name::Xdp(spec.parse()?),
            Some(("packet", interface)) => Name::Interface(interface.into()),
            _ => Name::Interface(text.into()),
        })
    }
}

impl fmt::Display for Name {
    /// The name without settings, such as `sim`, `eth0`, `xdp:eth0`, `share:lan`, `ssh:host/eth0` or the path of a file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Sim(_) => f.write_str("sim"),
            Name::Interface(name) => f.write_str(name),
            Name::Xdp(spec) => write!(f, "xdp:{}", spec.interface),
            Name::Share(name) => write!(f, "share:{name}"),
            Name::Ssh(spec) => spec.fmt(f),
            Name::File(path) => path.display().fmt(f),
        }
    }
}

impl Name {
    /// The interface of this machine, or `any`, whichever way it is opened.
    ///
    /// ```
    /// use forebay_net::open::Name;
    /// assert_eq!("xdp:eth0,queue=2".parse::<Name>()?.interface(), Some("eth0"));
    /// assert_eq!("sim".parse::<Name>()?.interface(), None);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn interface(&self) -> Option<&str> {
        match self {
            Name::Interface(name) => Some(name),
            Name::Xdp(spec) => Some(&spec.interface),
            Name::Sim(_) | Name::Share(_) | Name::Ssh(_) | Name::File(_) => None,
        }
    }

    /// Whether it stands for all interfaces of this machine.
    pub fn is_any(&self) -> bool {
        matches!(self, Name::Interface(name) if name == ANY)
    }

    /// The path of a capture file, or `-`.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Name::File(path) => Some(path),
            _ => None,
        }
    }

    /// Whether packets arrive while they are captured, so that a slow reader loses some. Those of a file wait.
    pub fn is_live(&self) -> bool {
        self.file().is_none()
    }

    /// Whether [`transmit`](super::transmit) can send frames on it. All interfaces together cannot.
    pub fn can_send(&self) -> bool {
        self.interface().is_some() && !self.is_any()
    }

    /// Whether its packets have a [`Direction`](crate::port::Direction) and a clock that can be chosen
    /// ([`Options::time`](super::Options::time)).
    pub fn has_directions_and_clocks(&self) -> bool {
        matches!(self, Name::Interface(_))
    }

    /// Whether [`begin_members`](super::begin_members) can open several ports that share its packets, on the real clock.
    pub fn has_members(&self) -> bool {
        matches!(self, Name::Interface(_)) || matches!(self, Name::Sim(spec) if !spec.virtual_clock)
    }

    /// The capabilities that the system requires to open it: bit `n` stands for capability `n` of `linux/capability.h`.
    ///
    /// ```
    /// use forebay_net::open::Name;
    /// const CAP_NET_RAW: u64 = 1 << 13;
    /// const CAP_BPF: u64 = 1 << 39; // to count what a filter rejects; without it, the count is unknown
    /// assert_eq!("eth0".parse::<Name>()?.capabilities(), CAP_NET_RAW | CAP_BPF);
    /// assert_eq!("sim".parse::<Name>()?.capabilities(), 0);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn capabilities(&self) -> u64 {
        match self {
            Name::Interface(_) => NET_RAW | BPF,
            Name::Xdp(_) => NET_RAW | NET_ADMIN | BPF | IPC_LOCK,
            Name::Sim(_) | Name::Share(_) | Name::Ssh(_) | Name::File(_) => 0,
        }
    }
}
