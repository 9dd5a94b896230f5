//! Expressions from the manual (pcap-filter(7)), from practice, and from areas where compilers make mistakes. One a line.

/// Each accepts at least one packet of the Ethernet corpus, and rejects at least one.
pub fn kept_and_left() -> impl Iterator<Item = &'static str> {
    lines(include_str!("kept_and_left.txt"))
}

/// Each accepts all or none of that corpus. A test checks this.
pub fn all_or_nothing() -> impl Iterator<Item = &'static str> {
    lines(include_str!("all_or_nothing.txt"))
}

/// libpcap accepts these and forebay rejects them. libpcap knows the netmask only of live interfaces and compares with 0
/// elsewhere.
pub fn refused_here() -> impl Iterator<Item = &'static str> {
    lines(include_str!("refused_here.txt"))
}

/// libpcap rejects these for Ethernet.
pub fn nonsense() -> impl Iterator<Item = &'static str> {
    lines(include_str!("nonsense.txt"))
}

/// Valid on a live interface only.
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
