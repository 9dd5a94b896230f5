//! Subjects whose sides are processes: they have their rows, and leave no files.

use serde_json::Value;
use std::{
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// More than anything here takes.
const LIMIT: Duration = Duration::from_secs(120);

fn bench(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay-bench"));
    command.args(args).stdin(Stdio::null());
    command
}

/// Waits until `condition` gives something.
fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(begun.elapsed() < LIMIT, "{what}: not within {LIMIT:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn every_side_of_a_pipe_has_figures_or_says_why_not_and_ours_have_them() {
    let output = bench(&["pipe", "--quick", "--json"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let tables = report["rooms"]["pipe"].as_array().unwrap();
    assert_eq!(tables.len(), 3);
    for table in tables {
        let columns = table["columns"].as_array().unwrap().len();
        for row in table["rows"].as_array().unwrap() {
            let (name, cells) = (
                row["name"].as_str().unwrap(),
                row["cells"].as_array().unwrap(),
            );
            if cells.len() == columns {
                assert!(cells[0]["median"].as_f64().unwrap() > 0.0, "{name}");
                continue;
            }
            let why = cells[0].as_str().unwrap();
            assert!(why.starts_with("skipped: "), "{name}: {why}");
            let is_programs = ["cat", "pv", "pv -C", "mbuffer", "buffer"].contains(&name);
            assert!(is_programs, "{name}: {why}");
        }
    }
}

#[test]
fn captures_leave_no_file_behind_when_they_are_killed() {
    let mut running = bench(&["wire", "--quick"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let name = format!("forebay-bench-wire-{}", running.id());
    let folders = [
        Path::new("/dev/shm").join(&name),
        std::env::temp_dir().join(&name),
    ];
    let is_there = |file| folders.iter().any(|folder| folder.join(file).exists());
    // The one where there is a laboratory, the other where there is none.
    until("a file", || {
        ["captured", "simulated"].iter().any(is_there).then_some(())
    });
    running.kill().unwrap();
    running.wait().unwrap();
    until("nothing is left", || {
        folders.iter().all(|folder| !folder.exists()).then_some(())
    });
}
