//! What people type: from the manual (pcap-filter(7)), from practice, and from where compilers go
//! wrong. One a line.

/// Each keeps at least one packet of the Ethernet corpus, and leaves out at least one.
pub fn kept_and_left() -> impl Iterator<Item = &'static str> {
    lines(include_str!("kept_and_left.txt"))
}

/// Each keeps everything or nothing of that corpus, and has to say so.
pub fn all_or_nothing() -> impl Iterator<Item = &'static str> {
    lines(include_str!("all_or_nothing.txt"))
}

/// What libpcap takes and we refuse: it knows the netmask only of live interfaces and compares with
/// 0 elsewhere, and its chain of IPv6 headers never ends at an authentication header.
pub fn refused_here() -> impl Iterator<Item = &'static str> {
    lines(include_str!("refused_here.txt"))
}

/// What libpcap refuses for Ethernet.
pub fn nonsense() -> impl Iterator<Item = &'static str> {
    lines(include_str!("nonsense.txt"))
}

/// What can only be asked of a live interface.
pub const LIVE: [&str; 5] = [
    "inbound",
    "outbound",
    "inbound and udp port 53",
    "vlan and outbound",
    "not inbound or vlan 5",
];

fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().filter(|line| !line.is_empty())
}
