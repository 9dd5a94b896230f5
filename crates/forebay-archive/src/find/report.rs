//! What a search found and read, for people and as JSON, and the progress line.

use super::{
    Answer, Request,
    args::Args,
    plan::Plan,
    read::{Failed, Reading},
};
use crate::archive::{counted::Reads, printable};
use anyhow::{Context, Result};
use forebay_net::units::counted;
use serde_json::{Value, json};
use std::{
    io::{self, IsTerminal, Write},
    path::Path,
    time::{Duration, Instant},
};

/// The result of a search.
#[derive(Default)]
pub struct Outcome {
    pub plan: Plan,
    pub reading: Reading,
    /// Packets that were written, printed or counted.
    pub packets: u64,
    pub flows: Option<u64>,
    /// Packets that the sources lost, as marked in the output.
    pub lost: Option<u64>,
    /// Packets that the index alone answered.
    pub from_index: u64,
    /// The program that reads the output ended before all packets were written.
    pub reader_ended: bool,
}

/// Whether the reader of a pipe has ended, which is not an error.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().find_map(|it| it.downcast_ref::<io::Error>());
    io.is_some_and(|it| it.kind() == io::ErrorKind::BrokenPipe)
}

/// Prints the summary and the errors.
pub fn report(args: &Args, request: &Request, outcome: &Outcome, reads: &Reads) -> Result<()> {
    let mut errors = io::stderr().lock();
    for failed in &outcome.reading.failed {
        // Standard error may be closed: there is nowhere left to report that.
        let what = missing(failed, outcome);
        let _ = writeln!(errors, "forebay find: {}", printable(&what));
    }
    if args.json {
        let value = json(request, outcome, reads);
        let goes_to_stdout = !matches!(request.answer, Answer::Flows)
            && (args.write.as_deref() != Some(Path::new("-")))
            && (request.answer != Answer::Packets || args.write.is_some());
        let printed = match goes_to_stdout {
            true => writeln!(io::stdout(), "{value}"),
            false => writeln!(errors, "{value}"),
        };
        return match printed {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            printed => printed.context("writing the summary"),
        };
    }
    if args.quiet {
        return Ok(());
    }
    let Outcome { plan, reading, .. } = outcome;
    let mut lines = Vec::new();
    if args.explain {
        let (by_time, by_statistics, by_bloom) = (plan.by_time, plan.by_statistics, plan.by_bloom);
        let left = plan.files - by_time - by_statistics - by_bloom;
        lines.push(format!("index version  {}", plan.version));
        lines.push(format!("files          {} in the table", plan.files));
        for what in [
            format!("{by_time} outside the time range"),
            format!("{by_statistics} excluded by minimum and maximum"),
            format!("{by_bloom} excluded by bloom filters"),
            format!("{left} read"),
        ] {
            lines.push(format!("               {what}"));
        }
        lines.push(format!(
            "row groups     {} of {} read",
            plan.groups_read, plan.groups
        ));
        lines.push(format!(
            "rows           {} of {} may match",
            plan.rows, plan.rows_read
        ));
        lines.push(format!(
            "blocks         {} to read, {} bytes as stored",
            plan.blocks.len(),
            plan.bytes()
        ));
        for (name, of) in [
            ("log", &reads.log),
            ("index", &reads.index),
            ("segments", &reads.segments),
        ] {
            lines.push(format!(
                "read of {name:<8} {} bytes with {} requests",
                of.bytes(),
                of.requests()
            ));
        }
    }
    if request.answer != Answer::Plan {
        let found = match outcome.reader_ended {
            true => "written before the reader of the output ended",
            false => "found",
        };
        let packets = |count| counted(count, "packet", "packets");
        let mut line = format!("{} {found}", packets(outcome.packets));
        if let Some(flows) = outcome.flows {
            line += &format!(" in {}", counted(flows, "flow", "flows"));
        }
        line += &format!(
            "; {} and {} bytes of segments read",
            counted(reading.blocks, "block", "blocks"),
            reads.segments.bytes()
        );
        if let Some(lost @ 1..) = outcome.lost {
            line += &format!("; the sensors lost {} between them", packets(lost));
        }
        if reading.stopped {
            line += "; interrupted: later packets are missing";
        }
        if !reading.failed.is_empty() {
            let failed = counted(reading.failed.len() as u64, "segment", "segments");
            line += &format!("; {failed} could not be read whole");
        }
        lines.push(line);
    }
    for line in lines {
        let _ = writeln!(errors, "{line}"); // as above
    }
    Ok(())
}

/// The packets of a segment that may match.
fn may_match(failed: &Failed, plan: &Plan) -> u64 {
    let blocks = plan.blocks.iter();
    let blocks = blocks.filter(|it| it.segment == failed.segment);
    blocks.map(|it| it.packets).sum()
}

/// What is missing of a segment.
fn missing(failed: &Failed, outcome: &Outcome) -> String {
    let Failed {
        segment,
        error,
        lost,
        is_salvaged,
        ..
    } = failed;
    let all = may_match(failed, &outcome.plan);
    let found = outcome.reading.read.get(segment).copied().unwrap_or(0);
    let packets = counted(all, "packet that may match", "packets that may match");
    // A search may have ended before it reached all blocks.
    let rest = if found + lost == all {
        "; the rest is lost"
    } else {
        ""
    };
    match is_salvaged {
        _ if *lost == all => format!("{segment}: its packets are missing from the result: {error}"),
        true if found == all => {
            format!("{segment}: salvaged all {found} of its packets that may match: {error}")
        }
        true => format!("{segment}: salvaged {found} of its {packets}{rest}: {error}"),
        false => format!("{segment}: {lost} of its {packets} are missing from the result: {error}"),
    }
}

fn json(request: &Request, outcome: &Outcome, reads: &Reads) -> Value {
    let Outcome { plan, reading, .. } = outcome;
    let failed = reading.failed.iter().map(|it| {
        json!({
            "segment": &*it.segment,
            "error": it.error,
            "salvaged": it.is_salvaged,
            "packets": may_match(it, plan),
            "lost_packets": it.lost,
        })
    });
    json!({
        "packets": outcome.packets,
        "flows": outcome.flows,
        "packets_from_index": outcome.from_index,
        "lost": outcome.lost,
        "reader_ended": outcome.reader_ended,
        "interrupted": reading.stopped,
        "limited": request.limit.is_some_and(|limit| outcome.packets >= limit && request.answer == Answer::Packets),
        "failed_segments": failed.collect::<Vec<_>>(),
        "index": {
            "version": plan.version,
            "files": plan.files,
            "files_outside_time": plan.by_time,
            "files_excluded_by_statistics": plan.by_statistics,
            "files_excluded_by_bloom_filters": plan.by_bloom,
            "row_groups": plan.groups,
            "row_groups_read": plan.groups_read,
            "rows_read": plan.rows_read,
            "rows": plan.rows,
        },
        "blocks": { "planned": plan.blocks.len(), "planned_bytes": plan.bytes(), "read": reading.blocks, "read_bytes": reading.bytes, "packets_tested": reading.tested },
        "reads": { "log": reads.log.to_json(), "index": reads.index.to_json(), "segments": reads.segments.to_json() },
    })
}

/// A line on the terminal while blocks are read.
pub struct Progress {
    is_shown: bool,
    blocks: usize,
    bytes: u64,
    last: Instant,
    is_drawn: bool,
}

impl Progress {
    pub fn new(args: &Args, plan: &Plan) -> Progress {
        let prints = args.write.is_none() && !args.flows && !args.count;
        Progress {
            is_shown: !args.quiet && !prints && io::stderr().is_terminal(),
            blocks: plan.blocks.len(),
            bytes: plan.bytes(),
            last: Instant::now(),
            is_drawn: false,
        }
    }

    pub fn draw(&mut self, reading: &Reading) {
        if !self.is_shown || self.last.elapsed() < Duration::from_millis(200) {
            return;
        }
        self.last = Instant::now();
        self.is_drawn = true;
        let percent = (reading.bytes * 100)
            .checked_div(self.bytes)
            .unwrap_or(100)
            .min(100);
        let Reading {
            blocks, matched, ..
        } = reading;
        // Progress is not worth an error.
        let _ = write!(
            io::stderr(),
            "\r\x1b[K{percent} %: {blocks} of {} blocks read, {matched} packets found",
            self.blocks
        );
    }

    pub fn clear(&mut self) {
        if self.is_drawn {
            let _ = write!(io::stderr(), "\r\x1b[K"); // as above
        }
    }
}
