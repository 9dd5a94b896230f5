//! Programs in C, C++ and Rust at the two ends of a lane, and one of them killed.

use crate::{
    peers::peer,
    support::{compilers, is_there, library},
};
use forebay::queue::lanes::{Ending, Hub, LanesConfig, RecvError, SendError, Sender};
use forebay_testing::children::Mortal;
use std::{
    io::{BufRead, BufReader},
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::{Command, Stdio},
    time::Duration,
};

/// `peer.c` with this end of a pair of sockets.
fn started(program: &str, role: &[&str], socket: UnixStream) -> Mortal {
    let mut command = Command::new(program);
    command.args(role).stdin(OwnedFd::from(socket));
    if role == ["hub"] {
        command.stdout(Stdio::piped());
    }
    Mortal(command.stderr(Stdio::null()).spawn().unwrap())
}

/// What a hub prints.
fn printed(hub: &mut Mortal) -> impl Iterator<Item = u64> {
    let lines = BufReader::new(hub.0.stdout.take().unwrap()).lines();
    lines.map(|line| line.unwrap().parse().unwrap())
}

/// The numbers that arrive in this process, and how their lane ends.
fn received(hub: &Hub) -> impl Iterator<Item = Result<u64, Ending>> {
    std::iter::from_fn(|| {
        let mut number = [0; 8];
        match hub.recv_timeout(&mut number, Duration::from_secs(30)) {
            Ok(_) => Some(Ok(u64::from_ne_bytes(number))),
            Err(RecvError::Ended { ending, .. }) => Some(Err(ending)),
            Err(error) => panic!("{error}"),
        }
    })
}

fn kill(child: &mut Mortal) {
    child.0.kill().unwrap();
    child.0.wait().unwrap();
}

const FOREVER: [&str; 3] = ["lane", "0", "1000000000000"];

#[test]
fn numbers_arrive_in_order_through_lanes_between_c_cpp_and_rust_also_if_one_side_is_killed() {
    if compilers().is_empty() || !is_there("g++") {
        return;
    }
    let folder = library();
    let peers = [peer("gcc", "c", &folder), peer("g++", "c++", &folder)];
    for (one, other) in [(0, 1), (1, 0)] {
        let sockets = || UnixStream::pair().unwrap();
        // To Rust: a sender that ends, and one that is killed.
        let hub = Hub::new(&LanesConfig::default()).unwrap();
        for (role, expected) in [(["lane", "7", "100"], 100), (FOREVER, 20_000)] {
            let (ours, theirs) = sockets();
            let mut sends = started(&peers[one], &role, theirs);
            hub.accept_timeout(ours, Duration::from_secs(30)).unwrap();
            let first = role[1].parse().unwrap();
            let mut numbers = received(&hub);
            assert!((first..first + expected).all(|number| numbers.next() == Some(Ok(number))));
            if role == FOREVER {
                kill(&mut sends);
                let end = (first + expected..).zip(numbers);
                let end = end.map(|(number, next)| next.map(|next| assert_eq!(next, number)));
                assert_eq!(end.filter_map(Result::err).next(), Some(Ending::Died));
            } else {
                assert_eq!(numbers.next(), Some(Err(Ending::Closed)));
                sends.ends_well();
            }
        }
        // From Rust: to a receiver that gets all, and to one that is killed.
        let (ours, theirs) = sockets();
        let mut receives = started(&peers[one], &["hub"], theirs);
        let mut sender = Sender::attach_timeout(ours, 1 << 16, Duration::from_secs(30)).unwrap();
        (0..5000_u64).for_each(|number| sender.send(number.to_ne_bytes()).unwrap());
        drop(sender);
        assert!(printed(&mut receives).eq(0..5000));
        receives.ends_well();
        let (ours, theirs) = sockets();
        let mut receives = started(&peers[one], &["hub"], theirs);
        let mut sender = Sender::attach_timeout(ours, 1 << 16, Duration::from_secs(30)).unwrap();
        sender.send(0_u64.to_ne_bytes()).unwrap();
        assert_eq!(printed(&mut receives).next(), Some(0));
        kill(&mut receives);
        let ended = std::iter::repeat_with(|| sender.send([0; 8])).find_map(Result::err);
        assert_eq!(ended, Some(SendError::Ended(Ending::Died)));
        // Between C and C++: the sender is killed, and then the receiver.
        let (to, from) = sockets();
        let mut sends = started(&peers[other], &FOREVER, to);
        let mut receives = started(&peers[one], &["hub"], from);
        let mut numbers = printed(&mut receives);
        assert!((0..5000).all(|number| numbers.next() == Some(number)));
        kill(&mut sends);
        assert!(numbers.zip(5000..).all(|(number, at)| number == at));
        receives.ends_well();
        let (to, from) = sockets();
        let mut sends = started(&peers[other], &FOREVER, to);
        let mut receives = started(&peers[one], &["hub"], from);
        assert_eq!(printed(&mut receives).next(), Some(0));
        kill(&mut receives);
        assert_eq!(
            sends.0.wait().unwrap().code(),
            Some(1),
            "it goes on without a hub"
        );
    }
}
