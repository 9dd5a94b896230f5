//! Resolves names: hosts, networks, ports, protocols, Ethernet addresses. Every name is looked up once. No other module of the
//! filter asks the system. Common ports and protocols are built in, for systems without these files.

use super::ast::Transport;
use std::{
    cell::RefCell,
    collections::BTreeMap,
    fs,
    net::{IpAddr, ToSocketAddrs},
    path::PathBuf,
    rc::Rc,
};

/// The maximum number of different host names in one expression. Each may cost a lookup over the network.
const MAX_HOSTS: usize = 256;

/// Resolves names, and caches the results.
pub(super) struct Names {
    /// The folder of the system's files.
    folder: PathBuf,
    ask: fn(&str) -> Vec<IpAddr>,
    hosts: RefCell<BTreeMap<String, Vec<IpAddr>>>,
    files: RefCell<BTreeMap<&'static str, Rc<str>>>,
    ports: RefCell<BTreeMap<String, Option<Service>>>,
}

/// A port, and its transport protocol if it is used with only one.
type Service = (u32, Option<Transport>);

impl Names {
    /// Resolves names as the system does: files, DNS, and whatever else is configured.
    pub fn of_system() -> Names {
        Names::asking(|name| {
            let found = (name, 0).to_socket_addrs();
            let mut addresses: Vec<IpAddr> = Vec::new();
            for address in found.into_iter().flatten() {
                if !addresses.contains(&address.ip()) {
                    addresses.push(address.ip());
                }
            }
            addresses
        })
    }

    pub fn asking(ask: fn(&str) -> Vec<IpAddr>) -> Names {
        Names {
            folder: "/etc".into(),
            ask,
            hosts: RefCell::default(),
            files: RefCell::default(),
            ports: RefCell::default(),
        }
    }

    /// A file of the system, read once; empty if there is none.
    fn file(&self, name: &'static str) -> Rc<str> {
        let mut files = self.files.borrow_mut();
        let read = || fs::read_to_string(self.folder.join(name)).unwrap_or_default();
        files.entry(name).or_insert_with(|| read().into()).clone()
    }

    /// All addresses of a host in the system's order; none if it is unknown.
    pub fn host(&self, name: &str) -> Result<Vec<IpAddr>, String> {
        let mut hosts = self.hosts.borrow_mut();
        if let Some(known) = hosts.get(name) {
            return Ok(known.clone());
        }
        if hosts.len() == MAX_HOSTS {
            return Err(format!(
                "'{name}' is host name number {}; the maximum is {MAX_HOSTS}, so write addresses",
                MAX_HOSTS + 1
            ));
        }
        // A name that the resolver does not accept is unknown.
        let addresses = if name.len() > 255 || name.contains('\0') {
            Vec::new()
        } else {
            (self.ask)(name)
        };
        hosts.insert(name.to_owned(), addresses.clone());
        Ok(addresses)
    }

    /// A network of `/etc/networks`, in upper or lower case: four bytes, the missing ones 0.
    pub fn network(&self, name: &str) -> Option<u32> {
        let text = self.file("networks");
        let mut lines = entries(&text);
        let is_it = |word: &&str| word.eq_ignore_ascii_case(name);
        let found = lines.find(|words| is_it(&words[0]) || words[2..].iter().any(is_it))?;
        let mut parts = found[1].split('.');
        let bytes = [(); 4].map(|()| parts.next().unwrap_or("0").parse::<u8>().ok());
        let [Some(a), Some(b), Some(c), Some(d)] = bytes else {
            return None;
        };
        Some(u32::from_be_bytes([a, b, c, d]))
    }

    pub fn port(&self, name: &str) -> Option<Service> {
        if let Ok(number) = name.parse() {
            return Some((number, None));
        }
        if let Some(known) = self.ports.borrow().get(name) {
            return *known;
        }
        let service = self.service(name);
        self.ports.borrow_mut().insert(name.to_owned(), service);
        service
    }

    fn service(&self, name: &str) -> Option<Service> {
        let text = self.file("services");
        let ports = ["/tcp", "/udp"].map(|suffix| {
            let mut lines = entries(&text);
            let listed = lines.find(|words| {
                words[1].ends_with(suffix) && (words[0] == name || words[2..].contains(&name))
            });
            listed?[1].strip_suffix(suffix)?.parse().ok()
        });
        match ports {
            [Some(tcp), Some(udp)] if tcp == udp => Some((tcp, None)),
            [Some(tcp), _] => Some((tcp, Some(Transport::Tcp))),
            [None, Some(udp)] => Some((udp, Some(Transport::Udp))),
            [None, None] => {
                let common = COMMON_PORTS.iter().find(|(common, ..)| *common == name);
                common.map(|(_, port, only)| (*port, *only))
            }
        }
    }

    /// The number of a protocol in IP headers.
    pub fn ip_protocol(&self, name: &str) -> Option<u32> {
        let text = self.file("protocols");
        let mut lines = entries(&text);
        let listed = lines.find(|words| words[0] == name || words[2..].contains(&name));
        if let Some(words) = listed {
            return words[1].parse().ok();
        }
        let found = COMMON_PROTOCOLS.iter().find(|(common, _)| *common == name);
        found.map(|(_, number)| *number)
    }

    /// The EtherType of a protocol, or its service access point below 1501.
    pub fn ether_protocol(&self, name: &str) -> Option<u32> {
        let found = ETHER_PROTOCOLS.iter().find(|(known, _)| *known == name);
        found.map(|(_, number)| *number)
    }

    /// A host of `/etc/ethers`, in upper or lower case.
    pub fn ether(&self, name: &str) -> Option<[u8; 6]> {
        let text = self.file("ethers");
        let mut lines = entries(&text);
        let found = lines.find(|words| words[1].eq_ignore_ascii_case(name))?;
        let mut parts = found[0].split(':');
        let bytes = [(); 6].map(|()| u8::from_str_radix(parts.next().unwrap_or(""), 16).ok());
        bytes
            .iter()
            .all(Option::is_some)
            .then(|| bytes.map(Option::unwrap_or_default))
    }
}

/// The words of each line that has at least two, without comments.
fn entries(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines = text.lines().map(|line| {
        let line = line.split('#').next().unwrap_or("");
        line.split_whitespace().collect::<Vec<_>>()
    });
    lines.filter(|words| words.len() > 1)
}

const COMMON_PORTS: &[(&str, u32, Option<Transport>)] = &[
    ("bgp", 179, Some(Transport::Tcp)),
    ("bootpc", 68, Some(Transport::Udp)),
    ("bootps", 67, Some(Transport::Udp)),
    ("discard", 9, None),
    ("domain", 53, None),
    ("echo", 7, None),
    ("ftp", 21, Some(Transport::Tcp)),
    ("ftp-data", 20, Some(Transport::Tcp)),
    ("http", 80, Some(Transport::Tcp)),
    ("https", 443, None),
    ("imap", 143, Some(Transport::Tcp)),
    ("imaps", 993, Some(Transport::Tcp)),
    ("isakmp", 500, Some(Transport::Udp)),
    ("kerberos", 88, None),
    ("ldap", 389, None),
    ("ldaps", 636, None),
    ("mysql", 3306, Some(Transport::Tcp)),
    ("nfs", 2049, None),
    ("ntp", 123, Some(Transport::Udp)),
    ("pop3", 110, Some(Transport::Tcp)),
    ("pop3s", 995, Some(Transport::Tcp)),
    ("postgresql", 5432, Some(Transport::Tcp)),
    ("smtp", 25, Some(Transport::Tcp)),
    ("snmp", 161, None),
    ("snmp-trap", 162, None),
    ("ssh", 22, Some(Transport::Tcp)),
    ("sunrpc", 111, None),
    ("syslog", 514, Some(Transport::Udp)),
    ("telnet", 23, Some(Transport::Tcp)),
    ("tftp", 69, Some(Transport::Udp)),
];

const COMMON_PROTOCOLS: &[(&str, u32)] = &[
    ("ip", 0),
    ("hopopt", 0),
    ("icmp", 1),
    ("igmp", 2),
    ("ipencap", 4),
    ("tcp", 6),
    ("egp", 8),
    ("igp", 9),
    ("udp", 17),
    ("ipv6", 41),
    ("ipv6-route", 43),
    ("ipv6-frag", 44),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("ipv6-icmp", 58),
    ("ipv6-nonxt", 59),
    ("ipv6-opts", 60),
    ("ospf", 89),
    ("pim", 103),
    ("vrrp", 112),
    ("l2tp", 115),
    ("sctp", 132),
    ("udplite", 136),
];

const ETHER_PROTOCOLS: &[(&str, u32)] = &[
    ("aarp", 0x80F3),
    ("arp", 0x0806),
    ("atalk", 0x809B),
    ("decnet", 0x6003),
    ("ip", 0x0800),
    ("ip6", 0x86DD),
    ("lat", 0x6004),
    ("loopback", 0x9000),
    ("mopdl", 0x6001),
    ("moprc", 0x6002),
    ("rarp", 0x8035),
    ("sca", 0x6007),
    ("iso", 0xFE),
    ("stp", 0x42),
    ("ipx", 0xE0),
    ("netbeui", 0xF0),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: impl Into<PathBuf>) -> Names {
        Names {
            folder: folder.into(),
            ..Names::asking(|_| Vec::new())
        }
    }

    #[test]
    fn common_names_are_known_without_the_files_of_a_system() {
        let names = names("/nonexistent");
        assert_eq!(names.port("http"), Some((80, Some(Transport::Tcp))));
        assert_eq!(names.port("domain"), Some((53, None)));
        assert_eq!(names.port("8080"), Some((8080, None)));
        assert_eq!(names.port("nonsense"), None);
        assert_eq!(names.ip_protocol("tcp"), Some(6));
        assert_eq!(names.network("loopback"), None);
        assert_eq!(names.ether("gateway"), None);
    }

    #[test]
    fn files_have_comments_aliases_and_short_networks() {
        let folder = std::env::temp_dir().join(format!("forebay-names-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
        write(
            "services",
            "# comment\nweb 81/tcp www w3 # http\nboth 7/tcp\nboth 7/udp\nodd 1/tcp\nodd 2/udp\n",
        );
        write(
            "networks",
            "lab 10.20\nnone 0.0.0.0 alias\nbad 300.1\nUPPER 10\n",
        );
        write("ethers", "2:0:0:0:0:a box\n2:0 half\n");
        write("protocols", "tcp 7 TCP\n");
        let names = names(&folder);
        assert_eq!(names.port("w3"), Some((81, Some(Transport::Tcp))));
        assert_eq!(names.port("both"), Some((7, None)));
        assert_eq!(names.port("odd"), Some((1, Some(Transport::Tcp))));
        assert_eq!(names.network("lab"), Some(0x0A14_0000));
        assert_eq!(names.network("LAB"), Some(0x0A14_0000));
        assert_eq!(names.network("Upper"), Some(0x0A00_0000));
        assert_eq!(names.network("alias"), Some(0));
        assert_eq!(names.network("bad"), None);
        assert_eq!(names.ether("box"), Some([2, 0, 0, 0, 0, 10]));
        assert_eq!(names.ether("BOX"), Some([2, 0, 0, 0, 0, 10]));
        assert_eq!(names.ether("half"), None);
        assert_eq!(names.ip_protocol("TCP"), Some(7));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
