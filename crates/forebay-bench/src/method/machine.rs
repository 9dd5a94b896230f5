//! What the figures were measured on.

use super::{
    line,
    processors::{pair, processors},
};
use anyhow::{Context, Result};
use serde::Serialize;
use std::fs;

/// The machine and how it stood.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Processors that this program may use.
    pub processors: Vec<usize>,
    /// Its clock while measured, in GHz; it changes.
    pub ghz: Option<f64>,
    /// The kernel's release.
    pub kernel: String,
    /// What this program was built with, and for what.
    pub compiler: &'static str,
    /// The crates that are measured, with their versions.
    pub versions: &'static str,
    /// Whether anonymous memory gets huge pages, as the kernel says it.
    pub huge_pages: String,
    /// Processes that wanted to run, averaged over a minute, when this began.
    pub load: String,
    /// How long a cache line takes there and back between the first two processors, in nanoseconds.
    pub line_ns: Option<f64>,
}

impl Machine {
    /// This one.
    pub fn here() -> Result<Machine> {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let processors = processors()?;
        let line_ns = match pair() {
            Ok((first, second)) => Some(line::round_trip(first, second)?),
            Err(_) => None,
        };
        Ok(Machine {
            processor: text("/proc/cpuinfo")
                .lines()
                .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
                .map_or("unknown".into(), |(_, name)| name.trim().into()),
            processors,
            ghz: super::cycles::per_ns(),
            kernel: text("/proc/sys/kernel/osrelease").trim().into(),
            compiler: env!("FOREBAY_BENCH_COMPILER"),
            versions: env!("FOREBAY_BENCH_VERSIONS"),
            huge_pages: chosen(&text("/sys/kernel/mm/transparent_hugepage/enabled")),
            load: text("/proc/loadavg")
                .split(' ')
                .next()
                .unwrap_or_default()
                .into(),
            line_ns,
        })
    }

    /// In three lines.
    pub fn lines(&self) -> String {
        let ghz = self.ghz.map_or("?".into(), |ghz| format!("{ghz:.2}"));
        let line = match self.line_ns {
            Some(ns) => format!("a line there and back {ns:.0} ns: {}", line::Mode::of(ns)),
            None => "one processor: no rows for two threads".into(),
        };
        format!(
            "{}, {} processors, {ghz} GHz; {line}\nLinux {}, {}, huge pages {}, load {}\n{}",
            self.processor,
            self.processors.len(),
            self.kernel,
            self.compiler,
            self.huge_pages,
            self.load,
            self.versions
        )
    }
}

/// The word in brackets.
fn chosen(text: &str) -> String {
    text.split(['[', ']']).nth(1).unwrap_or("unknown").into()
}

/// Time of all processors so far, in the kernel's ticks.
#[derive(Clone, Copy)]
pub struct ProcessorTime {
    all: u64,
    /// Of it, what was not idle, and what this process and its children had.
    busy: u64,
    ours: u64,
    /// What the host gave to other machines while this one wanted it.
    stolen: u64,
}

impl ProcessorTime {
    pub fn now() -> Result<ProcessorTime> {
        let numbers = |text: &str| -> Vec<u64> {
            let words = text.split_whitespace();
            words.map(|word| word.parse().unwrap_or(0)).collect()
        };
        let stat = fs::read_to_string("/proc/stat").context("reading /proc/stat")?;
        let line = stat
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("cpu "));
        // user, nice, system, idle, waiting for a disk, interrupts (two kinds), stolen by the host; guests are in user.
        let ticks = numbers(line.context("/proc/stat has no processor")?);
        let all = ticks.iter().take(8).sum();
        let idle: u64 = ticks.iter().skip(3).take(2).sum();
        let own = fs::read_to_string("/proc/self/stat").context("reading /proc/self/stat")?;
        let fields = own.rsplit(')').next().unwrap_or_default();
        Ok(ProcessorTime {
            all,
            busy: all - idle,
            stolen: ticks.get(7).copied().unwrap_or(0),
            // utime, stime, and those of children: fields 14 to 17; this begins with the third.
            ours: numbers(fields).iter().skip(11).take(4).sum(),
        })
    }

    /// What others had since `before`, of all processors.
    pub fn others_percent(self, before: ProcessorTime) -> f64 {
        let (busy, ours) = (self.busy - before.busy, self.ours - before.ours);
        100.0 * busy.saturating_sub(ours) as f64 / (self.all - before.all).max(1) as f64
    }

    /// The share that the host gave to other machines since `before`.
    pub fn stolen_percent(self, before: ProcessorTime) -> f64 {
        100.0 * (self.stolen - before.stolen) as f64 / (self.all - before.all).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_choice_is_the_word_in_brackets() {
        assert_eq!(chosen("always [madvise] never\n"), "madvise");
        assert_eq!(chosen(""), "unknown");
    }

    #[test]
    fn a_machine_tells_what_it_is() {
        let machine = Machine::here().unwrap();
        assert!(!machine.processors.is_empty());
        assert!(machine.lines().contains("Linux "), "{}", machine.lines());
    }

    #[test]
    fn what_others_had_and_what_was_stolen_are_shares_of_all_time() {
        let before = ProcessorTime {
            all: 1000,
            busy: 500,
            ours: 100,
            stolen: 10,
        };
        let after = ProcessorTime {
            all: 1200,
            busy: 620,
            ours: 200,
            stolen: 14,
        };
        assert_eq!(after.others_percent(before), 10.0);
        assert_eq!(after.stolen_percent(before), 2.0);
    }
}
