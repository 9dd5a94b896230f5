//! Three days of capturing, on the virtual clock: files rotate, the disk keeps its free space, and neither memory nor descriptors grow.

#[macro_use]
mod support;

use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};
use support::*;

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

/// Captures for 72 hours of virtual time on a disk of 24 MB. Returns the summary, and samples of each ten minutes, as far as they were read in time.
fn three_days(flags: &str) -> Option<(Value, Vec<(u64, usize)>)> {
    let folder = Folder::new();
    let mount = folder.path("small");
    let line = format!(
        "capture -i sim:clock=virtual,rate=3k,size=imix -a duration:259200 -w {mount}/a.pcapng \
         --store 4x64KiB --json --stats-interval 600 -q {flags}"
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
    for line in stdout.lines() {
        last = serde_json::from_str(&line.unwrap()).unwrap();
        samples.extend(sampled(child.0.id()));
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
    Some((last, samples))
}

#[test]
fn three_days_cost_neither_memory_nor_descriptors() {
    for (flags, files, all) in [
        ("-b interval:3600 --keep-free 50%", 72, true),
        // A file each minute: whatever a file costs for good would be seen.
        ("-b duration:60 -b files:20 --keep-free 10%", 4320, true),
        (
            "-b interval:3600 --keep-free 50% --compress zstd:1",
            72,
            false,
        ),
    ] {
        let Some((json, samples)) = three_days(flags) else {
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
        assert!((files..files + 2).contains(&written), "{json}");
        assert!(removed + for_space > 30 || !all, "{json}");
        // The reports may be read late, so they show the state at some later time.
        assert!(samples.len() > 20, "{samples:?}");
        let early = &samples[samples.len() / 4..samples.len() / 2];
        let late = &samples[samples.len() * 3 / 4..];
        let most = |part: &[(u64, usize)]| part.iter().map(|it| it.0).max().unwrap();
        let descriptors = |part: &[(u64, usize)]| part.iter().map(|it| it.1).max().unwrap();
        println!(
            "{flags}: {written} files, memory {} to {} KiB, {} to {} descriptors",
            most(early),
            most(late),
            descriptors(early),
            descriptors(late)
        );
        assert!(most(late) <= most(early) + 512, "{flags}: {samples:?}");
        assert!(
            descriptors(late) <= descriptors(early),
            "{flags}: {samples:?}"
        );
    }
}
