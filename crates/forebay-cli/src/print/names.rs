//! Names of numbers in headers, as tcpdump writes them.

/// The name of an Ethernet type.
pub fn ethertype(kind: u16) -> Option<&'static str> {
    Some(match kind {
        0x0800 => "IPv4",
        0x86dd => "IPv6",
        0x0806 => "ARP",
        0x8035 => "Reverse ARP",
        0x8100 => "802.1Q",
        0x88a8 => "802.1Q-QinQ",
        0x9100 => "802.1Q-9100",
        0x9200 => "802.1Q-9200",
        0x8847 => "MPLS unicast",
        0x8848 => "MPLS multicast",
        0x0200 => "PUP",
        0x0500 => "Sprite",
        0x0600 => "NS",
        0x1000 => "Trail",
        0x6001 => "MOP DL",
        0x6002 => "MOP RC",
        0x6003 => "DN",
        0x6004 => "LAT",
        0x6007 => "SCA",
        0x6558 => "TEB",
        0x8038 => "Lanbridge",
        0x803c => "DEC DNS",
        0x803e => "DEC DTS",
        0x805b => "VEXP",
        0x805c => "VPROD",
        0x809b => "Appletalk",
        0x80f3 => "Appletalk ARP",
        0x8137 => "IPX",
        0x880b => "PPP",
        0x8808 => "MPCP",
        0x8809 => "Slow Protocols",
        0x8863 => "PPPoE D",
        0x8864 => "PPPoE S",
        0x886f => "MS NLB heartbeat",
        0x8870 => "Jumbo",
        0x888e => "EAPOL",
        0x8899 => "RRCP",
        0x88a2 => "AoE",
        0x88ca => "TIPC",
        0x88cc => "LLDP",
        0x88e5 => "MACsec",
        0x88f7 => "PTP",
        0x8902 => "CFM",
        0x894f => "NSH",
        0x893a => "IEEE1905.1",
        0x9000 => "Loopback",
        0x00fe => "OSI",
        _ => return None,
    })
}

/// The name of an IP protocol.
pub fn protocol(number: u8) -> &'static str {
    match number {
        0 => "Options",
        1 => "ICMP",
        2 => "IGMP",
        4 => "IPIP",
        6 => "TCP",
        8 => "EGP",
        9 => "IGRP",
        17 => "UDP",
        33 => "DCCP",
        41 => "IPv6",
        43 => "Routing",
        44 => "Fragment",
        46 => "RSVP",
        47 => "GRE",
        50 => "ESP",
        51 => "AH",
        55 => "Mobile IP",
        58 => "ICMPv6",
        62 => "Mobility (old)",
        88 => "EIGRP",
        89 => "OSPF",
        103 => "PIM",
        108 => "Compressed IP",
        112 => "VRRP",
        113 => "PGM",
        132 => "SCTP",
        135 => "Mobility",
        _ => "unknown",
    }
}

/// The type of a packet in a Linux "cooked" header.
pub fn packet_type(kind: u16) -> &'static str {
    match kind {
        0 => "In ",
        1 => "B  ",
        2 => "M  ",
        3 => "P  ",
        4 => "Out",
        _ => "?  ",
    }
}

/// The name of a PPP protocol.
pub fn ppp(kind: u16) -> &'static str {
    match kind {
        0x21 => "IP",
        0x57 => "IP6",
        0x8021 => "IPCP",
        0x8057 => "IP6CP",
        0xc021 => "LCP",
        0xc023 => "PAP",
        0xc223 => "CHAP",
        _ => "unknown PPP protocol",
    }
}

/// The name of an LLC service access point.
pub fn sap(sap: u8) -> Option<&'static str> {
    Some(match sap {
        0x00 => "Null",
        0x02 => "802.1B I",
        0x04 => "SNA",
        0x06 => "IP",
        0x0e => "ProWay NM",
        0x42 => "STP",
        0x8e => "ProWay ASM",
        0xaa => "SNAP",
        0xe0 => "IPX",
        0xf0 => "NetBeui",
        0xfe => "OSI",
        0xff => "Global",
        _ => return None,
    })
}

/// The name of an option of neighbour discovery.
pub fn neighbour_option(kind: u8) -> &'static str {
    match kind {
        1 => "source link-address",
        2 => "destination link-address",
        3 => "prefix info",
        4 => "redirected header",
        5 => "mtu",
        7 => "advertisement interval",
        8 => "homeagent information",
        24 => "route info",
        25 => "rdnss",
        31 => "dnssl",
        _ => "unknown",
    }
}

/// The name of a type of ICMPv6.
pub fn icmp6(kind: u8) -> Option<&'static str> {
    Some(match kind {
        1 => "destination unreachable",
        2 => "packet too big",
        3 => "time exceeded",
        4 => "parameter problem",
        128 => "echo request",
        129 => "echo reply",
        130 => "multicast listener query",
        131 => "multicast listener report",
        132 => "multicast listener done",
        133 => "router solicitation",
        134 => "router advertisement",
        135 => "neighbor solicitation",
        136 => "neighbor advertisement",
        137 => "redirect",
        138 => "router renumbering",
        139 => "node information query",
        140 => "node information reply",
        141 => "inverse neighbor solicitation",
        142 => "inverse neighbor advertisement",
        143 => "multicast listener report v2",
        144 => "dhaad request",
        145 => "dhaad reply",
        146 => "mobile router solicitation",
        147 => "mobile router advertisement",
        155 => "RPL",
        200 => "mtrace response",
        201 => "mtrace message",
        _ => return None,
    })
}
