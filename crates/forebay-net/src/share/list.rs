//! The shares of this machine, as far as this network namespace sees them.

use super::handshake::{PATIENCE, PREFIX, ShareAnswer, ShareLink, ShareName, Status};
use crate::port::Owner;
use forebay::{Error, Result, foreign};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::SocketFlags,
};
use std::time::{Duration, Instant};

const SOCKETS: &str = "/proc/net/unix";
/// The flag of a socket that listens (`__SO_ACCEPTCON` in linux/net.h).
const LISTENS: u32 = 0x1_0000;
/// Shares that are asked at the same time.
const MAX_ASKED: usize = 256;
/// How long to wait for a share to which many others are connecting.
const TURN: Duration = Duration::from_millis(500);

/// A share that is offered now.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// Its name.
    pub name: ShareName,
    /// The process that has the name; `None`: too many others wait for it already, so the kernel does not report it.
    pub owner: Option<Owner>,
    /// What the publisher reports; `None`: it does not answer, or this process may not read from it.
    pub status: Option<Status>,
    /// Whether this process may attach; `None`: the publisher does not answer.
    pub is_permitted: Option<bool>,
}

/// Lists the shares, sorted by name. Asks each publisher, and waits for up to five seconds for those that do not answer.
///
/// # Errors
/// The kernel's list of sockets cannot be read.
pub fn list() -> Result<Vec<Listed>> {
    let names = offered()?;
    let end = Instant::now() + PATIENCE;
    let groups = names.chunks(MAX_ASKED);
    let left = (1..=groups.len() as u32).rev();
    // Each group gets an equal part of the time that is left: names that do not answer cannot use up the time of others.
    let asked = groups.zip(left).flat_map(|(names, groups)| {
        let now = Instant::now();
        ask(names, now + end.saturating_duration_since(now) / groups)
    });
    Ok(asked.collect())
}

/// Whether a capture shares its packets under this name in this network namespace. Connects to nothing.
///
/// # Errors
/// The kernel's list of sockets cannot be read.
pub fn is_offered(name: &ShareName) -> Result<bool> {
    Ok(offered()?.contains(name))
}

/// The names of the shares of this network namespace, in order. Connects to nothing.
///
/// # Errors
/// The kernel's list of sockets cannot be read.
pub fn offered() -> Result<Vec<ShareName>> {
    let read = std::fs::read(SOCKETS);
    let sockets = read.map_err(|error| Error::new(SOCKETS, "reading it").because(error))?;
    let mut names = names(&String::from_utf8_lossy(&sockets));
    names.sort();
    names.dedup();
    Ok(names)
}

/// Asks several shares at the same time, until `end`. Leaves out those that have just ended.
pub(super) fn ask(names: &[ShareName], end: Instant) -> Vec<Listed> {
    let mut listed = Vec::new();
    let (mut links, mut full) = (Vec::new(), Vec::new());
    for name in names {
        // Closing a connection may take long: see `ShareLink`.
        let link = match foreign::closing() > MAX_ASKED {
            true => None,
            false => match ShareLink::find(name, SocketFlags::NONBLOCK, PATIENCE) {
                Ok(Some(link)) => Some(link),
                Ok(None) => continue,
                Err(_) => {
                    full.push(listed.len()); // for example, too many wait for it already
                    None
                }
            },
        };
        listed.push(Listed {
            name: name.clone(),
            owner: link.as_ref().map(ShareLink::owner),
            status: None,
            is_permitted: None,
        });
        links.extend(link.map(|link| (listed.len() - 1, link)));
    }
    // Not before: the others' answers wait in their sockets, so that these take no time of theirs.
    for at in full {
        if Instant::now() + TURN >= end {
            break;
        }
        if let Ok(Some(link)) = ShareLink::find(&listed[at].name, SocketFlags::empty(), TURN) {
            listed[at].owner = Some(link.owner());
            links.push((at, link));
        }
    }
    while !links.is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        let mut fds: Vec<_> = links
            .iter()
            .map(|(_, link)| PollFd::from_borrowed_fd(link.as_fd(), PollFlags::IN))
            .collect();
        match poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
            Err(Errno::INTR) => continue,
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        let ready: Vec<_> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut ready = ready.into_iter();
        for (at, link) in links.extract_if(.., |_| ready.next().unwrap_or(false)) {
            let Some((answer, status)) = link.answer() else {
                continue;
            };
            listed[at].status = (answer == ShareAnswer::Welcome).then_some(status);
            listed[at].is_permitted = Some(answer != ShareAnswer::NotPermitted);
        }
    }
    listed
}

/// The names in the kernel's list of Unix sockets.
fn names(sockets: &str) -> Vec<ShareName> {
    let name = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let flags = u32::from_str_radix(words.nth(3)?, 16).ok()?;
        let name = words.nth(3)?.strip_prefix('@')?.strip_prefix(PREFIX)?;
        (flags & LISTENS != 0).then(|| name.parse().ok())?
    };
    sockets.lines().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_sockets_with_our_names_are_found_in_the_kernels_list() {
        let text = "\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0005 01  4321 @forebay/share/lan
0000000000000000: 00000003 00000000 00000000 0005 03  4322 @forebay/share/lan
0000000000000000: 00000002 00000000 00010000 0001 01  4323 @forebay/share/a/b
0000000000000000: 00000002 00000000 00010000 0001 01  4324 /run/forebay/share/x
0000000000000000: 00000002 00000000 00010000 0005 01  4325 @forebay/share/wan-2
0000000000000000: 00000002 00000000 00010000 0005 01  4326
";
        let found = names(text);
        let found: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, ["lan", "wan-2"]);
    }
}
