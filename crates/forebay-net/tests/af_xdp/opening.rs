//! Opening a port: what it refuses, with advice, and that nothing of it stays.

use crate::support::{ip, rounds, skip, tool};
use crate::{error, lab, open, open_with, spec};
use forebay_net::{
    af_xdp::{AfXdp, AfXdpConfig},
    transmit::TxConfig,
};
use std::{thread, time::Duration};

/// Whether an XDP program is attached to `vb`.
fn has_program() -> bool {
    ip("link show vb").contains("xdp")
}

#[test]
fn an_interface_in_use_is_refused_unless_its_traffic_may_be_taken() {
    lab(&[], || {
        let refused = |what: &str| {
            let text = error("vb");
            let expected = format!("vb: {what}. AF_XDP takes every frame away");
            assert!(text.starts_with(&expected), "{text}");
            let advice = "Use -i vb or -i xdp:vb,pass=yes to watch, or --take-traffic to take them";
            assert!(text.ends_with(advice), "{text}");
            assert!(!has_program());
        };
        ip("address add 192.0.2.1/24 dev vb");
        refused("the interface has the address 192.0.2.1");
        drop(open_with("vb", |it| it.take_traffic = true));
        drop(open("vb,pass=yes"));
        ip("address flush dev vb");
        if std::fs::write("/proc/sys/net/ipv6/conf/vb/disable_ipv6", "0").is_ok() {
            // Every interface has a link-local address: it does not mean that it is used.
            ip("-6 address add fe80::1/64 dev vb nodad");
            drop(open("vb"));
            ip("-6 address add 2001:db8::1/64 dev vb nodad");
            refused("the interface has the address 2001:db8::1");
            ip("-6 address flush dev vb");
        }
        ip("link add br0 type bridge");
        ip("link set vb master br0");
        refused("the interface is a part of br0");
    });
}

#[test]
fn a_program_or_a_queue_that_another_port_has_is_an_error_and_free_again_afterwards() {
    lab(&[], || {
        let port = open("vb,pass=yes");
        assert!(has_program());
        for name in ["vb", "vb,pass=yes"] {
            let text = error(name);
            assert!(text.starts_with("vb: attaching an XDP program: "), "{text}");
            assert!(text.contains("Another one is attached"), "{text}");
        }
        // A capture that waits for the end of another one gets the interface.
        let waiting = thread::spawn(|| drop(open("vb")));
        thread::sleep(Duration::from_millis(200));
        drop(port);
        waiting.join().unwrap();
        assert!(!has_program());
        for _ in 0..rounds(20) {
            drop(open("vb"));
        }
    });
}

#[test]
fn queues_frames_and_names_that_do_not_exist_are_errors_with_advice() {
    lab(&[], || {
        assert_eq!(
            error("vb,queue=1"),
            "vb: there is no queue 1. It has 1, numbered from 0"
        );
        assert!(error("vvb").contains("(did you mean vb?)"));
        ip("link set vb down");
        assert_eq!(
            error("vb"),
            "vb: the interface is down. Bring it up: ip link set vb up"
        );
        ip("link set lo mtu 9000");
        assert!(error("lo").starts_with("lo: frames of its MTU of 9000 bytes are too long"));
        ip("link set lo mtu 1500");
        let config = AfXdpConfig {
            take_traffic: true,
            ..AfXdpConfig::default()
        };
        let text = AfXdp::open(&spec("lo,mode=native"), &config).unwrap_err();
        let text = text.to_string();
        assert!(text.contains("attaching an XDP program"), "{text}");
        assert!(text.contains("leave mode=native out"), "{text}");
    });
}

#[test]
fn without_rights_or_lockable_memory_the_error_says_how_to_get_them() {
    lab(&[], || {
        if nix_like::drop_capability(14 /* CAP_IPC_LOCK */) {
            nix_like::limit_locked_memory(1 << 20);
            let text = error("vb");
            assert!(text.contains("of memory for queue 0: "), "{text}");
            assert!(text.contains("ulimit -l"), "{text}");
            assert!(!has_program());
        }
        nix_like::limit_locked_memory(u64::MAX);
        // SAFETY: the raw system call, unlike the C library's function, changes only this thread, which then ends.
        let changed = unsafe { libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534) };
        if changed < 0 {
            return skip("a user other than root");
        }
        for name in ["vb", "vb,pass=yes"] {
            let text = error(name);
            assert!(text.contains("operation not permitted"), "{text}");
            assert!(text.contains("cap_net_raw,cap_net_admin,cap_bpf"), "{text}");
        }
        // To send, fewer rights are enough, also in a user namespace.
        let name = "xdp:vb".parse().unwrap();
        let sender = forebay_net::open::transmit(&name, &TxConfig::default());
        let text = sender.err().expect("refused").to_string();
        assert!(text.contains("operation not permitted"), "{text}");
        assert!(text.contains("setcap cap_net_raw+ep"), "{text}");
        assert!(!text.contains("user namespace"), "{text}");
    });
}

/// In the environment of a child: what it opens.
const HELD: &str = "FOREBAY_TEST_HELD";

#[test]
fn a_killed_process_leaves_nothing() {
    lab(&["sleep"], || {
        for name in ["vb", "vb,pass=yes"] {
            let mut port = Some(open(name));
            assert!(has_program());
            // A child that inherits nothing, killed, as opposed to a port that is dropped in order.
            drop(port.take());
            let me = std::env::current_exe().unwrap();
            let mut child = tool(me.to_str().unwrap());
            child.env(HELD, name).args([
                "--exact",
                "opening::holds_a_port_until_it_is_killed",
                "--ignored",
            ]);
            let mut child = child.stdout(std::process::Stdio::null()).spawn().unwrap();
            while !has_program() {
                assert!(child.try_wait().unwrap().is_none(), "it ended");
                thread::sleep(Duration::from_millis(10));
            }
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(!has_program());
            drop(open(name));
        }
    });
}

#[test]
#[ignore = "the child of another test"]
fn holds_a_port_until_it_is_killed() {
    let _port = open(&std::env::var(HELD).unwrap());
    loop {
        thread::park();
    }
}

/// Rights and limits of this thread and process.
mod nix_like {
    /// Drops a capability of this thread; `false`: it cannot.
    pub fn drop_capability(number: u32) -> bool {
        use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
        let Ok(now) = capabilities(None) else {
            return false;
        };
        let left = now.permitted - CapabilitySet::from_bits_retain(1 << number);
        let sets = CapabilitySets {
            effective: left,
            permitted: left,
            inheritable: CapabilitySet::empty(),
        };
        set_capabilities(None, sets).is_ok()
    }

    pub fn limit_locked_memory(bytes: u64) {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let maximum = getrlimit(Resource::Memlock).maximum;
        let limit = Rlimit {
            current: maximum.map_or(Some(bytes), |maximum| Some(bytes.min(maximum))),
            maximum,
        };
        setrlimit(Resource::Memlock, limit).unwrap();
    }
}
