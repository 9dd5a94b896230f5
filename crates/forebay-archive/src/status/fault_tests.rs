//! Commands on an archive whose store does not answer one of their requests.

use super::{many_tests::packed, *};
use crate::{
    archive::{
        StoreFault,
        faulty::{Faulty, Put},
    },
    compact::{CompactConfig, compact},
    expire::{ExpireConfig, Verdict, expire},
    hold::{self, Hold},
    index::{self, Row, flow::Flow},
    ledger::Entry,
    rebuild::rebuild,
    table::Rows,
    verify::{VerifyConfig, verify},
};
use anyhow::Error;
use forebay_net::port::LinkType;
use forebay_testing::folder::Folder;
use serde_json::json;
use std::{
    fs,
    path::Path,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::SystemTime,
};

/// Rows of a segment that does not exist: so many that a file with them is not read with one request.
fn dangling(time: u64) -> Rows {
    let row = |number: u16| {
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0]);
        frame.extend(number.to_be_bytes());
        frame.extend([10, 1, 0, 1, 0x90, 1, 0, 53, 0, 8, 0, 0]);
        Row {
            flow: Flow::of(LinkType::ETHERNET, &frame).0,
            first_ns: time * 1_000_000_000,
            last_ns: time * 1_000_000_000,
            packets: 1,
            ..Row::default()
        }
    };
    let date = segment::date_and_hour(time * 1_000_000_000).0;
    let sha256 = "7".repeat(64);
    let segment = format!("segments/sensor=hall/date={date}/hour=01/{sha256}.pcapng");
    let files = index::write((0..4000).map(row).collect(), "hall", &segment).unwrap();
    Rows { segment, files }
}

/// The midnight (UTC) at which the tests began, in seconds since 1970.
static MIDNIGHT: LazyLock<u64> = LazyLock::new(|| now_ms() as u64 / 86_400_000 * 86_400);

/// Six segments of two days, three weeks ago. The rows of all but the last one are in the index, in files with rows of several segments.
async fn fill(folder: &Folder) {
    let archive = Archive::open(&folder.path("base"), true).unwrap();
    let midnight = *MIDNIGHT;
    let mut table = Table::open_or_create(&archive).await.unwrap();
    let mut pages: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
    for numbers in [[0, 3], [1, 4], [2, 5]] {
        let mut batch = Vec::new();
        for number in numbers {
            let time = midnight - (21 - number / 3) * 86_400 + 3600 + number;
            let (packed, bytes) = packed(&folder.path("scratch"), time, number);
            archive.put(&packed.key, bytes.into()).await.unwrap();
            let date = segment::parse_key(&packed.key).unwrap().1.to_owned();
            let entry = Entry::of(&packed.key, &packed.directory, packed.bytes);
            // One is in no account.
            let known = (number != 1).then_some(entry);
            pages.entry(date).or_default().extend(known);
            if number != 5 {
                let (segment, files) = (packed.key, packed.index);
                batch.push(Rows { segment, files });
            }
        }
        if numbers[0] == 0 {
            batch.push(dangling(midnight - 20 * 86_400 + 3600));
        }
        table.append(&batch).await.unwrap();
    }
    for (date, segments) in pages {
        let page = json!({"schema": 1, "segments": segments}).to_string();
        let key = format!("sensors/hall/shipped/{date}/0000.json");
        archive.put(&key, page.into()).await.unwrap();
    }
}

/// Copies a folder. The files share their bytes and times: an archive replaces files, and never changes them.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (from, to) = entry
            .map(|it| (it.path(), to.join(it.file_name())))
            .unwrap();
        match from.is_dir() {
            true => copy(&from, &to),
            false => fs::hard_link(from, to).unwrap(),
        }
    }
}

/// Makes the files in a folder three days old.
fn age(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            age(&path);
            continue;
        }
        let then = SystemTime::now() - Duration::from_hours(72);
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(then).unwrap();
    }
}

const COMMANDS: [&str; 6] = ["status", "hold", "verify", "rebuild", "compact", "expire"];

/// An error that ended a command, or that it reported on the way, and whether the store was the cause.
type Failure = (String, bool);

fn failure(error: &Error) -> Failure {
    (format!("{error:#}"), StoreFault::is_cause(error))
}

/// Runs a command: what it did, or the errors.
async fn run(command: &str, archive: &Archive) -> Result<String, Vec<Failure>> {
    let mut errors = Vec::new();
    match try_run(command, archive, &mut errors).await {
        Ok(done) if errors.is_empty() => return Ok(done),
        Ok(_) => {}
        Err(error) => errors.push(failure(&error)),
    }
    Err(errors)
}

async fn try_run(command: &str, archive: &Archive, errors: &mut Vec<Failure>) -> Result<String> {
    let done = match command {
        "status" => {
            let sensors = status(archive, &StatusConfig::default()).await?;
            let unreadable = sensors.values().flat_map(|it| &it.unreadable);
            errors.extend(unreadable.map(|it| (it.clone(), true)));
            format!("{sensors:?}")
        }
        "hold" => {
            let hold = Hold::new("x", "", [None, None], &[])?;
            hold::segments(archive, &hold).await?.to_string()
        }
        "verify" => {
            let mut progress = |_: &_, error: Option<&Error>| {
                errors.extend(error.map(failure));
                true
            };
            let done = verify(archive, &VerifyConfig::default(), &mut progress).await?;
            format!("{done:?}")
        }
        "rebuild" => {
            let done = rebuild(archive, &mut |it| errors.push(failure(&it))).await?;
            format!("{done:?}")
        }
        "compact" => {
            let mut done = compact(archive, &CompactConfig::default(), &mut |_, _| true).await?;
            errors.extend(done.accounts_error.take().map(|it| (it, done.store_failed)));
            (done.made_bytes, done.merged_bytes) = (0, 0); // their names and times are packed, too
            format!("{done:?}")
        }
        _ => {
            // The noon between both days, whatever the time is now.
            let limit = *MIDNIGHT - 20 * 86_400 - 43_200;
            let config = ExpireConfig {
                older_than: Some(Duration::from_secs(now_ms() as u64 / 1000 - limit)),
                ..ExpireConfig::default()
            };
            let mut report = |it: Verdict<'_>| {
                if let Verdict::Failed(error) = it {
                    errors.push(failure(&error));
                }
            };
            format!("{:?}", expire(archive, &config, &mut report).await?)
        }
    };
    Ok(done)
}

/// The keys of the segments, and the counts.
async fn state(archive: &Archive) -> (Vec<String>, String) {
    let stored = archive.list(segment::FOLDER).await.unwrap();
    let mut stored: Vec<String> = stored.iter().map(|it| it.location.to_string()).collect();
    stored.sort_unstable();
    let counts = status(archive, &StatusConfig::default()).await.unwrap();
    (stored, format!("{counts:?}"))
}

#[test]
fn a_store_that_does_not_answer_is_no_damage_and_the_next_run_does_what_this_one_could_not() {
    let folder = Folder::new();
    let run = async {
        fill(&folder).await;
        age(&folder);
        let at = |name: &str| {
            copy(&folder.join("base"), &folder.join(name));
            Archive::open(&folder.path(name), false).unwrap()
        };
        for command in COMMANDS {
            let whole = at(&format!("{command}-whole"));
            let wanted = run(command, &whole).await.unwrap();
            let after = state(&whole).await;
            for number in 0.. {
                let plain = at(&format!("{command}-{number}"));
                let requests = Arc::<AtomicU32>::default();
                let asked = requests.clone();
                let is_away = Arc::new(move || asked.fetch_add(1, Relaxed) == number);
                let put = Arc::new(|_: &str| Put::Done);
                let archive = plain.wrapped(|store| {
                    Arc::new(Faulty::over(store, put.clone()).away(is_away.clone()))
                });
                let what = format!("{command}, request {number}");
                match run(command, &archive).await {
                    Ok(done) => assert_eq!(done, wanted, "{what}"),
                    Err(errors) => errors.iter().for_each(|it| check(it, &what)),
                }
                let stored = state(&plain).await.0;
                let has_all = after.0.iter().all(|it| stored.contains(it));
                assert!(has_all, "{what}: {stored:?}");
                run(command, &plain).await.unwrap();
                assert_eq!(state(&plain).await, after, "{what}");
                if requests.load(Relaxed) <= number {
                    assert!(number > 3, "{command}: {number} requests");
                    break;
                }
            }
        }
    };
    tokio::runtime::Runtime::new().unwrap().block_on(run);
}

fn check((text, is_of_store): &Failure, what: &str) {
    assert!(is_of_store, "{what}: {text}");
    assert!(!text.contains("damaged"), "{what}: {text}");
    assert_eq!(text.matches("503 Service").count(), 1, "{what}: {text}");
}
