//! The interfaces that a port captures from: one, or all of them (`any`).
//!
//! ```text
//!   one:   │ eth0 │
//!   any:   │ any  │ lo │ eth0 │ … │ those whose first frame comes later
//!             ▲ the socket, whose counts are for all of them together: the kernel keeps no others
//! ```
//!
//! `any` is a single socket that is bound to no interface. Each frame carries its interface and hardware type. It is captured
//! as on its own interface, not with a generated header (`LINUX_SLL`), since a capture file can have many interfaces. The
//! kernel filter therefore contains one program for each hardware type and selects it first. A test that cannot apply to
//! raw IP, such as `ether host`, is false there:
//!
//! ```text
//!   hardware? ─┬─ Ethernet ───────────────────────▶ the filter for Ethernet
//!              ├─ loopback ─┬─ as it comes in ─────▶
//!              │            └─ as it goes out ──▶ not kept: it would be seen twice
//!              ├─ none ──────────────────────────▶ the filter for raw IP
//!              └─ other ──▶ not kept
//! ```
//!
//! This module uses only netlink.

use super::{
    config::AfPacketConfig,
    link_types::link_type,
    names::{self, ANY},
    ring::Hardware,
};
use crate::{
    filter::{
        self, Filter, View,
        bpf::{Instruction, Program, code},
    },
    link::{Link, Netlink},
    port::{Interface, LinkType, TimeSource},
};
use forebay::{Error, Result};
use std::collections::HashMap;

/// The selected interfaces, as they are when the port is opened.
pub(super) enum Which<'a> {
    One(&'a Link, LinkType),
    Any(&'a [Link]),
}

impl<'a> Which<'a> {
    /// Selects the interface with this name, or all.
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

    /// The interface to open and bind the socket for. Index 0 means all.
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

    fn name(&self) -> &str {
        match self {
            Which::One(link, _) => &link.name,
            Which::Any(_) => ANY,
        }
    }

    /// The link type of the frames; for `any`, that of most interfaces.
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

    /// Returns the kernel program that keeps `snaplen` bytes of each matching packet, or `None` if all of every packet is kept.
    ///
    /// # Errors
    /// The filter is not valid for the link type, or compiles to too many instructions.
    pub(super) fn program(
        &self,
        config: &AfPacketConfig,
        snaplen: u32,
    ) -> Result<Option<Vec<Instruction>>> {
        let filter = config.filter.as_ref();
        let keep = || vec![Instruction::new(code::RET_K, snaplen)];
        let wrong = |error: filter::Error| error.refused_by(self.name());
        let for_its_own = |filter: &Filter| {
            let compiled = filter.compile(self.link_type(), View::Socket, snaplen);
            compiled.map(instructions).map_err(wrong)
        };
        let own = filter.map(for_its_own).transpose()?;
        if let Which::One(..) = self {
            return Ok(own.or_else(|| (snaplen < CUT_BELOW).then(keep)));
        }
        let raw = match filter {
            _ if config.ethernet_only => vec![NOTHING],
            None => keep(),
            Some(filter) => {
                let compiled = filter.compile_beside(LinkType::RAW, View::Socket, snaplen);
                compiled.map(instructions).map_err(wrong)?
            }
        };
        let program = by_hardware(own.unwrap_or_else(keep), raw);
        match program.len() {
            0..=Program::MOST => Ok(Some(program)),
            many => Err(wrong(filter::Error::of_all(format!(
                "the expression needs {many} instructions for Ethernet and raw IP together; the kernel accepts {}",
                Program::MOST
            )))
            .advise("Shorten it, such as with net instead of many hosts, or name the interfaces, each with -i")),
        }
    }
}

fn instructions(program: Program) -> Vec<Instruction> {
    program.instructions().to_vec()
}

/// Frames are truncated in the kernel only if that saves work; they are truncated here in any case.
const CUT_BELOW: u32 = 65_536;

const NOTHING: Instruction = Instruction::new(code::RET_K, 0);

/// Combines two programs and selects one by the hardware type of each frame.
fn by_hardware(ethernet: Vec<Instruction>, raw: Vec<Instruction>) -> Vec<Instruction> {
    let is = |what: u16, skipped| Instruction::jump(code::JEQ_K, what.into(), skipped, 0);
    let head = [
        Instruction::new(code::LD_ABS, code::KERNEL_HARDWARE),
        is(libc::ARPHRD_ETHER, 6),    // to the jump to `ethernet`
        is(libc::ARPHRD_LOOPBACK, 2), // to the test of the direction
        is(libc::ARPHRD_NONE, 5),     // to the jump to `raw`
        NOTHING,
        Instruction::new(code::LD_ABS, code::KERNEL_PACKET_TYPE),
        Instruction::jump(code::JEQ_K, code::OUTGOING, 0, 1),
        NOTHING,
        Instruction::new(code::JA, 1),
        Instruction::new(code::JA, ethernet.len() as u32),
    ];
    [&head[..], &ethernet, &raw].concat()
}

/// An interface that delivers frames, and the frames lost before any socket saw them.
#[derive(Debug)]
struct Known {
    /// The kernel's interface index.
    index: u32,
    /// The counter at the time we attached or first saw the interface, and at the latest query.
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

#[derive(Debug)]
pub(super) struct Interfaces {
    list: Vec<Interface>,
    time: Option<TimeSource>,
    known: Vec<Known>,
    /// Maps the kernel's index and hardware type to a position in `list`; `Some` only for `any`, where frames carry both.
    numbers: Option<HashMap<(u32, u16), u32>>,
    /// The index and hardware type of the last frame, and the position found for them.
    last: ((u32, u16), u32),
    netlink: Netlink,
    /// For `any`: the latest known name by kernel index, and the socket that reports renamed and new interfaces.
    names: HashMap<u32, String>,
    news: Option<Netlink>,
}

impl Interfaces {
    /// Lists the present interfaces. For `any`, these are the matching ones that are up; others are added when their first frame
    /// arrives.
    pub(super) fn new(
        which: &Which<'_>,
        config: &AfPacketConfig,
        snaplen: u32,
        netlink: Netlink,
    ) -> Interfaces {
        let mut interfaces = Interfaces {
            list: Vec::new(),
            time: config.time,
            known: Vec::new(),
            numbers: None,
            last: ((0, 0), 0), // no interface has index 0
            netlink,
            names: HashMap::new(),
            news: None,
        };
        match which {
            Which::One(link, link_type) => interfaces.add(link, *link_type, snaplen),
            Which::Any(links) => {
                let any = Interface {
                    time: config.time,
                    ..interface(ANY, LinkType::ETHERNET, snaplen)
                };
                interfaces.list.push(any);
                interfaces.numbers = Some(HashMap::new());
                // Without it, an interface that is deleted before it could be queried is named by its index.
                interfaces.news = Netlink::listen().ok();
                interfaces.note_names(links);
                let mut others = Vec::new();
                for link in links.iter().filter(|link| link.is_up()) {
                    match link_type(link) {
                        Ok(LinkType::RAW) if config.ethernet_only => others.push(&link.name[..]),
                        Ok(link_type) => interfaces.add(link, link_type, snaplen),
                        Err(_) => others.push(&link.name),
                    }
                }
                let here = interfaces.list[1..].iter().map(|it| &it.name[..]);
                let description = description(&here.collect::<Vec<_>>(), &others);
                interfaces.list[0].description = description;
            }
        }
        interfaces
    }

    fn add(&mut self, link: &Link, link_type: LinkType, snaplen: u32) {
        if let Some(numbers) = &mut self.numbers {
            numbers.insert((link.index, link.hardware), self.list.len() as u32);
        }
        self.list.push(Interface {
            time: self.time,
            ..interface(&link.name, link_type, snaplen)
        });
        self.known.push(Known::of(link));
    }

    pub(super) fn list(&self) -> &[Interface] {
        &self.list
    }

    /// Whether the port captures from all interfaces, so that each frame carries its interface.
    #[inline]
    pub(super) fn are_any(&self) -> bool {
        self.numbers.is_some()
    }

    /// Returns the position in [`list`](Interfaces::list) of the interface with this kernel index and hardware type.
    #[inline]
    pub(super) fn number(&mut self, told: (u32, u16)) -> Option<u32> {
        if self.last.0 != told {
            let number = self.numbers.as_ref()?.get(&told)?;
            self.last = (told, *number);
        }
        Some(self.last.1)
    }

    /// Adds the interface from which a frame came. If it is already deleted, it gets its last known name, or a name made of its
    /// index.
    pub(super) fn meet(&mut self, (index, hardware): (u32, u16), snaplen: u32) {
        self.hear();
        let asked = self.netlink.link(index).ok().flatten();
        let link = asked.unwrap_or_else(|| {
            let name = self.names.get(&index).cloned();
            Link {
                name: name.unwrap_or_else(|| format!("if{index}")),
                ..Link::default()
            }
        });
        let link = Link {
            index,
            hardware,
            ..link
        };
        // The kernel program rejects all other hardware types.
        let link_type = link_type(&link).unwrap_or(LinkType::ETHERNET);
        self.add(&link, link_type, snaplen);
    }

    /// Records the counters at the start of the capture.
    ///
    /// # Errors
    /// Netlink does not answer.
    pub(super) fn begin(&mut self) -> Result<()> {
        self.ask()?;
        for known in &mut self.known {
            known.dropped_at_start = known.dropped_so_far;
        }
        Ok(())
    }

    /// Returns the frames lost since the start before any socket saw them. A deleted interface counts with its last known value.
    /// `None` means that netlink does not answer now, and earlier values are out of date.
    pub(super) fn dropped(&mut self) -> Option<u64> {
        self.ask().ok()?;
        let lost = |known: &Known| known.dropped_so_far.saturating_sub(known.dropped_at_start);
        Some(self.known.iter().map(lost).sum())
    }

    /// Queries the counters of all interfaces at once.
    fn ask(&mut self) -> Result<()> {
        self.hear();
        let links = match (&self.known[..], &self.numbers) {
            ([one], None) => self.netlink.link(one.index).map(Vec::from_iter)?,
            _ => self.netlink.links()?,
        };
        let dropped: HashMap<_, _> = links
            .iter()
            .map(|link| (link.index, link.dropped))
            .collect();
        for known in &mut self.known {
            if let Some(dropped) = dropped.get(&known.index) {
                known.dropped_so_far = *dropped;
            }
        }
        self.note_names(&links);
        Ok(())
    }

    /// Records interface names, because an interface may be deleted before its first frame is read.
    fn note_names(&mut self, links: &[Link]) {
        if self.numbers.is_some() {
            let names = links.iter().map(|link| (link.index, link.name.clone()));
            self.names.extend(names);
        }
    }

    /// Processes news of interfaces that were created or renamed since the last call.
    fn hear(&mut self) {
        let Some(news) = &self.news else {
            return;
        };
        match news.heard() {
            Ok(links) => self.note_names(&links),
            // The kernel's queue overflowed: list all present interfaces.
            Err(_) => {
                let links = self.netlink.links().unwrap_or_default();
                self.note_names(&links);
            }
        }
    }

    /// Whether the only interface is up; `None` if it was deleted.
    ///
    /// # Errors
    /// Netlink does not answer.
    pub(super) fn is_up(&self) -> Result<Option<bool>> {
        let index = self.known.first().map_or(0, |first| first.index);
        let link = self.netlink.link(index)?;
        Ok(link.map(|link| link.is_up()))
    }

    /// The reason why the only interface was lost, as an error for the user.
    pub(super) fn lost_because(&self) -> Error {
        let name = self.list.first().map_or("", |first| &first.name);
        let index = self.known.first().map_or(0, |first| first.index);
        match self.netlink.link(index) {
            Ok(None) => {
                Error::new(name, "the interface is gone").of_kind(std::io::ErrorKind::NotConnected)
            }
            _ => Error::new(name, "the interface went down")
                .of_kind(std::io::ErrorKind::NotConnected),
        }
    }
}

fn interface(name: &str, link: LinkType, snaplen: u32) -> Interface {
    Interface {
        name: name.into(),
        link,
        snaplen,
        socket_view: true,
        ..Interface::default()
    }
}

/// `lo, eth0; not can0`
fn description(here: &[&str], others: &[&str]) -> String {
    match others {
        [] => here.join(", "),
        _ => format!("{}; not {}", here.join(", "), others.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_interfaces_lost_is_unknown_while_netlink_does_not_answer() {
        let netlink = Netlink::open().unwrap();
        let links = netlink.links().unwrap();
        let Some(first) = links.iter().find(|link| link_type(link).is_ok()) else {
            return println!("skipped: needs an interface");
        };
        let which = Which::One(first, LinkType::ETHERNET);
        let config = AfPacketConfig::default();
        let mut interfaces = Interfaces::new(&which, &config, 100, netlink);
        interfaces.begin().unwrap();
        assert!(interfaces.dropped().is_some());
        let answers = std::mem::replace(&mut interfaces.netlink, Netlink::deaf());
        assert_eq!(interfaces.dropped(), None);
        interfaces.netlink = answers;
        assert!(interfaces.dropped().is_some());
    }

    fn link(index: u32, name: &str, hardware: u16) -> Link {
        Link {
            index,
            name: name.into(),
            hardware,
            flags: libc::IFF_UP as u32,
            ..Link::default()
        }
    }

    fn names(interfaces: &Interfaces) -> Vec<&str> {
        let names = interfaces.list().iter();
        names.map(|it| it.name.as_str()).collect()
    }

    #[test]
    fn all_interfaces_are_those_that_are_up_and_wanted_and_are_told_by_number_and_hardware() {
        let down = Link {
            flags: 0,
            ..link(9, "eth9", libc::ARPHRD_ETHER)
        };
        let links = [
            link(1, "lo", libc::ARPHRD_LOOPBACK),
            link(2, "wg0", libc::ARPHRD_NONE),
            link(3, "can0", 280),
            down,
            link(7, "eth0", libc::ARPHRD_ETHER),
        ];
        let which = Which::called(ANY, &links).unwrap();
        let of = |ethernet_only| {
            let config = AfPacketConfig {
                ethernet_only,
                ..AfPacketConfig::default()
            };
            Interfaces::new(&which, &config, 100, Netlink::open().unwrap())
        };
        let mut all = of(false);
        assert_eq!(names(&all), ["any", "lo", "wg0", "eth0"]);
        assert_eq!(all.list()[0].description, "lo, wg0, eth0; not can0");
        let links = all.list().iter().map(|it| it.link);
        let (ethernet, raw) = (LinkType::ETHERNET, LinkType::RAW);
        assert!(links.eq([ethernet, ethernet, raw, ethernet]));
        for (told, number) in [
            ((7, libc::ARPHRD_ETHER), Some(3)),
            ((1, libc::ARPHRD_LOOPBACK), Some(1)),
            ((7, libc::ARPHRD_ETHER), Some(3)),
            ((9, libc::ARPHRD_ETHER), None),
            // A different interface, although the index is the same.
            ((7, libc::ARPHRD_NONE), None),
        ] {
            assert_eq!(all.number(told), number, "{told:?}");
        }
        // An interface that was deleted before it could be queried.
        all.meet((0x7fff_0000, libc::ARPHRD_NONE), 100);
        assert_eq!(all.number((0x7fff_0000, libc::ARPHRD_NONE)), Some(4));
        let met = all.list().last().unwrap();
        assert_eq!((met.name.as_str(), met.link), ("if2147418112", raw));
        let some = of(true);
        assert_eq!(names(&some), ["any", "lo", "eth0"]);
        assert_eq!(some.list()[0].description, "lo, eth0; not wg0, can0");
    }

    #[test]
    fn an_interface_that_is_called_any_is_meant_by_that() {
        let links = [link(4, ANY, libc::ARPHRD_ETHER)];
        assert!(matches!(Which::called(ANY, &links), Ok(Which::One(..))));
    }

    #[test]
    fn one_program_or_the_other_runs_by_hardware() {
        let ethernet = vec![Instruction::new(code::RET_K, 1); 300];
        let program = by_hardware(ethernet, vec![Instruction::new(code::RET_K, 2)]);
        // Simulates the kernel, whose special loads return metadata of the frame.
        let run = |hardware: u16, kind: u32| {
            let (mut at, mut a) = (0, 0);
            loop {
                let Instruction { k, .. } = program[at];
                at += 1 + match program[at].code {
                    code::RET_K => return k,
                    code::LD_ABS => {
                        a = match k {
                            code::KERNEL_HARDWARE => hardware.into(),
                            code::KERNEL_PACKET_TYPE => kind,
                            _ => panic!("{k:#x}"),
                        };
                        0
                    }
                    code::JEQ_K if a == k => program[at].jump_true.into(),
                    code::JEQ_K => program[at].jump_false.into(),
                    code::JA => k as usize,
                    other => panic!("{other:#x}"),
                };
            }
        };
        let (here, outgoing) = (0, code::OUTGOING);
        assert_eq!(
            [here, outgoing].map(|kind| run(libc::ARPHRD_ETHER, kind)),
            [1, 1]
        );
        assert_eq!(
            [here, outgoing].map(|kind| run(libc::ARPHRD_LOOPBACK, kind)),
            [1, 0]
        );
        assert_eq!((run(libc::ARPHRD_NONE, outgoing), run(280, here)), (2, 0));
    }
}
