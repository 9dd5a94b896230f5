//! Turns flags into a request for a capture, and rejects flags that contradict each other.
//!
//! A [`Request`] has final values only. The flags are consumed: afterwards nothing can read a value that another flag still changes.

mod contradictions;
mod inputs;
mod ports;
mod printing;
mod recorder;
mod refusals;
pub mod rotation;

use crate::{
    args::{self, Capture as Flags},
    habit,
    output::Stream,
    privileges::Identity,
    usage::{Usage, refuse},
    verify::Verifying,
};
use anyhow::{Context, Result};
use contradictions::refuse_contradictions;
use forebay::standard;
use forebay::{
    store::{self, Limit},
    time::Clock,
};
use forebay_net::{
    format::Format,
    open::{self, Name, Options},
    port::Fanout,
    session::{KeepFree, Output, Rotation, SessionConfig},
    share::{Publisher, ShareName},
    units,
    verify::VerifyConfig,
};
use inputs::{names, parse_filter, times};
pub use printing::Printing;
pub use recorder::FlightRecorder;
use refusals::{
    check_time, refuse_contradicting_name, refuse_odd_printing, refuse_odd_sharing,
    refuse_odd_threads, refuse_reading_what_is_written, refuse_rotating_what_is_no_file,
};
use rotation::Limits;
use std::{
    ffi::OsString,
    fs,
    io::IsTerminal,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

/// A capture of up to this many packets is short: most of its time is spent starting, and waiting for the kernel's next block.
const FEW: u64 = 64;
/// Holds that many frames of 64 KiB, the longest that interfaces have; later frames are not needed.
const RING_FOR_FEW: u64 = 8 << 20;
/// The longest time between two counts.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Capture,
    /// `-L`: prints link types.
    LinkTypes,
    /// `-d`: prints the filter's program, in one of three forms.
    Program(u8),
}

/// What is offered to other programs, with `--share` or `--serve`.
pub struct Offer {
    pub name: Option<ShareName>,
    pub group: Option<String>,
    /// Where TCP clients connect.
    pub address: Option<SocketAddr>,
}

/// `--threads`.
pub struct Threading {
    pub threads: usize,
    fanout: Fanout,
    /// One for each thread, or none.
    pub cpus: Vec<u32>,
    /// Each thread writes its own file.
    pub writes_each: bool,
}

/// Where a running capture is watched and controlled.
pub struct Watched {
    /// The name of the socket of `forebay control`.
    pub control: Option<OsString>,
    pub metrics: Option<SocketAddr>,
    pub metrics_file: Option<PathBuf>,
    /// The longest wait for the scrape of the final counts.
    pub metrics_wait: Duration,
}

pub struct Request {
    pub mode: Mode,
    /// No output about the capture but errors and losses.
    pub is_quiet: bool,
    pub is_verbose: bool,
    /// A name or port was in use, and the capture goes on without it.
    pub is_unserved: bool,
    /// The counts at the end are one JSON object.
    pub prints_object: bool,
    /// How often the counts are printed.
    pub report_every: Option<Duration>,
    pub fails_on_drop: bool,
    /// The file for packets; `-` is standard output.
    pub write: Option<PathBuf>,
    /// Files follow each other.
    pub rotation: Option<Rotation>,
    /// What stays free on the disk of the output.
    pub keep_free: Option<KeepFree>,
    /// The program that runs on each finished file.
    pub program: Option<OsString>,
    /// `None`: no packet is printed.
    pub printing: Option<Printing>,
    /// `--count`: packets are neither printed nor written.
    pub only_counts: bool,
    pub offer: Option<Offer>,
    pub recorder: Option<FlightRecorder>,
    /// Memory for packets that are shared or kept.
    pub ring_bytes: u64,
    pub threading: Option<Threading>,
    pub watched: Watched,
    /// The user that this process becomes.
    pub user: Option<Identity>,
    /// The session that captures. A flight recorder's sessions differ in few values.
    pub session: SessionConfig,
    /// Generated frames are checked.
    verifies: bool,
    is_classic: bool,
    names: Vec<Name>,
    clock: Clock,
    options: Options,
    /// The only link type that is accepted.
    link_type: Option<String>,
    sandbox: args::Sandbox,
}

impl Request {
    pub fn from_flags(flags: Flags) -> Result<Self> {
        let names = names(&flags)?;
        if names.is_empty() && flags.dump == 0 {
            let named =
                "Name one with -i, such as -i sim or -i eth0 (-D lists them), or a file with -r";
            let hint = habit::input(&flags.expression);
            return refuse(format!(
                "no interface to capture from. {}",
                hint.as_deref().unwrap_or(named)
            ));
        }
        refuse_contradictions(&flags)?;
        refuse_contradicting_name(&flags)?;
        refuse_odd_sharing(&flags, &names)?;
        refuse_odd_threads(&flags, &names)?;
        let limits = Limits::from_flags(&flags)?;
        refuse_odd_printing(&flags)?;
        let store = store_of(&flags, &names)?;
        check_time(&flags, &names)?;
        let filter = parse_filter(&flags, &names)?;
        let times = times(&flags, &names)?;
        let recorder = FlightRecorder::from_flags(&flags, &names)?;
        let clock = open::clock(&names).map_err(|error| Usage(error.to_string()))?;
        let count = flags.count.into_iter().chain(limits.packets).min();
        let wants_few = count.is_some_and(|count| count <= FEW)
            && names.iter().all(|name| matches!(name, Name::Interface(_)));
        let is_immediate = flags.unbuffered || flags.printing.immediate_mode || wants_few;
        let format = flags.format.map(|it| it.format);
        let is_classic =
            format.or(flags.write.as_deref().map(Format::of_path)) == Some(Format::Pcap);
        let is_offered = flags.sharing.share.is_some() || flags.sharing.serve.is_some();
        let has_output = flags.write.is_some() || is_offered;
        let request = Request {
            mode: match (flags.dump, flags.printing.list_data_link_types) {
                (1.., _) => Mode::Program(flags.dump),
                (0, true) => Mode::LinkTypes,
                (0, false) => Mode::Capture,
            },
            is_quiet: flags.quiet,
            is_verbose: flags.printing.verbose > 0,
            prints_object: flags.json,
            report_every: flags.stats_interval,
            fails_on_drop: flags.fail_on_drop,
            rotation: limits.rotation,
            keep_free: flags.keep_free,
            printing: Printing::from_flags(&flags, has_output)?,
            only_counts: flags.printing.only_count,
            ring_bytes: recorder::ring_bytes(&flags),
            session: SessionConfig {
                snaplen: flags.snaplen,
                filter: filter.clone(),
                count,
                stop_after: limits.stop_after,
                file_bytes: limits.file_bytes,
                // A recorder's capture writes no file: the sessions that write its files keep the space.
                keep_free: flags.keep_free.filter(|_| recorder.is_none()),
                format,
                microseconds: flags.format.is_some_and(|it| it.microseconds),
                store,
                metadata: !flags.no_metadata,
                progress_every: flags
                    .stats_interval
                    .unwrap_or(PROGRESS_EVERY)
                    .min(PROGRESS_EVERY),
                ..SessionConfig::default()
            },
            options: Options {
                incoming_only: false,
                reports_unfinished: false,
                time: flags.time,
                filter,
                reader_filters: true,
                times,
                ring_bytes: flags.ring.or(wants_few.then_some(RING_FOR_FEW)),
                promiscuous: !flags.not_promiscuous,
                snaplen: flags.snaplen,
                delay: Duration::from_millis(match is_immediate {
                    true => 10,
                    false => 100,
                }),
                one_link_type: is_classic,
                stop_on_down: flags.stop_on_down,
                take_traffic: flags.take_traffic,
            },
            is_unserved: false,
            user: flags.user.as_deref().map(Identity::named).transpose()?,
            recorder,
            verifies: flags.verify,
            is_classic,
            names,
            clock,
            link_type: flags.printing.linktype.map(|name| {
                let name = name.to_ascii_uppercase();
                name.strip_prefix("DLT_").unwrap_or(&name).into()
            }),
            write: flags.write,
            program: flags.command,
            offer: is_offered.then_some(Offer {
                name: flags.sharing.share,
                group: flags.sharing.share_group,
                address: flags.sharing.serve,
            }),
            threading: flags.threading.threads.map(|threads| Threading {
                threads,
                fanout: flags.threading.fanout.unwrap_or_default(),
                cpus: flags.threading.cpus.map_or(Vec::new(), |cpus| cpus.0),
                writes_each: flags.threading.per_thread,
            }),
            watched: Watched {
                control: flags.control,
                metrics: flags.metrics,
                metrics_file: flags.metrics_file,
                metrics_wait: flags.metrics_wait,
            },
            sandbox: flags.sandbox,
        };
        if request.writes_stdout() && std::io::stdout().is_terminal() {
            return refuse("-w - would write packets to your terminal. Redirect it, or use a pipe");
        }
        refuse_reading_what_is_written(
            &request.names,
            request.write.as_deref(),
            request.rotation.as_ref(),
        )?;
        refuse_rotating_what_is_no_file(request.rotation.as_ref())?;
        Ok(request)
    }

    /// Whether packets are printed.
    pub fn prints(&self) -> bool {
        self.printing.is_some()
    }

    /// Whether the last line on standard output is the number of packets.
    pub fn prints_count(&self) -> bool {
        self.only_counts && !self.prints_object
    }

    /// If nothing bounds the files of a series whose names repeat: after how many days they do.
    pub fn names_repeat_after_days(&self) -> Option<u64> {
        let rotation = self.rotation.as_ref()?;
        let bounds = [
            rotation.keep_files,
            rotation.keep_bytes,
            rotation.stop_after,
        ];
        let is_bounded = bounds.iter().any(Option::is_some) || self.keep_free.is_some();
        match is_bounded || self.session.stop_after.is_some() {
            true => None,
            false => rotation.repeat_after_days(self.clock.wall_now()),
        }
    }

    /// Whether packets go anywhere else than to the printed lines.
    pub fn has_output(&self) -> bool {
        self.write.is_some() || self.offer.is_some()
    }

    /// The name of the share.
    pub fn share_name(&self) -> Option<&ShareName> {
        self.offer.as_ref()?.name.as_ref()
    }

    /// `--verify`.
    pub fn verifying(&self) -> Option<Verifying> {
        let config = VerifyConfig {
            outbound: !self.names.iter().any(Name::is_live),
            ..VerifyConfig::default()
        };
        self.verifies.then(|| Verifying::new(config))
    }

    /// Any user can take a name or a port first. A capture that also writes a file or records then goes on without it, with a
    /// warning, and with exit code 1 at the end. `code` is what the system answered.
    ///
    /// # Errors
    /// `error`, if this is another one, or if the capture has no other output.
    pub fn goes_on(&mut self, code: Option<i32>, error: anyhow::Error) -> Result<()> {
        let has_output = self.write.is_some() || self.recorder.is_some();
        if code != Some(nix::libc::EADDRINUSE) || !has_output {
            return Err(error);
        }
        crate::output::warning(format_args!(
            "{error:#}. The capture goes on without it, and ends with exit code 1"
        ));
        self.is_unserved = true;
        Ok(())
    }

    /// Allocates the memory for packets that are kept, for other programs or for a recorder.
    pub fn publisher(&self) -> Result<Option<Publisher>> {
        if self.offer.is_none() && self.recorder.is_none() {
            return Ok(None);
        }
        let is_in_file = self.write.is_some() && !self.is_classic && self.recorder.is_none();
        let publisher = match is_in_file {
            true => {
                Publisher::in_buffers(self.ring_bytes, &self.session.store, self.session.snaplen)
            }
            // Readers in other processes accept only memory that is there.
            false if self.offer.is_some() => Publisher::new(self.ring_bytes),
            false => Publisher::growing(self.ring_bytes),
        };
        let publisher = publisher.with_context(|| {
            let flag = match self.recorder {
                Some(_) => "--recorder",
                None if is_in_file => "--share-size, or --store if that is larger",
                None => "--share-size",
            };
            format!("{flag}: {} of memory", units::binary(self.ring_bytes))
        })?;
        Ok(Some(publisher))
    }

    /// Whether every source waits while its packets cannot be printed. On the virtual clock that costs no packet.
    pub fn all_wait(&self) -> bool {
        self.clock.is_virtual() || !self.names.iter().any(Name::is_live)
    }

    /// Whether all packets come from files that have a name.
    pub fn reads_named_files(&self) -> bool {
        let is_named = |it: &Name| matches!(it, Name::File(path) if path.as_os_str() != "-");
        self.names.iter().all(is_named)
    }

    /// Whether all packets of regular files are taken: then there is never a wait for the next one.
    pub fn takes_all_of_regular_files(&self) -> bool {
        let is_regular = |it: &Name| match it {
            Name::File(path) => fs::metadata(path).is_ok_and(|it| it.is_file()),
            _ => false,
        };
        let takes_all = self.options.filter.is_none() && self.options.times.is_none();
        takes_all && self.reads_named_files() && self.names.iter().all(is_regular)
    }

    /// Whether packets come from several interfaces of this machine.
    pub fn captures_several(&self) -> bool {
        let live = self.names.iter().filter(|name| name.is_live());
        live.count() > 1 || self.names.iter().any(Name::is_any)
    }

    /// Whether each thread writes its own file.
    pub fn writes_each(&self) -> bool {
        self.threading.as_ref().is_some_and(|it| it.writes_each)
    }

    pub fn writes_stdout(&self) -> bool {
        self.write.as_deref() == Some(Path::new("-"))
    }

    /// Objects go to standard output, or to standard error if packets go to standard output.
    pub fn json_stream(&self) -> Stream {
        match self.writes_stdout() || self.prints() {
            true => Stream::Error,
            false => Stream::Output,
        }
    }

    /// Where objects about what happens during the capture go; `None`: nobody asked for them.
    pub fn object_stream(&self) -> Option<Stream> {
        let prints_objects = self.prints_object && self.report_every.is_some();
        prints_objects.then(|| self.json_stream())
    }

    pub fn clock(&self) -> Clock {
        self.clock.clone()
    }

    pub fn output(&self) -> Result<Output> {
        if let Some(rotation) = &self.rotation {
            return Ok(Output::Series(rotation.clone()));
        }
        Ok(match &self.write {
            None => Output::Count,
            Some(_) if self.recorder.is_some() => Output::Count,
            Some(_) if self.writes_stdout() => {
                Output::Stream(standard::output()?, "standard output".into())
            }
            Some(path) => Output::File(path.clone()),
        })
    }
}

/// Whether the source waits while no buffer is empty. A file does, and so does a pipe; its producer may not.
fn waits(name: &Name) -> bool {
    matches!(name, Name::File(path) if path.as_os_str() != "-" && path.is_file())
}

/// The buffers before the output.
fn store_of(flags: &Flags, names: &[Name]) -> Result<store::StoreConfig> {
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
    Ok(store)
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
