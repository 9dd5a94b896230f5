//! A separate network namespace with one pair of interfaces: no real interface is ever captured from or sent to.
//!
//! ```text
//!   this program ── standard input ──▶ the holder:  unshare ─▶ ip link … ─▶ "ready" ─▶ waits
//!        │                                             its namespace ◀── setns ── senders, captures: ends with the last of them
//!        └─ ends, however that happens: standard input ends ─▶ the holder ends
//! ```
#![allow(unsafe_code)]

use super::roles::{Role, keeper, wait_for_end_of_input};
use crate::method::process::{Running, program};
use anyhow::{Context, Result, ensure};
use rustix::{
    process::{getegid, geteuid},
    thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe},
};
use std::{
    fs::{self, File},
    io,
    os::{fd::AsFd, unix::fs::MetadataExt, unix::process::CommandExt},
    process::Command,
    sync::Arc,
};

/// The interfaces at both ends of the wire.
pub const SENDER: &str = "va";
pub const CAPTURED: &str = "vb";

/// The frames' destination: no interface has this address, and all frames that arrive are captured.
pub const STATION: &str = "10.9.0.2";

/// The network, as long as this is there.
pub struct Lab {
    _holder: Running,
    /// The user namespace in which we are root, where we are not outside, and the network's.
    user: Option<Arc<File>>,
    network: Arc<File>,
}

impl Lab {
    /// Makes it.
    pub fn new() -> Result<Lab> {
        program("ip", "iproute2")?;
        let holder = keeper("a network namespace", &Role::Hold)?;
        let pid = holder.pid().as_raw_pid();
        let open = |name| {
            let path = format!("/proc/{pid}/ns/{name}");
            File::open(&path).with_context(|| format!("opening {path}"))
        };
        let user = open("user")?;
        let is_ours = user.metadata()?.ino() == fs::metadata("/proc/self/ns/user")?.ino();
        Ok(Lab {
            _holder: holder,
            user: (!is_ours).then(|| Arc::new(user)),
            network: Arc::new(open("net")?),
        })
    }

    /// `command` in this network.
    pub fn inside(&self, mut command: Command) -> Command {
        let (user, network) = (self.user.clone(), self.network.clone());
        let enter = move || {
            if let Some(user) = &user {
                move_into_link_name_space(user.as_fd(), Some(LinkNameSpaceType::User))?;
            }
            let network_only = Some(LinkNameSpaceType::Network);
            Ok(move_into_link_name_space(network.as_fd(), network_only)?)
        };
        // SAFETY: between fork and exec it makes two system calls, and allocates nothing.
        unsafe { command.pre_exec(enter) };
        command
    }
}

/// The holder's part.
pub fn hold() -> Result<()> {
    make()?;
    println!("ready");
    wait_for_end_of_input();
    Ok(())
}

fn make() -> Result<()> {
    leave(UnshareFlags::NEWNET).or_else(|error| {
        as_root_of_a_namespace()
            .with_context(|| format!("needs root or a user namespace ({error})"))
    })?;
    // Interfaces made from now on do not announce themselves. Without IPv6 there is nothing to do.
    let _ = fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
    ip(&format!("link add {SENDER} type veth peer name {CAPTURED}"))?;
    ip(&format!("link set {SENDER} gso_max_segs 1"))?;
    for link in [SENDER, CAPTURED] {
        ip(&format!("link set {link} up"))?;
    }
    ip(&format!("addr add 10.9.0.1/24 dev {SENDER}"))?;
    ip(&format!(
        "neigh add {STATION} lladdr 02:00:00:00:00:02 dev {SENDER}"
    ))
}

fn leave(what: UnshareFlags) -> io::Result<()> {
    // SAFETY: no other thread uses this table of descriptors.
    Ok(unsafe { unshare_unsafe(what) }?)
}

/// Everybody may be root where that means nothing outside.
fn as_root_of_a_namespace() -> Result<()> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    leave(UnshareFlags::NEWUSER | UnshareFlags::NEWNET)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1"))?;
    Ok(())
}

fn ip(words: &str) -> Result<()> {
    let output = program("ip", "iproute2")?.args(words.split(' ')).output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "ip {words}: {}", said.trim());
    Ok(())
}
