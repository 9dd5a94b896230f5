//! Link-layer types: the numbers of the tcpdump.org registry, and their names.

use std::fmt;

/// A link-layer type number of the tcpdump.org registry, as used in capture files.
///
/// ```
/// use forebay_net::port::LinkType;
/// assert_eq!(LinkType::ETHERNET.to_string(), "EN10MB (Ethernet)");
/// assert_eq!(LinkType(60_000).to_string(), "60000 (unknown name)");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkType(pub u16);

impl LinkType {
    /// Ethernet, without preamble and frame check sequence.
    pub const ETHERNET: LinkType = LinkType(1);
    /// Raw IPv4 or IPv6, distinguished by the version nibble.
    pub const RAW: LinkType = LinkType(101);
    /// Linux "cooked" capture, for devices whose link-layer header has no type here.
    pub const LINUX_SLL: LinkType = LinkType(113);

    /// The name that tcpdump prints and accepts with `-y`, and a descriptive name.
    pub fn names(self) -> Option<(&'static str, &'static str)> {
        let at = NAMES
            .binary_search_by_key(&self.0, |&(number, ..)| number)
            .ok()?;
        let (_, name, text) = NAMES[at];
        Some((name, text))
    }
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.names() {
            Some((name, text)) => write!(f, "{name} ({text})"),
            None => write!(f, "{} (unknown name)", self.0),
        }
    }
}

/// Sorted by number; contains the types that are common in captures.
const NAMES: &[(u16, &str, &str)] = &[
    (0, "NULL", "BSD loopback"),
    (1, "EN10MB", "Ethernet"),
    (3, "AX25", "AX.25 layer 2"),
    (6, "IEEE802", "Token ring"),
    (7, "ARCNET", "BSD ARCNET"),
    (8, "SLIP", "SLIP"),
    (9, "PPP", "PPP"),
    (10, "FDDI", "FDDI"),
    (50, "PPP_SERIAL", "PPP over serial"),
    (51, "PPP_ETHER", "PPP over Ethernet"),
    (100, "ATM_RFC1483", "RFC 1483 IP over ATM"),
    (101, "RAW", "Raw IP"),
    (104, "C_HDLC", "Cisco HDLC"),
    (105, "IEEE802_11", "802.11"),
    (107, "FRELAY", "Frame Relay"),
    (108, "LOOP", "OpenBSD loopback"),
    (113, "LINUX_SLL", "Linux cooked v1"),
    (114, "LTALK", "Localtalk"),
    (117, "PFLOG", "OpenBSD pflog file"),
    (119, "PRISM_HEADER", "802.11 plus Prism header"),
    (122, "IP_OVER_FC", "RFC 2625 IP over Fibre Channel"),
    (127, "IEEE802_11_RADIO", "802.11 plus radiotap header"),
    (129, "ARCNET_LINUX", "Linux ARCNET"),
    (138, "APPLE_IP_OVER_IEEE1394", "Apple IP over IEEE 1394"),
    (143, "DOCSIS", "DOCSIS"),
    (144, "LINUX_IRDA", "Linux IrDA"),
    (147, "USER0", "private use 0"),
    (163, "IEEE802_11_RADIO_AVS", "802.11 plus AVS header"),
    (165, "BACNET_MS_TP", "BACnet MS/TP"),
    (166, "PPP_PPPD", "PPP for pppd, with direction"),
    (177, "LINUX_LAPD", "Linux vISDN LAPD"),
    (187, "BLUETOOTH_HCI_H4", "Bluetooth HCI UART"),
    (189, "USB_LINUX", "USB with Linux header"),
    (192, "PPI", "Per-Packet Information"),
    (195, "IEEE802_15_4", "802.15.4 with FCS"),
    (197, "ERF", "Endace ERF"),
    (
        201,
        "BLUETOOTH_HCI_H4_WITH_PHDR",
        "Bluetooth HCI UART with direction",
    ),
    (220, "USB_LINUX_MMAPPED", "USB with padded Linux header"),
    (224, "FC_2", "Fibre Channel FC-2"),
    (226, "IPNET", "Solaris ipnet"),
    (227, "CAN_SOCKETCAN", "CAN bus with SocketCAN header"),
    (228, "IPV4", "Raw IPv4"),
    (229, "IPV6", "Raw IPv6"),
    (230, "IEEE802_15_4_NOFCS", "802.15.4 without FCS"),
    (231, "DBUS", "D-Bus"),
    (239, "NFLOG", "Linux netfilter log"),
    (240, "NETANALYZER", "Ethernet with netANALYZER header"),
    (
        241,
        "NETANALYZER_TRANSPARENT",
        "Ethernet with netANALYZER header and preamble",
    ),
    (247, "INFINIBAND", "InfiniBand"),
    (248, "SCTP", "SCTP"),
    (249, "USBPCAP", "USB with USBPcap header"),
    (251, "BLUETOOTH_LE_LL", "Bluetooth Low Energy"),
    (252, "WIRESHARK_UPPER_PDU", "Wireshark Upper PDU export"),
    (253, "NETLINK", "Linux netlink"),
    (254, "BLUETOOTH_LINUX_MONITOR", "Bluetooth Linux Monitor"),
    (
        256,
        "BLUETOOTH_LE_LL_WITH_PHDR",
        "Bluetooth Low Energy with header",
    ),
    (276, "LINUX_SLL2", "Linux cooked v2"),
    (283, "IEEE802_15_4_TAP", "802.15.4 with TAP header"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_by_their_number() {
        assert!(NAMES.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(
            LinkType(276).names(),
            Some(("LINUX_SLL2", "Linux cooked v2"))
        );
        assert_eq!(LinkType(2).names(), None);
    }
}
