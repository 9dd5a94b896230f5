//! The printer: the parts of a line that belong to no protocol, and what is remembered from one packet to the next.

use super::{
    address::Address,
    data::{Data, Printed},
    facts::Facts,
    flows::Flows,
    hellos::Connections,
    hex,
    hosts::Hosts,
    text::Text,
    times::{Clock, Times},
};
use forebay_net::port::{Direction, LinkType};

/// What is printed of a packet.
#[derive(Clone, Debug, Default)]
pub struct Style {
    pub times: Times,
    /// Times with nanoseconds instead of microseconds.
    pub nanoseconds: bool,
    /// The link-layer header.
    pub link_header: bool,
    /// 0 to 3.
    pub verbose: u8,
    /// Less about protocols.
    pub brief: bool,
    pub dump: Dump,
    /// Sequence numbers of TCP as they are, not relative to the first.
    pub absolute_sequence: bool,
    /// Do not verify checksums.
    pub no_checksums: bool,
    /// A number before each line.
    pub numbers: bool,
    /// The interface and the direction before each line.
    pub interfaces: bool,
    /// Names that answers of DNS in the capture gave to addresses, and names of well-known ports.
    pub names: bool,
    /// Colours of a terminal.
    pub colours: bool,
}

/// The bytes printed after the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    pub form: Form,
    /// From the link-layer header on, not from the network layer's.
    pub with_link: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    #[default]
    None,
    Hex,
    HexAndText,
    Text,
}

/// A packet to print.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    pub link: LinkType,
    pub interface: &'a str,
    pub direction: Direction,
    pub time_ns: u64,
    /// The captured bytes, or the first of them.
    pub data: &'a [u8],
    /// The number of bytes captured.
    pub captured: u32,
    pub wire_len: u32,
}

/// Decides about the colour of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    #[default]
    Plain,
    Arp,
    Icmp,
    Udp,
    /// TCP that begins or ends a connection.
    Turn,
    /// TCP that resets one.
    Reset,
}

impl Kind {
    /// A colour of the terminal's own palette.
    fn colour(self) -> Option<&'static str> {
        match self {
            Kind::Plain => None,
            Kind::Arp => Some("\x1b[33m"),
            Kind::Icmp => Some("\x1b[35m"),
            Kind::Udp => Some("\x1b[36m"),
            Kind::Turn => Some("\x1b[32m"),
            Kind::Reset => Some("\x1b[31m"),
        }
    }
}

/// Prints packets in order: it knows the connections and the times before.
pub struct Printer {
    pub(super) style: Style,
    clock: Clock,
    pub(super) flows: Flows,
    pub(super) quic: Connections,
    /// What is found in the packet that is being printed.
    pub(super) facts: Facts,
    /// `None`: addresses and ports are printed as numbers.
    pub(super) hosts: Option<Hosts>,
    number: u64,
    /// The protocol whose header is being printed.
    pub(super) protocol: &'static str,
    pub(super) kind: Kind,
    /// How many packets enclose the one that is printed.
    pub(super) depth: u8,
}

/// More encapsulated packets than this are not printed.
pub(super) const MAX_DEPTH: u8 = 8;

impl Printer {
    pub fn new(style: Style) -> Self {
        Printer {
            clock: Clock::new(style.times, style.nanoseconds),
            facts: Facts::wanted(style.names),
            hosts: style.names.then(Hosts::default),
            style,
            flows: Flows::default(),
            quic: Connections::default(),
            number: 0,
            protocol: "",
            kind: Kind::Plain,
            depth: 0,
        }
    }

    /// Appends the line of `packet`, and the lines of its dump, to `out`.
    pub fn line(&mut self, packet: &Packet<'_>, out: &mut Text) {
        self.number += 1;
        if self.style.numbers {
            let before = out.len();
            out.num(self.number);
            let digits = out.len() - before;
            if digits < 5 {
                out.truncate(before);
                out.blanks(5 - digits).num(self.number);
            }
            out.put("  ");
        }
        if self.style.colours {
            out.put("\x1b[2m");
            self.clock.print(packet.time_ns, out);
            out.put("\x1b[0m");
        } else {
            self.clock.print(packet.time_ns, out);
        }
        if self.style.interfaces {
            out.foreign(packet.interface.as_bytes());
            out.put(match packet.direction {
                Direction::Inbound => " In  ",
                Direction::Outbound => " Out ",
                Direction::Unknown => " ?   ",
            });
        }
        if !self.style.colours {
            self.body(packet, out);
            out.byte(b'\n');
            return;
        }
        let mut body = Text::default();
        self.body(packet, &mut body);
        match self.kind.colour() {
            Some(colour) => {
                out.put(colour).raw(body.bytes()).put("\x1b[0m");
            }
            None => drop(out.raw(body.bytes())),
        }
        out.byte(b'\n');
    }

    /// Everything but number, time and interface.
    fn body(&mut self, packet: &Packet<'_>, out: &mut Text) {
        self.protocol = "";
        self.kind = Kind::Plain;
        self.depth = 0;
        self.facts.clear();
        let data = Data {
            captured: packet.data,
            len: packet.wire_len as usize,
        };
        if packet.data.is_empty() {
            out.put("[Invalid header: caplen==0]");
            return;
        }
        let (header, printed) = self.link(packet.link, data, out);
        if printed.is_err() {
            out.put(" [|").put(self.protocol).byte(b']');
        }
        self.learn_names();
        let from = if self.style.dump.with_link { 0 } else { header };
        let dumped = data.after(from).captured;
        match self.style.dump.form {
            _ if dumped.is_empty() => {}
            Form::None => {}
            Form::Hex => hex::hex(dumped, out),
            Form::HexAndText => hex::hex_and_text(dumped, out),
            Form::Text => hex::text(dumped, out),
        }
    }

    /// The name of an address, if `names` is set and an answer has named it.
    pub fn host_name(&self, address: Address) -> Option<&str> {
        self.hosts.as_ref()?.name(address)
    }

    /// The name that was asked for is the one that people know; the name of an answer may be an alias.
    fn learn_names(&mut self) {
        let Some(hosts) = &mut self.hosts else {
            return;
        };
        let (asked, answered) = (self.facts.get("dns.query"), self.facts.get("dns.name"));
        if let Some(name) = asked.or(answered) {
            for &address in &self.facts.addresses {
                hosts.learn(address, name);
            }
        }
    }

    /// Bytes of a protocol that nothing here prints, unless they are dumped anyway.
    pub(super) fn undecoded(&self, data: Data<'_>, out: &mut Text) -> Printed {
        let is_dumped = matches!(self.style.dump.form, Form::Hex | Form::HexAndText);
        if !is_dumped && !self.style.brief {
            hex::hex_and_text(data.captured, out);
        }
        Ok(())
    }
}
