//! Lets other processes attach to a share: a thread that accepts connections and hands out the memory, which they can only read.
//!
//! What these processes send is never received, and every socket is closed elsewhere ([`foreign`]): its queue may hold
//! descriptors that take for ever to close.

use super::{
    Access, ShareName, ShareSource, Status,
    handshake::{self, ShareAnswer},
};
use crate::sys;
use forebay::{
    Error, Result,
    error::Code,
    foreign::{self, Foreign},
    sync::Signal,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::{
        AddressFamily, Shutdown, SocketFlags, SocketType, accept_with, bind, listen, shutdown,
        socket_with,
    },
};
use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::Duration,
};

/// Readers of a share in other processes.
const MAX_READERS: usize = 256;
/// Places that are kept for root and the owner.
const RESERVED: usize = 32;
/// Readers of one user who is neither root nor the owner.
const MAX_READERS_OF_A_USER: usize = 32;
const BACKLOG: i32 = 64;
/// While more sockets than this are being closed, no connection is accepted.
const MAX_CLOSING: usize = 64;
/// After each connection, so that a user who connects in a loop, permitted or not, takes little of a processor. As many as
/// [`BACKLOG`] wait before a connection, so it waits for a fraction of a second at most.
const REST: Duration = Duration::from_millis(1);
/// After an error of the system, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// A share that other processes can attach to, until this is dropped.
///
/// The name is free again as soon as this is dropped or the process ends, however it ends.
#[derive(Debug)]
pub struct Listener {
    stop: Arc<Signal>,
    max_readers: Arc<AtomicU32>,
    thread: Option<JoinHandle<()>>,
}

/// A connected process.
struct Attached {
    socket: Foreign,
    uid: u32,
    /// It has sent something: it is a reader, and not a list of shares.
    reads: bool,
}

/// A name that belongs to this process, before readers are let in.
#[derive(Debug)]
pub struct Bound {
    socket: Entrance,
    name: ShareName,
    unclear: Unclear,
}

/// Numbers that do not identify a user or a group: the kernel reports them for all that this user namespace does not know.
#[derive(Clone, Copy, Debug, Default)]
struct Unclear {
    user: Option<u32>,
    group: Option<u32>,
}

impl Unclear {
    /// Reads `/proc`, which the sandbox hides later.
    fn here() -> Unclear {
        let number = |map: &str, overflow: &str| {
            let map = std::fs::read_to_string(format!("/proc/self/{map}"));
            if map.is_ok_and(|map| knows_all(&map)) {
                return None;
            }
            let overflow = std::fs::read_to_string(format!("/proc/sys/kernel/{overflow}"));
            Some(overflow.map_or(65_534, |it| it.trim().parse().unwrap_or(65_534)))
        };
        Unclear {
            user: number("uid_map", "overflowuid"),
            group: number("gid_map", "overflowgid"),
        }
    }
}

/// Whether this is the map of a user namespace in which every number stands for itself.
fn knows_all(map: &str) -> bool {
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// Whether there is no place for one more reader, if `all` are attached, and `of_user` of them belong to its user.
fn is_full(is_trusted: bool, of_user: usize, all: usize) -> bool {
    match is_trusted {
        true => all >= MAX_READERS,
        false => of_user >= MAX_READERS_OF_A_USER || all >= MAX_READERS - RESERVED,
    }
}

impl Bound {
    /// Binds the name. Readers that connect wait until [`start`](Self::start).
    ///
    /// # Errors
    /// The name is in use, or the system has no more descriptors.
    pub fn new(name: &ShareName) -> Result<Bound> {
        let on = || format!("share {name}");
        let failed = |tried: &str, error: Errno| Error::new(on(), tried).because(error);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .map_err(|error| failed("making a socket", error))?;
        // Linux before 6.16 cannot refuse them.
        let _ = sys::accept_descriptors(socket.as_fd(), false);
        match bind(&socket, &name.address()?) {
            Ok(()) => {}
            Err(Errno::ADDRINUSE) => {
                let error = failed("another process has this name", Errno::ADDRINUSE);
                return Err(error.advise(
                    "`forebay shares` says which. Choose another name, or end that process",
                ));
            }
            Err(error) => return Err(failed("binding the name", error)),
        }
        listen(&socket, BACKLOG).map_err(|error| failed("listening", error))?;
        Ok(Bound {
            socket: Entrance(Some(socket)),
            name: name.clone(),
            unclear: Unclear::here(),
        })
    }

    /// Acts as if the kernel could not refuse descriptors.
    #[cfg(test)]
    pub(super) fn let_descriptors_in(&self) {
        let _ = sys::accept_descriptors(self.socket.as_fd(), true);
    }

    /// Lets readers attach to the packets of `source`, which knows its first interfaces by now.
    ///
    /// # Errors
    /// The system has no more descriptors or threads, or the memory of `source` grows.
    pub fn start(self, source: &ShareSource, access: Access) -> Result<Listener> {
        if source.is_growing() {
            let what = "sharing memory that grows, which other processes refuse";
            return Err(Error::coded(
                Code::Unsupported,
                format!("share {}", self.name),
                what,
            ));
        }
        let stop = Arc::new(Signal::new()?);
        let max_readers = Arc::new(AtomicU32::new(0));
        let mut door = Door {
            socket: self.socket,
            source: source.clone(),
            access,
            own_uid: rustix::process::geteuid().as_raw(),
            unclear: self.unclear,
            attached: Vec::new(),
            max_readers: max_readers.clone(),
        };
        let stopped = stop.clone();
        let thread = std::thread::Builder::new()
            .name("forebay-share".into())
            .spawn(move || door.run(&stopped))
            .map_err(|error| {
                Error::new(format!("share {}", self.name), "starting a thread").because(error)
            })?;
        Ok(Listener {
            stop,
            max_readers,
            thread: Some(thread),
        })
    }
}

impl Listener {
    /// Binds the name, and lets readers attach to the packets of `source`, which knows its first interfaces by now.
    ///
    /// # Errors
    /// As [`Bound::new`] and [`Bound::start`].
    pub fn start(name: &ShareName, source: &ShareSource, access: Access) -> Result<Listener> {
        Bound::new(name)?.start(source, access)
    }

    /// The largest number of readers in other processes that were attached at the same time so far.
    pub fn max_readers(&self) -> u32 {
        self.max_readers.load(Relaxed)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.raise();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The socket that listens.
#[derive(Debug)]
struct Entrance(Option<OwnedFd>);

impl AsFd for Entrance {
    fn as_fd(&self) -> BorrowedFd<'_> {
        let socket = self.0.as_ref();
        socket.expect("it is there until dropped").as_fd()
    }
}

impl Drop for Entrance {
    /// Frees the name at once. Closing the socket would close the connections in its queue, and the descriptors in theirs.
    fn drop(&mut self) {
        let Some(socket) = self.0.take() else { return };
        // Nothing more arrives after this.
        let _ = shutdown(&socket, Shutdown::Both);
        let error = loop {
            match accept_with(&socket, SocketFlags::CLOEXEC) {
                Ok(connection) => drop(Foreign::new(connection)),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(error) => break error,
            }
        };
        match error {
            Errno::AGAIN | Errno::INVAL => drop(socket), // the queue is empty
            _ => drop(Foreign::new(socket)),
        }
    }
}

/// The state of the thread.
struct Door {
    socket: Entrance,
    source: ShareSource,
    access: Access,
    own_uid: u32,
    unclear: Unclear,
    attached: Vec<Attached>,
    max_readers: Arc<AtomicU32>,
}

impl Door {
    fn run(&mut self, stop: &Signal) {
        while !stop.is_raised() {
            let (calls, limit) = match foreign::closing() <= MAX_CLOSING {
                true => (PollFlags::IN, None),
                false => (PollFlags::empty(), Timespec::try_from(PAUSE).ok()),
            };
            let stop_fd = stop.as_fd();
            let mut fds = vec![
                PollFd::from_borrowed_fd(stop_fd, PollFlags::IN),
                PollFd::new(&self.socket, calls),
            ];
            // It only matters that data arrived: it is never received.
            fds.extend(self.attached.iter().map(|it| {
                let events = match it.reads {
                    true => PollFlags::empty(),
                    false => PollFlags::IN,
                };
                PollFd::new(&it.socket, events)
            }));
            if poll(&mut fds, limit.as_ref()).is_err() {
                continue; // interrupted
            }
            let is_calling = !fds[1].revents().is_empty();
            let news: Vec<_> = fds[2..].iter().map(PollFd::revents).collect();
            for (attached, news) in self.attached.iter_mut().zip(&news) {
                attached.reads |= news.contains(PollFlags::IN);
            }
            let mut news = news.into_iter();
            let ends = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
            self.attached
                .retain(|_| !news.next().is_some_and(|news| news.intersects(ends)));
            self.max_readers.fetch_max(self.readers(), Relaxed);
            if is_calling {
                self.accept();
                std::thread::sleep(REST);
            }
        }
    }

    fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = match accept_with(&self.socket, flags) {
            Ok(socket) => Foreign::new(socket),
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return,
            // Otherwise this thread would run all the time while the system has no descriptor left.
            Err(_) => return std::thread::sleep(PAUSE),
        };
        let Ok(peer) = sys::peer(socket.as_fd()) else {
            return;
        };
        let answer = self.answer(&socket, &peer);
        let is_welcome = answer == ShareAnswer::Welcome;
        let memory = &self.source.0;
        let (status, descriptors) = match is_welcome {
            true => (self.status(), memory.descriptors()),
            false => (Status::default(), Vec::new()),
        };
        let sent = handshake::send(&socket, &handshake::hello(answer, &status), &descriptors);
        if is_welcome && sent.is_ok() {
            self.attached.push(Attached {
                socket,
                uid: peer.uid,
                reads: false,
            });
        }
    }

    fn readers(&self) -> u32 {
        self.attached.iter().filter(|it| it.reads).count() as u32
    }

    fn status(&self) -> Status {
        Status {
            readers: self.readers(),
            packets: self.source.0.packets.load(Relaxed),
            lost: self.source.0.lost.load(Relaxed),
        }
    }

    fn answer(&self, socket: &Foreign, peer: &libc::ucred) -> ShareAnswer {
        let is_owner = peer.uid == self.own_uid && self.unclear.user != Some(peer.uid);
        let is_trusted = peer.uid == 0 || is_owner;
        let is_member = || {
            let group = self.access.group;
            let group = group.filter(|_| group != self.unclear.group);
            group.is_some_and(|group| {
                let groups = sys::peer_groups(socket.as_fd()).unwrap_or_default();
                peer.gid == group || groups.contains(&group)
            })
        };
        if !is_trusted && !is_member() {
            return ShareAnswer::NotPermitted;
        }
        let of_user = self.attached.iter().filter(|it| it.uid == peer.uid).count();
        match is_full(is_trusted, of_user, self.attached.len()) {
            true => ShareAnswer::TooMany,
            false => ShareAnswer::Welcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_in_a_namespace_with_all_users_does_every_number_identify_one() {
        assert!(knows_all("         0          0 4294967295\n"));
        for map in ["", "0 1000 1", "0 0 1\n1 100000 65536", "0 0 65536"] {
            assert!(!knows_all(map), "{map}");
        }
    }

    #[test]
    fn members_of_the_group_leave_places_to_root_and_the_owner() {
        assert!(!is_full(false, 31, 223) && is_full(false, 32, 32) && is_full(false, 0, 224));
        assert!(!is_full(true, 224, 255) && is_full(true, 0, 256));
    }
}
