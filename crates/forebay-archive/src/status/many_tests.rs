//! What upkeep costs with thousands of small segments.

use super::*;
use crate::{
    archive::{
        counted::Reads,
        faulty::{Faulty, Put},
    },
    compact::{CompactConfig, compact},
    expire::{ExpireConfig, expire},
    ledger::Entry,
    segment::{Pack, Packed, pack},
    table::{Rows, many_tests::used},
};
use forebay_testing::{dice::in_ci, folder::Folder};
use serde_json::json;
use std::{
    env::var,
    fs,
    path::Path,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::SystemTime,
};

/// Segments of a day: 300 in all, 5,000 where `CI` or `FOREBAY_LONG` is set, or N with `FOREBAY_LONG=N`.
static PER_DAY: LazyLock<u64> = LazyLock::new(|| {
    let all = match var("FOREBAY_LONG") {
        Err(_) if !in_ci() => 300,
        long => {
            let long = long.ok().and_then(|it| it.parse().ok());
            long.filter(|it| *it >= 300).unwrap_or(5000)
        }
    };
    all / DAYS / BATCH * BATCH
});
/// Segments on a merged page, in tests.
const MERGED: u64 = 300;
const DAYS: u64 = 5;
/// Segments in a commit, and on a page of the account.
const BATCH: u64 = 20;

/// A capture file with one packet of this time, in seconds since 1970.
pub(super) fn capture(time: u64, number: u64) -> Vec<u8> {
    let words = [
        0xa1b2_c3d4,
        4 << 16 | 2,
        0,
        0,
        65535,
        1,
        time as u32,
        0,
        60,
        60,
    ];
    let mut bytes: Vec<u8> = words.iter().flat_map(|it: &u32| it.to_le_bytes()).collect();
    bytes.extend([2; 52]);
    bytes.extend(number.to_le_bytes());
    bytes
}

/// It as a segment, and the bytes of this.
pub(super) fn packed(scratch: &str, time: u64, number: u64) -> (Packed, Vec<u8>) {
    let bytes = capture(time, number);
    let mut file = fs::File::create(scratch).unwrap();
    let options = Pack {
        sensor: "hall",
        compress: true,
    };
    let packed = pack(&bytes[..], &mut file, &options).unwrap();
    (packed, fs::read(scratch).unwrap())
}

/// The paths and lengths of all files below a folder.
fn files_below(folder: &str) -> Vec<(String, u64)> {
    let (mut folders, mut files) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let (path, about) = (entry.path(), entry.metadata().unwrap());
            let path = path.to_str().unwrap().to_owned();
            match about.is_dir() {
                true => folders.push(path),
                false => files.push((path, about.len())),
            }
        }
    }
    files
}

/// An archive whose requests are counted.
pub(super) struct Store {
    pub(super) folder: Folder,
    pub(super) archive: Archive,
    pub(super) reads: Arc<Reads>,
    writes: Arc<AtomicU64>,
}

/// The requests of a command: to the log, to segments, to everything else, and those that write; and the bytes that were read.
#[derive(Debug)]
#[expect(dead_code, reason = "all of it is printed")]
struct Cost {
    log: u64,
    segments: u64,
    others: u64,
    writes: u64,
    bytes: u64,
}

impl Store {
    pub(super) fn new() -> Store {
        let folder = Folder::new();
        let (reads, writes) = (Arc::<Reads>::default(), Arc::<AtomicU64>::default());
        let plain = Archive::open(&folder.path("to"), true).unwrap();
        let count = writes.clone();
        let put = Arc::new(move |_: &str| {
            count.fetch_add(1, Relaxed);
            Put::Done
        });
        let counted = plain.counted(&reads);
        Store {
            archive: counted.wrapped(|store| Arc::new(Faulty::over(store, put.clone()))),
            folder,
            reads,
            writes,
        }
    }

    fn totals(&self) -> [u64; 5] {
        let Reads {
            log,
            index,
            segments,
        } = &*self.reads;
        let bytes = log.bytes() + index.bytes() + segments.bytes();
        let requests = [log.requests(), segments.requests(), index.requests()];
        let [log, segments, index] = requests;
        [log, segments, index, self.writes.load(Relaxed), bytes]
    }

    async fn cost<T>(&self, what: &str, work: impl Future<Output = T>) -> (T, Cost) {
        let (before, cpu) = (self.totals(), used().0);
        let done = work.await;
        let (after, (cpu_after, memory)) = (self.totals(), used());
        let [log, segments, others, writes, bytes] =
            [0, 1, 2, 3, 4].map(|at| after[at] - before[at]);
        let cost = Cost {
            log,
            segments,
            others,
            writes,
            bytes,
        };
        let cpu = cpu_after - cpu;
        println!("{what}: {cost:?}, {cpu} ms of CPU, {memory} KiB of memory");
        self.print_sizes();
        (done, cost)
    }

    /// Prints the number and the bytes of the objects in each part of the archive.
    fn print_sizes(&self) {
        let mut parts: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for (path, len) in files_below(&self.folder.path("to")) {
            let part = ["/_delta_log/", "/index/", "/sensors/", "/segments/"];
            let part = part.into_iter().find(|it| path.contains(it));
            let (objects, bytes) = parts.entry(part.unwrap_or("/")).or_default();
            *objects += 1;
            *bytes += len;
        }
        println!("  objects and bytes: {parts:?}");
    }

    pub(super) fn write(&self, key: &str, bytes: &[u8]) {
        let path = self.folder.path(&format!("to/{key}"));
        fs::create_dir_all(Path::new(&path).parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Makes all records of sensors this old.
    pub(super) fn age(&self, days: u64) {
        for (path, _) in files_below(&self.folder.path("to/sensors")) {
            let file = fs::File::options().write(true).open(path).unwrap();
            let then = SystemTime::now() - Duration::from_hours(24 * days + 1);
            file.set_modified(then).unwrap();
        }
    }

    /// Stores segments with one packet each, their rows and the account, as `ship --announce` and `index` do. The first ones are 20 days old.
    /// Returns the date of the first ones that are 16 days old.
    async fn fill(&self) -> String {
        let now_s = now_ms() as u64 / 1000;
        let midnight = now_s - now_s % 86_400;
        let mut table = Table::open_or_create(&self.archive).await.unwrap();
        let (all, thousand) = (DAYS * *PER_DAY / BATCH, 1000 / BATCH);
        let mut before = used().0;
        for batch in 0..all {
            let (mut rows, mut entries) = (Vec::new(), Vec::new());
            let mut date = String::new();
            for number in batch * BATCH..(batch + 1) * BATCH {
                let apart = (86_400 / *PER_DAY).clamp(1, 60);
                let time = midnight - (20 - number / *PER_DAY) * 86_400 + number % *PER_DAY * apart;
                let (packed, bytes) = packed(&self.folder.path("scratch"), time, number);
                self.write(&packed.key, &bytes);
                segment::parse_key(&packed.key)
                    .unwrap()
                    .1
                    .clone_into(&mut date);
                entries.push(Entry::of(&packed.key, &packed.directory, packed.bytes));
                rows.push(Rows {
                    segment: packed.key,
                    files: packed.index,
                });
            }
            let page = json!({"schema": 1, "segments": entries}).to_string();
            let number = batch % (*PER_DAY / BATCH);
            self.write(
                &format!("sensors/hall/shipped/{date}/{number:04}.json"),
                page.as_bytes(),
            );
            assert_eq!(table.append(&rows).await.unwrap(), rows.len());
            // The first thousand segments, each tenth of all of them, and the last thousand.
            let done = batch + 1;
            if done == thousand || done % (all / 10) == 0 || done == all.saturating_sub(thousand) {
                let (cpu, memory) = used();
                let cpu = cpu - std::mem::replace(&mut before, cpu);
                let segments = done * BATCH;
                println!(
                    "{segments} segments: {cpu} ms of CPU since the last line, {memory} KiB of memory"
                );
            }
        }
        segment::date_and_hour((midnight - 16 * 86_400) * 1_000_000_000).0
    }

    async fn status(&self, what: &str, config: &StatusConfig) -> (Sensor, Cost) {
        let (sensors, cost) = self.cost(what, status(&self.archive, config)).await;
        let sensor = sensors.unwrap().remove("hall").unwrap();
        assert!(sensor.is_sound(), "{sensor:?}");
        (sensor, cost)
    }
}

/// The figures are in docs/archive-sizing.md. A list of a folder is one request here, however long it is.
#[test]
fn upkeep_costs_requests_for_days_and_only_expire_one_for_each_segment() {
    let store = Store::new();
    let run = async {
        let since = store.fill().await;
        let all = StatusConfig::default();
        let pages = DAYS * *PER_DAY / BATCH;
        // Pages that are merged, of a day and of all.
        let of_day = PER_DAY.div_ceil(MERGED);
        let merged = DAYS * of_day;
        // Files of the index that are merged: one for each day, or for each 128 files and more.
        let files = DAYS + pages / 128;
        let (before, cost) = store.status("status", &all).await;
        assert_eq!(
            (before.captured, before.indexed),
            (DAYS * *PER_DAY, DAYS * *PER_DAY)
        );
        let repeated = StatusConfig {
            sensors: vec!["hall".into(); 2],
            ..StatusConfig::default()
        };
        let (once, _) = store
            .status("status of a sensor named twice", &repeated)
            .await;
        assert_eq!(once, before);
        assert_eq!((cost.segments, cost.writes), (0, 0));
        // The lists of the index and of the records, and the pages.
        assert!((pages..=pages + 4).contains(&cost.others), "{cost:?}");

        store.age(3);
        let config = CompactConfig::default();
        let go_on = &mut |_: &[_], _: &_| true;
        let (done, cost) = store
            .cost("compact", compact(&store.archive, &config, go_on))
            .await;
        assert_eq!((done.unwrap().accounts.objects, cost.segments), (pages, 0));
        // Each page is read and asked for once, and each file of the index is read once.
        assert!(cost.others <= 4 * pages + merged + 5, "{cost:?}");
        // Pages, files of the index and as many commits, a checkpoint, and the summary.
        assert!(cost.writes <= 2 * files + merged + 5, "{cost:?}");
        let (_, cost) = store
            .cost("compact again", compact(&store.archive, &config, go_on))
            .await;
        // The list of turns, that of the records, and the summary. If the log has more than two checkpoints, the time of the store, too: what is
        // older than these may be deleted.
        assert!(cost.others <= 4 && cost.writes <= 2, "{cost:?}");

        let (after, cost) = store.status("status after compact", &all).await;
        assert_eq!(after, before);
        // Lists, and the summary.
        assert!(cost.segments == 0 && cost.others <= 4, "{cost:?}");
        // The summary and the log: below 400 bytes for each segment, where the account has 300.
        let bytes = cost.bytes;
        assert!(bytes < 400 * DAYS * *PER_DAY, "{cost:?}");
        let last = StatusConfig {
            since: Some(since),
            ..StatusConfig::default()
        };
        let (_, cost) = store.status("status of the last day", &last).await;
        assert!(cost.bytes <= bytes && cost.others <= 6, "{cost:?}");

        let older = ExpireConfig {
            older_than: Some(Duration::from_hours(24 * 18)),
            ..ExpireConfig::default()
        };
        let (done, cost) = store
            .cost("expire", expire(&store.archive, &older, &mut |_| {}))
            .await;
        let gone = done.unwrap().segments;
        assert!((*PER_DAY..=3 * *PER_DAY).contains(&gone), "{gone}");
        assert!(
            (gone..=gone + 2 * *PER_DAY + 4).contains(&cost.segments),
            "{cost:?}"
        );
        assert!(cost.others <= 8 * files, "{cost:?}");
        // The probe, a page a day, one commit, and the files that have other rows, too.
        assert!(cost.writes <= 3 * files + 4, "{cost:?}");
        store.age(8);
        let (done, cost) = store
            .cost(
                "compact after expire",
                compact(&store.archive, &config, go_on),
            )
            .await;
        let closed = done.unwrap().accounts.closed;
        assert!(
            (1..=3).contains(&closed) && cost.others <= 4 * DAYS + 4 * merged,
            "{closed} {cost:?}"
        );
        let (after, cost) = store.status("status after expire", &all).await;
        assert_eq!((after.captured, after.expired), (DAYS * *PER_DAY, gone));
        assert!(cost.segments == 0 && cost.others <= 4, "{cost:?}");
    };
    tokio::runtime::Runtime::new().unwrap().block_on(run);
}
