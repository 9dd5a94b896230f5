//! What the programs of this crate and of `forebay-texts` share: measuring the subjects that are named, and printing their tables.

use crate::method::{
    Effort,
    machine::Machine,
    processors::{self, OneProcessor},
    table::Table,
};
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use serde::Serialize;
use std::{
    collections::BTreeMap,
    fmt::{Debug, Display},
    io::{self, ErrorKind, Write},
};

/// What a program can measure.
pub trait Subject: Copy + Debug + PartialEq + ValueEnum + 'static {
    /// What the argument `all` stands for.
    const ALL: Self;
    /// Its members.
    const EACH: &[Self];

    /// Its tables.
    fn run(self, effort: Effort) -> Result<Vec<Table>>;

    /// As in arguments and results.
    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// Its tables, or one that says that it needs two processors.
    fn tables(self, effort: Effort) -> Result<Vec<Table>> {
        self.run(effort).or_else(|why| {
            ensure!(why.is::<OneProcessor>(), why);
            let mut table = Table::new(self.name(), &[]);
            table.skipped("all", &why);
            Ok(vec![table])
        })
    }
}

/// How to measure, as the command line has it.
#[derive(clap::Args)]
pub struct Flags {
    /// Samples of each side
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,

    /// A tenth of the work in each sample, and less memory: to check that it runs, not for figures
    #[arg(long)]
    quick: bool,

    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
}

/// The results of one run.
#[derive(Serialize)]
pub struct Report {
    schema: u32,
    machine: Machine,
    rounds: usize,
    quick: bool,
    /// The tables of each subject.
    #[serde(rename = "rooms")]
    pub subjects: BTreeMap<String, Vec<Table>>,
}

impl Report {
    /// Of no subject yet; this thread stays on the first processor from now on.
    pub fn begin(effort: Effort) -> Result<Report> {
        let machine = Machine::here()?;
        if let Some(&first) = machine.processors.first() {
            processors::pin(first)?;
        }
        Ok(Report {
            schema: 1,
            machine,
            rounds: effort.rounds,
            quick: effort.quick,
            subjects: BTreeMap::new(),
        })
    }
}

/// The standard output, and whether it is still open: a reader that closes it early, such as `head`, is not a failure.
struct Reader {
    reads: bool,
}

impl Reader {
    /// Prints a line, or lines.
    fn tell(&mut self, line: impl Display) -> Result<()> {
        match writeln!(io::stdout(), "{line}") {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => self.reads = false,
            result => result.context("writing to the standard output")?,
        }
        Ok(())
    }
}

/// Measures the subjects, and prints what was measured.
pub fn measure<S: Subject>(subjects: &[S], flags: &Flags) -> Result<()> {
    let effort = Effort {
        rounds: flags.rounds.into(),
        quick: flags.quick,
    };
    let mut reader = Reader { reads: true };
    let mut report = Report::begin(effort)?;
    if !flags.json {
        reader.tell(format_args!("{}\n", report.machine.lines()))?;
    }
    let subjects = match subjects.contains(&S::ALL) {
        true => S::EACH,
        false => subjects,
    };
    for subject in subjects {
        if !reader.reads {
            return Ok(());
        }
        let tables = subject.tables(effort)?;
        if !flags.json {
            tables.iter().try_for_each(|table| reader.tell(table))?;
        }
        report.subjects.insert(subject.name(), tables);
    }
    if flags.json {
        reader.tell(serde_json::to_string(&report)?)?;
    }
    Ok(())
}
