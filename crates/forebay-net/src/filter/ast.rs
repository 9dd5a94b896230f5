//! The parsed expression. Names are already addresses and numbers, and qualifiers fit what they qualify. Nothing depends on a
//! link type yet. `parse.rs` creates it, `compile/` reads it.

use std::{
    net::{IpAddr, Ipv6Addr},
    ops::Range,
};

/// A whole expression, or one in parentheses.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expr {
    /// `and` and `or` have the same precedence and group to the left: each joins everything before it.
    Chain(Box<Expr>, Vec<(Joint, Expr)>),
    Not(Box<Expr>),
    Primitive(Primitive, Range<usize>),
    Relation {
        left: Arith,
        relation: Relation,
        right: Arith,
        span: Range<usize>,
    },
}

impl Expr {
    /// A chain of expressions. If there is only one, it needs no chain.
    pub fn chain(first: Expr, rest: Vec<(Joint, Expr)>) -> Expr {
        match rest.is_empty() {
            true => first,
            false => Expr::Chain(Box::new(first), rest),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Joint {
    And,
    Or,
}

/// Ports from the first to the last, of one transport protocol or of all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ports {
    pub transport: Option<Transport>,
    pub direction: Direction,
    pub first: u16,
    pub last: u16,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Primitive {
    /// The packet is of this protocol: `tcp`.
    Protocol(Protocol),
    /// An IPv4 address under a mask, of IP, ARP or RARP, or without a protocol of any of them.
    Ipv4(Protocol, Direction, u32, u32),
    Ipv6(Direction, Ipv6Addr, Ipv6Addr),
    /// All addresses of a name, in the order of the lookup.
    Host(Protocol, Direction, Vec<IpAddr>),
    Ether(Direction, [u8; 6]),
    Decnet(Direction, u16),
    Ports(Ports),
    /// The next protocol in the packet's header of this protocol: `ip proto 6`.
    Next(Protocol, u32),
    /// The same, or the next protocol of an extension header after it: `ip6 protochain 6`.
    Chain(Protocol, u32),
    Broadcast(Protocol),
    Multicast(Protocol),
    /// `less`: at most this length on the wire, in bytes.
    AtMost(u32),
    /// `greater`: at least this length on the wire, in bytes.
    AtLeast(u32),
    /// `byte INDEX = VALUE`
    Byte(u32, ByteRelation, u32),
    Outbound(bool),
    Interface(u32),
    Vlan(Option<u32>),
    Mpls(Option<u32>),
    PppoeDiscovery,
    PppoeSession(Option<u32>),
    Geneve(Option<u32>),
    Vxlan(Option<u32>),
    Llc(Llc),
    Wifi(Wifi),
}

/// A test of an 802.11 header.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Wifi {
    /// A byte of the frame control has this value under this mask.
    Control(u32, u32, u32),
    Address(Station, [u8; 6]),
}

/// One of the addresses of an 802.11 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Station {
    Addr1,
    Addr2,
    Addr3,
    Addr4,
    /// `ra`
    Receiver,
    /// `ta`
    Transmitter,
}

impl Station {
    pub fn of_keyword(keyword: &str) -> Option<Station> {
        Some(match keyword {
            "addr1" => Station::Addr1,
            "addr2" => Station::Addr2,
            "addr3" => Station::Addr3,
            "addr4" => Station::Addr4,
            "ra" => Station::Receiver,
            "ta" => Station::Transmitter,
            _ => return None,
        })
    }
}

/// Frames of 802.2: all, or those whose control byte has this value under this mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Llc {
    Any,
    Control(u32, u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Tcp,
    Udp,
    Sctp,
}

impl Transport {
    /// Its number in an IP header.
    pub fn number(self) -> u32 {
        match self {
            Transport::Tcp => 6,
            Transport::Udp => 17,
            Transport::Sctp => 132,
        }
    }
}

/// Which of a packet's two addresses or ports is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// `src or dst`, also the default.
    Either,
    /// `src`.
    Source,
    /// `dst`.
    Destination,
    /// `src and dst`.
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Equal,
    NotEqual,
    Greater,
    Less,
    AtLeast,
    AtMost,
}

/// The relation of `byte INDEX RELATION VALUE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteRelation {
    Equal,
    Greater,
    Less,
    /// The two have a bit in common.
    And,
    /// At least one of the two has a bit.
    Or,
}

/// A number computed from a packet.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Arith {
    Number(u32),
    /// The packet's length on the wire.
    Length,
    /// `tcp[INDEX:SIZE]`; 1, 2 or 4 bytes.
    Load {
        protocol: Protocol,
        index: Box<Arith>,
        size: u32,
    },
    Negate(Box<Arith>),
    Binary {
        operator: Operator,
        left: Box<Arith>,
        right: Box<Arith>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
}

macro_rules! protocols {
    ($($variant:ident $keyword:literal),+ $(,)?) => {
        /// The protocols that may precede `host`, `port`, `[` and the like; most are also a test on their own.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Protocol {
            /// No keyword: every protocol that fits.
            Any,
            $($variant),+
        }

        impl Protocol {
            pub fn of_keyword(keyword: &str) -> Option<Protocol> {
                match keyword {
                    $($keyword => Some(Protocol::$variant),)+
                    _ => None,
                }
            }

            pub fn keyword(self) -> &'static str {
                match self {
                    Protocol::Any => "",
                    $(Protocol::$variant => $keyword),+
                }
            }
        }
    };
}

protocols! {
    Link "link", Ip "ip", Arp "arp", Rarp "rarp", Sctp "sctp", Tcp "tcp", Udp "udp", Icmp "icmp",
    Igmp "igmp", Igrp "igrp", Pim "pim", Vrrp "vrrp", Carp "carp", Radio "radio", Ip6 "ip6",
    Icmp6 "icmp6", Ah "ah", Esp "esp", Atalk "atalk", Aarp "aarp", Decnet "decnet", Lat "lat",
    Sca "sca", Moprc "moprc", Mopdl "mopdl", Iso "iso", Esis "esis", Isis "isis", L1 "l1",
    L2 "l2", Iih "iih", Lsp "lsp", Snp "snp", Csnp "csnp", Psnp "psnp", Clnp "clnp", Stp "stp",
    Ipx "ipx", Netbeui "netbeui",
}
