//! `any`: captures from all interfaces at once, with each frame whole and attributed to its interface.

use crate::support::sender::{self, Sender};
use crate::support::{Ended, carries, ip, lab, pump, skip};
use crate::{LONG, SHORT, four_kinds, open_on, send_once, settled};
use forebay_net::af_packet::{AfPacket, AfPacketConfig};
use forebay_net::port::{Direction, Frame, LinkType, Port, Wake};
use std::{fs::File, io::Write, os::fd::AsRawFd};

fn any(set: impl FnOnce(&mut AfPacketConfig)) -> AfPacket {
    open_on("any", set)
}

/// Takes frames until none arrive. Returns the name and link type of each frame's interface, its direction and its bytes.
fn taken(port: &mut AfPacket) -> Vec<(String, LinkType, Direction, Vec<u8>)> {
    let mut seen = Vec::new();
    let each = |frame: &Frame<'_>| {
        let number = frame.interface as usize;
        seen.push((number, frame.direction, frame.data.to_vec()));
        true
    };
    assert_eq!(pump(port, SHORT, each).unwrap(), Ended::Silent);
    let named = |(number, direction, data): (usize, _, _)| {
        let interface = &port.interfaces()[number];
        (interface.name.clone(), interface.link, direction, data)
    };
    seen.into_iter().map(named).collect()
}

/// Creates a tunnel device for IP packets, and returns the descriptor to which packets are written; or reports what is missing.
fn tunnel(name: &str) -> Option<File> {
    let Ok(end) = File::options().read(true).write(true).open("/dev/net/tun") else {
        skip("/dev/net/tun");
        return None;
    };
    let mut request = [0_u8; 40]; // struct ifreq
    request[..name.len()].copy_from_slice(name.as_bytes());
    let kind = (libc::IFF_TUN | libc::IFF_NO_PI) as u16;
    request[16..18].copy_from_slice(&kind.to_ne_bytes());
    // SAFETY: the kernel reads and writes the request, which has the size of its structure.
    let made = unsafe { libc::ioctl(end.as_raw_fd(), libc::TUNSETIFF as _, request.as_mut_ptr()) };
    assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
    ip(&format!("link set {name} up"));
    Some(end)
}

/// An IPv4 packet with nothing but this identification.
fn packet(number: u8) -> [u8; 20] {
    let mut packet = [0; 20];
    packet[..10].copy_from_slice(&[0x45, 0, 0, 20, 0, number, 0, 0, 64, 253]);
    packet[12..].copy_from_slice(&[10, 9, 8, 7, 10, 9, 8, 6]);
    packet
}

#[test]
fn frames_of_all_interfaces_come_whole_and_each_under_its_own() {
    lab(&[], || {
        let Some(mut tunnel) = tunnel("tt") else {
            return;
        };
        let mut port = any(|_| ());
        let listed: Vec<_> = port.interfaces().iter().map(|it| it.name.clone()).collect();
        for name in ["lo", "va", "vb", "tt"] {
            assert!(listed.iter().any(|it| it == name), "{listed:?}");
        }
        assert_eq!((listed[0].as_str(), port.name()), ("any", "any"));
        let kinds = four_kinds();
        Sender::open("va").frames(&kinds);
        tunnel.write_all(&packet(7)).unwrap();
        let seen = taken(&mut port);
        // A frame sent at one end of the pair is received at the other; tags are in their original place.
        for (name, direction) in [("va", Direction::Outbound), ("vb", Direction::Inbound)] {
            let of = seen.iter().filter(|it| it.0 == name);
            let expected = kinds.iter().map(|it| (LinkType::ETHERNET, direction, it));
            assert!(
                of.map(|it| (it.1, it.2, &it.3)).eq(expected),
                "{name}: {seen:?}"
            );
        }
        let raw: Vec<_> = seen.iter().filter(|it| it.0 == "tt").collect();
        assert_eq!(raw.len(), 1);
        let (_, link, direction, data) = raw[0];
        assert_eq!((*link, *direction), (LinkType::RAW, Direction::Inbound));
        assert_eq!(data[..], packet(7));
        port.stop().unwrap();
        assert!(matches!(port.arm().unwrap(), Wake::End));
        settled(&mut port, seen.len() as u64, 0);
    });
}

#[test]
fn the_loopback_interface_shows_each_frame_once_among_all() {
    lab(&[], || {
        let mut port = any(|_| ());
        send_once();
        let seen = taken(&mut port);
        let once = seen.iter().filter(|it| it.3.ends_with(b"once"));
        assert_eq!(once.map(|it| it.0.as_str()).collect::<Vec<_>>(), ["lo"]);
    });
}

#[test]
fn an_interface_that_comes_later_is_captured_from_and_one_that_goes_ends_nothing() {
    lab(&[], || {
        let mut port = any(|_| ());
        let before = port.interfaces().len();
        ip("link add vx type veth peer name vy");
        ip("link set vx up");
        ip("link set vy up");
        ["vx", "vy"].into_iter().for_each(carries);
        Sender::open("vx").numbers(0..100, 60).unwrap();
        let numbers = |port: &mut AfPacket, name| {
            let seen = taken(port).into_iter().filter(|it| it.0 == name);
            let numbers = seen.filter_map(|it| sender::number(&it.3));
            numbers.collect::<Vec<_>>()
        };
        assert!(numbers(&mut port, "vy").into_iter().eq(0..100));
        let new = port.interfaces()[before..].iter();
        let mut names: Vec<_> = new.map(|it| it.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["vx", "vy"]);
        ip("link del vx");
        Sender::open("va").numbers(100..200, 60).unwrap();
        assert!(numbers(&mut port, "vb").into_iter().eq(100..200));
        assert!(port.counts().received >= 400);
    });
}

#[test]
fn an_interface_that_is_gone_before_its_first_frame_is_read_has_its_name_all_the_same() {
    lab(&[], || {
        let mut port = any(|_| ());
        for round in 0..3 {
            let name = format!("brief{round}");
            ip(&format!("link add {name} type veth peer name other"));
            ip(&format!("link set {name} up"));
            ip("link set other up");
            [&name, "other"].into_iter().for_each(carries);
            Sender::open("other").numbers(0..5, 60).unwrap();
            ip(&format!("link del {name}"));
        }
        let seen = taken(&mut port);
        for round in 0..3 {
            let name = format!("brief{round}");
            assert!(seen.iter().filter(|it| it.0 == name).count() >= 5, "{name}");
        }
    });
}

#[test]
fn a_filter_is_applied_to_each_kind_of_hardware() {
    lab(&[], || {
        let Some(mut tunnel) = tunnel("tt") else {
            return;
        };
        let mut verdicts = |text: &str| {
            let mut port = any(|it| it.filter = Some(text.parse().unwrap()));
            assert_eq!(port.counts().filtered, None); // the program reads the kind of hardware, which eBPF cannot
            Sender::open("va").numbers(0..1, 60).unwrap();
            // The same packet over Ethernet.
            let header = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0], &packet(1)[..]].concat();
            Sender::open("va").frames(&[header]);
            tunnel.write_all(&packet(2)).unwrap();
            let of = |it: (String, LinkType, Direction, Vec<u8>)| match it.0.as_str() {
                "vb" if sender::number(&it.3).is_some() => Some("number"),
                "vb" => Some("ethernet"),
                "tt" => Some("raw"),
                _ => None,
            };
            let mut verdicts: Vec<_> = taken(&mut port).into_iter().filter_map(of).collect();
            verdicts.sort_unstable(); // the veth pair and the tunnel may overtake each other
            verdicts
        };
        let all = ["ethernet", "number", "raw"];
        for (text, verdict) in [
            ("ip host 10.9.8.7", &["ethernet", "raw"][..]),
            ("not ip", &["number"]),
            ("ip[5] = 2", &["raw"]),
            ("ether proto 0x88b5", &["number"]),
            ("ether src 02:00:00:00:00:02", &["ethernet"]),
            // A test that cannot apply to raw IP is false there, so its negation is true.
            ("not ether broadcast", &all),
            ("not vlan", &all),
            ("not ether src 02:00:00:00:00:02", &["number", "raw"]),
            ("ip[5] = 2 or vlan 7", &["raw"]),
            ("not ip or vlan", &["number"]),
        ] {
            assert_eq!(verdicts(text), verdict, "{text}");
        }
        let many = (0..900).map(|n| format!("host 10.{}.{}.1", n / 250, n % 250));
        let many = many.collect::<Vec<_>>().join(" or ");
        let config = AfPacketConfig {
            filter: Some(many.parse().unwrap()),
            ..AfPacketConfig::default()
        };
        assert!(AfPacket::open("vb", &config).is_ok());
        let text = AfPacket::open("any", &config).unwrap_err().to_string();
        assert!(
            text.contains("instructions for Ethernet and raw IP together"),
            "{text}"
        );
        assert!(text.contains("-i"), "{text}");
    });
}

#[test]
fn for_an_output_of_one_link_type_tunnels_are_left_out_and_named() {
    lab(&[], || {
        let Some(mut tunnel) = tunnel("tt") else {
            return;
        };
        let mut port = any(|it| it.ethernet_only = true);
        assert!(port.interfaces()[0].description.ends_with("; not tt"));
        tunnel.write_all(&packet(1)).unwrap();
        Sender::open("va").numbers(0..1, 60).unwrap();
        let names: Vec<_> = taken(&mut port).into_iter().map(|it| it.0).collect();
        assert_eq!(names, ["va", "vb"]);
        let mut interfaces = port.interfaces().iter();
        assert!(interfaces.all(|it| it.link == LinkType::ETHERNET));
    });
}

#[test]
fn the_snaplen_and_incoming_only_hold_for_all() {
    lab(&[], || {
        let mut port = any(|it| (it.snaplen, it.incoming_only) = (20, true));
        Sender::open("va").numbers(0..1, 60).unwrap();
        let mut seen = Vec::new();
        let each = |frame: &Frame<'_>| {
            seen.push((frame.data.len(), frame.wire_len, frame.direction));
            true
        };
        pump(&mut port, SHORT, each).unwrap();
        assert_eq!(seen, [(20, 60, Direction::Inbound)]);
        assert!(port.interfaces().iter().all(|it| it.snaplen == 20));
    });
}

#[test]
fn under_load_from_several_interfaces_every_frame_is_taken_or_counted() {
    lab(&[], || {
        let mut port = any(|it| it.ring_bytes = 1 << 20);
        // More frames than the ring holds, before any are read.
        Sender::open("va").numbers(0..20_000, 60).unwrap();
        Sender::open("vb").numbers(0..5_000, 60).unwrap();
        port.stop().unwrap();
        let (mut seen, mut told) = (0, 0);
        let each = |frame: &Frame<'_>| {
            seen += 1;
            told += frame.dropped_before;
            true
        };
        assert_eq!(pump(&mut port, LONG, each).unwrap(), Ended::End);
        let counts = settled(&mut port, seen, told);
        assert_eq!(counts.received, 50_000);
        assert!(counts.dropped.unwrap() > 0);
    });
}
