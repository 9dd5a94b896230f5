//! Three days of capturing (a day outside of `.ci/run`), on the virtual clock: files rotate, the disk keeps its free space, and neither memory nor descriptors grow.

use crate::support::*;
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

/// The anonymous memory of a process in KiB, and its number of descriptors.
fn sampled(pid: u32) -> Option<(u64, usize)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kib = line.trim().strip_suffix(" kB")?.parse().ok()?;
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count();
    Some((kib, descriptors))
}

/// The medians of samples.
fn typical(samples: &[(u64, usize)]) -> (u64, usize) {
    let (mut memory, mut descriptors): (Vec<_>, Vec<_>) = samples.iter().copied().unzip();
    memory.sort_unstable();
    descriptors.sort_unstable();
    (memory[memory.len() / 2], descriptors[descriptors.len() / 2])
}

/// Captures for this many days of virtual time on a disk of 24 MB. Returns the summary, and samples of each ten minutes, as far as they were read in time.
fn captured(days: u64, flags: &str) -> Option<(Value, Vec<(u64, usize)>)> {
    let (folder, mount) = Folder::with("small");
    let (metrics, control) = (folder.path("metrics.prom"), folder.path("control"));
    let line = format!(
        "capture -i sim:clock=virtual,rate=3kbit,size=imix -a duration:{} -w {mount}/a.pcapng \
         --store 4x64KiB --json --stats-interval 600 \
         -q --metrics-file {metrics} --control {control} {flags}",
        days * 24 * 3600
    );
    let mut capture = Command::new(FOREBAY);
    capture.args(words(&line));
    let mut run = children::with_small_disk(mount.as_ref(), "24M", &capture);
    run.stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(child) = run.spawn() else {
        children::skip("unshare");
        return None;
    };
    let mut child = Mortal(child);
    let (mut samples, mut last) = (Vec::new(), Value::Null);
    let stdout = BufReader::new(child.0.stdout.take().unwrap());
    for (number, line) in stdout.lines().enumerate() {
        last = object(&line.unwrap());
        samples.extend(sampled(child.0.id()));
        if number % 50 == 49 {
            // It may have ended by now.
            let _ = run!("control {control} status --json");
        }
    }
    let mut stderr = BufReader::new(child.0.stderr.take().unwrap());
    let mut log = String::new();
    std::io::Read::read_to_string(&mut stderr, &mut log).unwrap();
    let code = child.0.wait().unwrap().code();
    if code == Some(77) || log.contains("unshare") {
        children::skip("the right to mount a tmpfs");
        return None;
    }
    assert_eq!(code, Some(0), "{log}");
    let metrics = fs::read_to_string(metrics).unwrap();
    let names = ["files_written", "files_removed", "files_removed_for_space"];
    for name in names.into_iter().chain(["received", "written"]) {
        let metric = match name.starts_with("files") {
            true => format!("forebay_{name}_total{{"),
            false => format!("forebay_packets_{name}_total{{"),
        };
        let line = metrics.lines().find(|line| line.starts_with(&metric));
        let value = line
            .and_then(|line| line.rsplit(' ').next())
            .unwrap_or(name);
        assert_eq!(value, last[name].to_string(), "{name}");
    }
    Some((last, samples))
}

/// Captures for days with these flags, which must write this many files a day, or one more in all.
fn days_cost_nothing(flags: &str, files_a_day: u64) {
    let days = rounds(3);
    let Some((json, samples)) = captured(days, flags) else {
        return;
    };
    assert_eq!([&json["running"], &json["law_holds"]], [false, true]);
    assert!(
        json["ended_by"].is_null() && json["error"].is_null(),
        "{json}"
    );
    assert_eq!(json["received"], json["written"]);
    let [written, removed, for_space] = counts(
        &json,
        ["files_written", "files_removed", "files_removed_for_space"],
    );
    let files = days * files_a_day;
    assert!((files..files + 2).contains(&written), "{json}");
    assert!(removed + for_space > days * 10, "{json}");
    // The reports may be read late, so they show the state at some later time.
    assert!(samples.len() as u64 > 7 * days, "{samples:?}");
    let early = typical(&samples[samples.len() / 4..samples.len() / 2]);
    let late = typical(&samples[samples.len() * 3 / 4..]);
    println!("{flags}: {written} files; memory in KiB and descriptors: {early:?}, {late:?}");
    assert!(late.0 <= early.0 + 512, "{flags}: {samples:?}");
    // One more is open for a moment while a file is created or a client answered.
    assert!(late.1 <= early.1 + 2, "{flags}: {samples:?}");
}

#[test]
fn days_cost_neither_memory_nor_descriptors() {
    days_cost_nothing("-b interval:3600 --keep-free 50%", 24);
}

/// Whatever a file costs for good would be seen.
#[test]
fn neither_do_days_with_a_file_each_minute() {
    let flags = "-b duration:60 -b files:20 --keep-free 10% --compress zstd:1";
    days_cost_nothing(flags, 1440);
}
