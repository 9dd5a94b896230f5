//! Packets as text: one line each, as `tcpdump -n` prints it, or one JSON object.
//!
//! ```text
//!  packet ─▶ link ─▶ network (ipv4, ipv6, arp) ─▶ transport (tcp, udp, icmp) ─▶ payload (dns, dhcp, tls, quic, …)
//!                                └── each appends to one `Text`; headers are parsed by etherparse
//! ```
//! - Nothing here reads or writes anything but memory, and no packet makes it panic: the fuzz target `print` tries.
//! - Text from packets is escaped, so that it cannot control a terminal.
//! - Where the captured bytes end within a header, the line ends with the protocol's name: `[|tcp]`.

pub mod address;
mod arp;
#[cfg(test)]
mod composed;
mod data;
mod dhcp;
mod dns;
mod ends;
mod facts;
mod flows;
mod hellos;
pub mod hex;
mod hosts;
mod icmp;
mod icmp6;
mod ipv4;
mod ipv6;
mod json;
pub mod layout;
mod link;
mod llc;
#[cfg(test)]
mod messages;
mod names;
mod ntp;
#[cfg(test)]
mod oracle_tests;
mod payload;
mod printer;
#[cfg(test)]
#[path = "../../../../fuzz/fuzz_targets/printing.rs"]
mod printing;
mod quic;
mod snmp;
mod syslog;
mod tcp;
mod text;
mod times;
mod tls;
mod tunnels;
mod udp;

pub use layout::{Columns, Layout};
pub use printer::{Dump, Form, Packet, Printer, Style};
pub use text::Text;
pub use times::Times;
