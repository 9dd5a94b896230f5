//! The processors that this program may use, and keeping a thread on some of them.

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::{fmt, sync::OnceLock};

/// The processors that we might use when this was first asked, before any thread was pinned.
pub fn processors() -> Result<Vec<usize>> {
    static FIRST: OnceLock<CpuSet> = OnceLock::new();
    let set = match FIRST.get() {
        Some(set) => *set,
        None => {
            let set = sched_getaffinity(None).context("asking which processors may be used")?;
            *FIRST.get_or_init(|| set)
        }
    };
    let all = 0..CpuSet::MAX_CPU;
    Ok(all.filter(|&cpu| set.is_set(cpu)).collect())
}

/// Two processors.
pub type Cpus = (usize, usize);

/// The first two processors that we may use; [`OneProcessor`] if there is only one.
pub fn pair() -> Result<Cpus> {
    match processors()?[..] {
        [first, second, ..] => Ok((first, second)),
        _ => Err(OneProcessor.into()),
    }
}

/// A measurement that takes two threads cannot run here.
#[derive(Debug)]
pub struct OneProcessor;

impl fmt::Display for OneProcessor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("needs two processors")
    }
}

impl std::error::Error for OneProcessor {}

/// Keeps this thread on one processor.
pub fn pin(cpu: usize) -> Result<()> {
    keep_on(&[cpu])
}

/// Keeps this thread on some processors.
pub fn keep_on(cpus: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    sched_setaffinity(None, &set)
        .with_context(|| format!("keeping a thread on processors {cpus:?}"))
}
