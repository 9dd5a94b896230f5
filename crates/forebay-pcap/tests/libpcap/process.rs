//! A handle stays usable after fork, chroot and setuid.

use crate::support::{command, compiled, has_debians, installed, outcome};
use forebay_testing::{
    folder::Folder,
    lab::{classic, lab},
    limit::within_a_minute,
    sender::{Sender, frame},
};
use std::{
    fs::{self, Permissions},
    os::unix::{fs::PermissionsExt, process::CommandExt},
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

/// Frames for `vb`, until `body` returns.
fn while_frames_arrive(body: impl FnOnce() + Send) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let sender = Sender::open("va");
            while !is_over.load(Relaxed) {
                sender.numbers(0..10, 100).unwrap();
                thread::yield_now();
            }
        });
        let done = scope.spawn(body).join();
        is_over.store(true, Relaxed);
        done.unwrap();
    });
}

/// The kernel writes the frames to the parent's memory only.
#[test]
fn af_xdp_is_read_by_the_parent_after_fork_and_is_an_error_in_the_child() {
    lab(&[], || {
        while_frames_arrive(|| {
            if !has_debians() {
                return;
            }
            let (folder, library) = (Folder::new(), installed());
            let forks = compiled(&folder, "forks.c");
            let (text, errors, code) =
                within_a_minute(move || outcome(command(forks, Some(&library)).arg("xdp:vb")));
            let expected = "child: loop -1 packets 0 after a fork, only the parent can read an AF_XDP device\n\
                            parent: loop 0 packets 20 \n";
            assert_eq!((text.as_str(), code), (expected, Some(0)), "{errors}");
        });
    });
}

#[test]
fn a_process_that_closes_an_interface_does_not_end_the_capture_of_the_other_one() {
    lab(&[], || {
        while_frames_arrive(|| {
            if !has_debians() {
                return;
            }
            let (folder, library) = (Folder::new(), installed());
            let forks = compiled(&folder, "forks.c");
            for reader in ["parent", "child"] {
                let mut forks = command(&forks, Some(&library));
                forks.args(["vb", reader]);
                let (text, errors, code) = within_a_minute(move || outcome(&mut forks));
                let expected = format!("{reader}: loop 0 packets 50000 \n");
                assert_eq!((text, code), (expected, Some(0)), "{errors}");
            }
        });
    });
}

#[test]
fn an_interface_is_read_after_fork_chroot_and_setuid() {
    lab(&[], || {
        while_frames_arrive(|| check("vb"));
    });
}

#[test]
fn the_process_keeps_its_signals_limits_and_rights_and_has_no_thread_without_need() {
    lab(&[], || {
        while_frames_arrive(|| {
            if !has_debians() {
                return;
            }
            let (folder, library) = (Folder::new(), installed());
            let quiet = compiled(&folder, "quiet.c");
            let file = folder.file("a.pcap", classic(&[frame(0, 100)]));
            for device in [&file, "vb", "any", "sim:rate=10kpps", "xdp:vb"] {
                let mut quiet = command(&quiet, Some(&library));
                quiet.arg(device);
                let found = within_a_minute(move || outcome(&mut quiet));
                let unchanged = ("threads 1\n".to_owned(), String::new(), Some(0));
                assert_eq!(found, unchanged, "{device}");
            }
        });
    });
}

#[test]
fn a_program_without_rights_is_advised_what_gives_it_packets() {
    if !has_debians() || !rustix::process::geteuid().is_root() {
        return;
    }
    let (folder, library) = (Folder::new(), installed());
    fs::set_permissions(library.path(""), Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(folder.path(""), Permissions::from_mode(0o755)).unwrap();
    let breaks = compiled(&folder, "breaks.c");
    for device in ["lo", "any"] {
        let mut breaks = command(&breaks, Some(&library));
        let (text, _, code) = outcome(breaks.arg(device).uid(65534).gid(65534));
        assert_eq!(code, Some(1));
        assert!(text.contains("sudo forebay with PROGRAM"), "{text}");
        assert!(text.ends_with("shares (share:NAME)\n"), "{text}");
    }
}
