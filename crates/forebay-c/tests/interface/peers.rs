//! Programs in C, C++ and Rust at the two ends of a shared queue, and one of them killed.

use crate::support::{compilers, is_there, library, output, root};
use forebay::queue::shared::{self, SharedQueueConfig};
use forebay_testing::folder::Folder;
use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader},
    process::{self, Command, Stdio},
    time::Duration,
};

/// `peer.c`, compiled as a program in this language.
pub fn peer(compiler: &str, language: &str, folder: &Folder) -> String {
    let program = folder.path(&format!("peer-{language}"));
    let mut command = Command::new(compiler);
    command.args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-x", language]);
    command
        .arg(root().join("tests/peer.c"))
        .arg("-I")
        .arg(root().join("include"));
    command.args(["-o", &program, "-L", &folder.path(""), "-lforebay"]);
    output(command.arg(format!("-Wl,-rpath,{}", folder.path(""))));
    program
}

/// Removes the queue's name at the end, also of a test that fails.
struct Name(String);

impl Drop for Name {
    fn drop(&mut self) {
        let _ = shared::remove(&self.0);
    }
}

#[test]
fn numbers_arrive_once_and_in_order_between_c_cpp_and_rust_also_from_a_sender_that_is_killed() {
    if compilers().is_empty() || !is_there("g++") {
        return;
    }
    let folder = library();
    let peers = [peer("gcc", "c", &folder), peer("g++", "c++", &folder)];
    for (one, other) in [(0, 1), (1, 0)] {
        let name = Name(format!("c-peers-{}-{one}", process::id()));
        let queue = shared::create(&name.0, &SharedQueueConfig::default()).unwrap();
        let (sender, receiver) = (queue.sender(), queue.receiver());
        let next = || {
            let mut number = [0; 8];
            let received = receiver.recv_timeout(&mut number, Duration::from_secs(30));
            received.unwrap();
            u64::from_ne_bytes(number)
        };
        // To Rust, and from Rust.
        output(Command::new(&peers[one]).args(["send", &name.0, "7", "100"]));
        assert!((7..107).all(|number| next() == number));
        (0_u64..100).for_each(|number| sender.send(number.to_ne_bytes()).unwrap());
        let printed = output(Command::new(&peers[one]).args(["receive", &name.0, "100"]));
        assert!(printed.lines().eq((0..100).map(|n| n.to_string())));
        // Between C and C++.
        output(Command::new(&peers[one]).args(["send", &name.0, "0", "100"]));
        let printed = output(Command::new(&peers[other]).args(["receive", &name.0, "100"]));
        assert!(printed.lines().eq((0..100).map(|n| n.to_string())));
        // A sender that is killed: what it has sent arrives once and in order, and the queue goes on.
        let mut sends = Command::new(&peers[one])
            .args(["send", &name.0, "0", "1000000000000"])
            .spawn()
            .unwrap();
        (0..20_000).for_each(|number| assert_eq!(next(), number));
        sends.kill().unwrap();
        sends.wait().unwrap();
        sender.send(u64::MAX.to_ne_bytes()).unwrap();
        let mut expected = 20_000;
        loop {
            match next() {
                u64::MAX => break,
                number => assert_eq!(number, expected),
            }
            expected += 1;
        }
        // A receiver that is killed: what it has printed was received, and the rest is there for the next one.
        (0_u64..2000).for_each(|number| sender.send(number.to_ne_bytes()).unwrap());
        let mut receives = Command::new(&peers[one])
            .args(["receive", &name.0, "0"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut printed = BufReader::new(receives.stdout.take().unwrap()).lines();
        (0..500_u64).for_each(|number| {
            assert_eq!(printed.next().unwrap().unwrap(), number.to_string());
        });
        receives.kill().unwrap();
        receives.wait().unwrap();
        let printed = 500 + printed.count() as u64;
        sender.send(u64::MAX.to_ne_bytes()).unwrap();
        let rest = std::iter::from_fn(|| Some(next()).filter(|&number| number != u64::MAX));
        let rest: Vec<_> = rest.collect();
        let once: BTreeSet<_> = rest.iter().copied().collect();
        assert_eq!(rest.len(), once.len(), "a number arrived twice");
        assert!(once.iter().all(|number| (printed..2000).contains(number)));
        // The message that it had when it died may have been received, or is delivered again later.
        assert!(
            once.len() as u64 + 1 >= 2000 - printed,
            "{printed} printed, {} left",
            once.len()
        );
    }
}
