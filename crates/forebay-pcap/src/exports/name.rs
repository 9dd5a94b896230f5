//! Names of hosts, networks, ports and protocols, looked up as C's library does.

#![allow(unsafe_code)]

use crate::{
    abi::{ANY_PROTOCOL, EtherEntry, EtherProtocol},
    border::{allocated, exports, put, text},
};
use std::{
    cell::{Cell, RefCell},
    ffi::{CStr, CString, c_char, c_int, c_uchar},
    ptr::{null, null_mut},
};

/// `struct netent` of C.
#[repr(C)]
struct NetworkEntry {
    name: *mut c_char,
    aliases: *mut *mut c_char,
    family: c_int,
    number: u32,
}

unsafe extern "C" {
    fn getnetbyname(name: *const c_char) -> *mut NetworkEntry;
    fn ether_hostton(name: *const c_char, address: *mut [u8; 6]) -> c_int;
}

/// The table of Ethernet protocols that libpcap exports, up to an entry without a name.
#[repr(transparent)]
struct EtherProtocols([EtherProtocol; 13]);

// SAFETY: constant, with pointers to constant texts.
unsafe impl Sync for EtherProtocols {}

const fn protocol(name: &'static CStr, number: u16) -> EtherProtocol {
    EtherProtocol {
        name: name.as_ptr(),
        number,
    }
}

#[unsafe(no_mangle)]
static eproto_db: EtherProtocols = EtherProtocols([
    protocol(c"aarp", 0x80f3),
    protocol(c"arp", 0x0806),
    protocol(c"atalk", 0x809b),
    protocol(c"decnet", 0x6003),
    protocol(c"ip", 0x0800),
    protocol(c"ip6", 0x86dd),
    protocol(c"lat", 0x6004),
    protocol(c"loopback", 0x9000),
    protocol(c"mopdl", 0x6001),
    protocol(c"moprc", 0x6002),
    protocol(c"rarp", 0x8035),
    protocol(c"sca", 0x6007),
    EtherProtocol {
        name: null(),
        number: 0,
    },
]);

/// The service access points of 802.2 that have names.
const LINK_CONTROL: [(&CStr, c_int); 4] = [
    (c"netbeui", 0xf0),
    (c"ipx", 0xe0),
    (c"iso", 0xfe),
    (c"stp", 0x42),
];

/// Addresses as `gethostbyname` returns them: pointers, up to a null pointer.
#[derive(Default)]
struct Hosts {
    addresses: Vec<u32>,
    pointers: Vec<*const u32>,
}

thread_local! {
    static HOSTS: RefCell<Hosts> = RefCell::default();
    static ENTRY: Cell<EtherEntry> = const { Cell::new(EtherEntry { address: [0; 6], name: [0; 122] }) };
}

fn lookup(
    host: *const c_char,
    service: *const c_char,
    kind: c_int,
    protocol: c_int,
) -> *mut libc::addrinfo {
    let hints = libc::addrinfo {
        ai_flags: 0,
        ai_family: libc::PF_UNSPEC,
        ai_socktype: kind,
        ai_protocol: protocol,
        ai_addrlen: 0,
        ai_addr: null_mut(),
        ai_canonname: null_mut(),
        ai_next: null_mut(),
    };
    let mut found = null_mut();
    // SAFETY: the texts are null or end with a zero, and the result is stored in a variable of ours.
    let failed = unsafe { libc::getaddrinfo(host, service, &raw const hints, &raw mut found) };
    match failed {
        0 => found,
        _ => null_mut(),
    }
}

/// The port of a service with a transport protocol.
fn port(name: &CStr, kind: c_int, protocol: c_int) -> Option<c_int> {
    let found = lookup(null(), name.as_ptr(), kind, protocol);
    // SAFETY: null, or the first result, which is valid until it is released.
    let first = unsafe { found.as_ref() }?;
    let is_internet = matches!(first.ai_family, libc::AF_INET | libc::AF_INET6);
    let address = first.ai_addr.cast::<libc::sockaddr_in>();
    // SAFETY: an address of either family begins with the family and the port; null if there is none.
    let port = unsafe { address.as_ref() }.map(|it| u16::from_be(it.sin_port));
    // SAFETY: the results come from `getaddrinfo`, and nothing of them is kept.
    unsafe { libc::freeaddrinfo(found) };
    port.filter(|_| is_internet).map(c_int::from)
}

/// The port of a service, and its protocol, if it has only one.
fn service(name: &CStr) -> Option<(c_int, c_int)> {
    let tcp = port(name, libc::SOCK_STREAM, libc::IPPROTO_TCP);
    let udp = port(name, libc::SOCK_DGRAM, libc::IPPROTO_UDP);
    match (tcp, udp) {
        (Some(tcp), Some(udp)) if tcp == udp => Some((tcp, ANY_PROTOCOL)),
        (Some(tcp), _) => Some((tcp, libc::IPPROTO_TCP)),
        (None, Some(udp)) => Some((udp, libc::IPPROTO_UDP)),
        (None, None) => None,
    }
}

/// The ports of a range such as `20-21` or `http-https`, and their protocol.
fn range(text: &CStr) -> Option<(c_int, c_int, c_int)> {
    let bytes = text.to_bytes();
    let dash = bytes.iter().position(|&byte| byte == b'-')?;
    let (first, first_protocol) = service(&CString::new(&bytes[..dash]).ok()?)?;
    let (last, last_protocol) = service(&CString::new(&bytes[dash + 1..]).ok()?)?;
    let protocol = match first_protocol == last_protocol {
        true => first_protocol,
        false => ANY_PROTOCOL,
    };
    Some((first, last, protocol))
}

/// The six bytes of an Ethernet address, with `:`, `.` or `-` between groups of digits, or none.
fn address(text: &[u8]) -> [u8; 6] {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let mut bytes = [0; 6];
    let mut rest = text;
    for byte in &mut bytes {
        while let [b':' | b'.' | b'-', after @ ..] = rest {
            rest = after;
        }
        let [first, after @ ..] = rest else {
            break;
        };
        *byte = digit(*first).unwrap_or(0);
        rest = after;
        if let [second, after @ ..] = rest
            && let Some(low) = digit(*second)
        {
            *byte = *byte << 4 | low;
            rest = after;
        }
    }
    bytes
}

/// The next entry of a file such as `/etc/ethers`: an address and a name a line.
fn next_entry(stream: *mut libc::FILE) -> Option<EtherEntry> {
    let mut line = [0 as c_char; 1024];
    loop {
        // SAFETY: the stream is open, and the function stores up to as many bytes as there is room for.
        let read = unsafe { libc::fgets(line.as_mut_ptr(), line.len() as c_int, stream) };
        let found = text(read)?.to_bytes();
        let mut words = found
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty());
        let (Some(first), Some(name)) = (words.next(), words.next()) else {
            continue;
        };
        if !first[0].is_ascii_hexdigit() || name[0] == b'#' {
            continue;
        }
        let mut entry = EtherEntry {
            address: address(first),
            name: [0; 122],
        };
        let room = entry.name.len() - 1;
        for (to, &from) in entry.name[..room].iter_mut().zip(name) {
            *to = from as c_char;
        }
        return Some(entry);
    }
}

exports! {
    fn pcap_nametoaddr(name: *const c_char) -> *const *const u32 = null(); {
        if name.is_null() {
            return null();
        }
        let list = lookup(name, null(), libc::SOCK_STREAM, libc::IPPROTO_TCP);
        let mut addresses = Vec::new();
        let mut next = list;
        // SAFETY: null, or a result, which is valid until it is released.
        while let Some(one) = unsafe { next.as_ref() } {
            next = one.ai_next;
            if one.ai_family != libc::AF_INET {
                continue;
            }
            // SAFETY: an address of this family, or null.
            let socket = unsafe { one.ai_addr.cast::<libc::sockaddr_in>().as_ref() };
            addresses.extend(socket.map(|it| u32::from_be(it.sin_addr.s_addr)));
        }
        if !list.is_null() {
            // SAFETY: the results come from `getaddrinfo`, and nothing of them is kept.
            unsafe { libc::freeaddrinfo(list) };
        }
        if addresses.is_empty() {
            return null();
        }
        let keep = |hosts: &RefCell<Hosts>| {
            let mut hosts = hosts.borrow_mut();
            hosts.addresses = addresses;
            let pointers: Vec<_> = hosts.addresses.iter().map(|it| &raw const *it).collect();
            hosts.pointers = pointers;
            hosts.pointers.push(null());
            hosts.pointers.as_ptr()
        };
        HOSTS.try_with(keep).unwrap_or(null())
    }

    fn pcap_nametoaddrinfo(name: *const c_char) -> *mut libc::addrinfo = null_mut(); {
        match name.is_null() {
            true => null_mut(),
            false => lookup(name, null(), libc::SOCK_STREAM, libc::IPPROTO_TCP),
        }
    }

    fn pcap_nametonetaddr(name: *const c_char) -> u32 = 0; {
        if name.is_null() {
            return 0;
        }
        // SAFETY: the name ends with a zero.
        let found = unsafe { getnetbyname(name) };
        // SAFETY: null, or an entry that belongs to C's library until the next call.
        unsafe { found.as_ref() }.map_or(0, |it| it.number)
    }

    fn pcap_nametoport(name: *const c_char, port: *mut c_int, protocol: *mut c_int) -> c_int = 0; {
        let Some(found) = text(name).and_then(service) else {
            return 0;
        };
        put(port, found.0);
        put(protocol, found.1);
        1
    }

    fn pcap_nametoportrange(
        name: *const c_char,
        first: *mut c_int,
        last: *mut c_int,
        protocol: *mut c_int,
    ) -> c_int = 0; {
        let Some(found) = text(name).and_then(range) else {
            return 0;
        };
        put(first, found.0);
        put(last, found.1);
        put(protocol, found.2);
        1
    }

    fn pcap_nametoproto(name: *const c_char) -> c_int = ANY_PROTOCOL; {
        if name.is_null() {
            return ANY_PROTOCOL;
        }
        // SAFETY: the name ends with a zero.
        let found = unsafe { libc::getprotobyname(name) };
        // SAFETY: null, or an entry that belongs to C's library until the next call.
        unsafe { found.as_ref() }.map_or(ANY_PROTOCOL, |it| it.p_proto)
    }

    fn pcap_nametoeproto(name: *const c_char) -> c_int = ANY_PROTOCOL; {
        let Some(name) = text(name) else {
            return ANY_PROTOCOL;
        };
        let known = eproto_db.0.iter().find(|it| text(it.name) == Some(name));
        known.map_or(ANY_PROTOCOL, |it| it.number.into())
    }

    fn pcap_nametollc(name: *const c_char) -> c_int = ANY_PROTOCOL; {
        let name = text(name);
        let known = LINK_CONTROL.iter().find(|it| Some(it.0) == name);
        known.map_or(ANY_PROTOCOL, |it| it.1)
    }

    fn pcap_ether_aton(name: *const c_char) -> *mut c_uchar = null_mut(); {
        text(name).map_or(null_mut(), |name| allocated(&address(name.to_bytes())))
    }

    fn pcap_ether_hostton(name: *const c_char) -> *mut c_uchar = null_mut(); {
        if name.is_null() {
            return null_mut();
        }
        let mut address = [0; 6];
        // SAFETY: the name ends with a zero, and the address is ours.
        match unsafe { ether_hostton(name, &raw mut address) } {
            0 => allocated(&address),
            _ => null_mut(),
        }
    }

    fn pcap_next_etherent(stream: *mut libc::FILE) -> *const EtherEntry = null(); {
        if stream.is_null() {
            return null();
        }
        let Some(entry) = next_entry(stream) else {
            return null();
        };
        let keep = |kept: &Cell<EtherEntry>| {
            kept.set(entry);
            kept.as_ptr().cast_const()
        };
        ENTRY.try_with(keep).unwrap_or(null())
    }
}
