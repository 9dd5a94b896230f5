//! `--threads`: several threads that capture into one file, or each into its own.

use super::request::Request;
use crate::usage::refuse;
use anyhow::Result;
use forebay_net::{
    port::Port,
    session::{Control, Event, Output, Rotation, Session, SessionConfig, Summary},
    share::Publisher,
    threads::{Beside, Merged, ThreadsConfig, run_each},
};
use std::path::{Path, PathBuf};

/// The name of the file of one of `threads` threads: `day-0.pcapng`. All numbers have the same length, so that no name equals a
/// numbered one of another thread's series.
fn name_of(path: &Path, number: usize, threads: usize) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let width = (threads - 1).max(1).to_string().len();
    let known = [".pcapng", ".pcap", ".cap", ".gz", ".zst"];
    let mut stem = &*name;
    while let Some(shorter) = known.iter().find_map(|ending| stem.strip_suffix(ending))
        && !shorter.is_empty()
    {
        stem = shorter;
    }
    if stem.len() == name.len()
        && let Some((before, _)) = name.rsplit_once('.')
        && !before.is_empty()
    {
        stem = before;
    }
    path.with_file_name(format!("{stem}-{number:0width$}{}", &name[stem.len()..]))
}

impl Request {
    fn cpus(&self) -> Vec<u32> {
        let cpus = self.threading.as_ref().map(|it| it.cpus.clone());
        cpus.unwrap_or_default()
    }

    /// The ports of a session: with `--threads`, one that merges the packets of `ports`.
    pub fn merged(&self, ports: Vec<Box<dyn Port>>) -> Result<Vec<Box<dyn Port>>> {
        if self.threading.is_none() || self.writes_each() {
            return Ok(ports);
        }
        let config = ThreadsConfig {
            cpus: self.cpus(),
            filter: self.session.filter.clone(),
            snaplen: self.session.snaplen,
            ..ThreadsConfig::default()
        };
        Ok(vec![Box::new(Merged::new(ports, &config, &self.clock())?)])
    }

    /// Opens the session; with `--per-thread`, the sessions of all threads: the first one, and the others.
    pub fn sessions(
        &self,
        ports: Vec<Box<dyn Port>>,
        config: SessionConfig,
        control: &Control,
        publisher: Option<Publisher>,
    ) -> Result<(Session, Option<PerThread>)> {
        let Some(path) = self.write.as_ref().filter(|_| self.writes_each()) else {
            let ports = self.merged(ports)?;
            let output = self.output()?;
            let (clock, control) = (self.clock(), control.clone());
            let session = match publisher {
                Some(it) => Session::open_shared(ports, output, config, clock, control, it),
                None => Session::open(ports, output, config, clock, control),
            }?;
            return Ok((session, None));
        };
        let (threads, cpus) = (ports.len(), self.cpus());
        let mut all = Vec::new();
        for (number, port) in ports.into_iter().enumerate() {
            let path = name_of(path, number, threads);
            let file = path.display().to_string();
            let output = match &self.rotation {
                Some(rotation) => Output::Series(Rotation {
                    path,
                    ..rotation.clone()
                }),
                None => Output::File(path),
            };
            let (config, control) = (config.clone(), Control::new()?);
            let session = Session::open(vec![port], output, config, self.clock(), control.clone())?;
            let cpu = cpus.get(number).copied();
            all.push((session, control, cpu, file));
        }
        let mut all = all.into_iter();
        let (Some((session, control, cpu, file)), others) = (all.next(), all) else {
            return refuse("--threads: there is no interface");
        };
        let beside = |(session, control, cpu, file)| Beside {
            session,
            control,
            cpu,
            file: Some(file),
        };
        let per_thread = PerThread {
            first: (control, cpu, file),
            others: others.map(beside).collect(),
        };
        Ok((session, Some(per_thread)))
    }
}

/// The sessions of `--per-thread` without the first.
pub struct PerThread {
    first: (Control, Option<u32>, String),
    others: Vec<Beside>,
}

impl PerThread {
    /// Runs the first session, `session`, and the others.
    pub fn run(
        self,
        session: Session,
        control: &Control,
        observe: &mut dyn FnMut(Event<'_>),
    ) -> Result<Summary> {
        let (its_control, cpu, file) = self.first;
        let mut all = vec![Beside {
            session,
            control: its_control,
            cpu,
            file: Some(file),
        }];
        all.extend(self.others);
        Ok(run_each(all, control, observe)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_a_name_that_keeps_the_ending() {
        let named = |path: &str, number, threads| {
            let name = name_of(Path::new(path), number, threads);
            name.display().to_string()
        };
        assert_eq!(named("a/day.pcapng", 0, 2), "a/day-0.pcapng");
        assert_eq!(named("day.x.pcap.gz", 1, 2), "day.x-1.pcap.gz");
        assert_eq!(named("day.log", 1, 2), "day-1.log");
        assert_eq!(named("day", 3, 12), "day-03");
        assert_eq!(named(".pcap", 1, 2), ".pcap-1");
        assert_eq!(named("day", 0, 1), "day-0");
    }
}
