//! `--threads`: several threads that capture into one file, or each into its own.

use super::request::Request;
use crate::{
    args::{Capture as Flags, Criterion},
    usage::refuse,
};
use anyhow::Result;
use forebay_net::{
    open::Name,
    port::Port,
    session::{Control, Event, Output, Rotation, Session, SessionConfig, Summary},
    share::Publisher,
    threads::{Beside, Merged, ThreadsConfig, run_each},
};
use rustix::thread::sched_getaffinity;
use std::path::{Path, PathBuf};

/// Flags that contradict `--threads`, or that have no meaning with it.
pub fn refuse_odd(flags: &Flags, names: &[Name]) -> Result<()> {
    let it = &flags.threading;
    let Some(threads) = it.threads else {
        return Ok(());
    };
    match names {
        [Name::Interface(name)] if name == "any" => {
            return refuse(
                "--threads captures from one interface, and any is all of them. Name one with -i",
            );
        }
        [Name::Sim(_)] if it.fanout.is_some() => {
            return refuse(
                "--fanout is about the kernel: threads that read a simulated card take turns. Leave it out",
            );
        }
        [Name::Sim(spec)] if spec.virtual_clock => {
            return refuse("--threads needs real time: leave clock=virtual out");
        }
        [Name::Interface(_) | Name::Sim(_)] => {}
        _ => {
            return refuse(
                "--threads captures from one interface. Name one with -i, and no file with -r",
            );
        }
    }
    if let Some(cpus) = &it.cpus {
        let given = cpus.0.len();
        if given != threads {
            return refuse(format!(
                "--cpus names {given} of {threads} processors. Name one for each thread"
            ));
        }
        let allowed = sched_getaffinity(None);
        let refused = |&&cpu: &&u32| {
            let allowed = allowed.as_ref();
            allowed.is_ok_and(|allowed| !allowed.is_set(cpu as usize))
        };
        if let Some(cpu) = cpus.0.iter().find(refused) {
            return refuse(format!(
                "--cpus {cpu}: this process may not run there, or there is no such processor. taskset -p $$ shows which ones may be used"
            ));
        }
    }
    if it.per_thread {
        refuse_odd_files(flags)?;
    }
    Ok(())
}

/// Flags that need the packets of all threads in one place.
fn refuse_odd_files(flags: &Flags) -> Result<()> {
    if flags.write.as_deref().is_none_or(|path| path == "-") {
        return refuse("--per-thread writes one file a thread: name them with -w");
    }
    let printing = &flags.printing;
    let is_count = |it: &Criterion| matches!(it, Criterion::Packets(_));
    let given = [
        (printing.print || printing.json_lines, "--print"),
        (flags.sharing.share.is_some(), "--share"),
        (flags.sharing.serve.is_some(), "--serve"),
        (flags.recording.recorder.is_some(), "--recorder"),
        (flags.verify, "--verify"),
        (flags.count.is_some(), "-c"),
        (flags.autostop.iter().any(is_count), "-a packets"),
        (flags.keep_free.is_some(), "--keep-free"),
    ];
    match given.iter().find(|(is_given, _)| *is_given) {
        Some((_, flag)) => refuse(format!(
            "{flag} is about the packets of all threads, and --per-thread keeps them apart. Leave one of them out"
        )),
        None => Ok(()),
    }
}

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

impl Request<'_> {
    /// Whether each thread writes its own file.
    pub fn writes_each(&self) -> bool {
        self.flags.threading.per_thread
    }

    fn cpus(&self) -> Vec<u32> {
        let cpus = self.flags.threading.cpus.as_ref();
        cpus.map(|cpus| cpus.0.clone()).unwrap_or_default()
    }

    /// The ports of a session: with `--threads`, one that merges the packets of `ports`.
    pub fn merged(&self, ports: Vec<Box<dyn Port>>) -> Result<Vec<Box<dyn Port>>> {
        if self.flags.threading.threads.is_none() || self.writes_each() {
            return Ok(ports);
        }
        let config = ThreadsConfig {
            cpus: self.cpus(),
            filter: self.filter.clone(),
            snaplen: self.flags.snaplen,
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
    ) -> Result<(Session, Option<Each>)> {
        let Some(path) = self.flags.write.as_ref().filter(|_| self.writes_each()) else {
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
            return refuse("--threads: there is no port");
        };
        let beside = |(session, control, cpu, file)| Beside {
            session,
            control,
            cpu,
            file: Some(file),
        };
        let each = Each {
            first: (control, cpu, file),
            others: others.map(beside).collect(),
        };
        Ok((session, Some(each)))
    }
}

/// The sessions of `--per-thread` without the first.
pub struct Each {
    first: (Control, Option<u32>, String),
    others: Vec<Beside>,
}

impl Each {
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
