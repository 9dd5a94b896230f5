//! Opening a port, which undoes its changes to the interface at the end; or an error with advice.

use crate::open;
use crate::support::{ip, lab, lab_alone, skip};
use forebay_net::af_packet::{AfPacket, AfPacketConfig};
use forebay_net::link;

/// The error of opening this interface.
fn error(name: &str) -> String {
    let opened = AfPacket::open(name, &AfPacketConfig::default());
    opened.unwrap_err().to_string()
}

/// Promiscuous mode requested with PACKET_MR_PROMISC does not show in the flags, but in the count.
pub fn promiscuity() -> String {
    let text = ip("-d link show vb");
    let mut words = text.split_whitespace();
    words.find(|&word| word == "promiscuity");
    words.next().unwrap().to_string()
}

#[test]
fn promiscuous_mode_is_on_while_the_port_is_open_and_only_if_asked_for() {
    lab_alone(&[], || {
        for promiscuous in [true, false] {
            let port = open(|it| it.promiscuous = promiscuous);
            assert_eq!(promiscuity(), if promiscuous { "1" } else { "0" });
            drop(port);
            assert_eq!(promiscuity(), "0");
        }
    });
}

#[test]
fn an_interface_that_is_not_there_or_down_is_told_with_advice() {
    lab(&[], || {
        let list = || link::interfaces().unwrap().into_iter();
        let names = list().map(|link| link.name).collect::<Vec<_>>().join(", ");
        let known = format!("there are: {names}, any, and sim");
        assert_eq!(error("etho"), format!("no interface 'etho'; {known}"));
        assert_eq!(
            error("vvb"),
            format!("no interface 'vvb'; {known} (did you mean vb?)")
        );
        ip("link set vb down");
        assert_eq!(
            error("vb"),
            "vb: the interface is down. Bring it up: ip link set vb up"
        );
        let vb = list().find(|link| link.name == "vb").unwrap();
        assert!(!vb.is_up() && !vb.is_running() && !vb.is_loopback() && vb.mtu == 1500);
        assert_eq!(
            (vb.hardware_name().as_str(), vb.operational),
            ("Ethernet", 2)
        );
    });
}

#[test]
fn without_the_right_the_error_says_how_to_get_it() {
    let refused = || {
        assert_eq!(
            error("lo"),
            "lo: opening a packet socket: operation not permitted (os error 1). \
             Run as root, or: sudo setcap cap_net_raw+ep $(command -v forebay). \
             Where user namespaces are allowed, unshare -rn provides a separate network to capture \
             from"
        );
    };
    // SAFETY: takes no arguments and accesses no memory.
    if unsafe { libc::geteuid() } != 0 {
        return refused();
    }
    lab(&[], move || {
        let nobody = 65_534;
        // SAFETY: the raw system call, unlike the C library's function, changes only this thread, which then ends.
        let changed = unsafe { libc::syscall(libc::SYS_setresuid, nobody, nobody, nobody) };
        if changed < 0 {
            return skip("a user other than root");
        }
        refused();
    });
}
