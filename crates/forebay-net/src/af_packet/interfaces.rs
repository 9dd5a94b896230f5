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
//! file can have many interfaces. So the filter is one program for each kind of hardware, behind a look at which it is; what a
//! word cannot tell of raw IP, such as `ether host`, does not hold there:
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

use super::{Config, link_type, names, ring::Hardware};
use crate::{
    filter::{
        Filter, View,
        bpf::{Instruction, Program, code},
    },
    link::{Link, Netlink},
    port::{Interface, LinkType, Resolution},
};
use forebay::{Error, Result};
use std::collections::HashMap;

/// What users call all interfaces together, unless one is really called so.
pub(super) const ANY: &str = "any";

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

    fn name(&self) -> &str {
        match self {
            Which::One(link, _) => &link.name,
            Which::Any(_) => ANY,
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

    /// The program that the socket needs to keep what is wanted, `snaplen` bytes of it; none where it is all.
    ///
    /// # Errors
    /// The filter makes no sense for these frames, or becomes too long.
    pub(super) fn program(
        &self,
        config: &Config,
        snaplen: u32,
    ) -> Result<Option<Vec<Instruction>>> {
        let filter = config.filter.as_ref();
        let keep = || vec![Instruction::new(code::RET_K, snaplen)];
        let wrong = |error: crate::filter::Error| Error::new(self.name(), error.to_string());
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
            many => Err(Error::new(
                self.name(),
                format!(
                    "the filter needs {many} instructions for Ethernet and raw IP together, and a program may have {}",
                    Program::MOST
                ),
            )
            .advise("Write it shorter, such as net instead of many hosts, or name the interfaces, each with -i")),
        }
    }
}

fn instructions(program: Program) -> Vec<Instruction> {
    program.instructions().to_vec()
}

/// Frames are cut in the kernel only where that saves something; they are cut here in any case.
const CUT_BELOW: u32 = 65_536;

const NOTHING: Instruction = Instruction::new(code::RET_K, 0);

/// One program or the other, by the hardware that a frame comes from.
fn by_hardware(ethernet: Vec<Instruction>, raw: Vec<Instruction>) -> Vec<Instruction> {
    let is = |what: u16, skipped| Instruction::jump(code::JEQ_K, what.into(), skipped, 0);
    let head = [
        Instruction::new(code::LD_ABS, code::KERNEL_HARDWARE),
        is(libc::ARPHRD_ETHER, 6),    // to the jump to `ethernet`
        is(libc::ARPHRD_LOOPBACK, 2), // to the look at the direction
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
    /// Their numbers in `list`, by the kernel's number and the hardware that frames tell: only where they have to.
    numbers: Option<HashMap<(u32, u16), u32>>,
    /// What the last frame told, and the number.
    last: ((u32, u16), u32),
    netlink: Netlink,
    /// Where frames tell their interface: what each was last called, by the kernel's number, and where news of that come from.
    names: HashMap<u32, String>,
    news: Option<Netlink>,
}

impl Interfaces {
    /// What there is now. Of all, those that are up and wanted; others become known as their frames come.
    pub(super) fn new(
        which: &Which<'_>,
        config: &Config,
        snaplen: u32,
        netlink: Netlink,
    ) -> Interfaces {
        let mut interfaces = Interfaces {
            list: Vec::new(),
            known: Vec::new(),
            numbers: None,
            last: ((0, 0), 0), // no interface has number 0
            netlink,
            names: HashMap::new(),
            news: None,
        };
        match which {
            Which::One(link, link_type) => interfaces.add(link, *link_type, snaplen),
            Which::Any(links) => {
                let any = interface(ANY, LinkType::ETHERNET, snaplen);
                interfaces.list.push(any);
                interfaces.numbers = Some(HashMap::new());
                // Without it, interfaces that are gone before they are asked about are called after their numbers.
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
        self.list.push(interface(&link.name, link_type, snaplen));
        self.known.push(Known::of(link));
    }

    pub(super) fn list(&self) -> &[Interface] {
        &self.list
    }

    /// Whether they are all that there are, so that each frame has to say which it came from.
    #[inline]
    pub(super) fn are_any(&self) -> bool {
        self.numbers.is_some()
    }

    /// The number, in [`list`](Interfaces::list), of the interface of which a frame tells this.
    #[inline]
    pub(super) fn number(&mut self, told: (u32, u16)) -> Option<u32> {
        if self.last.0 != told {
            let number = self.numbers.as_ref()?.get(&told)?;
            self.last = (told, *number);
        }
        Some(self.last.1)
    }

    /// Makes an interface known that a frame came from. It may be gone already: then it is called what it was called when we last heard of
    /// it, and if we never did, after its number.
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
        // The program lets nothing else pass.
        let link_type = link_type(&link).unwrap_or(LinkType::ETHERNET);
        self.add(&link, link_type, snaplen);
    }

    /// Notes what the interfaces lost until now, before anybody counts on it.
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

    /// What they lost since, before any socket saw it. Those that are gone lost what they had lost when they were last asked.
    /// `None`: netlink does not answer now, and what it said earlier is too old.
    pub(super) fn dropped(&mut self) -> Option<u64> {
        self.ask().ok()?;
        let lost = |known: &Known| known.dropped_so_far.saturating_sub(known.dropped_at_start);
        Some(self.known.iter().map(lost).sum())
    }

    /// Asks for the counters of all, at once.
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

    /// Remembers what interfaces are called whose first frame may come when they are gone.
    fn note_names(&mut self, links: &[Link]) {
        if self.numbers.is_some() {
            let names = links.iter().map(|link| (link.index, link.name.clone()));
            self.names.extend(names);
        }
    }

    /// Hears of interfaces that were made or renamed since the last call.
    fn hear(&mut self) {
        let Some(news) = &self.news else {
            return;
        };
        match news.heard() {
            Ok(links) => self.note_names(&links),
            // So much happened that the kernel left some out: all that there are now.
            Err(_) => {
                let links = self.netlink.links().unwrap_or_default();
                self.note_names(&links);
            }
        }
    }

    /// Whether the one interface is up; `None`: it was deleted.
    ///
    /// # Errors
    /// Netlink does not answer.
    pub(super) fn is_up(&self) -> Result<Option<bool>> {
        let index = self.known.first().map_or(0, |first| first.index);
        let link = self.netlink.link(index)?;
        Ok(link.map(|link| link.is_up()))
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
        in_file: None,
        resolution: Resolution::NANOSECONDS,
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
        let config = Config::default();
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
            let config = Config {
                ethernet_only,
                ..Config::default()
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
            // Another interface by now, though the number is the same.
            ((7, libc::ARPHRD_NONE), None),
        ] {
            assert_eq!(all.number(told), number, "{told:?}");
        }
        // One that was gone before it could be asked for.
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
        let (ethernet, raw) = (
            vec![Instruction::new(code::RET_K, 1); 300],
            vec![Instruction::new(code::RET_K, 2)],
        );
        let program = by_hardware(ethernet, raw);
        // What the kernel would do, where loads give what it knows of the frame.
        let run = |hardware: u16, kind: u32| {
            let (mut at, mut a) = (0, 0);
            loop {
                let Instruction {
                    code: it,
                    k,
                    jump_true,
                    jump_false,
                } = program[at];
                at += 1 + match it {
                    code::RET_K => return k,
                    code::LD_ABS => {
                        a = match k {
                            code::KERNEL_HARDWARE => hardware.into(),
                            code::KERNEL_PACKET_TYPE => kind,
                            _ => panic!("{k:#x}"),
                        };
                        0
                    }
                    code::JEQ_K if a == k => jump_true.into(),
                    code::JEQ_K => jump_false.into(),
                    code::JA => k as usize,
                    other => panic!("{other:#x}"),
                };
            }
        };
        let (here, outgoing) = (0, code::OUTGOING);
        assert_eq!(run(libc::ARPHRD_ETHER, here), 1);
        assert_eq!(run(libc::ARPHRD_ETHER, outgoing), 1);
        assert_eq!(run(libc::ARPHRD_LOOPBACK, here), 1);
        assert_eq!(run(libc::ARPHRD_LOOPBACK, outgoing), 0);
        assert_eq!(run(libc::ARPHRD_NONE, outgoing), 2);
        assert_eq!(run(280, here), 0);
    }
}
