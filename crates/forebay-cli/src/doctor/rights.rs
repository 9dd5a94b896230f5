//! Rights: whether this user may capture, and which rights it has.

use super::finding::{Finding, Findings, State};
use forebay_net::af_packet;
use nix::unistd::{Group, User, getegid, geteuid, getgroups};
use rustix::io::Errno;
use std::{env, fs, os::unix::fs::MetadataExt};

pub fn check() -> Vec<Finding> {
    let mut found = Findings::about("rights");
    let uid = geteuid();
    let name = User::from_uid(uid).ok().flatten();
    let name = name.map_or_else(|| uid.to_string(), |user| user.name);
    let program = env::current_exe().unwrap_or_else(|_| "forebay".into());
    let shown = program.display();
    match af_packet::probe() {
        Ok(()) => found.fine(format!("{name} may open packet sockets (CAP_NET_RAW)")),
        Err(error) if error.raw_os_error() == Some(Errno::PERM.raw_os_error()) => {
            let (text, command) = match has_file_capabilities(&program) {
                true => (
                    format!(
                        "{name} may not open packet sockets: the file has capabilities that have no effect, as on a file system mounted with nosuid"
                    ),
                    format!("findmnt -no TARGET,OPTIONS --target {shown}"),
                ),
                false => (
                    format!("{name} may not open packet sockets: CAP_NET_RAW is missing"),
                    format!("sudo setcap cap_net_raw+ep {shown}"),
                ),
            };
            found.put(State::Loss, text, Some(command));
        }
        Err(error) => found.put(State::Loss, error.to_string(), None),
    }
    let groups = getgroups().unwrap_or_default();
    let groups: Vec<_> = [getegid()].into_iter().chain(groups).collect();
    let mut names: Vec<_> = groups
        .iter()
        .map(|&gid| {
            let group = Group::from_gid(gid).ok().flatten();
            group.map_or_else(|| gid.to_string(), |group| group.name)
        })
        .collect();
    names.dedup();
    found.fine(format!("groups: {}", names.join(", ")));
    // A set-user-ID bit that had an effect was refused before this.
    let metadata = fs::metadata(&program);
    if metadata.is_ok_and(|it| it.mode() & 0o6000 != 0) {
        found.put(
            State::Loss,
            "the program has a set-user-ID or set-group-ID bit, with which it refuses to run for other users",
            Some(format!("sudo chmod ug-s {shown}")),
        );
    }
    if uid.is_root() {
        found.note("as root, captures can drop more rights with -Z USER");
    }
    found.list
}

fn has_file_capabilities(program: &std::path::Path) -> bool {
    let mut value = [0_u8; 64];
    rustix::fs::getxattr(program, "security.capability", &mut value).is_ok_and(|len| len > 0)
}
