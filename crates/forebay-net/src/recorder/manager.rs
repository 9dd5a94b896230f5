//! The recorder's thread: begins a session for each file, and collects what became of it.

use super::{
    config::{MAX_UNFINISHED, RecorderConfig},
    report::{Cut, Recorded, RecorderEvent},
    trigger::{Message, Pending, Trigger},
};
use crate::{
    ledger::Ledger,
    session::{Control, Output, Session, Summary, numbered_names},
    share::{Begin, End, ShareSource, TapConfig},
};
use forebay::{Error, Result, store::resolve, time::Clock};
use std::{
    fs::{self, OpenOptions},
    io::ErrorKind,
    os::unix::fs::OpenOptionsExt,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::Duration,
};

/// Files whose counts are kept.
const MAX_CUTS: usize = 1000;
/// How often the thread checks at the end whether to give up.
const CHECK_EVERY: Duration = Duration::from_millis(50);

/// The state of the recorder's thread.
pub(super) struct Manager {
    source: ShareSource,
    pub config: RecorderConfig,
    pub names: Box<dyn FnMut(u64) -> Result<PathBuf> + Send>,
    pub trigger: Trigger,
    gives_up: Arc<AtomicBool>,
    pub running: Vec<Running>,
    /// The number of the next session.
    next: u64,
    recorded: Recorded,
    pub report: Box<dyn Fn(RecorderEvent<'_>) + Send>,
}

/// A file that is not complete.
pub(super) struct Running {
    pub begun: Begun,
    cut: Cut,
}

/// The session that writes a file.
pub(super) struct Begun {
    pub number: u64,
    pub end: End,
    pub control: Control,
    span: Arc<Span>,
    is_short: Arc<AtomicBool>,
}

/// The earliest and the latest time of a packet; `u64::MAX` and 0 without packets. Relaxed: read when the session has ended.
#[derive(Debug)]
struct Span {
    first_ns: AtomicU64,
    last_ns: AtomicU64,
}

impl Manager {
    /// # Errors
    /// No names can be made of the path.
    pub fn new(
        source: &ShareSource,
        config: RecorderConfig,
        trigger: &Trigger,
        gives_up: &Arc<AtomicBool>,
        report: impl Fn(RecorderEvent<'_>) + Send + 'static,
    ) -> Result<Manager> {
        Ok(Manager {
            source: source.clone(),
            names: Box::new(numbered_names(&config.path)?),
            config,
            trigger: trigger.clone(),
            gives_up: gives_up.clone(),
            running: Vec::new(),
            next: 0,
            recorded: Recorded::default(),
            report: Box::new(report),
        })
    }

    pub fn run(mut self, inbox: &Receiver<Message>) -> Recorded {
        loop {
            match inbox.recv() {
                Ok(Message::Triggered) => self.triggered(),
                Ok(Message::Written(number, summary)) => self.written(number, summary.as_deref()),
                Ok(Message::Finish) | Err(_) => break,
            }
        }
        self.running
            .iter()
            .for_each(|one| one.begun.control.finish());
        while !self.running.is_empty() {
            match inbox.recv_timeout(CHECK_EVERY) {
                Ok(Message::Written(number, summary)) => self.written(number, summary.as_deref()),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) if self.gives_up.swap(false, Relaxed) => {
                    self.running.iter().for_each(|one| one.begun.control.stop());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.recorded
    }

    pub fn triggered(&mut self) {
        let Pending {
            count,
            first_ns,
            last_ns,
        } = std::mem::take(&mut *self.trigger.pending());
        if count == 0 {
            return;
        }
        let until = last_ns.saturating_add(self.config.after.as_nanos() as u64);
        if let Some(last) = self.running.last_mut()
            && last.begun.end.extend(until)
        {
            last.cut.triggers += count;
            let (first, latest) = last.cut.trigger_ns;
            last.cut.trigger_ns = (first.min(first_ns), latest.max(last_ns));
            return;
        }
        if self.running.len() >= MAX_UNFINISHED {
            self.recorded.refused += count;
            return (self.report)(RecorderEvent::Refused);
        }
        let mut cut = Cut {
            path: self.config.path.clone(),
            triggers: count,
            trigger_ns: (first_ns, last_ns),
            is_short: false,
            packets_ns: None,
            ledger: Ledger::default(),
            packets_cut: 0,
            bytes: 0,
            durable: false,
            error: None,
        };
        let begun = self.claim_name(&mut cut).and_then(|()| {
            let begun = self.begin(&cut, until);
            begun.inspect_err(|_| remove_empty(&cut.path))
        });
        match begun {
            Ok(begun) => {
                (self.report)(RecorderEvent::Began { path: &cut.path });
                self.running.push(Running { begun, cut });
            }
            Err(error) => {
                cut.error = Some(error.to_string());
                self.ended(cut);
            }
        }
    }

    /// Makes an empty file with the next name that no file has, not even one that another program makes at this moment.
    fn claim_name(&mut self, cut: &mut Cut) -> Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        loop {
            cut.path = (self.names)(cut.trigger_ns.0)?;
            match resolve(&cut.path).and_then(|_| options.open(&cut.path)) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    let name = cut.path.display().to_string();
                    return Err(Error::new(name, "creating the file").because(error));
                }
            }
        }
    }

    /// Starts the session that writes a file.
    fn begin(&mut self, cut: &Cut, until: u64) -> Result<Begun> {
        let first_ns = cut.trigger_ns.0;
        let from = |before: Duration| first_ns.saturating_sub(before.as_nanos() as u64);
        let begin = self.config.before.map(from);
        let (end, control, clock) = (End::at(until), Control::new()?, Clock::real());
        let tap = self.source.tap(&TapConfig {
            begin: begin.map_or(Begin::Oldest, Begin::At),
            end: Some(end.clone()),
            clock: clock.clone(),
            ..TapConfig::default()
        })?;
        let is_short = tap.is_short();
        let (ports, config) = (vec![Box::new(tap) as _], self.config.session.clone());
        let output = Output::File(cut.path.clone());
        let session = Session::open(ports, output, config, clock, control.clone())?;
        let span = Arc::new(Span {
            first_ns: AtomicU64::new(u64::MAX),
            last_ns: AtomicU64::new(0),
        });
        let times = span.clone();
        let session = session.each(move |frame, _| {
            times.first_ns.fetch_min(frame.time_ns, Relaxed);
            times.last_ns.fetch_max(frame.time_ns, Relaxed);
            true
        });
        let number = self.next;
        self.next += 1;
        let messages = self.trigger.messages.clone();
        let thread = std::thread::Builder::new().name("forebay-record".into());
        let failed = |error| Error::new("recorder", "starting a thread").because(error);
        let write = move || {
            // The recorder waits for this message, so it is sent after a panic, too.
            let summary = catch_unwind(AssertUnwindSafe(|| session.run(&mut |_| {})));
            let _ = messages.send(Message::Written(number, summary.ok().map(Box::new)));
        };
        thread.spawn(write).map_err(failed)?;
        Ok(Begun {
            number,
            end,
            control,
            span,
            is_short,
        })
    }

    /// A session has ended; without a summary, by a panic.
    fn written(&mut self, number: u64, summary: Option<&Summary>) {
        let Some(at) = self
            .running
            .iter()
            .position(|one| one.begun.number == number)
        else {
            return;
        };
        let Running { mut cut, begun } = self.running.remove(at);
        let span = begun.span;
        cut.is_short = self.config.before.is_some() && begun.is_short.load(Relaxed);
        let (first, last) = (span.first_ns.load(Relaxed), span.last_ns.load(Relaxed));
        cut.packets_ns = (first <= last).then_some((first, last));
        let Some(summary) = summary else {
            cut.error = Some("its thread has panicked: the file may be incomplete".into());
            return self.ended(cut);
        };
        (cut.ledger, cut.packets_cut) = (summary.ledger, summary.cut);
        (cut.bytes, cut.durable) = (summary.bytes, summary.durable);
        let error = summary.store_error.as_ref().or(summary.port_error.as_ref());
        cut.error = match error {
            Some(error) => Some(error.to_string()),
            None if summary.abandoned > 0 => Some("given up".into()),
            None if summary.is_out_of_room => {
                Some("the disk has no more room that it may use".into())
            }
            None => summary.ledger.check().err().map(|error| error.to_string()),
        };
        self.ended(cut);
    }

    fn ended(&mut self, cut: Cut) {
        (self.report)(RecorderEvent::Ended(&cut));
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

/// Removes the file of a session that could not start, if it is empty.
fn remove_empty(path: &Path) {
    if fs::symlink_metadata(path).is_ok_and(|it| it.is_file() && it.len() == 0) {
        let _ = fs::remove_file(path);
    }
}
