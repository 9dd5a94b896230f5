//! What `ship` requests from a store.

use super::{Event, Ship, ShipConfig, spool::Keep};
use crate::archive::{Archive, counted::Reads};
use forebay_testing::folder::Folder;
use std::{cell::RefCell, fs, path::PathBuf, sync::Arc};
use tokio::runtime::Runtime;

/// An archive and a spool with one small capture.
struct Made {
    folder: Folder,
    reads: Arc<Reads>,
    runtime: Runtime,
}

impl Made {
    fn new() -> Made {
        let made = Made {
            folder: Folder::new(),
            reads: Arc::default(),
            runtime: Runtime::new().unwrap(),
        };
        fs::create_dir(made.folder.path("spool")).unwrap();
        made
    }

    /// A capture file with one packet.
    fn capture(&self, number: u8) {
        let words = [0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 65535, 1, 1, 0, 60, 60];
        let mut bytes: Vec<u8> = words.iter().flat_map(|it: &u32| it.to_le_bytes()).collect();
        bytes.extend([number; 60]);
        fs::write(self.folder.path(&format!("spool/{number}.pcap")), bytes).unwrap();
    }

    fn config(&self, announce: Option<&str>) -> ShipConfig {
        let archive = Archive::open(&self.folder.path("to"), true).unwrap();
        ShipConfig {
            spool: PathBuf::from(self.folder.path("spool")),
            archive: archive.counted(&self.reads),
            sensor: "hall".into(),
            keep: Keep::Nothing,
            limit_bytes: None,
            drops_oldest: false,
            compress: true,
            announce: announce.map(|it| it.parse().unwrap()),
            once: true,
            snapshots: false,
        }
    }
}

#[test]
fn a_segment_needs_the_same_few_requests_however_long_the_log_is() {
    let made = Made::new();
    let mut report = |_: Event<'_>| {};
    let mut ship = Ship::new(made.config(None), &mut report).unwrap();
    let (mut log, mut all) = (Vec::new(), Vec::new());
    for number in 0..65 {
        made.capture(number);
        let Reads {
            log: in_log,
            index,
            segments,
        } = &*made.reads;
        let count = || {
            let others = index.requests() + segments.requests();
            (in_log.requests(), in_log.requests() + others)
        };
        let before = count();
        made.runtime.block_on(ship.run()).unwrap();
        log.push(count().0 - before.0);
        all.push(count().1 - before.1);
    }
    // The first one opens the table; versions 19, 39 and 59 have a checkpoint.
    let (mut log, mut all) = (log.split_off(1), all.split_off(1));
    let sum = |counts: &[u64]| counts.iter().sum::<u64>();
    println!(
        "requests that read, for {} segments: {} of the log, {} in all; each: {log:?} {all:?}",
        log.len(),
        sum(&log),
        sum(&all)
    );
    log.sort_unstable();
    all.sort_unstable();
    assert!(log[log.len() / 2] <= 5 && all[all.len() / 2] <= 12);
}

#[test]
fn a_segment_is_read_back_once_however_often_it_is_announced_in_vain() {
    let made = Made::new();
    made.capture(7);
    let mut report = |_: Event<'_>| {};
    // Nobody listens there.
    let config = made.config(Some("nats://127.0.0.1:1"));
    let mut ship = Ship::new(config, &mut report).unwrap();
    let mut bytes = Vec::new();
    for _ in 0..3 {
        let error = made.runtime.block_on(ship.run()).unwrap_err();
        assert!(error.to_string().contains("connecting"), "{error:#}");
        bytes.push(made.reads.segments.bytes());
    }
    assert!(bytes[0] > 0 && bytes == [bytes[0]; 3], "{bytes:?}");
    // The file has changed, so it is another segment.
    made.capture(8);
    let [old, new] = ["7", "8"].map(|it| made.folder.path(&format!("spool/{it}.pcap")));
    fs::rename(new, old).unwrap();
    made.runtime.block_on(ship.run()).unwrap_err();
    assert!(made.reads.segments.bytes() > bytes[0]);
}

#[test]
fn no_file_is_packed_again_before_the_store_answers() {
    let made = Made::new();
    let warnings = RefCell::new(Vec::new());
    let mut report = |event: Event<'_>| {
        if let Event::Warning(text) = event {
            warnings.borrow_mut().push(text);
        }
    };
    let mut ship = Ship::new(made.config(None), &mut report).unwrap();
    let mut run = || made.runtime.block_on(ship.run());
    made.capture(1);
    run().unwrap();
    made.capture(2);
    let (to, away) = (made.folder.path("to"), made.folder.path("away"));
    fs::rename(&to, &away).unwrap();
    fs::write(&to, "no folder").unwrap();
    run().unwrap_err();
    // Nothing can be packed any more, which is reported only when the store answers.
    let packing = made.folder.path("spool/.forebay-ship.packing");
    fs::create_dir_all(format!("{packing}/a")).unwrap();
    run().unwrap_err();
    assert!(warnings.borrow().is_empty(), "{warnings:?}");
    fs::remove_file(&to).unwrap();
    fs::rename(&away, &to).unwrap();
    run().unwrap_err();
    assert!(
        warnings.borrow()[0].contains("to pack into"),
        "{warnings:?}"
    );
    fs::remove_dir_all(packing).unwrap();
    run().unwrap();
}
