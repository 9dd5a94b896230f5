//! Thousands of commits by one process.

use super::{tests::rows_of, *};
use crate::{
    archive::counted::Reads,
    compact::{CompactConfig, compact},
};
use forebay_testing::folder::Folder;
use std::time::SystemTime;
use std::{fs, sync::Arc};

/// The processor time of this process, in milliseconds, and its memory without the program itself, in KiB.
pub(crate) fn used() -> (u64, u64) {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let ticks = fields
        .split(' ')
        .skip(11)
        .take(2)
        .map(|it| it.parse::<u64>().unwrap());
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let memory = status
        .lines()
        .find_map(|it| it.strip_prefix("RssAnon:"))
        .unwrap();
    let memory = memory.trim().trim_end_matches(" kB").parse().unwrap();
    (ticks.sum::<u64>() * 10, memory)
}

/// The objects of the log, and their bytes: commits and checkpoints.
fn log_of(folder: &Folder) -> (u64, u64, u64) {
    let (mut objects, mut commits, mut checkpoints) = (0, 0, 0);
    for entry in fs::read_dir(folder.path("to/index/_delta_log")).unwrap() {
        let entry = entry.unwrap();
        let len = entry.metadata().unwrap().len();
        objects += 1;
        match entry.file_name().to_str().unwrap().ends_with(".json") {
            true => commits += len,
            false => checkpoints += len,
        }
    }
    (objects, commits, checkpoints)
}

/// `FOREBAY_LONG=N`: N commits, or 5,000, instead of 300.
#[test]
fn a_commit_costs_the_same_after_many_others_and_the_log_stays_in_proportion() {
    let count = match std::env::var("FOREBAY_LONG") {
        Ok(count) => count.parse().ok().filter(|it| *it >= 300).unwrap_or(5000),
        Err(_) => 300,
    };
    let folder = Folder::new();
    let plain = Archive::open(&folder.path("to"), true).unwrap();
    let reads = Arc::<Reads>::default();
    let archive = plain.counted(&reads);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut table = Table::open_or_create(&archive).await.unwrap();
        let step = count / 5;
        let (mut steps, mut before) = (Vec::new(), (reads.log.requests(), used()));
        for number in 0..count {
            let rows = rows_of(&format!("s{number}"), &format!("{number}"), 27);
            assert_eq!(table.append(&[rows]).await.unwrap(), 1);
            if (number + 1) % step == 0 {
                let now = (reads.log.requests(), used());
                let (requests, cpu) = (now.0 - before.0, now.1.0 - before.1.0);
                println!(
                    "after {}: {:.2} ms of CPU and {:.2} requests to the log a commit, {} KiB of memory",
                    number + 1, cpu as f64 / step as f64, requests as f64 / step as f64, now.1.1
                );
                steps.push(requests);
                before = now;
            }
        }
        let (objects, commits, checkpoints) = log_of(&folder);
        println!("{objects} objects of the log: {commits} bytes of commits, {checkpoints} of checkpoints");
        let files = table.files().unwrap();
        let bytes: u64 = files.iter().map(|it| it.bytes).sum();
        println!("{} files of the index: {bytes} bytes", files.len());
        // Two questions for each commit. A checkpoint is read back, after the store was asked for the time of its commit.
        assert!(steps.iter().all(|it| (2 * step..=2 * step + step / 10).contains(it)), "{steps:?}");
        assert!(checkpoints < 2 * commits, "{checkpoints}, {commits}");
        for entry in fs::read_dir(folder.path("to/index/_delta_log")).unwrap() {
            let file = fs::File::options().write(true).open(entry.unwrap().path()).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(2 * 86_400)).unwrap();
        }
        // Two runs: after the first one, its own checkpoint is the last one.
        for _ in 0..2 {
            compact(&archive, &CompactConfig::default(), &mut |_, _| true).await.unwrap();
        }
        let (objects, ..) = log_of(&folder);
        println!("{objects} objects of the log after compact");
        assert!(objects < 600, "{objects}");
        let opened = Table::open(&archive).await.unwrap().unwrap();
        let packets = opened.files().unwrap().into_iter().map(|it| it.packets.unwrap());
        let packets: u64 = packets.flat_map(BTreeMap::into_values).sum();
        assert_eq!(packets, count);
    });
}
