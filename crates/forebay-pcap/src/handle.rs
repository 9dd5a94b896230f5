//! What `pcap_t` points to.
//!
//! ```text
//!  Handle ── breaks: set by pcap_breakloop, in a signal handler or another thread
//!         ├─ wake:   ends a wait for packets, set once when a device is opened
//!         ├─ error:  the text for pcap_geterr
//!         ├─ counts: what pcap_stats returned last
//!         ├─ sender: what pcap_inject sends with
//!         └─ state:  everything else, locked for a part of a call
//! ```
//! The state is locked neither while a call waits for packets, or for the bytes of a pipe, nor while the program's function handles one. So that function, other threads
//! and signal handlers can call every other function. A signal handler may still interrupt a call of the same thread that holds the
//! lock. It then gets an error, or the last counts, because waiting would never end.

use crate::{
    abi::{self, PacketHeader},
    border::{ErrorText, look_for_threads, message},
    counts::LastCounts,
    failure::Failure,
    linktypes,
    live::Live,
    lock::{Held, Lock},
    registry::{Given, Registered, Registry},
    savefile::{About, Savefile, Stopped},
    sending::Sender,
    settings::Settings,
    stdio::Stdio,
    timestamps::Precision,
};
use forebay_net::filter::bpf::Program;
use std::{
    ffi::{c_char, c_int, c_uchar},
    os::fd::OwnedFd,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

/// `pcap_t`.
pub struct Handle {
    breaks: AtomicBool,
    /// An `eventfd` that ends a wait.
    wake: OnceLock<OwnedFd>,
    error: ErrorText,
    pub counts: LastCounts,
    /// Of an open device.
    pub sender: OnceLock<Sender>,
    state: Lock<State>,
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
    /// A file, and its reader, which is held while it waits for bytes.
    File(About, Arc<Lock<Savefile>>),
    Live(Box<Live>),
}

pub struct State {
    pub source: Source,
    /// libpcap's number.
    pub link: c_int,
    pub snapshot: c_int,
    pub precision: Precision,
    pub filter: Option<Program>,
    /// The header for `pcap_next_ex`, at a fixed address.
    header: Box<PacketHeader>,
}

/// A packet, whose bytes are valid until the next one is asked for.
#[derive(Clone, Copy)]
pub struct Delivered {
    pub header: PacketHeader,
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
        look_for_threads();
        Handle {
            breaks: AtomicBool::new(false),
            wake: OnceLock::new(),
            error: ErrorText::default(),
            counts: LastCounts::default(),
            sender: OnceLock::new(),
            state: Lock::new(State {
                source,
                link,
                snapshot,
                precision,
                filter: None,
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

    #[allow(clippy::arc_with_non_send_sync)] // Which threads use it is up to the program.
    pub fn of_file(stream: Stdio, precision: Precision) -> Result<Handle, Failure> {
        let file = Savefile::open(stream)?;
        let (link, snaplen) = (linktypes::of_file(file.link), file.snaplen as c_int);
        Ok(Handle::new(
            Source::File(file.about(), Arc::new(Lock::new(file))),
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

    /// The state, once no call of another thread has it.
    ///
    /// # Errors
    /// A call of this thread has it, which a signal handler interrupted; or one of another thread, for long.
    pub fn state(&self) -> Result<Held<'_, State>, Failure> {
        self.state.hold()
    }

    /// The next packet of those that a device has handed over already.
    #[inline(always)] // a packet that is moved takes longer than the rest
    pub fn ready(&self) -> Option<Delivered> {
        match &mut self.state().ok()?.source {
            Source::Live(live) if live.is_its_process() => {
                let (header, data) = live.ready()?;
                Some(Delivered { header, data })
            }
            _ => None,
        }
    }

    /// The next packet that the filter accepts, if there is one now. Only the file is held while its bytes are awaited.
    pub fn next(&self) -> Result<Next, Failure> {
        let (file, precision) = {
            let state = &mut *self.state()?;
            match &mut state.source {
                Source::Created(_) => return Err(Failure::not_activated()),
                Source::Dead => {
                    return Err("Packets aren't available from a pcap_open_dead pcap_t".into());
                }
                Source::Live(live) => {
                    return Ok(match live.next()? {
                        None => Next::NotNow,
                        Some((header, data)) => Next::Packet(Delivered { header, data }),
                    });
                }
                Source::File(_, file) => (file.clone(), state.precision),
            }
        };
        let mut file = file.hold()?;
        // A filter may reject all packets of a file without end: meanwhile, other calls have their turn.
        for _ in 0..64 {
            let record = match file.next(precision) {
                Ok(record) => record,
                Err(Stopped::End) => return Ok(Next::End),
                Err(Stopped::Failed(failure)) => return Err(failure),
                Err(Stopped::Interrupted) => continue,
            };
            let data = file.data(&record);
            let accepts = |filter: &Program| filter.run(data, record.len) > 0;
            // The filter may have been set while the bytes were awaited.
            if self.state()?.filter.as_ref().is_none_or(accepts) {
                let data = data.as_ptr();
                let header = PacketHeader {
                    seconds: record.seconds,
                    fraction: record.fraction,
                    caplen: record.caplen,
                    len: record.len,
                };
                return Ok(Next::Packet(Delivered { header, data }));
            }
        }
        Ok(Next::NotNow)
    }

    /// Does the work of an exported function that returns a number: 0 and above, or an error's code.
    pub fn run(
        handle: Given<Handle>,
        body: impl FnOnce(&Handle, &mut State) -> Result<c_int, Failure>,
    ) -> c_int {
        let Some(handle) = handle.get() else {
            return abi::ERROR;
        };
        let done = handle
            .state()
            .and_then(|mut state| body(&handle, &mut state));
        done.unwrap_or_else(|failure| handle.fail(&failure))
    }

    /// Notes an error for `pcap_geterr`, and returns its code.
    pub fn fail(&self, failure: &Failure) -> c_int {
        self.error.set(&failure.text);
        failure.code
    }

    /// Writes the text of a failure into a buffer of the program, too.
    pub fn fail_into(&self, buffer: *mut c_char, failure: &Failure) -> c_int {
        message(buffer, &failure.text);
        self.fail(failure)
    }

    /// The text of the last error, in memory of the handle.
    pub fn error(&self) -> *mut c_char {
        self.error.as_ptr()
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

    pub fn file(&self) -> Option<&About> {
        match &self.source {
            Source::File(about, _) => Some(about),
            _ => None,
        }
    }

    /// Keeps a header for the program until the next one.
    pub fn keep(&mut self, header: PacketHeader) -> *const PacketHeader {
        *self.header = header;
        &raw const *self.header
    }
}
