//! A flight recorder: keeps the last packets of a capture in memory, and writes those around a trigger to a file.
//!
//! ```text
//!  session ──▶ Publisher ──▶ ring: the last packets
//!                              │ trigger at t
//!                              └──▶ tap: t − before … t + after ──▶ session ──▶ FILE_00001_…
//! ```
//! One tap reads both what came before the trigger and what comes after it, so nothing between is lost or written twice. What is
//! overwritten before the tap has read it is counted as lost, in the file's own ledger.
//!
//! A trigger during a recording extends it: the file ends `after` the last trigger. Each file begins `before` its first trigger, so
//! two files that follow each other closely hold some packets both.

#[cfg(test)]
mod tests;

use crate::{
    filter::{Filter, Programs, bpf::Program},
    ledger::Ledger,
    port::{Frame, Interface, LinkType},
    session::{Control, Output, Session, SessionConfig, Summary, numbered_names},
    share::{Begin, End, Source, TapConfig},
};
use forebay::{Error, Result, time::Clock};
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread::JoinHandle,
    time::Duration,
};

/// Files that may be unfinished at the same time: one that is recorded, and others that a slow disk still writes.
const MAX_UNFINISHED: usize = 4;
/// Files whose counts are kept.
const MAX_CUTS: usize = 1000;
/// How often the end looks whether it is to give up.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Settings of a recorder.
#[derive(Clone, Debug)]
pub struct RecorderConfig {
    /// Names the files: `a.pcapng` becomes `a_00001_20261121143000.pcapng`, and so on, with the local time of the trigger.
    pub path: PathBuf,
    /// How much before the trigger is written; `None`: all that is in memory.
    pub before: Option<Duration>,
    /// How much after the trigger is written.
    pub after: Duration,
    /// Settings of the sessions that write the files.
    pub session: SessionConfig,
}

/// Writes the packets around each trigger to a new file.
///
/// ```
/// use forebay_net::{open, recorder::{Event, Recorder, RecorderConfig}, session::{Control, Output, Session, SessionConfig}};
/// use forebay_net::share::Publisher;
///
/// let folder = std::env::temp_dir().join(format!("recorder-{}", std::process::id()));
/// std::fs::create_dir_all(&folder).unwrap();
/// let names = ["sim:rate=1M,count=1000".parse()?]; // takes half a second
/// let clock = open::clock(&names)?;
/// let ports = open::ports(&names, &Default::default(), &clock)?;
/// let publisher = Publisher::new(1 << 20)?;
/// let source = publisher.source();
/// let control = Control::new()?;
/// let session = Session::open(ports, Output::Count, SessionConfig::default(), clock, control.clone())?.share(publisher);
/// let config = RecorderConfig {
///     path: folder.join("a.pcapng"),
///     before: None,
///     after: std::time::Duration::from_secs(1),
///     session: SessionConfig::default(),
/// };
/// let recorder = Recorder::start(&source, config, |event| if let Event::Ended(cut) = event { println!("{}", cut.path.display()) })?;
/// let trigger = recorder.trigger();
/// trigger.pull_now();
/// session.run(&mut |_| {});
/// let recorded = recorder.finish(&control, || {});
/// assert_eq!((recorded.cuts.len(), recorded.cuts[0].ledger.written), (1, 1000));
/// # std::fs::remove_dir_all(folder).unwrap();
/// # Ok::<(), forebay::Error>(())
/// ```
pub struct Recorder {
    trigger: Trigger,
    gives_up: Arc<AtomicBool>,
    thread: Option<JoinHandle<Recorded>>,
}

/// Triggers a recorder, from any thread.
#[derive(Clone, Debug)]
pub struct Trigger {
    pending: Arc<Pending>,
    messages: Sender<Message>,
    clock: Clock,
}

/// Triggers that the recorder's thread has not taken yet. Relaxed: the channel orders them, and they publish nothing else.
#[derive(Debug, Default)]
struct Pending {
    /// The time of the last one, and of the first one; 0: none.
    last_ns: AtomicU64,
    count: AtomicU64,
}

#[derive(Debug)]
enum Message {
    Triggered,
    /// A session has ended.
    Written(u64, Box<Summary>),
    Finish,
}

/// What a recorder does.
#[derive(Debug)]
pub enum Event<'a> {
    /// A file was begun.
    Began {
        /// Its name.
        path: &'a Path,
    },
    /// A file is complete, or has failed.
    Ended(&'a Cut),
    /// A trigger came while four files were still being written, and was refused.
    Refused,
}

/// A file, and what it holds.
#[derive(Clone, Debug)]
pub struct Cut {
    /// Its name.
    pub path: PathBuf,
    /// Triggers that it was written for; all but the first one extended it.
    pub triggers: u64,
    /// Times of the first and of the last trigger, in nanoseconds since the Unix epoch.
    pub trigger_ns: (u64, u64),
    /// The packets do not begin `before` the trigger, because the memory does not hold that many.
    pub is_short: bool,
    /// Times of the first and of the last packet; `None` if there is no packet.
    pub packets_ns: Option<(u64, u64)>,
    /// The accounting of this file: `dropped.overrun` are packets that were overwritten in memory before they were written.
    pub ledger: Ledger,
    /// Bytes written.
    pub bytes: u64,
    /// Whether all of it is durable.
    pub durable: bool,
    /// Why the file is not complete, if it is not.
    pub error: Option<String>,
}

impl Cut {
    /// How long before the first trigger its packets begin.
    pub fn before(&self) -> Duration {
        let since = |first| self.trigger_ns.0.saturating_sub(first);
        Duration::from_nanos(self.packets_ns.map_or(0, |(first, _)| since(first)))
    }

    /// How long after the last trigger its packets end.
    pub fn after(&self) -> Duration {
        let until = |last: u64| last.saturating_sub(self.trigger_ns.1);
        Duration::from_nanos(self.packets_ns.map_or(0, |(_, last)| until(last)))
    }
}

/// All that a recorder has done.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// Complete files.
    pub files: u64,
    /// Files that are not complete.
    pub failed: u64,
    /// Packets that the files lack: `dropped` and `unread` of all of them.
    pub lost: u64,
    /// Triggers that were refused.
    pub refused: u64,
    /// The last 1000 files, in the order in which they ended.
    pub cuts: Vec<Cut>,
}

impl Recorded {
    /// Whether every file is complete.
    pub fn is_fine(&self) -> bool {
        self.refused + self.failed == 0
    }
}

impl Recorder {
    /// Starts the recorder's thread. `report` is called on it.
    ///
    /// The ring of `source` limits how much there is before a trigger.
    ///
    /// # Errors
    /// The settings are out of range, no file can be made beside the path, or the system has no more threads.
    pub fn start(
        source: &Source,
        config: RecorderConfig,
        report: impl Fn(Event<'_>) + Send + 'static,
    ) -> Result<Recorder> {
        config.session.validate()?;
        check_folder(&config.path)?;
        let failed = |error| Error::new("recorder", "starting a thread").because(error);
        let (messages, inbox) = mpsc::channel();
        let trigger = Trigger {
            pending: Arc::default(),
            messages,
            clock: Clock::real(),
        };
        let gives_up = Arc::new(AtomicBool::new(false));
        let manager = Manager {
            source: source.clone(),
            names: Box::new(numbered_names(&config.path)?),
            config,
            trigger: trigger.clone(),
            gives_up: gives_up.clone(),
            running: Vec::new(),
            next: 0,
            recorded: Recorded::default(),
            report: Box::new(report),
        };
        let thread = std::thread::Builder::new().name("forebay-recorder".into());
        let thread = thread.spawn(move || manager.run(&inbox)).map_err(failed)?;
        Ok(Recorder {
            trigger,
            gives_up,
            thread: Some(thread),
        })
    }

    /// A handle that triggers it.
    pub fn trigger(&self) -> Trigger {
        self.trigger.clone()
    }

    /// Waits until all files are written. Call it after the capture has ended. If `control` [gives up](Control::gives_up) meanwhile,
    /// so do the files. `waits` is called every few milliseconds.
    pub fn finish(mut self, control: &Control, mut waits: impl FnMut()) -> Recorded {
        let _ = self.trigger.messages.send(Message::Finish);
        let Some(thread) = self.thread.take() else {
            return Recorded::default();
        };
        while !thread.is_finished() {
            if control.gives_up() {
                self.gives_up.store(true, Relaxed);
            }
            waits();
            std::thread::sleep(Duration::from_millis(5));
        }
        thread.join().unwrap_or_default()
    }
}

impl Drop for Recorder {
    /// Ends all files now, and waits until they are written.
    fn drop(&mut self) {
        let _ = self.trigger.messages.send(Message::Finish);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Trigger {
    /// Triggers at this time, in nanoseconds since the Unix epoch. Never waits.
    pub fn pull(&self, at_ns: u64) {
        let before = self.pending.last_ns.fetch_max(at_ns.max(1), Relaxed);
        self.pending.count.fetch_add(1, Relaxed);
        if before == 0 {
            let _ = self.messages.send(Message::Triggered); // it fails after the end
        }
    }

    /// Triggers now.
    pub fn pull_now(&self) {
        self.pull(self.clock.wall_now());
    }

    /// A closure for [`Session::each`]: triggers at each packet that matches `filter`, with the packet's time.
    pub fn on_match(self, filter: Filter) -> impl FnMut(&Frame<'_>, &Interface) + Send + 'static {
        let mut programs = Programs::new(filter);
        let mut last: Option<(LinkType, Arc<Program>)> = None;
        move |frame, interface| {
            if last
                .as_ref()
                .is_none_or(|(link, _)| *link != interface.link)
            {
                last = Some((interface.link, programs.of(interface.link)));
            }
            if let Some((_, program)) = &last
                && program.run(frame.data, frame.wire_len) > 0
            {
                self.pull(frame.time_ns);
            }
        }
    }
}

/// Makes a file without a name: whether files can be made should be known before a trigger needs one.
fn check_folder(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    match rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR) {
        // Some file systems have no files without a name.
        Ok(_) | Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Ok(()),
        Err(error) => {
            let shown = folder.display().to_string();
            Err(Error::new(shown, "making files for the recorder")
                .because(error)
                .advise("Name a file in a folder that exists, in which this user may make files"))
        }
    }
}

/// The state of the recorder's thread.
struct Manager {
    source: Source,
    config: RecorderConfig,
    names: Box<dyn FnMut(u64) -> Result<PathBuf> + Send>,
    trigger: Trigger,
    gives_up: Arc<AtomicBool>,
    running: Vec<Running>,
    /// The number of the next session.
    next: u64,
    recorded: Recorded,
    report: Box<dyn Fn(Event<'_>) + Send>,
}

/// A file that is not complete.
struct Running {
    number: u64,
    end: End,
    control: Control,
    span: Arc<Span>,
    cut: Cut,
}

/// Times of the first and the last packet; 0: none. Relaxed: read when the session has ended.
#[derive(Debug, Default)]
struct Span {
    first_ns: AtomicU64,
    last_ns: AtomicU64,
}

impl Manager {
    fn run(mut self, inbox: &Receiver<Message>) -> Recorded {
        loop {
            match inbox.recv() {
                Ok(Message::Triggered) => self.triggered(),
                Ok(Message::Written(number, summary)) => self.written(number, &summary),
                Ok(Message::Finish) | Err(_) => break,
            }
        }
        self.running.iter().for_each(|one| one.control.finish());
        while !self.running.is_empty() {
            match inbox.recv_timeout(LOOK_EVERY) {
                Ok(Message::Written(number, summary)) => self.written(number, &summary),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) if self.gives_up.swap(false, Relaxed) => {
                    self.running.iter().for_each(|one| one.control.stop());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.recorded
    }

    fn triggered(&mut self) {
        let pending = &self.trigger.pending;
        let (at_ns, count) = (
            pending.last_ns.swap(0, Relaxed),
            pending.count.swap(0, Relaxed),
        );
        let until = at_ns.saturating_add(self.config.after.as_nanos() as u64);
        if let Some(last) = self.running.last_mut()
            && last.end.extend(until)
        {
            last.cut.triggers += count;
            last.cut.trigger_ns.1 = last.cut.trigger_ns.1.max(at_ns);
            return;
        }
        if self.running.len() >= MAX_UNFINISHED {
            self.recorded.refused += count.max(1);
            return (self.report)(Event::Refused);
        }
        let mut cut = Cut {
            path: self.config.path.clone(),
            triggers: count.max(1),
            trigger_ns: (at_ns, at_ns),
            is_short: false,
            packets_ns: None,
            ledger: Ledger::default(),
            bytes: 0,
            durable: false,
            error: None,
        };
        match self.begin(&mut cut, until) {
            Ok((number, end, control, span)) => {
                (self.report)(Event::Began { path: &cut.path });
                self.running.push(Running {
                    number,
                    end,
                    control,
                    span,
                    cut,
                });
            }
            Err(error) => {
                cut.error = Some(error.to_string());
                self.ended(cut);
            }
        }
    }

    /// Starts the session that writes a file.
    fn begin(&mut self, cut: &mut Cut, until: u64) -> Result<(u64, End, Control, Arc<Span>)> {
        let at_ns = cut.trigger_ns.0;
        cut.path = (self.names)(at_ns)?;
        let end = End::at(until);
        let mut begin = Begin::Oldest;
        if let Some(before) = self.config.before {
            let from = at_ns.saturating_sub(before.as_nanos() as u64);
            cut.is_short = self
                .source
                .begins_after()?
                .is_some_and(|oldest| oldest > from);
            begin = Begin::At(from);
        }
        let tap = self.source.tap(&TapConfig {
            begin,
            end: Some(end.clone()),
            ..TapConfig::default()
        })?;
        let (control, clock) = (Control::new()?, Clock::real());
        let (ports, config) = (vec![Box::new(tap) as _], self.config.session.clone());
        let output = Output::File(cut.path.clone());
        let session = Session::open(ports, output, config, clock, control.clone())?;
        let span = Arc::new(Span::default());
        let times = span.clone();
        let session = session.each(move |frame, _| {
            if times.first_ns.load(Relaxed) == 0 {
                times.first_ns.store(frame.time_ns, Relaxed);
            }
            times.last_ns.store(frame.time_ns, Relaxed);
            true
        });
        let number = self.next;
        self.next += 1;
        let messages = self.trigger.messages.clone();
        let thread = std::thread::Builder::new().name("forebay-record".into());
        let failed = |error| Error::new("recorder", "starting a thread").because(error);
        let write = move || {
            let summary = session.run(&mut |_| {});
            let _ = messages.send(Message::Written(number, Box::new(summary)));
        };
        thread.spawn(write).map_err(failed)?;
        Ok((number, end, control, span))
    }

    fn written(&mut self, number: u64, summary: &Summary) {
        let Some(at) = self.running.iter().position(|one| one.number == number) else {
            return;
        };
        let Running { mut cut, span, .. } = self.running.remove(at);
        let (first, last) = (span.first_ns.load(Relaxed), span.last_ns.load(Relaxed));
        cut.packets_ns = (first > 0).then_some((first, last));
        cut.ledger = summary.ledger;
        (cut.bytes, cut.durable) = (summary.bytes, summary.durable);
        let error = summary.store_error.as_ref().or(summary.port_error.as_ref());
        cut.error = match error {
            Some(error) => Some(error.to_string()),
            None if summary.abandoned => Some("given up".into()),
            None if summary.is_out_of_room => {
                Some("the disk has no more room that it may use".into())
            }
            None => summary.ledger.check().err().map(|error| error.to_string()),
        };
        self.ended(cut);
    }

    fn ended(&mut self, cut: Cut) {
        (self.report)(Event::Ended(&cut));
        let recorded = &mut self.recorded;
        match cut.error {
            None => recorded.files += 1,
            Some(_) => recorded.failed += 1,
        }
        recorded.lost += cut.ledger.dropped.known() + cut.ledger.unread;
        if recorded.cuts.len() >= MAX_CUTS {
            recorded.cuts.remove(0);
        }
        recorded.cuts.push(cut);
    }
}
