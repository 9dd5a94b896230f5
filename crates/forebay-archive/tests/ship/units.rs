//! The services, timers, alert rules and the dashboard of `contrib/`.

use crate::common::{archive, captured, done, lock, ok, places, run, status};
use forebay_testing::folder::Folder;
use serde_json::Value;
use std::{
    collections::BTreeSet,
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

/// Every name of a metric in a text.
fn metrics_in(text: &str) -> BTreeSet<&str> {
    let is_part = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    let words = text.split(|letter| !is_part(letter));
    let is_metric = |word: &&str| word.starts_with("forebay_") && word.len() > 14;
    words.filter(is_metric).collect()
}

#[test]
fn the_rules_and_the_dashboard_use_metrics_that_exist_and_are_documented() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text_of = |name: &str| fs::read_to_string(root.join(name)).unwrap();
    let dashboard: Value =
        serde_json::from_str(&text_of("contrib/grafana/forebay-archive.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|it| it["targets"].as_array().unwrap());
    let queries: Vec<String> = targets
        .map(|it| {
            let query = it["expr"].as_str().unwrap().replace("$sensor", ".*");
            let query = query
                .replace("$archive", ".*")
                .replace("$__rate_interval", "1m");
            query.replace("$__range", "1h")
        })
        .collect();
    assert!(queries.len() > 15 && !queries.iter().any(|it| it.contains('$')));

    // One file is shipped, and one waits.
    let (folder, spool, to) = places();
    captured(&folder, "spool/a.pcapng", "count=100");
    let waiting = captured(&folder, "spool/b.pcapng", "count=100,seed=2");
    let waiting = fs::File::options().write(true).open(waiting).unwrap();
    lock(&waiting);
    let [ship, job] = ["ship", "job"].map(|it| folder.path(it));
    let flags = ["--sensor", "hall", "--once", "--metrics-file", &ship];
    assert_eq!(run(&[&["ship", &spool, &to], &flags[..]].concat()).0, 1);
    ok(run(&["compact", &to, "--metrics-file", &job]));
    let written = [ship, job]
        .map(|it| fs::read_to_string(it).unwrap())
        .concat();
    let written = metrics_in(&written);
    let source = text_of("crates/forebay-archive/src/cli/metrics.rs");
    let rules = text_of("contrib/prometheus/forebay-archive.rules.yml");
    let queries_text = queries.join(" ");
    for name in metrics_in(&rules).union(&metrics_in(&queries_text)) {
        let is_there = match name.strip_prefix("forebay_index_") {
            Some(rest) => source.contains(&format!("\"{rest}\"")),
            None => written.contains(name),
        };
        assert!(is_there, "{name} is written by no command");
    }
    let pages = text_of("docs/archive-operate.md");
    for alert in rules.lines().filter_map(|it| it.split_once("alert: ")) {
        assert!(pages.contains(&format!("`{}`", alert.1)), "{}", alert.1);
    }

    // The expressions of the dashboard are valid.
    let lines = queries
        .iter()
        .map(|it| format!("      - record: a\n        expr: {it:?}\n"));
    let text = format!(
        "groups:\n  - name: a\n    rules:\n{}",
        lines.collect::<String>()
    );
    let file = folder.file("queries.yml", text);
    let Ok(checked) = Command::new("promtool")
        .args(["check", "rules", "--lint=none", &file])
        .output()
    else {
        eprintln!("skipped: promtool is not installed");
        return;
    };
    ok(done(checked));
}
