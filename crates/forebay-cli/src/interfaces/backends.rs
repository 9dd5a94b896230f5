//! What each backend would give on an interface, and why not.

use crate::privileges;
use forebay_net::{
    af_packet, af_xdp,
    link::{Device, Link},
};
use rustix::{
    io::Errno,
    net::{AddressFamily, SocketType},
};

const EPERM: i32 = Errno::PERM.raw_os_error();

/// Why this user cannot use a backend at all; `None`: it can.
pub struct Rights {
    pub packet: Option<String>,
    pub xdp: Option<String>,
}

const NO_RAW: &str = "CAP_NET_RAW is missing";

impl Rights {
    pub fn of_this_process() -> Self {
        let packet = |error: forebay::Error| match error.raw_os_error() {
            Some(EPERM) => NO_RAW.into(),
            _ => reason(&error.to_string()),
        };
        Rights {
            packet: af_packet::probe().err().map(packet),
            xdp: xdp().err(),
        }
    }

    /// How to get the missing right.
    pub fn advice(&self) -> Option<&'static str> {
        match (self.packet.as_deref(), self.xdp.as_deref()) {
            (Some(NO_RAW), _) => Some(
                "To capture without being root:\n  sudo setcap cap_net_raw+ep $(command -v forebay)",
            ),
            (None, Some("CAP_NET_ADMIN is missing" | "CAP_BPF is missing")) => Some(
                "To capture with AF_XDP without being root:\n  sudo setcap cap_net_raw,cap_net_admin,cap_bpf,cap_ipc_lock+ep $(command -v forebay)",
            ),
            _ => None,
        }
    }
}

/// The reason without the advice, which is printed after it.
fn reason(error: &str) -> String {
    let rest = error.split_once(": ").map_or(error, |(_, rest)| rest);
    rest.split(". ").next().unwrap_or(rest).into()
}

/// AF_XDP needs a socket, and a BPF program that hands frames to it.
fn xdp() -> Result<(), String> {
    const AF_XDP: u16 = 44;
    let family = AddressFamily::from_raw(AF_XDP);
    match rustix::net::socket(family, SocketType::RAW, None) {
        Ok(_) => {}
        Err(Errno::AFNOSUPPORT) => {
            return Err("this kernel has no AF_XDP sockets (CONFIG_XDP_SOCKETS)".into());
        }
        Err(Errno::PERM) => return Err(NO_RAW.into()),
        Err(cause) => return Err(format!("opening an AF_XDP socket: {cause}")),
    }
    privileges::may_redirect().map_err(|missing| format!("{missing} is missing"))
}

/// What AF_XDP would give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Xdp {
    /// The hardware writes into our memory.
    ZeroCopy,
    /// The driver runs the program, and each frame is copied once.
    Driver,
    /// The kernel runs the program, after it has allocated a buffer for the frame.
    Generic,
}

impl Xdp {
    pub fn name(self) -> &'static str {
        match self {
            Xdp::ZeroCopy => "zero-copy",
            Xdp::Driver => "driver",
            Xdp::Generic => "generic",
        }
    }

    pub fn described(self) -> &'static str {
        match self {
            Xdp::ZeroCopy => "zero-copy: the hardware writes frames to memory of the capture",
            Xdp::Driver => "driver mode: frames are copied once",
            Xdp::Generic => {
                "generic mode: frames are copied once, after the kernel has taken them in"
            }
        }
    }
}

/// What each backend would give on an interface, or why it gives nothing.
pub struct Backends {
    pub packet: Result<(), String>,
    pub xdp: Result<Xdp, String>,
}

impl Backends {
    pub fn of(link: &Link, device: &Device, rights: &Rights) -> Self {
        let ready = |rights: &Option<String>| {
            let is_up = || match link.is_up() {
                true => Ok(()),
                false => Err("the interface is down".to_owned()),
            };
            rights.clone().map_or_else(is_up, Err)
        };
        let supported = af_packet::link_type(link).map_err(|error| reason(&error.to_string()));
        Backends {
            packet: supported.and_then(|_| ready(&rights.packet)),
            xdp: mode(link, device).and_then(|mode| {
                ready(&rights.xdp)?;
                unused(link, mode).map(|()| mode)
            }),
        }
    }
}

fn mode(link: &Link, device: &Device) -> Result<Xdp, String> {
    // Loopback frames have an Ethernet header too.
    if !matches!(link.hardware, 1 | 772) {
        return Err(format!(
            "it has no Ethernet frames ({})",
            link.hardware_name()
        ));
    }
    if let Some(number) = link.xdp_program {
        return Err(format!("another program has attached XDP program {number}"));
    }
    af_xdp::check_frames(link).map_err(|error| reason(&error.to_string()))?;
    Ok(match device.xdp {
        Some(it) if it.redirects && it.zero_copy => Xdp::ZeroCopy,
        Some(it) if it.redirects => Xdp::Driver,
        _ => Xdp::Generic,
    })
}

/// Why the frames of an interface cannot be taken without being asked to.
fn unused(link: &Link, mode: Xdp) -> Result<(), String> {
    af_xdp::check_unused(link).map_err(|error| {
        let why = reason(&error.to_string());
        format!("{why}. With --take-traffic: {}", mode.name())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_net::link::XdpSupport;

    const ALL: Rights = Rights {
        packet: None,
        xdp: None,
    };

    fn link(hardware: u16, flags: u32) -> Link {
        Link {
            name: "eth0".into(),
            index: u32::MAX, // no interface of this machine
            hardware,
            flags,
            ..Link::default()
        }
    }

    fn modes(link: &Link, device: &Device, rights: &Rights) -> (String, String) {
        let Backends { packet, xdp } = Backends::of(link, device, rights);
        let packet = packet.map_or_else(|why| why, |()| "yes".into());
        (
            packet,
            xdp.map_or_else(|why| why, |mode| mode.name().into()),
        )
    }

    #[test]
    fn the_driver_decides_how_af_xdp_works() {
        let with = |redirects, zero_copy| Device {
            xdp: Some(XdpSupport {
                redirects,
                zero_copy,
                ..XdpSupport::default()
            }),
            ..Device::default()
        };
        let up = link(1, 1);
        for (device, expected) in [
            (with(true, true), "zero-copy"),
            (with(true, false), "driver"),
            (with(false, false), "generic"),
            (Device::default(), "generic"),
        ] {
            assert_eq!(modes(&up, &device, &ALL), ("yes".into(), expected.into()));
        }
    }

    #[test]
    fn the_command_for_a_missing_right_is_that_of_the_backend() {
        let of = |packet: Option<&str>, xdp: Option<&str>| {
            let [packet, xdp] = [packet, xdp].map(|it| it.map(str::to_owned));
            let advice = Rights { packet, xdp }.advice();
            advice.map(|text| text.contains("cap_bpf"))
        };
        assert_eq!(of(Some(NO_RAW), Some(NO_RAW)), Some(false));
        assert_eq!(of(None, Some("CAP_BPF is missing")), Some(true));
        let nested = "CAP_BPF outside of the user namespace is missing";
        assert_eq!(of(None, Some(nested)), None);
        assert_eq!(of(None, None), None);
    }

    #[test]
    fn each_reason_is_stated() {
        let nothing = Device::default();
        let (packet, xdp) = modes(&link(1, 0), &nothing, &ALL);
        assert_eq!([&packet, &xdp], ["the interface is down"; 2]);
        let (packet, xdp) = modes(&link(280, 1), &nothing, &ALL);
        assert_eq!(packet, "its hardware type 280 is not supported");
        assert_eq!(xdp, "it has no Ethernet frames (hardware type 280)");
        let (packet, xdp) = modes(&link(65_534, 1), &nothing, &ALL);
        assert_eq!(packet, "yes");
        assert_eq!(xdp, "it has no Ethernet frames (raw IP)");
        let taken = Link {
            xdp_program: Some(7),
            ..link(1, 1)
        };
        let (packet, xdp) = modes(&taken, &nothing, &ALL);
        assert_eq!(packet, "yes");
        assert_eq!(xdp, "another program has attached XDP program 7");
        let long = Link {
            mtu: 9000,
            ..link(1, 1)
        };
        let (packet, xdp) = modes(&long, &nothing, &ALL);
        assert_eq!(packet, "yes");
        assert_eq!(
            xdp,
            "frames of its MTU of 9000 bytes are too long for AF_XDP"
        );
        let none = Rights {
            packet: Some("no".into()),
            xdp: Some("never".into()),
        };
        let expected = ("no".to_owned(), "never".to_owned());
        assert_eq!(modes(&link(1, 1), &nothing, &none), expected);
    }
}
