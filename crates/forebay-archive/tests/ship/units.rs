//! The services and timers of `contrib/`.

use crate::common::{archive, captured, done, ok, places, run, status};
use forebay_testing::folder::Folder;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay-archive");

/// The units for the archive.
fn units() -> Vec<PathBuf> {
    let contrib = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib");
    let entries = fs::read_dir(contrib).unwrap();
    let mut paths: Vec<_> = entries.map(|it| it.unwrap().path()).collect();
    paths.retain(|it| name(it).starts_with("forebay-"));
    assert!(paths.len() >= 8, "{paths:?}");
    paths
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().display().to_string()
}

#[test]
fn units_are_valid_and_leave_little_exposed() {
    if Command::new("systemd-analyze")
        .arg("--version")
        .output()
        .is_err()
    {
        eprintln!("skipped: systemd-analyze is not installed");
        return;
    }
    let folder = Folder::new();
    let copies = units().into_iter().map(|path| {
        let text = fs::read_to_string(&path).unwrap();
        folder.file(
            &name(&path),
            text.replace("/usr/bin/forebay-archive", PROGRAM),
        )
    });
    let copies: Vec<String> = copies.collect();
    let mut verify = Command::new("systemd-analyze");
    let verify = verify.args(["verify", "--man=no"]).args(&copies);
    let (code, _, err) = done(verify.output().unwrap());
    assert!(code == 0 && !err.contains("forebay-"), "{err}");
    for unit in copies.iter().filter(|it| it.ends_with(".service")) {
        // In tenths: 2.0.
        let security = [
            "security",
            "--offline=true",
            "--no-pager",
            "--threshold=20",
            unit,
        ];
        let (code, out, err) = done(
            Command::new("systemd-analyze")
                .args(security)
                .output()
                .unwrap(),
        );
        assert_eq!(
            code,
            0,
            "{unit}: {}{err}",
            out.lines().last().unwrap_or_default()
        );
    }
}

#[test]
fn jobs_of_the_timers_run_as_their_units_start_them_and_leave_their_metrics() {
    let (folder, spool, to) = places();
    captured(&folder, "spool/a.pcapng", "count=100");
    ok(run(&["ship", &spool, &to, "--sensor", "hall", "--once"]));
    fs::create_dir(folder.path("forebay-archive")).unwrap();
    let known = ok(done(archive(&["--help"]).output().unwrap()));
    for path in units() {
        let name = name(&path);
        let Some(job) = name.strip_suffix("@.timer") else {
            continue;
        };
        let job = job.strip_prefix("forebay-").unwrap();
        if !known.contains(&format!("\n  {job} ")) {
            eprintln!("skipped: this version has no command {job}");
            continue;
        }
        let unit = fs::read_to_string(path.with_extension("service")).unwrap();
        let value = |key: &str| {
            let line = unit.lines().find_map(|it| it.strip_prefix(key));
            line.unwrap().trim_matches('"').to_owned()
        };
        let (variable, default) = {
            let line = value("Environment=");
            let (variable, default) = line.split_once('=').unwrap();
            (variable.to_owned(), default.replace("%%", "%"))
        };
        let line = value("ExecStart=").replace("/usr/bin/forebay-archive", PROGRAM);
        let line = line.replace("%S", &folder.path("")).replace("%i", "lab");
        // A shell and systemd split the words of such a variable in the same way.
        let start = |options: &str| {
            let mut shell = Command::new("sh");
            shell.args(["-c", &line]).env("FOREBAY_ARCHIVE", &to);
            done(shell.env(&variable, options).output().unwrap())
        };
        if default.is_empty() {
            assert_eq!(start("").0, 2, "without a rule, {job} does nothing");
            ok(start("--older-than 30000d"));
        } else {
            ok(start(&default));
        }
        let metrics = folder.path(&format!("forebay-archive/lab-{job}.prom"));
        let metrics = fs::read_to_string(metrics).unwrap();
        assert!(metrics.contains("forebay_job_exit_code{"), "{metrics}");
    }
    assert_eq!(status(&to)[0]["indexed"], 100);
}
