//! A summary of the account changes what is read, and never what `status` returns.

use super::{
    many_tests::{Store, capture, packed},
    *,
};
use crate::{
    ledger::{Entry, accept, record, roll_up},
    table::Rows,
};
use forebay_testing::dice::Dice;
use serde_json::json;
use std::{fs, path::PathBuf};

const DAYS: u64 = 4;
const PER_DAY: u64 = 6;
const SUMMARY: &str = "to/sensors/hall/days/summary";

/// A segment, with its file, its bytes, and its entry in the account.
struct Made {
    path: PathBuf,
    bytes: Vec<u8>,
    entry: Entry,
}

/// Stores segments of four days, their rows and the account. One has statistics that count another packet.
async fn fill(store: &Store) -> Vec<Made> {
    let now_s = now_ms() as u64 / 1000;
    let mut table = Table::open_or_create(&store.archive).await.unwrap();
    let mut all = Vec::new();
    for day in 0..DAYS {
        let begin = now_s - now_s % 86_400 - (20 - day) * 86_400;
        let (mut rows, mut entries) = (Vec::new(), Vec::new());
        for number in 0..PER_DAY {
            let at = (begin + number, day * PER_DAY + number);
            let (packed, bytes) = packed(&store.folder.path("scratch"), at.0, at.1);
            store.write(&packed.key, &bytes);
            let mut entry = Entry::of(&packed.key, &packed.directory, packed.bytes);
            if at.1 == 3 {
                entry.captured = Some(2);
            }
            entries.push(entry.clone());
            all.push(Made {
                path: store.folder.path(&format!("to/{}", packed.key)).into(),
                bytes,
                entry,
            });
            let (segment, files) = (packed.key, packed.index);
            rows.push(Rows { segment, files });
        }
        let (_, date, _) = segment::parse_key(&entries[0].segment).unwrap();
        let key = format!("sensors/hall/shipped/{date}/0000.json");
        let page = json!({"schema": 1, "segments": entries}).to_string();
        store.write(&key, page.as_bytes());
        table.append(&rows).await.unwrap();
        if day == 0 {
            // A file that was shipped, and one that waits.
            let spool = |name: &str| store.folder.path(&format!("spool/{name}"));
            fs::create_dir(store.folder.path("spool")).unwrap();
            fs::write(spool("a.pcap"), capture(begin + 2, 2)).unwrap();
            fs::write(spool("b.pcap"), capture(now_s, 1000)).unwrap();
        }
    }
    all
}

/// What `status` returns, and the objects of the account that were read for it.
async fn counts(store: &Store, has_spool: bool) -> (BTreeMap<String, Sensor>, u64) {
    let spool = ("hall".to_owned(), store.folder.path("spool").into());
    let config = StatusConfig {
        spools: has_spool.then_some(spool).into_iter().collect(),
        ..StatusConfig::default()
    };
    let before = store.reads.index.requests();
    let mut sensors = status(&store.archive, &config).await.unwrap();
    for it in sensors.values_mut() {
        for names in [&mut it.damaged, &mut it.unindexed, &mut it.dangling] {
            names.sort_unstable();
        }
        it.differing.sort_unstable();
    }
    (sensors, store.reads.index.requests() - before)
}

#[test]
fn a_summary_of_the_account_never_changes_what_status_returns() {
    for seed in [1, 2] {
        let (store, mut dice) = (Store::new(), Dice(seed));
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let all = fill(&store).await;
            store.age(3);
            roll_up(&store.archive).await.unwrap();
            // Lists, and the summary; otherwise the page of each day, too.
            let (_, requests) = counts(&store, false).await;
            assert_eq!(requests, 4);
            let summary = PathBuf::from(store.folder.path(SUMMARY));
            let mut saved = 0;
            for _ in 0..20 {
                let it = &all[dice.below(all.len() as u64) as usize];
                match dice.below(10) {
                    0..3 => drop(fs::remove_file(&it.path)),
                    3..6 => fs::write(&it.path, &it.bytes).unwrap(),
                    6 if it.path.exists() => fs::write(&it.path, &it.bytes[1..]).unwrap(),
                    7 => drop(accept(&store.archive).await.unwrap()),
                    8 => {
                        let entry = it.entry.clone();
                        record(&store.archive, [entry].into_iter()).await.unwrap();
                        let _ = fs::remove_file(&it.path);
                    }
                    _ => {
                        store.age(8);
                        roll_up(&store.archive).await.unwrap();
                    }
                }
                let has_spool = dice.below(2) == 1;
                let (with, few) = counts(&store, has_spool).await;
                let bytes = fs::read(&summary).unwrap();
                fs::remove_file(&summary).unwrap();
                let (without, many) = counts(&store, has_spool).await;
                fs::write(&summary, bytes).unwrap();
                assert_eq!(with, without, "seed {seed}");
                saved += many.saturating_sub(few);
            }
            assert!(saved > 0, "seed {seed}: no summary was used");
            // What is no summary is not used, and neither is one of another version.
            let (with, _) = counts(&store, true).await;
            for text in ["", "{}", r#"{"schema":2,"days":{}}"#] {
                fs::write(&summary, text).unwrap();
                assert_eq!(counts(&store, true).await.0, with);
            }
            roll_up(&store.archive).await.unwrap();
            assert_eq!(counts(&store, true).await.0, with);
        });
    }
}
