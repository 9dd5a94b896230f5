//! A year of an archive that gets 1 TB a day, by its metadata: how many requests and bytes a search and its upkeep need.
//!
//! ```console
//! $ FOREBAY_LONG=365 cargo test -p forebay-archive --test year -- --nocapture
//! ```
//! `FOREBAY_LONG` is the number of days, 3 or more.
//!
//! The log is whole. The index has files only for an hour of the oldest day and of another one, with few rows, and entries for all other days. Segments
//! exist only in lists, and as directories, and so do the other files of the index, and the account of the sensor, which is merged by day.
//! Without `FOREBAY_LONG` it is a small archive.

mod common;

use async_trait::async_trait;
use common::{json_of, run};
use forebay_archive::{
    archive::Archive,
    compact::{CompactConfig, compact},
    expire::{ExpireConfig, expire},
    index::{self, Row, flow::Flow},
    ledger::Entry,
    segment::{self, Block, Directory},
    status::{Sensor, StatusConfig, status},
    table::{Rows, Table},
};
use forebay_net::port::LinkType;
use forebay_testing::{dice::Dice, folder::Folder};
use futures::{StreamExt, stream::BoxStream};
use jiff::{Timestamp, ToSpan, civil::Date, tz::TimeZone};
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
    memory::InMemory, path::Path,
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime},
};

const SENSOR: &str = "hall";
/// An object store returns this many names with one request.
const PAGE: u64 = 1000;
/// The hours of a day with packets.
const HOURS: u64 = 23;

/// What is in the archive.
#[derive(Clone, Copy, Debug)]
struct Year {
    days: i64,
    /// Segments of 200 MB.
    segments: u64,
    /// Files of the index after `compact`, of 32 MiB.
    files: u64,
    first: Date,
}

impl Year {
    fn of(days: i64, segments: u64, files: u64) -> Year {
        let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
        Year {
            days,
            segments,
            files,
            first: today - days.days(),
        }
    }

    fn date(&self, day: i64) -> Date {
        self.first + day.days()
    }

    fn begin_ns(&self, day: i64) -> u64 {
        let midnight = self.date(day).to_zoned(TimeZone::UTC).unwrap();
        midnight.timestamp().as_nanosecond() as u64
    }

    /// When a segment or a file of the index begins: they are spread over the day, except its last hour.
    fn time(&self, day: i64, number: u64, of: u64) -> u64 {
        self.begin_ns(day) + number * (HOURS * 3_600_000_000_000 / of)
    }

    fn directory(&self, day: i64, number: u64) -> Directory {
        let first = self.time(day, number, self.segments);
        let block = |at: u64| Block {
            offset: at * (4 << 20),
            length: 4 << 20,
            plain_length: 4 << 20,
            packets: 5842,
            span: (first, first + 1_000_000_000),
        };
        Directory {
            sensor: SENSOR.into(),
            sha256: hash(day as u64, number),
            format: "pcapng".into(),
            plain_bytes: 48 * (4 << 20),
            packets: 48 * 5842,
            first_ns: Some(first),
            last_ns: Some(first + 1_000_000_000),
            blocks: (0..48).map(block).collect(),
            ..Directory::default()
        }
    }

    fn key(&self, day: i64, number: u64) -> String {
        let time = self.time(day, number, self.segments);
        let (date, hour) = segment::date_and_hour(time);
        let hash = hash(day as u64, number);
        format!("segments/sensor={SENSOR}/date={date}/hour={hour:02}/{hash}.pcapng")
    }

    /// The end of a segment: its directory. It is longer than its block of pcapng has to be, so that all have the same length.
    fn tail(&self, day: i64, number: u64) -> Vec<u8> {
        let mut json = self.directory(day, number).encode();
        assert!(json.len() <= TAIL_BYTES - 12);
        json.resize(TAIL_BYTES - 12, b' ');
        let len = (TAIL_BYTES as u32).to_le_bytes();
        [&0x8000_f0b5_u32.to_le_bytes(), &len[..], &json, &len].concat()
    }

    /// The segments of a day. Of the oldest one and of that in the middle, only those of an hour have rows, so there are no others: their
    /// files would take most of the time.
    fn numbers(&self, day: i64) -> impl Iterator<Item = u64> + use<> {
        let (year, is_real) = (*self, day == 0 || day == self.days / 2);
        (0..self.segments).filter(move |it| !is_real || it * HOURS / year.segments == 9)
    }

    fn object(&self, day: i64, number: u64) -> ObjectMeta {
        let time = self.time(day, number, self.segments);
        object(&self.key(day, number), TAIL_BYTES as u64, time)
    }

    /// The path in the table of a file that `compact` has made; the numbers from `files` on are those that it has removed.
    fn path(&self, day: i64, number: u64) -> String {
        let name = hash(day as u64, number);
        format!("date={}/part-{}.parquet", self.date(day), &name[..32])
    }

    /// The days whose files of the index have only entries in the log.
    fn logged(&self) -> impl Iterator<Item = i64> + use<> {
        let middle = self.days / 2;
        (1..self.days).filter(move |it| *it != middle)
    }

    fn index(&self) -> impl Iterator<Item = ObjectMeta> + use<> {
        let year = *self;
        let files = move |day| (0..year.files).map(move |it| (day, it));
        let object = move |(day, it)| {
            let key = format!("index/{}", year.path(day, it));
            object(&key, FILE_BYTES, year.begin_ns(day + 1))
        };
        self.logged().flat_map(files).map(object)
    }

    /// The key of the account of a day.
    fn account(&self, day: i64) -> String {
        let name = hash(day as u64, 0);
        format!("sensors/{SENSOR}/days/{}/{name}.json", self.date(day))
    }

    fn account_of(&self, day: i64) -> String {
        let entry = |it| {
            let directory = self.directory(day, it);
            Entry::of(&self.key(day, it), &directory, TAIL_BYTES as u64)
        };
        let entries: Vec<Entry> = self.numbers(day).map(entry).collect();
        json!({"schema": 1, "segments": entries}).to_string()
    }

    fn accounts(&self) -> impl Iterator<Item = ObjectMeta> + use<> {
        let year = *self;
        let len = self.account_of(0).len() as u64;
        (0..self.days).map(move |day| object(&year.account(day), len, year.begin_ns(day + 1)))
    }

    /// The day and the number of a segment that exists.
    fn segment(&self, key: &str) -> Option<(i64, u64)> {
        let (_, date, _) = segment::parse_key(key)?;
        let date: Date = date.parse().ok()?;
        let day = i64::from((date - self.first).get_days());
        let hour: u64 = key.split("hour=").nth(1)?.get(..2)?.parse().ok()?;
        let at = |hour: u64| hour * self.segments / HOURS;
        let mut numbers = at(hour).saturating_sub(1)..(at(hour + 1) + 1).min(self.segments);
        Some((day, numbers.find(|it| self.key(day, *it) == key)?))
    }

    /// The segments with rows in a file of the index.
    fn segments_of(&self, number: u64) -> std::ops::Range<u64> {
        let first = |number: u64| number * self.segments / self.files;
        first(number)..first(number + 1)
    }

    /// The rows of a segment: one, for all blocks.
    fn rows(&self, day: i64, number: u64) -> Rows {
        let mut dice = Dice((day as u64) << 32 | (number + 1));
        let first_ns = self.time(day, number, self.segments);
        // Hosts on both sides of the one that the search asks for.
        let host = dice.any() << 8 | if number.is_multiple_of(2) { 10 } else { 200 };
        let row = Row {
            flow: Flow::of(LinkType::ETHERNET, &udp(host)).0,
            block: (0, 4 << 20),
            first_ns,
            last_ns: first_ns + 1_000_000_000,
            packets: 48 * 5842,
            bytes: 48 * (4 << 20),
            ..Row::default()
        };
        let segment = self.key(day, number);
        Rows {
            files: index::write(vec![row], SENSOR, &segment).unwrap(),
            segment,
        }
    }
}

/// The length of a segment in this test, and of a file of the index that has only an entry in the log.
const TAIL_BYTES: usize = 4096;
const FILE_BYTES: u64 = 32 << 20;

fn object(key: &str, size: u64, time_ns: u64) -> ObjectMeta {
    ObjectMeta {
        location: Path::from(key),
        last_modified: (SystemTime::UNIX_EPOCH + Duration::from_nanos(time_ns)).into(),
        size,
        e_tag: None,
        version: None,
    }
}

/// 64 hexadecimal digits.
fn hash(a: u64, b: u64) -> String {
    let mut dice = Dice(a << 32 | (b + 1));
    (0..4).map(|_| format!("{:016x}", dice.any())).collect()
}

/// The headers of a packet of UDP from a host in 10.0.0.0/16.
fn udp(host: u64) -> Vec<u8> {
    let client = [10, 0, host as u8, (host >> 8) as u8];
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    frame.extend(client);
    frame.extend([100, 64, 7, 7, 0x90, 1, 0, 53, 0, 8, 0, 0]);
    frame
}

/// Requests of a kind for objects of a kind: their number, and the bytes that were returned or sent.
type Counts = BTreeMap<(&'static str, &'static str), (u64, u64)>;

/// A store in which the segments of the year exist, and which counts requests.
#[derive(Clone)]
struct Counting {
    year: Year,
    inner: Arc<dyn ObjectStore>,
    deleted: Arc<Mutex<HashSet<Path>>>,
    counts: Arc<Mutex<Counts>>,
}

impl Counting {
    fn count(&self, request: &'static str, path: &str, number: u64, bytes: u64) {
        let kind = match path {
            _ if path.contains("_delta_log") => "log",
            _ if path.starts_with("index") => "index",
            _ if path.starts_with("segments") => "segments",
            _ => "sensors",
        };
        let mut counts = self.counts.lock().unwrap();
        let count = counts.entry((kind, request)).or_default();
        *count = (count.0 + number, count.1 + bytes);
    }

    /// Prints what was counted since the last time.
    fn report(&self, what: &str, since: Instant) {
        println!("{what}: {:.1} s", since.elapsed().as_secs_f64());
        for ((kind, request), (number, bytes)) in std::mem::take(&mut *self.counts.lock().unwrap())
        {
            println!("  {kind:<9} {request:<7} {number:>9} requests {bytes:>13} bytes");
        }
    }

    fn listed(
        &self,
        prefix: Option<&Path>,
        after: Option<&Path>,
        all: BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let path = prefix.map_or(String::new(), Path::to_string);
        self.count("list", &path, 1, 0);
        let (store, year) = (self.clone(), self.year);
        let mut number = 0;
        let after = after.cloned();
        let is_after =
            move |it: &ObjectMeta| after.as_ref().is_none_or(|after| it.location > *after);
        let also = |all: BoxStream<'static, _>, mut more: Vec<ObjectMeta>| {
            more.retain(&is_after);
            all.chain(futures::stream::iter(more).map(Ok)).boxed()
        };
        let all = match path.as_str() {
            it if it.starts_with("segments") => {
                let of = path
                    .split_once("date=")
                    .and_then(|it| it.1.get(..10)?.parse().ok());
                let days = (0..year.days)
                    .filter(move |day| of.is_none_or(|it: Date| it == year.date(*day)))
                    .flat_map(move |day| year.numbers(day).map(move |it| year.object(day, it)));
                let deleted = self.deleted.lock().unwrap().clone();
                let there = days.filter(move |it| is_after(it) && !deleted.contains(&it.location));
                futures::stream::iter(there.map(Ok)).boxed()
            }
            "index" => also(all, year.index().collect()),
            "sensors" => also(all, year.accounts().collect()),
            _ => all,
        };
        all.inspect(move |_| {
            number += 1;
            if number % PAGE == 0 {
                store.count("list", &path, 1, 0);
            }
        })
        .boxed()
    }
}

impl fmt::Debug for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl fmt::Display for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for Counting {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let len = payload.content_length() as u64;
        self.count("put", location.as_ref(), 1, len);
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let kind = if options.head { "head" } else { "get" };
        let segment = self.year.segment(location.as_ref());
        let of_segment = segment.map(|(day, number)| self.year.tail(day, number));
        let mut days = 0..self.year.days;
        let is_of = |day: &i64| self.year.account(*day) == location.as_ref();
        let mut account = || Some(self.year.account_of(days.find(is_of)?).into());
        let is_page = location.as_ref().contains("/days/") && location.as_ref().ends_with(".json");
        let made: Option<Vec<u8>> = match is_page {
            true => account(),
            false => of_segment,
        };
        let found = match made {
            Some(bytes) => {
                let one = InMemory::new();
                one.put(location, bytes.into()).await?;
                one.get_opts(location, options).await
            }
            None => self.inner.get_opts(location, options).await,
        };
        let bytes = found.as_ref().map_or(0, |it| it.range.end - it.range.start);
        let bytes = if kind == "head" { 0 } else { bytes };
        self.count(kind, location.as_ref(), 1, bytes);
        found
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let store = self.clone();
        let delete = move |path: Result<Path>| {
            let store = store.clone();
            async move {
                let path = path?;
                store.count("delete", path.as_ref(), 1, 0);
                if segment::parse_key(path.as_ref()).is_some() {
                    store.deleted.lock().unwrap().insert(path.clone());
                } else {
                    store.inner.delete(&path).await?;
                }
                Ok(path)
            }
        };
        locations.then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listed(prefix, None, self.inner.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let listed = self.inner.list_with_offset(prefix, offset);
        self.listed(prefix, Some(offset), listed)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.count("list", prefix.map_or("", Path::as_ref), 1, 0);
        let mut listed = self.inner.list_with_delimiter(prefix).await?;
        let sensor = format!("segments/sensor={SENSOR}");
        let made: Vec<String> = match prefix.map_or("", Path::as_ref) {
            "segments" => vec![sensor],
            "sensors" => vec![format!("sensors/{SENSOR}")],
            it if it == sensor => {
                let deleted = self.deleted.lock().unwrap();
                let is_there = |day: &i64| {
                    let mut keys = self.year.numbers(*day).map(|it| self.year.key(*day, it));
                    keys.any(|it| !deleted.contains(&Path::from(it)))
                };
                let days = (0..self.year.days).filter(is_there);
                days.map(|it| format!("{sensor}/date={}", self.year.date(it)))
                    .collect()
            }
            _ => Vec::new(),
        };
        listed
            .common_prefixes
            .extend(made.into_iter().map(Path::from));
        Ok(listed)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// The segments whose rows exist: those of an hour of the oldest day, and of an hour in the middle.
fn real(year: &Year) -> [Vec<Rows>; 2] {
    let middle = year.days / 2;
    [0, middle].map(|day| year.numbers(day).map(|it| year.rows(day, it)).collect())
}

/// The commits of the year, one a day: as they are after `compact`, with the transactions and removals of the last seven days. The days
/// with files that exist are left out.
async fn write_log(archive: &Archive, year: &Year) {
    Table::open_or_create(archive).await.unwrap();
    let mut version = 0;
    for day in year.logged() {
        let date = year.date(day).to_string();
        let time_ms = year.begin_ns(day + 1) / 1_000_000;
        let path = |number: u64| year.path(day, number);
        let mut commit = json!({"commitInfo": {}}).to_string();
        let mut add = |action: Value| commit += &format!("\n{action}");
        let example = year.rows(day, 0).files.remove(0);
        let mut stats: Value = serde_json::from_str(&example.statistics.to_json()).unwrap();
        for number in 0..year.files {
            let segments = year.segments_of(number);
            let packets = (segments.end - segments.start) * 48 * 5842;
            let packets = json!({format!("{SENSOR}/{date}"): packets}).to_string();
            for (bound, time, segment) in [
                (
                    "minValues",
                    year.time(day, number, year.files),
                    segments.start,
                ),
                (
                    "maxValues",
                    year.time(day, number + 1, year.files) - 1,
                    segments.end - 1,
                ),
            ] {
                let stats = stats[bound].as_object_mut().unwrap();
                let random = hash(segment + 7, day as u64);
                for (name, value) in [
                    ("first_ns", time.into()),
                    ("last_ns", time.into()),
                    ("segment", Value::from(year.key(day, segment))),
                    ("community_id", format!("1:{}=", &random[..27]).into()),
                ] {
                    stats.insert(name.into(), value);
                }
            }
            add(json!({"add": {
                "path": path(number), "partitionValues": {"date": date}, "size": FILE_BYTES, "modificationTime": time_ms,
                "dataChange": false, "stats": stats.to_string(), "tags": {"forebay.packets": packets},
            }}));
        }
        for number in (0..year.segments).filter(|_| day >= year.days - 7) {
            let id = segment::identity(&year.key(day, number)).unwrap();
            let version = time_ms / 86_400_000 - 1;
            add(json!({"txn": {"appId": id, "version": version, "lastUpdated": time_ms}}));
            add(json!({"remove": {
                "path": path(number + year.files), "deletionTimestamp": time_ms, "dataChange": false,
                "extendedFileMetadata": true, "partitionValues": {"date": date}, "size": 1_200_000,
            }}));
        }
        version += 1;
        let key = format!("index/_delta_log/{version:020}.json");
        assert!(archive.put_new(&key, commit.into()).await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_year_by_its_metadata() {
    let year = match std::env::var_os("FOREBAY_LONG") {
        Some(days) => {
            let days = days.to_str().and_then(|it| it.parse().ok());
            Year::of(days.filter(|it| *it >= 3).unwrap_or(365), 5000, 185)
        }
        None => Year::of(20, 46, 23),
    };
    let folder = Folder::new();
    let to = folder.path("to");
    let plain = Archive::open(&to, true).unwrap();
    let since = Instant::now();
    write_log(&plain, &year).await;
    println!(
        "{year:?}: written in {:.1} s",
        since.elapsed().as_secs_f64()
    );
    let counts = Arc::<Mutex<Counts>>::default();
    let deleted = Arc::<Mutex<HashSet<Path>>>::default();
    let archive = plain.wrapped(|inner| {
        Arc::new(Counting {
            year,
            inner,
            deleted: deleted.clone(),
            counts: counts.clone(),
        })
    });
    let store = Counting {
        year,
        inner: plain.store().clone(),
        deleted: deleted.clone(),
        counts: counts.clone(),
    };
    let step = Instant::now();
    let mut table = Table::open(&archive).await.unwrap().unwrap();
    store.report("the log without a checkpoint is read", step);
    for rows in real(&year) {
        assert_eq!(table.append(&rows).await.unwrap(), rows.len());
        println!(
            "{} segments have rows, {:.1} s",
            rows.len(),
            step.elapsed().as_secs_f64()
        );
    }
    let files = table.files().unwrap().len() as u64;
    drop(table);
    let step = Instant::now();
    store.report("the files that exist, and a checkpoint", step);
    Table::open(&archive).await.unwrap().unwrap();
    store.report("the log with a checkpoint is read", step);

    // A host that is in no packet, in one hour. Its address lies among the others.
    let hour = format!("{}T09:00:00Z", year.date(year.days / 2));
    let end = hour.replace("T09", "T10");
    let step = Instant::now();
    let find = [
        "find",
        "--in",
        &to,
        "--from",
        &hour,
        "--to",
        &end,
        "--explain",
        "--json",
    ];
    let found = json_of(run(&[
        &find[..],
        &["host 10.0.77.256".replace("256", "0").as_str()],
    ]
    .concat()));
    println!("find: {:.1} s\n  {found}", step.elapsed().as_secs_f64());
    let outside = found["index"]["files_outside_time"].as_u64().unwrap();
    assert_eq!(outside, files - 1, "{found}");
    assert_eq!(found["reads"]["index"]["requests"], 1);

    // The oldest day.
    let end = year.begin_ns(1) - 1_800_000_000_000;
    let age = Timestamp::now().as_nanosecond() as u64 - end;
    let config = ExpireConfig {
        older_than: Some(Duration::from_nanos(age)),
        ..ExpireConfig::default()
    };
    let step = Instant::now();
    let expired = expire(&archive, &config, &mut |_| {}).await.unwrap();
    let oldest = year.numbers(0).count() as u64;
    assert_eq!((expired.segments, expired.not_deleted), (oldest, 0));
    store.report(&format!("expire of {oldest} segments"), step);
    let step = Instant::now();
    expire(&archive, &config, &mut |_| {}).await.unwrap();
    // It lists the records, the dates, and no segment that may not go.
    let requests: u64 = counts.lock().unwrap().values().map(|it| it.0).sum();
    assert!(requests <= 5, "{:?}", counts.lock().unwrap());
    store.report("expire of nothing", step);

    // Without a summary of the account, and with one, which the first `compact` makes.
    let since = format!("{}", year.date(year.days - 8));
    let all = counted_status(&store, &archive, "status without a summary", None).await;
    let config = CompactConfig::default();
    for what in ["compact, which sums up the account", "compact of nothing"] {
        let step = Instant::now();
        let done = compact(&archive, &config, &mut |_, _| true).await.unwrap();
        assert_eq!(done.merged, 0, "{done:?}");
        store.report(what, step);
    }
    let (sensor, days) = counted_status(&store, &archive, "status", None).await;
    assert_eq!(sensor, all.0);
    // The account of the last two days, and the summary.
    assert!(days <= 4, "{days}");
    counted_status(&store, &archive, "status --since 8d", Some(since)).await;
}

/// The counts, and the requests for records of the sensor, apart from lists.
async fn counted_status(
    store: &Counting,
    archive: &Archive,
    what: &str,
    since: Option<String>,
) -> (Sensor, u64) {
    let config = StatusConfig {
        since,
        ..StatusConfig::default()
    };
    let step = Instant::now();
    let sensor = status(archive, &config).await.unwrap().remove(SENSOR);
    let sensor = sensor.filter(Sensor::is_sound).unwrap();
    let of_sensor = store
        .counts
        .lock()
        .unwrap()
        .get(&("sensors", "get"))
        .copied();
    store.report(what, step);
    (sensor, of_sensor.map_or(0, |it| it.0))
}
