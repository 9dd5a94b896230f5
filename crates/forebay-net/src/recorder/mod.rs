//! A flight recorder: keeps the last packets of a capture in memory, and writes those around a trigger to a file.
//!
//! ```text
//!  session ──▶ Publisher ──▶ ring: the last packets
//!                              │ trigger at t
//!                              └──▶ tap: t − before … t + after ──▶ session ──▶ FILE_00001_…
//! ```
//! A [tap](crate::share::Tap) is a port that reads the ring. The same tap reads the packets before and after the trigger, so there is no
//! gap or repetition between them. If the disk is slow, packets may be overwritten in the ring before the tap has read them; the
//! [`Ledger`](crate::ledger::Ledger) of the file counts these as lost.
//!
//! If another trigger occurs before a file ends, this file is extended until `after` the last trigger. A trigger after the end of a file
//! begins the next one, with the packets of the time `before` this trigger. So two files can hold the same packets.

mod config;
mod manager;
mod report;
#[cfg(test)]
mod tests;
mod trigger;

pub use config::RecorderConfig;
pub use report::{Cut, Recorded, RecorderEvent};
pub use trigger::Trigger;

use crate::{session::Control, share::ShareSource};
use config::MAX_UNFINISHED;
use forebay::{Error, Result, store::Limit};
use manager::Manager;
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::Duration,
};
use trigger::Message;

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
        let (trigger, inbox) = Trigger::new();
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
