//! Full disks: that of the spool before `ship` is started, and that of the archive.

use crate::common::{
    Outcome, archive, assert_counts, captures, done, json_of, ok, pcap, places, reports,
    servers::Running, spool, status,
};
use forebay_testing::folder::Folder;
use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

/// A spool on a disk of one megabyte, in a separate mount namespace; `None`: this user may not mount.
struct Disk {
    process: Child,
    spool: String,
}

impl Disk {
    fn new(folder: &Folder) -> Option<Disk> {
        let spool = spool(folder, "disk");
        let script = format!(
            "mount -t tmpfs -o size=1m tmpfs {spool} && touch {spool}/there && exec sleep 600"
        );
        let mut unshare = Command::new("unshare");
        let unshare = unshare
            .args(["-rm", "sh", "-c", &script])
            .stderr(Stdio::null());
        let process = unshare.spawn().ok()?;
        let mut disk = Disk { process, spool };
        loop {
            if disk.process.try_wait().unwrap().is_some() {
                eprintln!("skipped: no disk can be mounted here");
                return None;
            }
            if fs::remove_file(disk.path("there")).is_ok() {
                return Some(disk);
            }
            std::thread::yield_now();
        }
    }

    /// A path on the disk, as seen from here.
    fn path(&self, name: &str) -> String {
        format!("/proc/{}/root{}/{name}", self.process.id(), self.spool)
    }

    /// A capture of 4,000 packets, 300 kB.
    fn capture(&self, number: u8) {
        let frame = [number; 60];
        let packets = vec![(1_700_000_000, &frame[..]); 4000];
        fs::write(self.path(&format!("{number}.pcap")), pcap(&packets)).unwrap();
        crate::set_age(
            self.path(&format!("{number}.pcap")),
            100 - u64::from(number),
        );
    }

    /// Fills the rest.
    fn fill(&self) {
        let mut zeros = fs::File::open("/dev/zero").unwrap();
        let mut file = fs::File::create(self.path("fill")).unwrap();
        let full = std::io::copy(&mut zeros, &mut file).unwrap_err();
        assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    }

    fn has(&self, name: &str) -> bool {
        Path::new(&self.path(name)).exists()
    }

    /// Runs `forebay-archive` where the disk is mounted: the name of an archive is resolved, so it cannot be one in `/proc`.
    fn inside(&self, args: &[&str]) -> Outcome {
        let program = archive(args);
        let mut enter = Command::new("nsenter");
        let target = self.process.id().to_string();
        enter.args(["-U", "-m", "--preserve-credentials", "-t", &target]);
        done(
            enter
                .arg(program.get_program())
                .args(args)
                .output()
                .unwrap(),
        )
    }

    fn command(&self, to: &str, more: &[&str]) -> Command {
        archive(&[&["ship", &self.path(""), to, "--sensor", "hall"], more].concat())
    }

    /// `ship --once` on this disk.
    fn ship(&self, to: &str, more: &[&str]) -> Outcome {
        let more = [&["--once"], more].concat();
        done(self.command(to, &more).output().unwrap())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_disk_that_is_full_at_the_first_start_is_freed_by_shipping() {
    let (folder, _, to) = places();
    let Some(disk) = Disk::new(&folder) else {
        return;
    };
    (1..=2).for_each(|it| disk.capture(it));
    disk.fill();
    let counts = json_of(disk.ship(&to, &["--json"]));
    assert_counts(&counts, [("shipped_files", 2), ("shipped_packets", 8000)]);
    // What was kept in memory is on the disk now.
    let state = fs::read_to_string(disk.path(".forebay-ship")).unwrap();
    assert!(state.lines().nth(1).unwrap().trim() == "hall", "{state}");
    disk.capture(3);
    ok(disk.ship(&to, &[]));
    assert_counts(&status(&to)[0], [("captured", 12_000), ("indexed", 12_000)]);
}

#[test]
fn an_identity_that_was_never_written_is_that_of_the_spool_when_the_disk_has_room() {
    let (folder, _, to) = places();
    let Some(disk) = Disk::new(&folder) else {
        return;
    };
    disk.capture(1);
    disk.fill();
    ok(disk.ship(&to, &[]));
    let state = || fs::read_to_string(disk.path(".forebay-ship")).unwrap();
    assert_eq!(state(), "");
    fs::remove_file(disk.path("fill")).unwrap();
    disk.capture(2);
    ok(disk.ship(&to, &[]));
    let claim = fs::read_to_string(format!("{to}/sensors/hall/claim.json")).unwrap();
    assert!(claim.contains(state().lines().next().unwrap()), "{claim}");
    assert_counts(&status(&to)[0], [("captured", 8000), ("shipped", 8000)]);
    // A spool that has another identity is another one, whatever it was before.
    let other = format!("{:032}\n{:<64}\n", 7, "hall");
    fs::write(disk.path(".forebay-ship"), other).unwrap();
    reports(disk.ship(&to, &[]), 1, "the name hall belongs to the spool");
}

#[test]
fn a_disk_that_is_full_at_the_first_start_is_freed_without_a_store_if_asked_and_all_is_counted() {
    let (folder, _, to) = places();
    let Some(disk) = Disk::new(&folder) else {
        return;
    };
    (1..=3).for_each(|it| disk.capture(it));
    disk.fill();
    // A file where the archive should be: no store answers.
    fs::create_dir(&to).unwrap();
    fs::write(format!("{to}/sensors"), "no folder").unwrap();
    let limit = ["--spool-limit", "1B", "--when-full", "drop-oldest"];
    let mut shipping = Running::start(&mut disk.command(&to, &limit));
    // The oldest one may have been sent by a `ship` that was killed.
    while ["2.pcap", "3.pcap"].iter().any(|it| disk.has(it)) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_ne!(shipping.end("-KILL"), Some(0));
    assert!(disk.has("1.pcap"));
    fs::remove_file(format!("{to}/sensors")).unwrap();
    ok(disk.ship(&to, &[]));
    let sensor = &status(&to)[0];
    assert_counts(
        sensor,
        [("shipped", 4000), ("dropped", 8000), ("captured", 12_000)],
    );
}

#[test]
fn a_full_disk_of_the_archive_is_named_and_nothing_is_lost_or_torn() {
    let (folder, spool, _) = places();
    let Some(disk) = Disk::new(&folder) else {
        return;
    };
    let to = format!("{}/to", disk.spool);
    let ship = ["ship", &spool, &to, "--sensor", "hall", "--once"];
    let counts = |count: u64| {
        let sensor = json_of(disk.inside(&["status", &to, "--json"]));
        assert_counts(&sensor, [("captured", count), ("indexed", count)]);
        assert_counts(&sensor, [("segments", count / 1000)]);
    };
    captures(&folder, 1..=2, 1000);
    ok(disk.inside(&ship));
    captures(&folder, 3..=4, 1000);
    disk.fill();
    let full = "The disk of the archive is full";
    reports(disk.inside(&ship), 3, full);
    reports(disk.inside(&["compact", &to]), 3, full);
    counts(2000);
    fs::remove_file(disk.path("fill")).unwrap();
    ok(disk.inside(&ship));
    ok(disk.inside(&["compact", &to]));
    counts(4000);
}
