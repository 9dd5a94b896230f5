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
    sync::OnceLock,
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
                let common = named(COMMON_PORTS, name)?;
                let (port, transport) = common.split_once('/').unwrap_or((common, ""));
                let only = match transport {
                    "tcp" => Some(Transport::Tcp),
                    "udp" => Some(Transport::Udp),
                    _ => None,
                };
                Some((port.parse().ok()?, only))
            }
        }
    }

    /// The number of a protocol in IP headers.
    pub fn ip_protocol(&self, name: &str) -> Option<u32> {
        let text = self.file("protocols");
        let mut lines = entries(&text);
        let listed = lines.find(|words| words[0] == name || words[2..].contains(&name));
        let number = listed.map(|words| words[1]);
        number
            .or_else(|| named(COMMON_PROTOCOLS, name))?
            .parse()
            .ok()
    }

    /// The EtherType of a protocol, or its service access point below 1501.
    pub fn ether_protocol(&self, name: &str) -> Option<u32> {
        u32::from_str_radix(named(ETHER_PROTOCOLS, name)?, 16).ok()
    }

    /// A host of `/etc/ethers`, in upper or lower case.
    pub fn ether(&self, name: &str) -> Option<[u8; 6]> {
        let text = self.file("ethers");
        let mut lines = entries(&text);
        let found = lines.find(|words| words[1].eq_ignore_ascii_case(name))?;
        let mut parts = found[0].split(':');
        let bytes = [(); 6].map(|()| u8::from_str_radix(parts.next().unwrap_or(""), 16).ok());
        let are_all_there = bytes.iter().all(Option::is_some);
        are_all_there.then(|| bytes.map(Option::unwrap_or_default))
    }
}

/// The value of `name` in a table.
fn named(table: &'static str, name: &str) -> Option<&'static str> {
    let mut entries = table.split_ascii_whitespace();
    entries.find_map(|entry| entry.strip_prefix(name)?.strip_prefix('='))
}

/// The services of this machine, once they are read.
static SERVICES: OnceLock<Services> = OnceLock::new();

/// Names by port and transport protocol.
type Services = BTreeMap<(u16, &'static str), String>;

/// Reads `/etc/services`, so that [`service_name`] knows the names of this machine. Without the file, nothing changes.
pub fn read_services() {
    SERVICES.get_or_init(|| services(&fs::read_to_string("/etc/services").unwrap_or_default()));
}

/// The first name of each port.
fn services(text: &str) -> Services {
    let mut services = Services::new();
    for words in entries(text) {
        for (transport, suffix) in [("tcp", "/tcp"), ("udp", "/udp")] {
            let port = words[1].strip_suffix(suffix).map(str::parse);
            if let Some(Ok(port)) = port {
                let service = services.entry((port, transport));
                service.or_insert_with(|| words[0].into());
            }
        }
    }
    services
}

/// The name of a port of TCP or UDP, whose number in IP headers this is: that of this machine, after [`read_services`], or the usual one.
pub fn service_name(port: u16, ip_protocol: u8) -> Option<&'static str> {
    let transport = match ip_protocol {
        6 => "tcp",
        17 => "udp",
        _ => return None,
    };
    if let Some(name) = SERVICES.get().and_then(|it| it.get(&(port, transport))) {
        return Some(name);
    }
    let mut services = COMMON_PORTS.split_ascii_whitespace();
    services.find_map(|service| {
        let (name, rest) = service.split_once('=')?;
        let (number, only) = rest.split_once('/').unwrap_or((rest, transport));
        let is_it = only == transport && number.parse() == Ok(port);
        is_it.then_some(name)
    })
}

/// The words of each line that has at least two, without comments.
fn entries(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines = text.lines().map(|line| {
        let line = line.split('#').next().unwrap_or("");
        line.split_whitespace().collect::<Vec<_>>()
    });
    lines.filter(|words| words.len() > 1)
}

/// Services that are known without `/etc/services`, of TCP, UDP or both.
const COMMON_PORTS: &str = "
    bgp=179/tcp bootpc=68/udp bootps=67/udp discard=9 domain=53 echo=7 ftp=21/tcp ftp-data=20/tcp http=80/tcp
    https=443 imap=143/tcp imaps=993/tcp isakmp=500/udp kerberos=88 ldap=389 ldaps=636 mysql=3306/tcp nfs=2049
    ntp=123/udp pop3=110/tcp pop3s=995/tcp postgresql=5432/tcp smtp=25/tcp snmp=161 snmp-trap=162 ssh=22/tcp
    sunrpc=111 syslog=514/udp telnet=23/tcp tftp=69/udp
";

/// Protocols that are known without `/etc/protocols`.
const COMMON_PROTOCOLS: &str = "
    ip=0 hopopt=0 icmp=1 igmp=2 ipencap=4 tcp=6 egp=8 igp=9 udp=17 ipv6=41 ipv6-route=43 ipv6-frag=44 gre=47
    esp=50 ah=51 ipv6-icmp=58 ipv6-nonxt=59 ipv6-opts=60 ospf=89 pim=103 vrrp=112 l2tp=115 sctp=132 udplite=136
";

/// EtherTypes, and service access points below 1501, in hexadecimal.
const ETHER_PROTOCOLS: &str = "
    aarp=80F3 arp=806 atalk=809B decnet=6003 ip=800 ip6=86DD lat=6004 loopback=9000 mopdl=6001
    moprc=6002 rarp=8035 sca=6007 iso=FE stp=42 ipx=E0 netbeui=F0
";

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
        assert_eq!(service_name(53, 17), Some("domain"));
        assert_eq!(service_name(22, 17), None);
    }

    #[test]
    fn services_have_the_first_name_of_each_port() {
        let found = services(
            "# comment\nweb 81/tcp www # http\nw3 81/tcp\nweb 81/udp\nbad x/tcp\nodd 7\nbig 70000/tcp\n",
        );
        let names = found
            .iter()
            .map(|((port, transport), name)| (*port, &**transport, &**name));
        let expected = [(81, "tcp", "web"), (81, "udp", "web")];
        assert_eq!(names.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn files_have_comments_aliases_and_short_networks() {
        let folder = forebay_testing::folder::Folder::new();
        let services =
            "# comment\nweb 81/tcp www w3 # http\nboth 7/tcp\nboth 7/udp\nodd 1/tcp\nodd 2/udp\n";
        folder.file("services", services);
        folder.file(
            "networks",
            "lab 10.20\nnone 0.0.0.0 alias\nbad 300.1\nUPPER 10\n",
        );
        folder.file("ethers", "2:0:0:0:0:a box\n2:0 half\n");
        folder.file("protocols", "tcp 7 TCP\n");
        let names = names(folder.path(""));
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
    }
}
