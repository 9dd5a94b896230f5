//! The key `w` in the details of a flow: writes its packets to a file, until `w` is pressed again.
//!
//! ```text
//!  interfaces, pipes:  the session of the tables ─▶ slot: file      packets from now on
//!  files:              another session, from the beginning ─▶ slot: file      all packets
//! ```
//! The main thread creates and closes the file. The threads that read packets have no rights to files.

use super::{
    flow_file::{FlowFile, Written},
    locked::locked,
};
use crate::{
    flow::{Flow, Packet},
    output, privileges,
};
use anyhow::{Context, Result, bail};
use forebay::store::Closing;
use forebay_net::{
    filter::Filter,
    open::{self, Name, Options},
    port::{Frame, Interface},
    session::{Control, Output, Session, SessionConfig},
};
use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
    time::Duration,
};

/// The file that is written, if there is one.
pub type Slot = Arc<Mutex<Option<FlowFile>>>;

/// What the screen shows of the last file.
#[derive(Clone, PartialEq)]
pub struct Progress {
    pub flow: Flow,
    pub path: PathBuf,
    pub written: Written,
    pub error: Option<String>,
    pub is_complete: bool,
}

pub struct FlowWriter {
    folder: PathBuf,
    /// Files that can be read again.
    files: Vec<Name>,
    filter: Option<Filter>,
    /// For packets of the session that counts.
    live: Slot,
    current: Option<Current>,
    progress: Option<Progress>,
}

/// A file that is not complete.
struct Current {
    slot: Slot,
    reading: Option<Reading>,
    is_ending: bool,
    closing: Option<Closing>,
}

/// A session that reads the files again. Its thread returns why it ended early.
struct Reading {
    control: Control,
    thread: JoinHandle<Option<String>>,
}

impl FlowWriter {
    pub fn new(folder: &Path, names: &[Name], filter: Option<Filter>) -> Self {
        let is_file = |name: &Name| name.file().is_some_and(Path::is_file);
        FlowWriter {
            folder: folder.into(),
            files: match names.iter().all(is_file) {
                true => names.to_vec(),
                false => Vec::new(),
            },
            filter,
            live: Slot::default(),
            current: None,
            progress: None,
        }
    }

    /// The place of files for packets of the session that counts.
    pub fn slot(&self) -> Slot {
        self.live.clone()
    }

    /// Begins or ends the file of this flow.
    ///
    /// # Errors
    /// Another flow is being written, or the file cannot be created.
    pub fn toggle(&mut self, flow: Flow) -> Result<()> {
        if let (Some(_), Some(progress)) = (&self.current, &self.progress) {
            if progress.flow != flow {
                bail!(
                    "{} is not complete: w in the details of its flow ends it",
                    progress.path.display()
                );
            }
            self.end();
            return Ok(());
        }
        let (slot, reading) = match self.files.is_empty() {
            true => (self.live.clone(), None),
            false => (Slot::default(), Some(self.open_again()?)),
        };
        let file = FlowFile::create(&self.folder, flow)?;
        let progress = Progress {
            flow,
            path: file.path.clone(),
            written: file.written,
            error: None,
            is_complete: false,
        };
        *locked(&slot) = Some(file);
        let reading = reading.map(|it| read(it, slot.clone())).transpose()?;
        self.progress = Some(progress);
        self.current = Some(Current {
            slot,
            reading,
            is_ending: false,
            closing: None,
        });
        Ok(())
    }

    fn open_again(&self) -> Result<(Session, Control)> {
        let clock = open::clock(&self.files)?;
        let options = Options {
            filter: self.filter.clone(),
            reader_filters: true,
            ..Options::default()
        };
        let ports = open::ports(&self.files, &options, &clock)?;
        let config = SessionConfig {
            filter: self.filter.clone(),
            ..SessionConfig::default()
        };
        let control = Control::new()?;
        let session = Session::open(ports, Output::Count, config, clock, control.clone())?;
        Ok((session, control))
    }

    fn end(&mut self) {
        if let Some(current) = &mut self.current {
            current.is_ending = true;
            current.reading.iter().for_each(|it| it.control.stop());
        }
    }

    /// Completes a file that has ended, and returns what there is of it. Never waits.
    pub fn poll(&mut self) -> Option<Progress> {
        let progress = self.progress.as_mut()?;
        let Some(mut current) = self.current.take() else {
            return Some(progress.clone());
        };
        if let Some(file) = &*locked(&current.slot) {
            (progress.written, progress.error) = (file.written, file.error.clone());
        }
        if progress.error.is_some() {
            current.is_ending = true;
            current.reading.iter().for_each(|it| it.control.stop());
        }
        let has_read = match &current.reading {
            Some(reading) => reading.thread.is_finished(),
            None => current.is_ending,
        };
        if has_read && let Some(file) = locked(&current.slot).take() {
            current.closing = Some(file.close());
            let trouble = current.reading.take().and_then(|it| joined(it.thread));
            progress.error = progress.error.take().or(trouble);
        }
        match current.closing.take().map(|it| it.wait(Duration::ZERO)) {
            Some(Ok(finished)) => {
                progress.written.packets = finished.totals.written;
                let error = finished.error.map(|error| error.to_string());
                progress.error = progress.error.take().or(error);
                progress.is_complete = true;
            }
            closing => {
                current.closing = closing.and_then(std::result::Result::err);
                self.current = Some(current);
            }
        }
        Some(progress.clone())
    }

    /// Waits until the file is complete, and prints what it holds.
    pub fn finish(mut self) {
        self.end();
        while self.poll().is_some_and(|it| !it.is_complete) {
            thread::sleep(Duration::from_millis(5));
        }
        if let Some(progress) = self.progress {
            output::note(progress.to_string());
        }
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let packets = output::packets(self.written.packets);
        write!(f, "{}: {packets}", self.path.display())?;
        if self.written.lost > 0 {
            write!(f, ", {} lost: the disk is too slow", self.written.lost)?;
        }
        match &self.error {
            Some(error) => write!(f, ". {error}"),
            None => Ok(()),
        }
    }
}

/// Writes the packets of the flow from now on, one by one as the session takes them.
pub fn offer(slot: &Slot, flow: Flow, frame: &Frame<'_>, interface: &Interface) {
    if let Some(file) = &mut *locked(slot) {
        file.offer_live(flow, frame, interface);
    }
}

/// Reads the files again. Packets wait until there is room for them.
fn read((session, control): (Session, Control), slot: Slot) -> Result<Reading> {
    let session = session.each(move |frame, interface| {
        let flow = Packet::of(interface.link, frame.data).flow;
        let mut slot = locked(&slot);
        slot.as_mut()
            .is_none_or(|file| file.offer(flow, frame, interface))
    });
    let thread = thread::Builder::new().name("forebay-flow".into());
    let thread = thread.spawn(move || {
        if let Err(error) = privileges::drop_files() {
            return Some(error.to_string());
        }
        let summary = session.run(&mut |_| {});
        summary.port_error.map(|error| error.to_string())
    });
    let thread = thread.context("cannot start a thread to read the files again")?;
    Ok(Reading { control, thread })
}

fn joined(thread: JoinHandle<Option<String>>) -> Option<String> {
    (thread.join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
