//! The shares of this machine, as far as this network namespace sees them.

use super::{
    ShareName, Status,
    handshake::{Answer, Link, PREFIX},
};
use crate::port::Owner;
use forebay::{Error, Result};

const SOCKETS: &str = "/proc/net/unix";
/// The flag of a socket that listens (`__SO_ACCEPTCON` in linux/net.h).
const LISTENS: u32 = 0x1_0000;

/// A share that is offered now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: ShareName,
    /// The process that has the name.
    pub owner: Owner,
    /// What the publisher reports; `None`: it does not answer, or this process may not read from it.
    pub status: Option<Status>,
    /// Whether this process may attach; `None`: the publisher does not answer.
    pub is_permitted: Option<bool>,
}

/// Lists the shares, sorted by name. Asks each publisher, and waits for up to five seconds for each that does not answer.
///
/// # Errors
/// The kernel's list of sockets cannot be read.
pub fn list() -> Result<Vec<Listed>> {
    let read = std::fs::read(SOCKETS);
    let sockets = read.map_err(|error| Error::new(SOCKETS, "reading it").because(error))?;
    let mut names = names(&String::from_utf8_lossy(&sockets));
    names.sort();
    names.dedup();
    Ok(names.into_iter().filter_map(ask).collect())
}

/// `None`: it has just ended.
fn ask(name: ShareName) -> Option<Listed> {
    let link = Link::to(&name).ok()?;
    let greeting = link.greeting(&name).ok();
    let answer = greeting.as_ref().map(|greeting| greeting.answer);
    Some(Listed {
        owner: link.owner(),
        status: greeting
            .filter(|it| it.answer == Answer::Welcome)
            .map(|it| it.status),
        is_permitted: answer.map(|answer| answer != Answer::NotPermitted),
        name,
    })
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
