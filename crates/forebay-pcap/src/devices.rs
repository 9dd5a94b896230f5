//! The list of devices, and their addresses.

#![allow(unsafe_code)]

use crate::{
    abi::{self, Address, Device},
    border::{allocated, allocated_text, c_text, release},
    failure::Failure,
};
use forebay_net::{link, share};
use std::{
    ffi::{CStr, CString},
    ptr::null_mut,
};

/// Anyone can offer shares.
const MAX_SHARES: usize = 64;

/// A device as it is listed.
struct Listed {
    name: CString,
    description: Option<CString>,
    flags: u32,
    addresses: Vec<Addresses>,
}

/// An address of an interface with what belongs to it, each as a `sockaddr` of C.
#[derive(Default)]
struct Addresses {
    address: Vec<u8>,
    netmask: Vec<u8>,
    broadcast: Vec<u8>,
    destination: Vec<u8>,
}

/// The devices of this machine, without shares: interfaces, those in use first, then what is not an interface.
fn devices() -> Result<Vec<Listed>, Failure> {
    let links = link::interfaces().map_err(|error| error.to_string())?;
    let addresses = addresses();
    let mut found: Vec<_> = links
        .iter()
        .map(|link| {
            let is = |holds: bool, flag| if holds { flag } else { 0 };
            let connection = match link.operational {
                _ if link.is_loopback() => abi::IF_NOT_APPLICABLE,
                6 => abi::IF_CONNECTED,
                2 | 7 => abi::IF_DISCONNECTED,
                _ => 0,
            };
            let is_wireless = std::path::Path::new("/sys/class/net")
                .join(&link.name)
                .join("wireless")
                .exists();
            let flags = is(link.is_loopback(), abi::IF_LOOPBACK)
                | is(link.is_up(), abi::IF_UP)
                | is(link.is_running(), abi::IF_RUNNING)
                | is(is_wireless, abi::IF_WIRELESS)
                | connection;
            let name = c_text(link.name.as_str());
            let of_it = addresses.iter().filter(|(its, _)| *its == name);
            Listed {
                description: None,
                flags,
                addresses: of_it.map(|(_, address)| address.copied()).collect(),
                name,
            }
        })
        .collect();
    found.push(pseudo(
        "any".into(),
        "Pseudo-device that captures on all interfaces",
    ));
    // In libpcap's order: those that run, with `any` and then loopback last; then the others.
    found.sort_by_key(|device| {
        let is = |flag| device.flags & flag == flag;
        (
            !is(abi::IF_RUNNING),
            !is(abi::IF_UP),
            !is(abi::IF_WIRELESS) && device.flags & abi::IF_NOT_APPLICABLE == abi::IF_DISCONNECTED,
            is(abi::IF_LOOPBACK),
            device.name.as_c_str() == c"any",
        )
    });
    found.push(pseudo("sim".into(), "Simulated card of Forebay"));
    Ok(found)
}

/// The shares of this network namespace. Nothing connects to them: a program of another user may offer one, and not answer.
fn shares() -> impl DoubleEndedIterator<Item = Listed> {
    // A list of shares that cannot be read is no reason to hide the interfaces.
    let names = share::offered().unwrap_or_default();
    names.into_iter().take(MAX_SHARES).map(|name| {
        let description = "Packets that a capture of Forebay shares";
        pseudo(format!("share:{name}"), description)
    })
}

/// A device that is not an interface.
fn pseudo(name: String, description: &str) -> Listed {
    Listed {
        name: c_text(name),
        description: Some(c_text(description)),
        flags: abi::IF_UP | abi::IF_RUNNING | abi::IF_NOT_APPLICABLE,
        addresses: Vec::new(),
    }
}

impl Addresses {
    fn copied(&self) -> Addresses {
        Addresses {
            address: self.address.clone(),
            netmask: self.netmask.clone(),
            broadcast: self.broadcast.clone(),
            destination: self.destination.clone(),
        }
    }
}

/// The addresses of all interfaces, by name.
fn addresses() -> Vec<(CString, Addresses)> {
    let mut list = null_mut();
    // SAFETY: the function stores a list there, which is released below.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut next = list;
    // SAFETY: null, or an entry of the list, which is valid until it is released.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        let address = socket_address(entry.ifa_addr);
        if address.is_empty() {
            continue;
        }
        // SAFETY: every entry has a name that ends with a zero.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) };
        let other = socket_address(entry.ifa_ifu);
        let is = |flag: i32| entry.ifa_flags & flag as u32 != 0;
        found.push((
            name.to_owned(),
            Addresses {
                address,
                netmask: socket_address(entry.ifa_netmask),
                broadcast: if is(libc::IFF_BROADCAST) {
                    other.clone()
                } else {
                    Vec::new()
                },
                destination: if is(libc::IFF_POINTOPOINT) {
                    other
                } else {
                    Vec::new()
                },
            },
        ));
    }
    // SAFETY: the list comes from `getifaddrs`, and nothing of it is kept.
    unsafe { libc::freeifaddrs(list) };
    found
}

/// The bytes of an address of a known family; none otherwise.
fn socket_address(address: *const libc::sockaddr) -> Vec<u8> {
    // SAFETY: null, or an address of the list.
    let Some(family) = (unsafe { address.as_ref() }).map(|it| it.sa_family) else {
        return Vec::new();
    };
    let len = match family.into() {
        libc::AF_INET => size_of::<libc::sockaddr_in>(),
        libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
        libc::AF_PACKET => size_of::<libc::sockaddr_ll>(),
        _ => return Vec::new(),
    };
    // SAFETY: an address of this family has this length.
    unsafe { std::slice::from_raw_parts(address.cast::<u8>(), len) }.to_vec()
}

/// The list for the program, which [`release_list`] releases.
pub fn list() -> Result<*mut Device, Failure> {
    let mut next = null_mut();
    for listed in devices()?.into_iter().chain(shares()).rev() {
        let mut first = null_mut();
        for of_it in listed.addresses.iter().rev() {
            let socket_address = |bytes: &Vec<u8>| match bytes.as_slice() {
                [] => null_mut(),
                bytes => allocated(bytes).cast(),
            };
            first = allocated(&[Address {
                next: first,
                address: socket_address(&of_it.address),
                netmask: socket_address(&of_it.netmask),
                broadcast: socket_address(&of_it.broadcast),
                destination: socket_address(&of_it.destination),
            }]);
        }
        let description = listed.description.as_deref();
        next = allocated(&[Device {
            next,
            name: allocated_text(&listed.name),
            description: description.map_or(null_mut(), allocated_text),
            addresses: first,
            flags: listed.flags,
        }]);
    }
    match next.is_null() {
        true => Err("malloc: out of memory".into()),
        false => Ok(next),
    }
}

/// Releases what [`list`] returned.
pub fn release_list(mut device: *mut Device) {
    // SAFETY: null, or an entry of a list that the program gives back.
    while let Some(entry) = unsafe { device.as_ref() } {
        let mut address = entry.addresses;
        // SAFETY: null, or an address of this entry.
        while let Some(one) = unsafe { address.as_ref() } {
            for bytes in [one.address, one.netmask, one.broadcast, one.destination] {
                release(bytes);
            }
            let following = one.next;
            release(address);
            address = following;
        }
        release(entry.name);
        release(entry.description);
        let following = entry.next;
        release(device);
        device = following;
    }
}

/// The Ethernet address of an interface.
pub fn station(interface: &str) -> Option<[u8; 6]> {
    let is_link = |bytes: &[u8]| bytes.len() == size_of::<libc::sockaddr_ll>();
    let found = addresses()
        .into_iter()
        .find(|(name, its)| name.as_bytes() == interface.as_bytes() && is_link(&its.address));
    // It follows the family, the protocol, the index, and four bytes.
    found.and_then(|(_, its)| its.address.get(12..18)?.try_into().ok())
}

/// The IPv4 network and mask of an interface, in network byte order.
pub fn network(device: &CStr) -> Result<(u32, u32), Failure> {
    let exists = link::interfaces().is_ok_and(|links| {
        links
            .iter()
            .any(|link| link.name.as_bytes() == device.to_bytes())
    });
    let shown = device.to_string_lossy();
    if !exists {
        return Err(format!("SIOCGIFADDR: {shown}: No such device").into());
    }
    let is_ipv4 = |bytes: &[u8]| bytes.len() == size_of::<libc::sockaddr_in>();
    let all = addresses();
    let found = all.iter().find(|(name, its)| {
        name.as_c_str() == device && is_ipv4(&its.address) && is_ipv4(&its.netmask)
    });
    let Some((_, its)) = found else {
        return Err(format!("{shown}: no IPv4 address assigned").into());
    };
    // An IPv4 address follows the family and the port.
    let word = |bytes: &[u8]| u32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
    let (address, mask) = (word(&its.address), word(&its.netmask));
    Ok((address & mask, mask))
}

/// The name of the first device that is not `any`.
pub fn first() -> Result<CString, Failure> {
    let found = devices()?.into_iter().map(|device| device.name);
    let mut found = found.filter(|name| name.as_c_str() != c"any");
    found
        .next()
        .ok_or_else(|| "no suitable device found".into())
}
