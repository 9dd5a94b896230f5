//! A handle stays usable after fork, chroot and setuid.

use crate::support::{command, compiled, has_debians, installed, outcome};
use forebay_testing::{folder::Folder, lab::lab, limit::within_a_minute, sender::Sender};
use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

const EXPECTED: &str = "\
child: loop 0 packets 20 stats 0
grandchild: loop 0 packets 20 stats 0
chroot: loop 0 packets 20 stats 0
user 1
setuid: loop 0 packets 20 stats 0
lo 0
";

/// Checks what the program prints, if this user may change to another one.
fn check(device: &'static str) {
    if !has_debians() || !rustix::process::geteuid().is_root() {
        return;
    }
    let (folder, library) = (Folder::new(), installed());
    let process = compiled(&folder, "process.c");
    let (text, errors, code) = within_a_minute(move || {
        outcome(command(process, Some(&library)).args([device, &folder.path("")]))
    });
    let found = (text.as_str(), code);
    assert_eq!(found, (EXPECTED, Some(0)), "{device}: {errors}");
}

#[test]
fn the_simulated_card_is_read_after_fork_chroot_and_setuid() {
    check("sim:rate=10kpps");
}

#[test]
fn an_interface_is_read_after_fork_chroot_and_setuid() {
    lab(&[], || {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let sender = Sender::open("va");
                while !is_over.load(Relaxed) {
                    sender.numbers(0..10, 100).unwrap();
                    thread::yield_now();
                }
            });
            let checked = scope.spawn(|| check("vb")).join();
            is_over.store(true, Relaxed);
            checked.unwrap();
        });
    });
}
