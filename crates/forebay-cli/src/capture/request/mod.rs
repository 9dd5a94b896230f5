//! Turns flags into a request for a capture, and rejects flags that contradict each other.

mod inputs;
mod recorder;
mod refusals;
pub mod rotation;

use crate::{
    args::Capture as Flags,
    control::place,
    output::Stream,
    privileges::{self, Identity},
    sandbox::{self, Needs, Sandbox},
    shares,
    usage::{Usage, refuse},
    verify::Verifying,
};
use anyhow::{Context, Result};
use forebay::standard;
use forebay::{
    store::{self, Limit},
    time::Clock,
};
use forebay_net::{
    filter::{Filter, View},
    format::Format,
    open::{self, Name, Opening, Options},
    port::{LinkType, Port},
    session::{Output, Rotation, SessionConfig},
    share::Publisher,
    units,
    verify::VerifyConfig,
};
use inputs::{names, parse_filter};
use refusals::{
    check_time, refuse_contradicting_name, refuse_odd_printing, refuse_odd_sharing,
    refuse_odd_threads,
};
use rotation::Limits;
use rustix::process::Pid;
use std::{
    fs::File,
    io::IsTerminal,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::MetadataExt,
    },
    path::Path,
    time::Duration,
};

/// A capture of up to this many packets is short: most of its time is spent starting, and waiting for the kernel's next block.
const FEW: u64 = 64;
/// Holds that many frames of 64 KiB, the longest that interfaces have; later frames are not needed.
const RING_FOR_FEW: u64 = 8 << 20;

pub struct Request<'a> {
    pub flags: &'a Flags,
    pub rotation: Option<Rotation>,
    pub count: Option<u64>,
    pub filter: Option<Filter>,
    /// The expression of `--trigger`.
    pub trigger: Option<Filter>,
    /// Memory for packets that are shared or kept.
    pub ring_bytes: u64,
    names: Vec<Name>,
    clock: Clock,
    options: Options,
    store: store::StoreConfig,
    pub user: Option<Identity>,
    stop_after: Option<Duration>,
    file_bytes: Option<u64>,
}

impl<'a> Request<'a> {
    pub fn from_flags(flags: &'a Flags) -> Result<Self> {
        let names = names(flags)?;
        if names.is_empty() && flags.dump == 0 {
            return refuse(
                "no port to capture from. Name one with -i, such as -i sim or -i eth0 (-D lists them), or a file with -r",
            );
        }
        refuse_contradicting_name(flags)?;
        if flags.command.is_some() && flags.write.as_deref().is_none_or(|it| it == "-") {
            return refuse("-z runs a program on files: name one with -w");
        }
        refuse_odd_sharing(flags, &names)?;
        if flags.keep_free.is_some() && flags.write.as_deref().is_none_or(|it| it == "-") {
            return refuse("--keep-free is about the disk of a file: name one with -w");
        }
        refuse_odd_threads(flags, &names)?;
        let limits = Limits::from_flags(flags)?;
        refuse_odd_printing(flags)?;
        let mut store = match &flags.store {
            Some(store) => store.clone(),
            None if names.iter().all(waits) => store_for_files(),
            None => store::StoreConfig::default(),
        };
        if let Some(limit) = flags.store_limit {
            let first = (store.buffers * store.buffer_bytes) as u64;
            if let Limit::Bytes(bytes) = limit
                && bytes < first
            {
                let (bytes, first) = (units::binary(bytes), units::binary(first));
                return refuse(format!(
                    "--store-limit {bytes} is less than the first buffers, {first}. Raise it, or lower --store"
                ));
            }
            store.limit = limit;
        }
        if flags.unbuffered {
            store.flush_every = Duration::ZERO;
        }
        store.sync = flags.sync;
        check_time(flags, &names)?;
        let filter = parse_filter(flags, &names)?;
        let trigger = recorder::trigger(flags, &names)?;
        let clock = open::clock(&names).map_err(|error| Usage(error.to_string()))?;
        let count = flags.count.into_iter().chain(limits.packets).min();
        let wants_few = count.is_some_and(|count| count <= FEW)
            && names.iter().all(|name| matches!(name, Name::Interface(_)));
        let is_immediate = flags.unbuffered || flags.printing.immediate_mode || wants_few;
        let request = Request {
            ring_bytes: recorder::ring_bytes(flags),
            names,
            clock,
            flags,
            rotation: limits.rotation,
            count,
            filter: filter.clone(),
            trigger,
            options: Options {
                incoming_only: false,
                reports_unfinished: false,
                time: flags.time,
                filter,
                ring_bytes: flags.ring.or(wants_few.then_some(RING_FOR_FEW)),
                promiscuous: !flags.not_promiscuous,
                snaplen: flags.snaplen,
                delay: Duration::from_millis(match is_immediate {
                    true => 10,
                    false => 100,
                }),
                one_link_type: is_classic(flags),
                stop_on_down: flags.stop_on_down,
                take_traffic: flags.take_traffic,
            },
            user: flags.user.as_deref().map(Identity::named).transpose()?,
            store,
            stop_after: limits.stop_after,
            file_bytes: limits.file_bytes,
        };
        if request.writes_stdout() && std::io::stdout().is_terminal() {
            return refuse("-w - would write packets to your terminal. Redirect it, or use a pipe");
        }
        request.refuse_reading_what_is_written()?;
        request.refuse_rotating_what_is_no_file()?;
        Ok(request)
    }

    /// Creating the output would empty the input, and reading would never end; a series would replace it before all of it is written
    /// again.
    fn refuse_reading_what_is_written(&self) -> Result<()> {
        if let Some(rotation) = &self.rotation {
            let is_read =
                |name: &&Name| matches!(name, Name::File(path) if rotation.replaces(path));
            return match self.names.iter().find(is_read) {
                Some(Name::File(path)) => refuse_overwriting(path),
                _ => Ok(()),
            };
        }
        let identity = |path: &Path, standard: BorrowedFd<'_>| {
            let metadata = if path == Path::new("-") {
                File::from(standard.try_clone_to_owned().ok()?).metadata()
            } else {
                std::fs::metadata(path)
            };
            let metadata = metadata.ok().filter(|metadata| metadata.is_file())?;
            Some((metadata.dev(), metadata.ino()))
        };
        let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
        let written = self.flags.write.as_deref();
        let Some(written) = written.and_then(|path| identity(path, stdout.as_fd())) else {
            return Ok(());
        };
        for name in &self.names {
            if let Name::File(path) = name
                && identity(path, stdin.as_fd()) == Some(written)
            {
                return refuse_overwriting(path);
            }
        }
        Ok(())
    }

    fn refuse_rotating_what_is_no_file(&self) -> Result<()> {
        match &self.rotation {
            Some(Rotation { path, .. }) if path.metadata().is_ok_and(|it| !it.is_file()) => {
                let path = path.display();
                refuse(format!(
                    "-w {path} is not a file, and -b, -C and -G need files. Name one with -w"
                ))
            }
            _ => Ok(()),
        }
    }

    /// Whether packets are printed.
    pub fn prints(&self) -> bool {
        let printing = &self.flags.printing;
        (printing.print || printing.json_lines || !self.has_output()) && !printing.only_count
    }

    /// Whether packets are offered to other programs.
    pub fn shares(&self) -> bool {
        self.flags.sharing.share.is_some() || self.flags.sharing.serve.is_some()
    }

    /// Whether packets are kept in memory, for other programs or for a recorder.
    pub fn publishes(&self) -> bool {
        self.shares() || self.flags.recording.recorder.is_some()
    }

    /// `--verify`.
    pub fn verifying(&self) -> Option<Verifying> {
        let config = VerifyConfig {
            outbound: !self.names.iter().any(Name::is_live),
            ..VerifyConfig::default()
        };
        self.flags.verify.then(|| Verifying::new(config))
    }

    /// Allocates the memory for these packets.
    pub fn publisher(&self) -> Result<Option<Publisher>> {
        let is_in_file = self.flags.write.is_some()
            && !is_classic(self.flags)
            && self.flags.recording.recorder.is_none();
        let publisher = self.publishes().then(|| match is_in_file {
            true => Publisher::in_buffers(self.ring_bytes, &self.store, self.flags.snaplen),
            false => Publisher::new(self.ring_bytes),
        });
        publisher.transpose().with_context(|| {
            let flag = match self.flags.recording.recorder {
                Some(_) => "--recorder",
                None if is_in_file => "--share-size, or --store if that is larger",
                None => "--share-size",
            };
            format!("{flag}: {} of memory", units::binary(self.ring_bytes))
        })
    }

    /// Whether packets go anywhere else than to the printed lines.
    pub fn has_output(&self) -> bool {
        self.flags.write.is_some() || self.shares()
    }

    /// Whether every source waits while its packets cannot be printed. On the virtual clock that costs no packet.
    pub fn all_wait(&self) -> bool {
        self.clock.is_virtual() || !self.names.iter().any(Name::is_live)
    }

    /// Whether packets come from several interfaces of this machine.
    pub fn captures_several(&self) -> bool {
        let live = self.names.iter().filter(|name| name.is_live());
        live.count() > 1 || self.names.iter().any(Name::is_any)
    }

    /// Whether each thread writes its own file.
    pub fn writes_each(&self) -> bool {
        self.flags.threading.per_thread
    }

    /// Objects go to standard output, or to standard error if packets go to standard output.
    pub fn json_stream(&self) -> Stream {
        match self.writes_stdout() || self.prints() {
            true => Stream::Error,
            false => Stream::Output,
        }
    }

    pub fn writes_stdout(&self) -> bool {
        self.flags.write.as_deref() == Some(Path::new("-"))
    }

    pub fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// Opens all ports. After opening the interfaces and connecting to shares, drops what only they need and enters the sandbox.
    /// Files are opened, and shares read, in it.
    pub fn open_ports(&self, helper: Option<Pid>) -> Result<(Vec<Box<dyn Port>>, Sandbox)> {
        let threading = &self.flags.threading;
        let begun = match (threading.threads, &self.names[..]) {
            (Some(threads), [name]) => {
                let mode = threading.fanout.unwrap_or_default();
                open::begin_members(name, &self.options, &self.clock, threads, mode)?
            }
            _ => open::begin(&self.names, &self.options, &self.clock)?,
        };
        privileges::shed(self.user.as_ref())?;
        shares::look_up_owners(&begun);
        self.create_output();
        let sandbox = self.enter_sandbox(helper);
        let ports = begun.into_iter().map(Opening::finish);
        let ports = ports.collect::<forebay::Result<Vec<_>>>()?;
        if let Some(user) = &self.user {
            user.assume()?;
        }
        self.refuse_other_link_types(&ports)?;
        Ok((ports, sandbox))
    }

    /// Creates the only output file, so that the sandbox can allow this file instead of its folder. Not with files, shares, `-y` and
    /// `--keep-free`, which may still fail, nor with `-Z`, whose user shall own the file.
    fn create_output(&self) {
        let is_open = |name: &Name| matches!(name, Name::Sim(_) | Name::Interface(_));
        if !self.names.iter().all(is_open) || self.flags.printing.linktype.is_some() {
            return;
        }
        let makes_names = self.rotation.is_some()
            || self.flags.recording.recorder.is_some()
            || self.writes_each();
        if let Some(path) = &self.flags.write
            && !makes_names
            && !self.writes_stdout()
            && self.user.is_none()
            && self.flags.keep_free.is_none()
        {
            sandbox::create_output(path);
        }
    }

    /// Before the first file is read; afterwards no interface can be opened. `helper` is the process group of `-z`.
    fn enter_sandbox(&self, helper: Option<Pid>) -> Sandbox {
        let needs = Needs {
            readers: self.flags.sharing.share.is_some(),
            identity: self.user.is_some(),
            helper,
            pins: self.flags.threading.cpus.is_some(),
            ..Needs::default()
        };
        let needs = needs.reading(self.names.iter().filter_map(Name::file));
        let needs = match (&self.rotation, &self.flags.write) {
            (Some(rotation), _) => needs.writing_beside(&rotation.path),
            (None, Some(path)) if self.flags.recording.recorder.is_some() || self.writes_each() => {
                needs.writing_beside(path)
            }
            (None, Some(path)) if !self.writes_stdout() => needs.writing(path),
            _ => needs,
        };
        let needs = match &self.flags.metrics_file {
            Some(path) => needs.writing_beside(path),
            None => needs,
        };
        // It was bound before, so it has a path.
        let control = self.flags.control.as_deref();
        let needs = match control.map(place::path_of) {
            Some(Ok(path)) => needs.removing(&path),
            _ => needs,
        };
        sandbox::enter(&self.flags.sandbox, &needs)
    }

    /// `-y`: the kernel offers one link type for each interface, and no other.
    fn refuse_other_link_types(&self, ports: &[Box<dyn Port>]) -> Result<()> {
        let Some(wanted) = &self.flags.printing.linktype else {
            return Ok(());
        };
        let wanted = wanted.to_ascii_uppercase();
        let wanted = wanted.strip_prefix("DLT_").unwrap_or(&wanted);
        for port in ports {
            for interface in port.interfaces() {
                let name = interface.link.names().map_or("unknown", |(name, _)| name);
                if name != wanted {
                    return refuse(format!(
                        "-y {wanted}: {} has packets of the type {name} only. Leave -y out",
                        port.name()
                    ));
                }
            }
        }
        Ok(())
    }

    /// `-L`: the link types of all interfaces and files.
    pub fn link_types(&self) -> Result<String> {
        let mut text = String::new();
        let mut is_inside = false;
        for name in &self.names {
            if !name.is_live() && !is_inside {
                self.enter_sandbox(None);
                is_inside = true;
            }
            let shown = match name.interface() {
                Some(interface) => interface.to_owned(),
                None => name.to_string(),
            };
            let (link, _) = open::link_of(name)?;
            text += &format!("Data link types for {shown} (use option -y to set):\n  {link}\n");
        }
        Ok(text)
    }

    /// The link type that a filter for the first port is compiled for; Ethernet if there is no port.
    pub fn link_of_first_port(&self) -> Result<(LinkType, View)> {
        match self.names.first() {
            None => Ok((LinkType::ETHERNET, View::Packet)),
            Some(name) => {
                if !name.is_live() {
                    self.enter_sandbox(None);
                }
                Ok(open::link_of(name)?)
            }
        }
    }

    pub fn output(&self) -> Result<Output> {
        if let Some(rotation) = &self.rotation {
            return Ok(Output::Series(rotation.clone()));
        }
        Ok(match &self.flags.write {
            None => Output::Count,
            Some(_) if self.flags.recording.recorder.is_some() => Output::Count,
            Some(_) if self.writes_stdout() => {
                Output::Stream(standard::output()?, "standard output".into())
            }
            Some(path) => Output::File(path.clone()),
        })
    }

    pub fn config(&self) -> SessionConfig {
        let shortest = Duration::from_millis(250);
        SessionConfig {
            snaplen: self.flags.snaplen,
            filter: self.filter.clone(),
            count: self.count,
            stop_after: self.stop_after,
            file_bytes: self.file_bytes,
            // A recorder's capture writes no file: the sessions that write its files keep the space.
            keep_free: self
                .flags
                .keep_free
                .filter(|_| self.flags.recording.recorder.is_none()),
            format: self.flags.format.map(|it| it.format),
            microseconds: self.flags.format.is_some_and(|it| it.microseconds),
            store: self.store.clone(),
            metadata: !self.flags.no_metadata,
            progress_every: self.flags.stats_interval.unwrap_or(shortest).min(shortest),
            ..SessionConfig::default()
        }
    }
}

/// Whether the output gets the classic format, and so has one link type.
fn is_classic(flags: &Flags) -> bool {
    let named = flags.write.as_deref().map(Format::of_path);
    flags.format.map(|it| it.format).or(named) == Some(Format::Pcap)
}

fn refuse_overwriting(path: &Path) -> Result<()> {
    let path = path.display();
    refuse(format!(
        "-w would overwrite {path} while it is read. Write to another file"
    ))
}

/// Whether the source waits while no buffer is empty. A file does, and so does a pipe; its producer may not.
fn waits(name: &Name) -> bool {
    matches!(name, Name::File(path) if path.as_os_str() != "-" && path.is_file())
}

/// If all sources wait, there need not be room for a burst: memory that was written before is faster than fresh memory.
fn store_for_files() -> store::StoreConfig {
    store::StoreConfig {
        buffers: 4,
        limit: Limit::Fixed,
        early_bytes: 1 << 20,
        ..store::StoreConfig::default()
    }
}
