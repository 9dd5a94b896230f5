//! The report: what the five texts claim, measured again, as one page.
//!
//! ```text
//!   measure ───▶ results.json ──▶ render ──▶ index.html, and the claims in BENCHMARKS.md
//!   simulate ──▶ its cache misses
//! ```
//! `claims` has the texts' claims, `results` finds figures in a run by the names of its tables, `page` and `chart` render.

mod chart;
mod claims;
mod digits;
mod page;
mod results;

use crate::{append::ASSEMBLY, descriptor::virtual_address_bits, subjects::Subject};
use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use forebay_bench::{
    measure::{Report, Subject as _},
    method::{
        Effort,
        machine::ProcessorTime,
        table::{Cell, Table},
    },
};
use results::{Results, Simulation};
use serde::Serialize;
use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

/// Measure the five texts' claims and write a page on them.
///
/// Without arguments it measures, writes docs/report/results.json and docs/report/index.html, and fills in the claims in
/// BENCHMARKS.md. It refuses to measure while other programs are busy.
#[derive(Parser)]
#[command(name = "forebay-texts report")]
struct Args {
    /// Render these results instead of measuring
    results: Option<PathBuf>,

    /// Simulate the cache misses again, write them into RESULTS beside the figures that are there, and render: needs no quiet machine
    #[arg(long, requires = "results")]
    simulate: bool,

    /// Measure only, and write the results here
    #[arg(long, value_name = "FILE", conflicts_with = "results")]
    measure: Option<PathBuf>,

    /// The folder for the page
    #[arg(long, default_value = "docs/report")]
    out: PathBuf,

    /// Samples of each side
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,

    /// A tenth of the work in each sample: to check that it runs, not for figures
    #[arg(long)]
    quick: bool,

    /// Measure although other programs are busy; the page then says so
    #[arg(long)]
    busy: bool,
}

/// How a run was made.
#[derive(Serialize)]
struct Run {
    command: String,
    commit: String,
    date: String,
    seconds: u64,
    /// The part of the processors' time that other programs had meanwhile.
    others_percent: f64,
}

/// The results of a run, and how it was made.
#[derive(Serialize)]
struct Measured {
    #[serde(flatten)]
    report: Report,
    run: Run,
}

/// The command; its name is the first argument.
pub fn main(args: impl Iterator<Item = OsString>) -> Result<()> {
    let args = Args::parse_from(args);
    if let Some(results) = &args.results {
        let text = fs::read_to_string(results);
        let text = text.with_context(|| format!("reading {}", results.display()))?;
        let run = serde_json::from_str(&text);
        let mut run = Results(run.with_context(|| format!("in {}", results.display()))?);
        if args.simulate {
            let simulation = simulate(&args, results)?;
            run.put_simulation(simulation)?;
            let text = serde_json::to_string(&run.0)? + "\n";
            fs::write(results, text).with_context(|| format!("writing {}", results.display()))?;
        }
        for at in unknown(&run) {
            eprintln!("forebay-texts: not in these results: {at}");
        }
        return write(&run, &args.out);
    }
    let measured = measure(&args)?;
    let text = serde_json::to_string(&measured)? + "\n";
    let target = args.measure.clone();
    let target = target.unwrap_or_else(|| args.out.join("results.json"));
    make_folder_of(&target)?;
    fs::write(&target, &text).with_context(|| format!("writing {}", target.display()))?;
    let run = Results(serde_json::from_str(&text)?);
    let unknown = unknown(&run);
    ensure!(
        unknown.is_empty(),
        "claims name figures that no table has: {unknown:?}"
    );
    if args.measure.is_some() {
        return Ok(());
    }
    write(&run, &args.out)
}

/// The figures that claims name and no table has.
fn unknown(run: &Results) -> Vec<String> {
    let all = claims::all();
    let missing = all.iter().flat_map(claims::Claim::figures);
    let missing: BTreeSet<_> = missing
        .filter(|&at| !run.has(at))
        .map(|at| at.to_string())
        .collect();
    missing.into_iter().collect()
}

fn measure(args: &Args) -> Result<Measured> {
    let before = ProcessorTime::now()?;
    thread::sleep(Duration::from_secs(2));
    let others = ProcessorTime::now()?.others_percent(before);
    if others > page::OTHERS_LIMIT && !args.busy {
        bail!(
            "other programs have {others:.0} % of the processors: end them, or measure with --busy, and the page will say that it is not to be quoted"
        );
    }
    let effort = Effort {
        rounds: args.rounds.into(),
        quick: args.quick,
    };
    let mut report = Report::begin(effort)?;
    let (begun, before) = (Instant::now(), ProcessorTime::now()?);
    let subjects = &mut report.subjects;
    subjects.insert("machine".into(), vec![addresses()]);
    for subject in Subject::EACH {
        eprintln!("{:4} s: {}", begun.elapsed().as_secs(), subject.name());
        subjects.insert(subject.name(), subject.tables(effort)?);
    }
    let run = Run {
        command: command(args),
        commit: commit(),
        date: date(),
        seconds: begun.elapsed().as_secs(),
        others_percent: ProcessorTime::now()?.others_percent(before),
    };
    eprintln!(
        "{:4} s: done; others had {:.1} %",
        run.seconds, run.others_percent
    );
    Ok(Measured { report, run })
}

fn simulate(args: &Args, results: &Path) -> Result<Simulation> {
    let effort = Effort {
        rounds: 1,
        quick: args.quick,
    };
    Ok(Simulation {
        tables: Subject::Cache.tables(effort)?,
        command: format!(
            "{PROGRAM} {} --simulate{}",
            results.display(),
            flags(&[("--quick", args.quick)])
        ),
        commit: commit(),
        date: date(),
    })
}

const PROGRAM: &str = "cargo run --release -p forebay-texts -- report";

fn command(args: &Args) -> String {
    let flags = flags(&[("--quick", args.quick), ("--busy", args.busy)]);
    format!("{PROGRAM} --rounds {}{flags}", args.rounds)
}

/// Those that are set, as in a command.
fn flags(all: &[(&str, bool)]) -> String {
    let set = all.iter().filter(|(_, is_set)| *is_set);
    set.map(|(flag, _)| format!(" {flag}")).collect()
}

fn commit() -> String {
    said_by("git", &["describe", "--always", "--dirty"])
}

fn date() -> String {
    said_by("date", &["-u", "+%Y-%m-%d"])
}

/// What a program prints, or "unknown".
fn said_by(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    match output {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().into()
        }
        _ => "unknown".into(),
    }
}

/// The bits of a virtual address, which a stamped pointer depends on.
fn addresses() -> Table {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let bits = virtual_address_bits(&cpuinfo);
    let mut table = Table::new("machine: from /proc/cpuinfo", &["bits"]);
    let cell = bits.map_or(Cell::Unknown, |bits| Cell::number(bits.into(), 0));
    table.row("virtual addresses", vec![cell]);
    table
}

fn make_folder_of(file: &Path) -> Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))
}

/// Writes the page; and if it goes to docs/report, the claims into BENCHMARKS.md, and where they are into docs/background.md.
fn write(run: &Results, folder: &Path) -> Result<()> {
    let page = folder.join("index.html");
    make_folder_of(&page)?;
    let html = page::html(run, ASSEMBLY)?;
    fs::write(&page, html).with_context(|| format!("writing {}", page.display()))?;
    println!("{}", page.display());
    if folder == Path::new("docs/report") {
        fill("BENCHMARKS.md", &page::markdown(run))?;
        fill("docs/background.md", &page::places())?;
    }
    Ok(())
}

/// Replaces the text between two marks in a document.
fn fill(document: &str, text: &str) -> Result<()> {
    let reading = || format!("reading {document}");
    let all = fs::read_to_string(document).with_context(reading)?;
    let all = filled(&all, text).with_context(reading)?;
    fs::write(document, all).with_context(|| format!("writing {document}"))
}

const BEGIN: &str = "<!-- written by forebay-texts report -->\n";
const END: &str = "<!-- end -->\n";

/// A document with the text between two marks replaced.
fn filled(document: &str, text: &str) -> Result<String> {
    let (front, rest) = document.split_once(BEGIN).context("there is no mark")?;
    let (_, back) = rest.split_once(END).context("there is no second mark")?;
    Ok(format!("{front}{BEGIN}{text}{END}{back}"))
}

#[cfg(test)]
mod tests {
    use super::{
        claims::{Claim, NOT_SHOWN},
        results::{At, MISSES},
        *,
    };
    use serde_json::{Value, json};

    /// A run in which every figure of every claim is a number.
    fn whole_run() -> Value {
        let mut tables: Vec<Value> = Vec::new();
        for (number, at) in claims::all()
            .iter()
            .flat_map(claims::Claim::figures)
            .enumerate()
        {
            let At(title, row, columns) = at;
            let title = format!("{title}: and more");
            let here = tables.iter().position(|table| table["title"] == title);
            let which = here.unwrap_or_else(|| {
                tables.push(json!({"title": title, "columns": [], "rows": [], "notes": []}));
                tables.len() - 1
            });
            let table = &mut tables[which];
            for column in columns.split('|') {
                let list = table["columns"].as_array_mut().unwrap();
                if !list.iter().any(|it| it == column) {
                    list.push(json!(column));
                }
            }
            let rows = table["rows"].as_array_mut().unwrap();
            let row = row.split('|').next().unwrap();
            if !rows.iter().any(|it| it["name"] == row) {
                rows.push(json!({"name": row, "cells": (0..20).map(|i| 2 + number + i).collect::<Vec<_>>()}));
            }
        }
        json!({
            "machine": {"processor": "a processor", "load": "0.01"},
            "rooms": {"all": tables},
            "rounds": 9,
            "quick": false,
            "run": {"command": "a command", "commit": "c0ffee", "date": "2026-01-01", "others_percent": 0.5},
        })
    }

    /// The run without a row.
    fn without(mut run: Value, at: At) -> Results {
        for table in run["rooms"]["all"].as_array_mut().unwrap() {
            if table["title"].as_str().unwrap().split(": ").next() == Some(at.0) {
                let rows = table["rows"].as_array_mut().unwrap();
                rows.retain(|row| at.1.split('|').all(|name| row["name"] != name));
            }
        }
        Results(run)
    }

    #[test]
    fn a_claim_without_the_measurement_of_its_reason_says_not_shown_here() {
        let whole = Results(whole_run());
        assert!(unknown(&whole).is_empty(), "{:?}", unknown(&whole));
        let mut reasons = 0;
        for claim in claims::all() {
            let Some((_, of)) = claim.reason(&whole) else {
                continue;
            };
            reasons += 1;
            for &at in of {
                let run = without(whole_run(), at);
                assert!(claim.reason(&run).is_none(), "{}: {at}", claim.says);
                let page = page::html(&run, "").unwrap();
                let name = claim.says.replace('"', "&quot;");
                let begin = format!("<th scope=\"row\">{name}</th>");
                let row = page.split("<tr>").find(|row| row.starts_with(&begin));
                let cell = format!("<td data-name=\"Reason\"><span class=\"none\">{NOT_SHOWN}<");
                assert!(row.unwrap().contains(&cell), "{}: {at}", claim.says);
            }
        }
        assert!(reasons > 40, "{reasons} reasons");
    }

    #[test]
    fn the_page_has_every_claim_and_no_script_and_is_small() {
        let run = Results(whole_run());
        let page = page::html(&run, ASSEMBLY).unwrap();
        for claim in claims::all() {
            assert!(
                page.contains(&claim.says.replace('"', "&quot;")),
                "{}",
                claim.says
            );
        }
        assert!(page.contains("prefers-color-scheme: dark") && page.contains("<svg"));
        assert!(!page.contains("<script") && page.len() < 1 << 20);
        assert!(page.contains("a command") && page.contains("c0ffee"));
        assert!(!page.contains("busy machine"));
        let markdown = page::markdown(&run);
        let claimed = markdown.split("\n### ").next().unwrap();
        let rows = claimed.lines().filter(|line| line.starts_with("| "));
        assert_eq!(rows.count(), claims::all().len() + claims::TEXTS.len());
        assert!(markdown.contains("### driver/batches"));
    }

    #[test]
    fn a_page_from_a_busy_machine_says_so() {
        for share in [json!(20.0), Value::Null] {
            let mut run = whole_run();
            run["run"]["others_percent"] = share;
            let page = page::html(&Results(run), "").unwrap();
            assert!(page.contains("busy machine"));
        }
    }

    /// The simulation of a row's misses: the number of the row, from 1000.
    fn simulation(title: &str, rows: &[&str]) -> Simulation {
        let mut table = Table::new(format!("cache/{title}: simulated"), &["simulated misses"]);
        for (number, &row) in rows.iter().enumerate() {
            table.row(row, vec![Cell::number(1000.0 + number as f64, 0)]);
        }
        Simulation {
            tables: vec![table],
            command: "a simulating command".into(),
            commit: "5117".into(),
            date: "2026-02-02".into(),
        }
    }

    #[test]
    fn cache_misses_that_were_not_counted_are_simulated_and_marked() {
        let all = claims::all();
        let of = |claim: &&Claim| {
            claim
                .figures()
                .iter()
                .any(|at| at.0 == "ring/alone" && at.2 == MISSES)
        };
        let claim = all.iter().find(of).unwrap();
        let here = claim.here.as_ref().unwrap();
        let [one, other] = [0, 1].map(|which| claim.figures()[which]);
        let mut run = Results(whole_run());
        let counted = here.value(&run).unwrap().parts;
        run.put_simulation(simulation(one.0, &[one.1, other.1]))
            .unwrap();
        // Where the processor counts, nothing simulated is shown.
        let worth = here.value(&run).unwrap();
        assert_eq!((worth.parts, worth.is_simulated), (counted, false));
        assert!(!page::markdown(&run).contains(", simulated)"));
        // If one of two figures was not counted, both are simulated.
        for table in run.0["rooms"]["all"].as_array_mut().unwrap() {
            let is_it = table["title"].as_str().unwrap().starts_with("ring/alone: ");
            let columns = table["columns"].as_array().unwrap().iter();
            let misses = columns.clone().position(|name| name == MISSES);
            for row in table["rows"].as_array_mut().unwrap() {
                if is_it && row["name"] == one.1 {
                    row["cells"][misses.unwrap()] = Value::Null;
                }
            }
        }
        let worth = here.value(&run).unwrap();
        assert_eq!(
            (worth.parts, worth.is_simulated),
            (Some((1000.0, 1001.0)), true)
        );
        let (html, markdown) = (page::html(&run, "").unwrap(), page::markdown(&run));
        assert!(html.contains("simulated by valgrind: this machine does not count"));
        assert!(markdown.contains("(1000 and 1001, simulated)"));
        for text in [html, markdown] {
            assert!(text.contains("a simulating command") && text.contains("5117"));
        }
        // Without a simulation, nothing is shown.
        run.0["rooms"]["cache"] = Value::Null;
        assert!(here.value(&run).is_none());
    }

    #[test]
    fn only_the_text_between_the_marks_is_replaced() {
        let document = format!("a\n{BEGIN}old\n{END}b\n");
        let expected = format!("a\n{BEGIN}new\n{END}b\n");
        assert_eq!(filled(&document, "new\n").unwrap(), expected);
        assert!(filled("a\n", "new\n").is_err());
    }

    #[test]
    fn the_background_has_every_claim_and_where_it_is_measured() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let background = fs::read_to_string(root.join("docs/background.md")).unwrap();
        let places = page::places();
        assert_eq!(
            filled(&background, &places).unwrap(),
            background,
            "{places}"
        );
    }

    /// The published page is the rendering of the published results, and no claim names a figure that they do not have.
    #[test]
    fn the_published_page_is_that_of_the_published_results() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let Ok(results) = fs::read_to_string(root.join("docs/report/results.json")) else {
            return eprintln!("skipped: nothing is published yet");
        };
        let run = Results(serde_json::from_str(&results).unwrap());
        assert_eq!(unknown(&run), Vec::<String>::new());
        // The assembly is that of the compiler that measured.
        let cut = |page: &str| page.split("<h2>Assembly").next().unwrap().to_string();
        let page = fs::read_to_string(root.join("docs/report/index.html")).unwrap();
        assert!(
            cut(&page) == cut(&page::html(&run, ASSEMBLY).unwrap()),
            "render it again"
        );
        let benchmarks = fs::read_to_string(root.join("BENCHMARKS.md")).unwrap();
        assert!(
            benchmarks.contains(&page::markdown(&run)),
            "render it again"
        );
    }
}
