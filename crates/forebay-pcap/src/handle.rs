//! What `pcap_t` points to.
//!
//! ```text
//!  Handle ── breaks: set by pcap_breakloop, in a signal handler or another thread
//!         ├─ wake:   ends a wait for packets, set once when a device is opened
//!         └─ state:  everything else, borrowed for the time of one call
//! ```
//! No state is borrowed while the program's function handles a packet, so that it can call every other function.

use crate::{
    abi::{self, ERRBUF_SIZE, PacketHeader},
    border::{message, terminated},
    failure::Failure,
    linktypes,
    live::Live,
    registry::{Given, Registered, Registry},
    savefile::{Savefile, Stopped},
    settings::Settings,
    stdio::Stdio,
    timestamps::Precision,
};
use forebay_net::filter::bpf::Program;
use std::{
    ffi::{c_char, c_int, c_uchar},
    os::fd::OwnedFd,
    sync::{
        Mutex, MutexGuard, OnceLock, TryLockError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

/// `pcap_t`.
pub struct Handle {
    breaks: AtomicBool,
    /// An `eventfd` that ends a wait.
    wake: OnceLock<OwnedFd>,
    /// Locked only by calls that try, so that none waits for another one.
    state: Mutex<State>,
}

impl Registered for Handle {
    fn registry() -> &'static Registry<Handle> {
        static HANDLES: Registry<Handle> = Registry::new();
        &HANDLES
    }
}

/// Where packets come from.
pub enum Source {
    /// Not activated.
    Created(Settings),
    /// Only for compiling filters, and for writing files.
    Dead,
    File(Box<Savefile>),
    Live(Box<Live>),
}

pub struct State {
    pub source: Source,
    /// libpcap's number.
    pub link: c_int,
    pub snapshot: c_int,
    pub precision: Precision,
    pub filter: Option<Program>,
    /// The last error, at a fixed address.
    error: Box<[c_char; ERRBUF_SIZE]>,
    /// The header of the last packet, at a fixed address.
    header: Box<PacketHeader>,
}

/// A packet, valid until the next one is asked for.
#[derive(Clone, Copy)]
pub struct Delivered {
    pub header: *const PacketHeader,
    pub data: *const c_uchar,
}

/// The outcome of asking for a packet without waiting.
pub enum Next {
    Packet(Delivered),
    /// A file has ended.
    End,
    /// A device has no packet now.
    NotNow,
}

impl Handle {
    fn new(source: Source, link: c_int, snapshot: c_int, precision: Precision) -> Handle {
        Handle {
            breaks: AtomicBool::new(false),
            wake: OnceLock::new(),
            state: Mutex::new(State {
                source,
                link,
                snapshot,
                precision,
                filter: None,
                error: Box::new([0; ERRBUF_SIZE]),
                header: Box::default(),
            }),
        }
    }

    pub fn created(settings: Settings) -> Handle {
        let link = linktypes::ETHERNET;
        Handle::new(Source::Created(settings), link, 0, Precision::Micro)
    }

    pub fn dead(link: c_int, snapshot: c_int, precision: Precision) -> Handle {
        Handle::new(Source::Dead, link, snapshot, precision)
    }

    pub fn of_file(stream: Stdio, precision: Precision) -> Result<Handle, Failure> {
        let file = Savefile::open(stream)?;
        let (link, snaplen) = (linktypes::of_file(file.link), file.snaplen as c_int);
        Ok(Handle::new(
            Source::File(Box::new(file)),
            link,
            snaplen,
            precision,
        ))
    }

    /// Asks a loop to end. Only stores and writes to a descriptor, so that a signal handler may do it.
    pub fn break_loop(&self) {
        // Total order: a loop that does not see the store sees the descriptor, and the other way round.
        self.breaks.store(true, SeqCst);
        if let Some(wake) = self.wake.get() {
            let _ = rustix::io::write(wake, &1_u64.to_ne_bytes());
        }
    }

    /// Whether a loop was asked to end, since the last call.
    pub fn take_break(&self) -> bool {
        let was_asked = self.breaks.swap(false, SeqCst);
        if was_asked && let Some(wake) = self.wake.get() {
            let _ = rustix::io::read(wake, &mut [0; 8]);
        }
        was_asked
    }

    pub fn is_asked_to_break(&self) -> bool {
        self.breaks.load(SeqCst)
    }

    /// The descriptor that ends a wait, made by the first call.
    pub fn wake(&self) -> Result<&OwnedFd, Failure> {
        if self.wake.get().is_none() {
            use rustix::event::{EventfdFlags, eventfd};
            let made = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
            let made = made.map_err(|error| format!("eventfd: {error}"))?;
            let _ = self.wake.set(made);
        }
        self.wake.get().ok_or_else(|| "eventfd".into())
    }

    /// The state, unless another call is using it, for example in another thread.
    pub fn state(&self) -> Result<MutexGuard<'_, State>, Failure> {
        match self.state.try_lock() {
            Ok(state) => Ok(state),
            Err(TryLockError::Poisoned(state)) => Ok(state.into_inner()),
            Err(TryLockError::WouldBlock) => Err("the handle is in use by another call".into()),
        }
    }

    /// Does the work of an exported function that returns a number: 0 and above, or an error's code.
    pub fn run(
        handle: Given<Handle>,
        body: impl FnOnce(&Handle, &mut State) -> Result<c_int, Failure>,
    ) -> c_int {
        let Some(handle) = handle.get() else {
            return abi::ERROR;
        };
        let Ok(mut state) = handle.state() else {
            return abi::ERROR;
        };
        match body(&handle, &mut state) {
            Ok(value) => value,
            Err(failure) => state.fail(&failure),
        }
    }

    /// As [`run`](Handle::run), for what an open handle knows.
    pub fn ask(
        handle: Given<Handle>,
        body: impl FnOnce(&mut State) -> Result<c_int, Failure>,
    ) -> c_int {
        Handle::run(handle, |_, state| {
            state.activated()?;
            body(state)
        })
    }
}

impl State {
    /// # Errors
    /// The handle was only created.
    pub fn activated(&self) -> Result<(), Failure> {
        match self.source {
            Source::Created(_) => Err(Failure::not_activated()),
            _ => Ok(()),
        }
    }

    /// The settings of a handle that is not activated yet.
    pub fn settings(&mut self) -> Result<&mut Settings, Failure> {
        match &mut self.source {
            Source::Created(settings) => Ok(settings),
            _ => Err(Failure::activated()),
        }
    }

    pub fn file(&self) -> Option<&Savefile> {
        match &self.source {
            Source::File(file) => Some(file),
            _ => None,
        }
    }

    /// Notes an error for `pcap_geterr`, and returns its code.
    pub fn fail(&mut self, failure: &Failure) -> c_int {
        *self.error = terminated(&failure.text);
        failure.code
    }

    /// The text of the last error, in memory of the handle.
    pub fn error(&mut self) -> *mut c_char {
        self.error.as_mut_ptr()
    }

    /// Writes the text of a failure into a buffer of the program, too.
    pub fn fail_into(&mut self, buffer: *mut c_char, failure: &Failure) -> c_int {
        message(buffer, &failure.text);
        self.fail(failure)
    }

    /// The next packet that the filter accepts.
    pub fn next(&mut self, handle: &Handle) -> Result<Next, Failure> {
        match &mut self.source {
            Source::Created(_) => Err(Failure::not_activated()),
            Source::Dead => Err("Packets aren't available from a pcap_open_dead pcap_t".into()),
            Source::Live(live) => Ok(match live.next()? {
                None => Next::NotNow,
                Some((header, data)) => {
                    *self.header = header;
                    let header = &raw const *self.header;
                    Next::Packet(Delivered { header, data })
                }
            }),
            Source::File(file) => loop {
                let record = match file.next(self.precision) {
                    Ok(record) => record,
                    Err(Stopped::End) => return Ok(Next::End),
                    Err(Stopped::Failed(failure)) => return Err(failure),
                    Err(Stopped::Interrupted) if handle.is_asked_to_break() => {
                        return Ok(Next::NotNow);
                    }
                    Err(Stopped::Interrupted) => continue,
                };
                let data = file.data(&record);
                let accepts = |filter: &Program| filter.run(data, record.len) > 0;
                if self.filter.as_ref().is_none_or(accepts) {
                    let data = data.as_ptr();
                    *self.header = PacketHeader {
                        seconds: record.seconds,
                        fraction: record.fraction,
                        caplen: record.caplen,
                        len: record.len,
                    };
                    let header = &raw const *self.header;
                    return Ok(Next::Packet(Delivered { header, data }));
                }
            },
        }
    }
}
