//! The programs between the two ends, and the pipeline that is run.

use super::roles::{READS, Role};
use crate::method::{
    process::{Ended, Fate, Running, in_role, program, version},
    processors::processors,
    table::Table,
};
use anyhow::{Context, Result};
use std::{
    os::fd::OwnedFd,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// How long a pipeline may last: it takes a few seconds.
const LIMIT: Duration = Duration::from_secs(60);

pub const NOTHING: &str = "nothing";
pub const LENT: &str = "limit: pages lent (vmsplice) and dropped (splice)";

/// What is between the ends.
pub enum Between {
    /// The producer's pipe is the consumer's.
    Nothing,
    /// A program of the system's.
    Program {
        name: &'static str,
        args: &'static [&'static str],
        /// The package that has it.
        debian: &'static str,
    },
    /// A process of ours.
    Ours(Role),
}

/// One of those compared.
pub struct Side {
    pub name: &'static str,
    pub between: Between,
    /// The producer, and the consumer.
    pub ends: (Role, Role),
}

/// What became of a pipeline.
pub struct Pipeline {
    /// From the start of the first to the end of the last.
    pub took: Duration,
    pub producer: Ended,
    /// The one between, if there is one.
    pub between: Option<Ended>,
    pub consumer: Ended,
}

/// Ours first, then the others, then nothing.
pub fn between(produce: &Role, consume: &Role) -> Vec<Side> {
    let program = |name, args, debian| Between::Program { name, args, debian };
    let all = [
        (
            "forebay pipe",
            Between::Ours(Role::Forebay { splice: true }),
        ),
        (
            "forebay pipe -C: every byte copied",
            Between::Ours(Role::Forebay { splice: false }),
        ),
        ("cat", program("cat", &[], "coreutils")),
        ("pv", program("pv", &["-q"], "pv")),
        ("pv -C", program("pv", &["-q", "-C"], "pv")),
        (
            "mbuffer",
            program("mbuffer", &["-q", "-m", "64M"], "mbuffer"),
        ),
        // Blocks of 10 KiB, its own choice, are too many for it.
        (
            "buffer",
            program("buffer", &["-m", "64m", "-s", "128k"], "buffer"),
        ),
        (NOTHING, Between::Nothing),
    ];
    let side = |(name, between)| Side {
        name,
        between,
        ends: (produce.clone(), consume.clone()),
    };
    all.into_iter().map(side).collect()
}

/// What the kernel allows for.
pub fn limits(produce: &Role, bytes: u64) -> [Side; 3] {
    let consume = Role::Consume { rate: None };
    let large = match *produce {
        Role::Produce { bytes, block, .. } => Role::Produce {
            bytes,
            block,
            large: true,
        },
        _ => produce.clone(),
    };
    [
        Side {
            name: "limit: nothing, a pipe of 1 MiB",
            between: Between::Nothing,
            ends: (large, consume.clone()),
        },
        Side {
            name: "limit: read and write, pipes of 1 MiB",
            between: Between::Ours(Role::Copy { block: READS }),
            ends: (produce.clone(), consume),
        },
        Side {
            name: LENT,
            between: Between::Nothing,
            ends: (Role::Lend { bytes }, Role::Discard),
        },
    ]
}

impl Between {
    fn command(&self) -> Result<Option<Command>> {
        Ok(match self {
            Between::Nothing => None,
            Between::Program { name, args, debian } => {
                let mut command = program(name, debian)?;
                command.args(*args);
                Some(command)
            }
            Between::Ours(role) => Some(in_role("pipe", role)?),
        })
    }
}

impl Side {
    /// Runs the pipeline once.
    pub fn run(&self) -> Result<Pipeline> {
        let cpus = processors()?;
        let between = self.between.command()?;
        let mut produce = in_role("pipe", &self.ends.0)?;
        let mut consume = in_role("pipe", &self.ends.1)?;
        let start =
            |name, command, stdout| Running::start(name, command, stdout, &cpus, Fate::Dies);
        let pipe = || std::io::pipe().context("making a pipe");
        let begun = Instant::now();
        let (mut out, into) = pipe()?;
        produce.stdin(Stdio::null());
        let producer = start("the producer", produce, Some(OwnedFd::from(into)))?;
        let mut middle = None;
        if let Some(mut command) = between {
            let (next, into) = pipe()?;
            command.stdin(std::mem::replace(&mut out, next));
            middle = Some(start(self.name, command, Some(OwnedFd::from(into)))?);
        }
        consume.stdin(out);
        let consumer = start("the consumer", consume, None)?;
        // The one between first: when it fails the others do, too, for that reason.
        let between = middle.map(|it| it.wait(LIMIT)).transpose()?;
        let producer = producer.wait(LIMIT)?;
        let consumer = consumer.wait(LIMIT)?;
        Ok(Pipeline {
            took: begun.elapsed(),
            producer,
            between,
            consumer,
        })
    }
}

/// A figure of each of the sides that ran and are of a kind.
pub fn figures<T>(
    sides: &[Side],
    results: &[Result<T>],
    is_of_kind: impl Fn(&Side) -> bool,
    figure: impl Fn(&T) -> Option<f64>,
) -> Vec<f64> {
    let those = sides
        .iter()
        .zip(results)
        .filter(|(side, _)| is_of_kind(side));
    let figures = those.filter_map(|(_, result)| figure(result.as_ref().ok()?));
    figures.collect()
}

pub fn is_rival(side: &Side) -> bool {
    matches!(side.between, Between::Program { .. })
}

/// Which programs of the system's were there.
pub fn note_versions(table: &mut Table, sides: &[Side]) {
    let mut versions = Vec::new();
    for side in sides {
        if let Between::Program { name, debian, .. } = side.between
            && let Some(version) = program(name, debian).ok().and_then(version)
            && !versions.contains(&version)
        {
            versions.push(version);
        }
    }
    if !versions.is_empty() {
        table.note(versions.join(", "));
    }
}
