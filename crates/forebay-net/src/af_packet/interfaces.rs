//! What a port says of the interfaces that it captures from: one, or all that there are.
//!
//! ```text
//!   one:   │ eth0 │
//!   any:   │ any  │ lo │ eth0 │ … │ those whose first frame comes later
//!             ▲ the socket, whose counts are for all of them together: the kernel keeps no others
//! ```
//!
//! All at once is one socket that is bound to no interface: each frame says where it is from, and what hardware that is. A
//! frame as a whole is captured as on an interface of its own, not with a made-up header (`LINUX_SLL`), since a capture
//! file can have many interfaces. So the filter is one program for each kind of hardware, behind a look at which it is:
//!
//! ```text
//!   hardware? ─┬─ Ethernet ───────────────────────▶ the filter for Ethernet
//!              ├─ loopback ─┬─ as it comes in ─────▶
//!              │            └─ as it goes out ──▶ not kept: it would be seen twice
//!              ├─ none ──────────────────────────▶ the filter for raw IP
//!              └─ other ──▶ not kept
//! ```
//!
//! It asks netlink, and nothing else. Where to read next: the parent module.

use super::{link_type, names, ring::Hardware};
use crate::{
    filter::{
        Filter, View,
        bpf::{Instruction, code},
    },
    link::{Link, Netlink},
    port::{Interface, LinkType, Resolution},
};
use forebay::{Error, Result};

/// What users call all interfaces together, unless one is really called so.
const ANY: &str = "any";

/// Which interfaces, as they are when the port is opened.
pub(super) enum Which<'a> {
    One(&'a Link, LinkType),
    Any(&'a [Link]),
}

impl<'a> Which<'a> {
    /// The interface called `name`, or all.
    ///
    /// # Errors
    /// There is no such interface, or its hardware is not supported.
    pub(super) fn called(name: &str, links: &'a [Link]) -> Result<Self> {
        if name == ANY && !links.iter().any(|link| link.name == ANY) {
            return Ok(Which::Any(links));
        }
        let link = names::find(links, name)?;
        Ok(Which::One(link, link_type(link)?))
    }

    /// What the socket is opened and bound for: number 0 is all.
    pub(super) fn link(&self) -> Link {
        match self {
            Which::One(link, _) => (*link).clone(),
            Which::Any(links) => Link {
                name: ANY.into(),
                flags: libc::IFF_UP as u32,
                mtu: links.iter().map(|link| link.mtu).max().unwrap_or(0),
                ..Link::default()
            },
        }
    }

    /// How frames begin; of several interfaces, those of most.
    pub(super) fn link_type(&self) -> LinkType {
        match self {
            Which::One(_, link_type) => *link_type,
            Which::Any(_) => LinkType::ETHERNET,
        }
    }

    pub(super) fn hardware(&self) -> Hardware {
        match self {
            Which::One(_, LinkType::ETHERNET) => Hardware::Ethernet,
            Which::One(..) => Hardware::Raw,
            Which::Any(_) => Hardware::Told,
        }
    }

    /// The program that the socket needs to keep what is wanted, as much of it as that; none where it is all.
    ///
    /// # Errors
    /// The filter makes no sense for these frames.
    pub(super) fn program(
        &self,
        filter: Option<&Filter>,
        snaplen: u32,
    ) -> Result<Option<Vec<Instruction>>> {
        let of = |link_type| match filter {
            Some(filter) => {
                let program = filter.compile(link_type, View::Socket, snaplen);
                program.map(|program| program.instructions().to_vec())
            }
            None => Ok(vec![Instruction::new(code::RET_K, snaplen)]),
        };
        let name = &self.link().name;
        let needed = |link_type| of(link_type).map_err(|error| Error::new(name, error.to_string()));
        match self {
            Which::One(_, link_type) if filter.is_some() || snaplen < CUT_BELOW => {
                needed(*link_type).map(Some)
            }
            Which::One(..) => Ok(None),
            Which::Any(_) => {
                // What can only be true of Ethernet is not true of raw IP.
                let raw = of(LinkType::RAW).unwrap_or_else(|_| vec![NOTHING]);
                Ok(Some(by_hardware(needed(LinkType::ETHERNET)?, raw)))
            }
        }
    }
}

/// Frames are cut in the kernel only where that saves something; they are cut here in any case.
const CUT_BELOW: u32 = 65_536;

const NOTHING: Instruction = Instruction::new(code::RET_K, 0);

/// One program or the other, by the hardware that a frame comes from.
fn by_hardware(ethernet: Vec<Instruction>, raw: Vec<Instruction>) -> Vec<Instruction> {
    // linux/filter.h: where a program reads what is not in the frame's bytes.
    const PACKET_TYPE: u32 = 0xFFFF_F000 + 4;
    const HARDWARE: u32 = 0xFFFF_F000 + 28;
    let is = |what: u16, skipped| Instruction::jump(code::JEQ_K, what.into(), skipped, 0);
    let head = [
        Instruction::new(code::LD_ABS, HARDWARE),
        is(libc::ARPHRD_ETHER, 6),
        is(libc::ARPHRD_LOOPBACK, 2),
        is(libc::ARPHRD_NONE, 5),
        NOTHING,
        Instruction::new(code::LD_ABS, PACKET_TYPE),
        Instruction::jump(code::JEQ_K, libc::PACKET_OUTGOING.into(), 0, 1),
        NOTHING,
        Instruction::new(code::JA, 1),
        Instruction::new(code::JA, ethernet.len() as u32),
    ];
    [&head[..], &ethernet, &raw].concat()
}

/// An interface that frames come from, and what it lost before any socket saw it.
#[derive(Debug)]
struct Known {
    /// The kernel's number for it.
    index: u32,
    /// When we attached, or first heard of it, and when we last asked.
    dropped_at_start: u64,
    dropped_so_far: u64,
}

impl Known {
    fn of(link: &Link) -> Known {
        Known {
            index: link.index,
            dropped_at_start: link.dropped,
            dropped_so_far: link.dropped,
        }
    }
}

/// The interfaces of a port.
#[derive(Debug)]
pub(super) struct Interfaces {
    list: Vec<Interface>,
    known: Vec<Known>,
    /// How many of `list` are none of `known`: 1 for `any` itself, else 0.
    before: usize,
    /// The one that the last frame came from, by its place in `known`.
    last: usize,
    netlink: Netlink,
}

impl Interfaces {
    /// What there is now. Of several, those that are up and supported; others become known as their frames come.
    pub(super) fn new(which: &Which<'_>, snaplen: u32, netlink: Netlink) -> Interfaces {
        let mut interfaces = Interfaces {
            list: Vec::new(),
            known: Vec::new(),
            before: 0,
            last: 0,
            netlink,
        };
        match which {
            Which::One(link, link_type) => interfaces.add(link, *link_type, snaplen),
            Which::Any(links) => {
                let (here, others): (Vec<_>, Vec<_>) = links
                    .iter()
                    .filter(|link| link.is_up())
                    .partition(|link| link_type(link).is_ok());
                let mut any = interface(&which.link().name, LinkType::ETHERNET, snaplen);
                any.description = description(&here, &others);
                interfaces.list.push(any);
                interfaces.before = 1;
                for link in here {
                    let link_type = link_type(link).unwrap_or(LinkType::ETHERNET);
                    interfaces.add(link, link_type, snaplen);
                }
            }
        }
        interfaces
    }

    fn add(&mut self, link: &Link, link_type: LinkType, snaplen: u32) {
        self.list.push(interface(&link.name, link_type, snaplen));
        self.known.push(Known::of(link));
    }

    pub(super) fn list(&self) -> &[Interface] {
        &self.list
    }

    /// Whether they are all that there are, so that each frame has to say which it came from.
    #[inline]
    pub(super) fn are_any(&self) -> bool {
        self.before > 0
    }

    /// The number, in [`list`](Interfaces::list), of the interface that the kernel calls `index`.
    #[inline]
    pub(super) fn number(&mut self, index: u32) -> Option<u32> {
        if self
            .known
            .get(self.last)
            .is_none_or(|last| last.index != index)
        {
            self.last = self.known.iter().position(|known| known.index == index)?;
        }
        Some((self.before + self.last) as u32)
    }

    /// Makes an interface known that a frame came from; it may be gone already.
    ///
    /// # Errors
    /// Netlink could not be asked.
    pub(super) fn meet(&mut self, index: u32, hardware: u16, snaplen: u32) -> Result<()> {
        let gone = || Link {
            index,
            name: format!("if{index}"),
            ..Link::default()
        };
        let link = self.netlink.link(index)?.unwrap_or_else(gone);
        let link_type = link_type(&Link {
            hardware,
            ..link.clone()
        })?;
        self.add(&link, link_type, snaplen);
        Ok(())
    }

    /// Notes what the interfaces lost until now, before anybody counts on it.
    pub(super) fn begin(&mut self) -> Result<()> {
        for known in &mut self.known {
            if let Some(link) = self.netlink.link(known.index)? {
                *known = Known::of(&link);
            }
        }
        Ok(())
    }

    /// What they lost since, before any socket saw it. Those that are gone lost what they had lost when they were last asked.
    pub(super) fn dropped(&mut self) -> u64 {
        for known in &mut self.known {
            if let Ok(Some(link)) = self.netlink.link(known.index) {
                known.dropped_so_far = link.dropped;
            }
        }
        let lost = |known: &Known| known.dropped_so_far.saturating_sub(known.dropped_at_start);
        self.known.iter().map(lost).sum()
    }

    /// Why the one interface left us, in words for the user.
    pub(super) fn lost_because(&self) -> Error {
        let name = self.list.first().map_or("", |first| &first.name);
        let index = self.known.first().map_or(0, |first| first.index);
        match self.netlink.link(index) {
            Ok(None) => Error::new(name, "the interface is gone"),
            _ => Error::new(name, "the interface went down"),
        }
    }
}

fn interface(name: &str, link: LinkType, snaplen: u32) -> Interface {
    Interface {
        name: name.into(),
        description: String::new(),
        link,
        snaplen,
        bits_per_second: None,
        resolution: Resolution::NANOSECONDS,
    }
}

/// `lo, eth0; not can0`
fn description(here: &[&Link], others: &[&Link]) -> String {
    let names = |links: &[&Link]| {
        let names: Vec<_> = links.iter().map(|link| link.name.as_str()).collect();
        names.join(", ")
    };
    match others {
        [] => names(here),
        _ => format!("{}; not {}", names(here), names(others)),
    }
}
