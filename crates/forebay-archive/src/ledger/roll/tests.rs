//! Accounts that are rolled up, interrupted, and rolled up again.

use super::super::{
    Ledger, Records,
    account::tests::entry,
    expired::{expired, forget, has_expired, record},
};
use super::*;
use crate::{archive::counted::Reads, ledger::DaySummary, status::date_before};
use forebay_testing::folder::Folder;
use std::{
    fs,
    sync::{Arc, LazyLock},
};

/// A day that has ended.
static DAY: LazyLock<String> = LazyLock::new(|| date_before(Duration::from_hours(24 * 10)));

/// Makes the records of `hall` this old.
fn age(folder: &Folder, days: u64) {
    let mut folders = vec![folder.path("to/sensors/hall")];
    while let Some(path) = folders.pop() {
        for entry in fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path.to_str().unwrap().to_owned());
                continue;
            }
            let then = SystemTime::now() - Duration::from_hours(24 * days + 1);
            let file = fs::File::options().write(true).open(path).unwrap();
            file.set_modified(then).unwrap();
        }
    }
}

fn named(number: u32) -> Entry {
    let mut named = entry("hall", 1);
    named.segment = format!(
        "segments/sensor=hall/date={}/hour=00/{number:064x}.pcapng.zst",
        *DAY
    );
    named
}

async fn records(archive: &Archive) -> Records {
    Records::read(archive, &[], &|_, _| true, &|_, _, _| false)
        .await
        .unwrap()
}

/// The records of all sensors, without the summaries.
async fn keys(archive: &Archive) -> Vec<String> {
    let listed = archive.list("sensors").await.unwrap();
    let keys = listed.iter().map(|it| it.location.to_string());
    let keys = keys.filter(|it| !it.ends_with("/summary"));
    let mut keys: Vec<String> = keys.collect();
    keys.sort_unstable();
    keys
}

/// An archive with a closed day of this many segments.
async fn closed(folder: &Folder, segments: u32) -> Archive {
    let archive = Archive::open(&folder.path("to"), true).unwrap();
    let mut ledger = Ledger::default();
    for number in 0..segments {
        ledger.add(&archive, named(number)).await.unwrap();
    }
    record(&archive, (0..segments).map(named)).await.unwrap();
    age(folder, 8);
    roll_up(&archive).await.unwrap();
    for _ in 0..3 {
        age(folder, 8);
        roll_up(&archive).await.unwrap();
    }
    archive
}

#[test]
fn segments_of_a_closed_day_that_are_shipped_and_expire_again_are_recorded_and_merged_again() {
    let folder = Folder::new();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let archive = closed(&folder, 3).await;
        let sums = format!("sensors/hall/days/{}.json", *DAY);
        assert_eq!(keys(&archive).await, [&*sums]);
        let mut ledger = Ledger::default();
        for number in 0..4 {
            ledger.add(&archive, named(number)).await.unwrap();
        }
        let expired_ = async || {
            let records = records(&archive).await;
            assert_eq!(records.sums[0].1.expired.segments, 3);
            assert_eq!(records.shipped.len(), 4);
            records.expired.len()
        };
        // The same page as in the sums, and another one.
        record(&archive, (0..3).map(named)).await.unwrap();
        assert_eq!(expired_().await, 3);
        record(&archive, (0..4).map(named)).await.unwrap();
        assert_eq!(expired_().await, 4);
        // What is left after an `undelete` has the segments that are in the sums.
        age(&folder, 8);
        let last = segment::identity(&named(3).segment).unwrap();
        for page in keys(&archive).await {
            if page.contains("/expired/") {
                let ids = HashSet::from([last.clone()]);
                assert!(
                    forget(&archive, &page, &ids, SystemTime::now())
                        .await
                        .unwrap()
                );
            }
        }
        assert_eq!(expired_().await, 3);
        age(&folder, 8);
        // What comes after the sums is merged, too, and then left alone.
        assert_eq!(roll_up(&archive).await.unwrap().closed, 0);
        assert_eq!(expired_().await, 3);
        let late = keys(&archive).await;
        assert_eq!(late.len(), 3, "{late:?}");
        age(&folder, 8);
        assert_eq!(roll_up(&archive).await.unwrap(), RolledUp::default());
        // All that was in the sums again: its page is not taken for that in the sums.
        record(&archive, (0..3).map(named)).await.unwrap();
        record(&archive, (1..4).map(named)).await.unwrap();
        age(&folder, 8);
        assert_eq!(roll_up(&archive).await.unwrap().objects, 3);
        assert_eq!(keys(&archive).await.len(), 3);
        assert_eq!(expired_().await, 4);
    });
}

#[test]
fn a_day_with_several_merged_pages_is_closed_and_not_written_again() {
    let folder = Folder::new();
    let segments = MAX_ENTRIES as u32 + 50;
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let archive = Archive::open(&folder.path("to"), true).unwrap();
        let mut ledger = Ledger::default();
        for number in 0..segments {
            ledger.add(&archive, named(number)).await.unwrap();
        }
        age(&folder, 3);
        assert_eq!(roll_up(&archive).await.unwrap().objects, 4);
        let folder_of_day = format!("sensors/hall/days/{}", *DAY);
        let pages = archive.list(&folder_of_day).await.unwrap();
        assert_eq!(pages.len(), 2);
        age(&folder, 3);
        let before = archive.list(&folder_of_day).await.unwrap();
        assert_eq!(roll_up(&archive).await.unwrap(), RolledUp::default());
        let mut after = archive.list(&folder_of_day).await.unwrap();
        after.sort_by_key(|it| before.iter().position(|old| old.location == it.location));
        assert_eq!(before, after);
        for from in [0, 100] {
            let part = (from..segments).step_by(2).map(named);
            record(&archive, part).await.unwrap();
        }
        record(&archive, (0..segments).map(named)).await.unwrap();
        age(&folder, 8);
        assert_eq!(roll_up(&archive).await.unwrap().closed, 0);
        age(&folder, 8);
        let done = roll_up(&archive).await.unwrap();
        assert_eq!((done.objects, done.closed), (4, 1));
        let left = records(&archive).await;
        assert_eq!(left.sums[0].1.expired.segments, u64::from(segments));
        assert_eq!(keys(&archive).await.len(), 1);
    });
}

/// Rolls up what a plan says, and the plan changes nothing.
async fn planned(archive: &Archive) -> RolledUp {
    let before = keys(archive).await;
    let plan = plan_roll_up(archive).await.unwrap();
    assert_eq!(keys(archive).await, before);
    assert_eq!(roll_up(archive).await.unwrap(), plan);
    plan
}

#[test]
fn records_of_dropped_files_and_of_accepted_losses_become_a_page_a_day_and_count_once() {
    let folder = Folder::new();
    let archive = Archive::open(&folder.path("to"), true).unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut ledger = Ledger::default();
        let mut singles = Vec::new();
        for number in 0..20 {
            ledger.add(&archive, named(number)).await.unwrap();
            let lost = serde_json::to_vec(&named(number)).unwrap();
            singles.push((format!("sensors/hall/vanished-{number:064x}.json"), lost));
            let dropped =
                format!(r#"{{"schema": 1, "file": "a{number}", "packets": 2, "bytes": 9}}"#);
            singles.push((
                format!("sensors/hall/dropped-{number}.json"),
                dropped.into(),
            ));
        }
        for (key, text) in &singles {
            archive.put(key, text.clone().into()).await.unwrap();
        }
        age(&folder, 3);
        let state = async || {
            let records = records(&archive).await;
            let dropped = records.dropped.values().map(|it| it.1.packets);
            (dropped.sum::<u64>(), records.accepted.len())
        };
        assert_eq!(state().await, (40, 20));
        assert_eq!(planned(&archive).await.objects, 41);
        assert_eq!(keys(&archive).await.len(), 3);
        assert_eq!(state().await, (40, 20));
        // A run that was killed, and records that came later. What is damaged stays.
        for (key, text) in &singles[10..30] {
            archive.put(key, text.clone().into()).await.unwrap();
        }
        let damaged = "sensors/hall/dropped-x.json";
        archive.put(damaged, "{".into()).await.unwrap();
        // One that is too long is not read: a sensor may write many.
        let long = "sensors/hall/dropped-z.json";
        let text = format!("{}{}", r#"{"packets": 2}"#, " ".repeat(64 << 10));
        archive.put(long, text.into()).await.unwrap();
        let found = records(&archive).await.damaged;
        assert!(found.iter().any(|it| it.1 == long), "{found:?}");
        archive.delete(long).await.unwrap();
        let late = "sensors/hall/dropped-y.json";
        archive.put(late, r#"{"packets": 2}"#.into()).await.unwrap();
        assert_eq!(state().await, (42, 20));
        for _ in 0..2 {
            age(&folder, 3);
            planned(&archive).await;
        }
        assert_eq!(state().await, (42, 20));
        let left = keys(&archive).await;
        assert!(
            left.len() == 4 && left.iter().any(|it| it == damaged),
            "{left:?}"
        );
        let dropped = &records(&archive).await.dropped["sensors/hall/dropped-7.json"];
        assert_eq!(dropped.1.file.as_deref(), Some("a7"));
        assert_eq!((&*dropped.0, dropped.1.plain_bytes), ("hall", Some(9)));
    });
}

#[test]
fn no_segment_is_taken_as_unexpired_because_a_page_is_damaged() {
    let folder = Folder::new();
    let archive = Archive::open(&folder.path("to"), true).unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        record(&archive, [named(1)].into_iter()).await.unwrap();
        archive.put(&named(1).segment, "".into()).await.unwrap();
        let stored = archive.list("segments").await.unwrap();
        assert_eq!(expired(&archive, &stored).await.unwrap().len(), 1);
        let page = keys(&archive).await.swap_remove(0);
        let newer = r#"{"schema": 2, "segments": []}"#;
        archive.put(&page, newer.into()).await.unwrap();
        let error = expired(&archive, &stored).await.unwrap_err();
        assert!(format!("{error:#}").contains(&page), "{error:#}");
        age(&folder, 1);
        assert!(
            forget(&archive, &page, &HashSet::new(), SystemTime::now())
                .await
                .is_err()
        );
        assert_eq!(keys(&archive).await, [page]);
    });
}

#[test]
fn pages_of_a_day_become_one_and_only_sums_are_left_when_all_its_segments_have_expired() {
    let folder = Folder::new();
    let archive = Archive::open(&folder.path("to"), true).unwrap();
    let rolled = |objects, closed| RolledUp { objects, closed };
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut ledger = Ledger::default();
        for number in 0..250 {
            ledger.add(&archive, named(number)).await.unwrap();
        }
        // `ship` may write the last page again.
        age(&folder, 1);
        assert_eq!(planned(&archive).await, rolled(0, 0));
        // After a day it begins a new one, also after a restart.
        Ledger::default().add(&archive, named(250)).await.unwrap();
        assert_eq!(keys(&archive).await.len(), 4);
        let before = records(&archive).await.shipped;
        assert_eq!(before.len(), 251);
        age(&folder, 2);
        // A run that was killed before it deleted the old pages.
        let kept = folder.path("kept");
        fs::create_dir(&kept).unwrap();
        let page = folder.path(&format!("to/sensors/hall/shipped/{}/0001.json", *DAY));
        fs::copy(&page, format!("{kept}/page")).unwrap();
        assert_eq!(planned(&archive).await, rolled(4, 0));
        assert_eq!(keys(&archive).await.len(), 1);
        fs::create_dir_all(folder.path(&format!("to/sensors/hall/shipped/{}", *DAY))).unwrap();
        fs::copy(format!("{kept}/page"), &page).unwrap();
        assert_eq!(records(&archive).await.shipped, before);
        age(&folder, 2);
        assert_eq!(planned(&archive).await, rolled(1, 0));
        assert_eq!(records(&archive).await.shipped, before);
        assert_eq!(planned(&archive).await, rolled(0, 0));

        // Two runs of `expire`, and a record of an earlier version. One segment has vanished.
        record(&archive, (0..100).map(named)).await.unwrap();
        record(&archive, (100..249).map(named)).await.unwrap();
        let sha256 = format!("{:064x}", 249);
        let old = serde_json::to_vec(&named(249)).unwrap();
        let key = format!("sensors/hall/expired-{sha256}.json");
        archive.put(&key, old.into()).await.unwrap();
        let expired = records(&archive).await.expired;
        assert_eq!(expired.len(), 250);
        age(&folder, 2);
        assert_eq!(planned(&archive).await, rolled(3, 0));
        assert_eq!(keys(&archive).await.len(), 3); // the record of the last one is young
        age(&folder, 2);
        assert_eq!(planned(&archive).await, rolled(2, 0));
        assert_eq!(records(&archive).await.expired, expired);
        // It stays until its loss is accepted, and while a segment is stored.
        age(&folder, 8);
        assert_eq!(planned(&archive).await, rolled(0, 0));
        let gone = serde_json::to_vec(&named(250)).unwrap();
        let key = format!("sensors/hall/vanished-{:064x}.json", 250);
        archive.put(&key, gone.into()).await.unwrap();
        let stored = named(3).segment;
        archive.put(&stored, "".into()).await.unwrap();
        assert_eq!(planned(&archive).await, rolled(0, 0));
        archive.delete(&stored).await.unwrap();
        let pages = keys(&archive).await;
        let page = archive.get(&pages[0]).await.unwrap().unwrap();
        assert_eq!(planned(&archive).await, rolled(2, 1));
        let sums = format!("sensors/hall/days/{}.json", *DAY);
        assert_eq!(keys(&archive).await, [sums, key]);
        // Again, a run that was killed: nothing counts twice.
        archive.put(&pages[0], page).await.unwrap();
        let left = records(&archive).await;
        assert!(left.shipped.is_empty() && left.expired.is_empty());
        let (sensor, sums) = &left.sums[0];
        assert_eq!(
            (&**sensor, sums.expired.segments, sums.vanished.segments),
            ("hall", 250, 1)
        );
        let packets = |sum: &Sum| {
            (
                sum.packets,
                sum.captured,
                sum.lost_kernel,
                sum.lost_interface,
            )
        };
        assert_eq!(packets(&sums.expired), (250, 250, Some(0), None));
        assert_eq!(planned(&archive).await, rolled(1, 0));
        assert_eq!(keys(&archive).await.len(), 2);
    });
}

#[test]
fn a_record_of_an_earlier_version_that_does_not_name_its_segment_becomes_an_entry_of_a_page() {
    let folder = Folder::new();
    let archive = Archive::open(&folder.path("to"), true).unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        // The segment of the first one is stored, that of the second one is on a page, too, the third one is gone, and an account names the fourth one.
        for number in 0..4 {
            let key = format!("sensors/hall/expired-{number:064x}.json");
            let text = r#"{"packets": 5, "captured": 7}"#;
            archive.put(&key, text.into()).await.unwrap();
        }
        archive.put(&named(0).segment, "".into()).await.unwrap();
        record(&archive, [named(1)].into_iter()).await.unwrap();
        Ledger::default().add(&archive, named(3)).await.unwrap();
        let counts = async || {
            let expired = records(&archive).await.expired;
            let captured = expired.values().filter_map(|it| it.captured);
            (expired.len(), captured.sum::<u64>())
        };
        let left = async || {
            let left = keys(&archive).await;
            let of = |number: u32| format!("-{number:064x}.json");
            [0, 1, 2, 3].map(|number| left.iter().any(|it| it.ends_with(&of(number))))
        };
        let before = counts().await;
        age(&folder, 1);
        assert_eq!(planned(&archive).await.objects, 2);
        assert_eq!(left().await, [true, false, true, false]);
        assert_eq!(counts().await, before);
        let segment = named(3).segment;
        assert!(has_expired(&archive, &segment).await.unwrap());
        age(&folder, 8);
        planned(&archive).await;
        assert_eq!(left().await, [true, false, false, false]);
        assert_eq!(counts().await, before);
        // `expire` has deleted the first one, and recorded it.
        record(&archive, [named(0)].into_iter()).await.unwrap();
        archive.delete(&named(0).segment).await.unwrap();
        age(&folder, 8);
        planned(&archive).await;
        let records = records(&archive).await;
        let closed = records.sums.iter().map(|it| it.1.expired.segments);
        assert_eq!(records.expired.len() as u64 + closed.sum::<u64>(), 4);
    });
}

#[test]
fn compact_reads_a_day_with_a_damaged_page_once_until_the_page_is_restored() {
    let folder = Folder::new();
    let plain = Archive::open(&folder.path("to"), true).unwrap();
    let reads = Arc::<Reads>::default();
    let archive = plain.counted(&reads);
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let page = format!("sensors/hall/days/{}/{:064x}.json", *DAY, 1);
        let read = async || {
            let before = reads.index.bytes();
            age(&folder, 3);
            assert_eq!(roll_up(&archive).await.unwrap(), RolledUp::default());
            reads.index.bytes() - before
        };
        const BYTES: usize = 100_000;
        let damaged = " ".repeat(BYTES);
        archive.put(&page, damaged.into()).await.unwrap();
        let summed = async || {
            // The list of the store has no segment of the day.
            let takes = |_: &str, _: &str, day: &DaySummary| day.has_just(std::iter::empty());
            let all = Records::read(&archive, &[], &|_, _| true, &takes);
            let all = all.await.unwrap();
            (all.days.len(), all.damaged.len())
        };
        for is_read in [true, false, false] {
            assert_eq!(read().await >= BYTES as u64, is_read);
            // `status` reads it each time, and names it.
            assert_eq!(summed().await, (0, 1));
        }
        let whole = r#"{"schema": 1, "segments": []}"#;
        archive.put(&page, whole.into()).await.unwrap();
        assert_eq!(summed().await, (0, 0));
        read().await;
        assert_eq!(summed().await, (1, 0));
    });
}
