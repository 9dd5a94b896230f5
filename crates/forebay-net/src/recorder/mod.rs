//! A flight recorder: keeps the last packets of a capture in memory, and writes those around a trigger to a file.
//!
//! ```text
//!  session ──▶ Publisher ──▶ ring: the last packets
//!                              │ trigger at t
//!                              └──▶ tap: t − before … t + after ──▶ session ──▶ FILE_00001_…
//! ```
//! A [tap](crate::share::Tap) is a port that reads the ring. The same tap reads the packets before and after the trigger, so there is no
//! gap or repetition between them. If the disk is slow, packets may be overwritten in the ring before the tap has read them; the
//! [`Ledger`] of the file counts these as lost.
//!
//! If another trigger occurs before a file ends, this file is extended until `after` the last trigger. A trigger after the end of a file
//! begins the next one, with the packets of the time `before` this trigger. So two files can hold the same packets.

mod manager;
#[cfg(test)]
mod tests;

use crate::{
    filter::{Filter, FrameProgram, Programs, View},
    ledger::Ledger,
    port::{Frame, Interface, LinkType},
    session::{Control, SessionConfig, Summary},
    share::ShareSource,
};
use forebay::{Error, Result, store::Limit, time::Clock};
use manager::Manager;
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{self, Sender},
    },
    thread::JoinHandle,
    time::Duration,
};

/// Files that may be unfinished at the same time: one that is recorded, and others that a slow disk still writes.
const MAX_UNFINISHED: usize = 4;

/// Settings of a recorder.
#[derive(Clone, Debug)]
pub struct RecorderConfig {
    /// Names the files: `a.pcapng` becomes `a_00001_20261121143000.pcapng`, and so on, with the local time of the trigger.
    pub path: PathBuf,
    /// How much before the trigger is written; `None`: all that is in memory.
    pub before: Option<Duration>,
    /// How much after the trigger is written.
    pub after: Duration,
    /// Settings of the sessions that write the files. Up to four may write at the same time, and each store may grow to a quarter of
    /// its limit.
    pub session: SessionConfig,
}

/// Writes the packets around each trigger to a new file.
///
/// ```
/// use forebay_net::{open, recorder::{RecorderEvent, Recorder, RecorderConfig}, session::{Control, Output, Session, SessionConfig}};
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
/// let session = Session::open_shared(ports, Output::Count, SessionConfig::default(), clock, control.clone(), publisher)?;
/// let config = RecorderConfig {
///     path: folder.join("a.pcapng"),
///     before: None,
///     after: std::time::Duration::from_secs(1),
///     session: SessionConfig::default(),
/// };
/// let recorder = Recorder::start(&source, config, |event| if let RecorderEvent::Ended(cut) = event { println!("{}", cut.path.display()) })?;
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
    pending: Arc<Mutex<Pending>>,
    messages: Sender<Message>,
    clock: Clock,
}

/// Triggers that the recorder's thread has not taken yet: their number, and the times of the earliest and the latest one.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    count: u64,
    first_ns: u64,
    last_ns: u64,
}

impl Pending {
    fn add(&mut self, at_ns: u64) {
        self.first_ns = match self.count {
            0 => at_ns,
            _ => self.first_ns.min(at_ns),
        };
        self.last_ns = self.last_ns.max(at_ns);
        self.count += 1;
    }
}

#[derive(Debug)]
enum Message {
    Triggered,
    /// A session has ended.
    Written(u64, Option<Box<Summary>>),
    Finish,
}

/// What a recorder does.
#[derive(Debug)]
#[non_exhaustive]
pub enum RecorderEvent<'a> {
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
#[non_exhaustive]
pub struct Cut {
    /// Its name.
    pub path: PathBuf,
    /// Triggers that it was written for; all but the first one extended it.
    pub triggers: u64,
    /// Times of the first and of the last trigger, in nanoseconds since the Unix epoch.
    pub trigger_ns: (u64, u64),
    /// The packets do not begin `before` the trigger, because the memory does not hold that many.
    pub is_short: bool,
    /// The earliest and the latest time of a packet; `None` if there is no packet.
    pub packets_ns: Option<(u64, u64)>,
    /// The accounting of this file: `dropped.overrun` are packets that were overwritten in memory before they were written.
    pub ledger: Ledger,
    /// Packets with fewer bytes than they had on the wire.
    pub packets_cut: u64,
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
#[non_exhaustive]
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
        source: &ShareSource,
        mut config: RecorderConfig,
        report: impl Fn(RecorderEvent<'_>) + Send + 'static,
    ) -> Result<Recorder> {
        config.session.validate()?;
        divide(&mut config.session.store.limit);
        check_folder(&config.path)?;
        let failed = |error| Error::new("recorder", "starting a thread").because(error);
        let (messages, inbox) = mpsc::channel();
        let trigger = Trigger {
            pending: Arc::default(),
            messages,
            clock: Clock::real(),
        };
        let gives_up = Arc::new(AtomicBool::new(false));
        let manager = Manager::new(source, config, &trigger, &gives_up, report)?;
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
    /// Triggers at this time, in nanoseconds since the Unix epoch. Never waits for a file.
    pub fn pull(&self, at_ns: u64) {
        let is_first = {
            let mut pending = self.pending();
            pending.add(at_ns);
            pending.count == 1
        };
        if is_first {
            let _ = self.messages.send(Message::Triggered); // it fails after the end
        }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Triggers now.
    pub fn pull_now(&self) {
        self.pull(self.clock.wall_now());
    }

    /// A closure for [`Session::each`](crate::session::Session::each): triggers at each packet that matches `filter`, with the packet's time.
    pub fn on_match(self, filter: Filter) -> impl FnMut(&Frame<'_>, &Interface) + Send + 'static {
        let mut programs = Programs::new(filter);
        let mut last: Option<(LinkType, View, FrameProgram)> = None;
        move |frame, interface| {
            let (link, view) = (interface.link, View::of(interface));
            if last
                .as_ref()
                .is_none_or(|last| (last.0, last.1) != (link, view))
            {
                last = Some((link, view, programs.of_interface(interface)));
            }
            if let Some((.., program)) = &last
                && program.accepts(frame)
            {
                self.pull(frame.time_ns);
            }
        }
    }
}

/// Divides the memory into which a store may grow by the files that may be unfinished at the same time.
fn divide(limit: &mut Limit) {
    let files = MAX_UNFINISHED as u8;
    *limit = match *limit {
        Limit::Fixed => Limit::Fixed,
        Limit::Percent(share) => Limit::Percent((share / files).max(1)),
        Limit::Bytes(bytes) => Limit::Bytes(bytes / u64::from(files)),
    };
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
