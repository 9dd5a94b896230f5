//! Packets of interfaces, files, shares and the simulated card, and filters.

#![allow(unsafe_code)] // The names are this library's, and it calls the program's function.
#![allow(non_camel_case_types)] // These, too.

use crate::{
    border::{
        self, Place, Uncancelled, Versioned, answer, caught, check_size, done, items,
        keeping_errno, limit, number, put_versioned, text,
    },
    ends::{destroy, give_one},
    failure::{Failure, Result},
    handles::{handles, shared},
};
use forebay::error::Code;
use forebay_net::{
    Capture, Ledger, Next,
    capture::Stopper,
    filter::{Filter, View, bpf::Program},
    open::{Name, Options},
    port::{Direction, Frame, Interface, LinkType, MAX_SNAPLEN, Statistics},
};
use std::{
    ffi::{c_char, c_int, c_void},
    ptr::null,
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// A source of packets. One thread at a time may take packets from it; any thread, and a signal handler, may stop it.
pub struct forebay_capture(());

/// A compiled filter. Any number of threads may use it.
pub struct forebay_filter(());

/// A count that the source cannot report.
pub const FOREBAY_UNKNOWN: u64 = u64::MAX;

/// Settings of a capture. Zeros are the defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct forebay_capture_options {
    /// `sizeof(struct forebay_capture_options)`.
    pub size: usize,
    /// A filter in the language of libpcap, or null. It applies to every kind of source.
    pub filter: *const c_char,
    /// Bytes of the source's ring; 0 is 64 MiB for an interface.
    pub ring_bytes: u64,
    /// How long an interface may hold frames back to hand over many at once, in nanoseconds; 0 is 100 ms.
    pub delay_ns: u64,
    /// Bytes of each frame that are needed; 0 is 262144.
    pub snaplen: u32,
    /// Not 0: no promiscuous mode.
    pub not_promiscuous: u32,
    /// Not 0: no frames that this machine sends.
    pub incoming_only: u32,
    /// 0.
    pub reserved: u32,
}

// SAFETY: `repr(C)`, a size first, then a pointer and numbers.
unsafe impl Versioned for forebay_capture_options {
    const SIZES: &'static [usize] = &[48];

    fn reserved(&self) -> u32 {
        self.reserved
    }
}

/// A packet where the source has it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct forebay_frame {
    /// The bytes kept, from the link-layer header on.
    pub data: *const u8,
    /// Number of bytes kept.
    pub len: usize,
    /// Nanoseconds since 1970.
    pub time_ns: u64,
    /// Frames that the source lost directly before this one.
    pub dropped_before: u64,
    /// Its length on the wire in bytes.
    pub wire_len: u32,
    /// The number of its interface, from 0.
    pub interface: u32,
    /// 0: unknown; 1: received; 2: sent by this machine.
    pub direction: u32,
    /// 0.
    pub reserved: u32,
}

// SAFETY: addresses and numbers; only the program reads what is there.
unsafe impl Send for forebay_frame {}

/// Where every packet went. At the end `received` is the sum of all other counts but `interface_dropped`. `FOREBAY_UNKNOWN`: the
/// source does not report it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct forebay_counts {
    /// `sizeof(struct forebay_counts)`.
    pub size: usize,
    /// Packets that the source has received.
    pub received: u64,
    /// Packets that the program has taken.
    pub counted: u64,
    /// Packets that the filter rejected. If the kernel filters and cannot count (it can as eBPF), they are neither here nor in `received`.
    pub filtered: u64,
    /// Packets that were received and not taken when the capture ended.
    pub unread: u64,
    /// Lost in the ring of the kernel or of the simulated card.
    pub kernel: u64,
    /// Lost because the receive ring of an AF_XDP socket was full.
    pub rx_ring: u64,
    /// Lost because the fill ring of an AF_XDP socket had no memory.
    pub fill_ring: u64,
    /// Lost on the way into a veth interface that is read with AF_XDP.
    pub peer: u64,
    /// Overwritten in the memory of a share before they were read.
    pub overrun: u64,
    /// Lost by the interface, or by the capture that shares its packets, before this source saw them. Not part of `received`.
    pub interface_dropped: u64,
}

// SAFETY: `repr(C)`, a size first, and numbers.
unsafe impl Versioned for forebay_counts {
    const SIZES: &'static [usize] = &[88];
}

/// The program's function for each packet, with its `context`. The packet is lent until it returns. Not 0 stops. It may leave by an exception,
/// and must not leave by `longjmp`.
pub type forebay_frame_callback =
    Option<unsafe extern "C-unwind" fn(context: *mut c_void, frame: *const forebay_frame) -> c_int>;

/// The capture is taken out for the time of a call, so that others can stop it, and get an answer, meanwhile.
pub struct Source {
    stopper: Stopper,
    taking: Mutex<Option<Box<Taking>>>,
}

pub struct Taking {
    /// `None` once it is finished.
    capture: Option<Capture>,
    /// The frames that are lent.
    frames: Vec<forebay_frame>,
    last: Option<Last>,
}

/// What stays of a capture that is finished.
struct Last {
    ledger: Ledger,
    interfaces: Vec<Interface>,
    recorded: Vec<Option<Statistics>>,
}

impl Taking {
    /// The interfaces of the source, as far as they are known.
    pub fn interfaces(&self) -> Result<&[Interface]> {
        match (&self.capture, &self.last) {
            (Some(capture), _) => Ok(capture.interfaces()),
            (None, Some(last)) => Ok(&last.interfaces),
            (None, None) => Err(Code::Closed.into()),
        }
    }

    fn ledger(&mut self) -> Result<Ledger> {
        match (&mut self.capture, &self.last) {
            (Some(capture), _) => Ok(capture.ledger()),
            (None, Some(last)) => Ok(last.ledger),
            (None, None) => Err(Code::Closed.into()),
        }
    }

    /// The counts of each interface that has its own: those that a file records, or those of the source if they are one interface's.
    pub fn statistics(&mut self, time_ns: u64) -> Result<Vec<(Interface, Statistics)>> {
        let counts = counts(&self.ledger()?);
        let interfaces = self.interfaces()?;
        let recorded = match (&self.capture, &self.last) {
            (Some(capture), _) => capture.recorded(),
            (None, last) => last.as_ref().map_or(&[][..], |last| &last.recorded),
        };
        // Only files have these.
        if !recorded.is_empty() {
            let known = interfaces.iter().zip(recorded);
            let known = known.filter_map(|(of, it)| Some((of.clone(), (*it)?)));
            let known: Vec<_> = known.collect();
            return match known.is_empty() {
                true => Err(Failure::new(
                    Code::Unsupported,
                    "the file records no counts",
                )),
                false => Ok(known),
            };
        }
        match interfaces {
            [one] => Ok(vec![(one.clone(), counts.statistics(time_ns))]),
            // The first one is the socket, which all packets have passed.
            [any, ..] if any.name == "any" => Ok(vec![(any.clone(), counts.statistics(time_ns))]),
            _ => Err(Failure::new(
                Code::Unsupported,
                "the source has several interfaces, and counts their packets together",
            )),
        }
    }
}

impl forebay_counts {
    /// As those of an interface.
    pub fn statistics(&self, time_ns: u64) -> Statistics {
        let known = |count: u64| (count != FOREBAY_UNKNOWN).then_some(count);
        let causes = [
            self.kernel,
            self.rx_ring,
            self.fill_ring,
            self.peer,
            self.overrun,
        ];
        Statistics {
            time_ns,
            interface_dropped: known(self.interface_dropped),
            received: Some(self.received.saturating_sub(self.filtered)),
            dropped: causes.into_iter().map(known).sum(),
            delivered: Some(self.counted),
            ..Statistics::default()
        }
    }
}

handles!(forebay_capture => Source, forebay_filter => Program);

/// Puts the capture back, also when a call panics.
struct Inside<'a> {
    source: &'a Source,
    taking: Option<Box<Taking>>,
}

impl Source {
    fn place(&self) -> std::sync::MutexGuard<'_, Option<Box<Taking>>> {
        self.taking.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        *self.source.place() = self.taking.take();
    }
}

pub(super) fn alone<R>(
    handle: *const forebay_capture,
    body: impl FnOnce(&mut Taking) -> Result<R>,
) -> Result<R> {
    shared(handle, |source| {
        let taking = Some(source.place().take().ok_or(Code::Busy)?);
        let mut inside = Inside { source, taking };
        inside
            .taking
            .as_mut()
            .map_or(Err(Code::Busy.into()), |taking| body(taking))
    })?
}

fn open(
    name: &Name,
    options: *const forebay_capture_options,
    place: &Place<*mut forebay_capture>,
) -> Result<()> {
    let given = border::options(options)?;
    let defaults = Options::default();
    let filter = match given.filter.is_null() {
        true => None,
        false => Some(
            text(given.filter, "filter")?
                .parse::<Filter>()
                .map_err(forebay::Error::from)?,
        ),
    };
    let options = Options {
        filter,
        ring_bytes: (given.ring_bytes > 0).then_some(given.ring_bytes),
        delay: match given.delay_ns {
            0 => defaults.delay,
            delay => Duration::from_nanos(delay),
        },
        snaplen: match given.snaplen {
            0 => defaults.snaplen,
            snaplen => snaplen,
        },
        promiscuous: given.not_promiscuous == 0,
        incoming_only: given.incoming_only != 0,
        ..defaults
    };
    let capture = Capture::with(name, &options)?;
    let source = Source {
        stopper: capture.stopper(),
        taking: Mutex::new(Some(Box::new(Taking {
            capture: Some(capture),
            frames: Vec::new(),
            last: None,
        }))),
    };
    give_one(source, place)
}

/// Opens an interface (`eth0`, `any`, `xdp:eth0`), the packets that a capture shares (`share:NAME`) or the simulated card (`sim`).
/// `options` may be null.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_capture_open(
    name: *const c_char,
    options: *const forebay_capture_options,
    capture: *mut *mut forebay_capture,
) -> c_int {
    done(|| {
        let place = Place::new(capture, "capture")?;
        open(&text(name, "name")?.parse()?, options, &place)
    })
}

/// Opens a capture file, also a compressed one; `-` is standard input. `options` may be null.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_capture_read(
    path: *const c_char,
    options: *const forebay_capture_options,
    capture: *mut *mut forebay_capture,
) -> c_int {
    done(|| {
        let place = Place::new(capture, "capture")?;
        open(
            &Name::File(border::path(path, "path")?.into()),
            options,
            &place,
        )
    })
}

fn frame_of(frame: &Frame<'_>) -> forebay_frame {
    forebay_frame {
        data: frame.data.as_ptr(),
        len: frame.data.len(),
        time_ns: frame.time_ns,
        dropped_before: frame.dropped_before,
        wire_len: frame.wire_len,
        interface: frame.interface,
        direction: match frame.direction {
            Direction::Unknown => 0,
            Direction::Inbound => 1,
            Direction::Outbound => 2,
        },
        reserved: 0,
    }
}

/// Why there is no packet.
fn without<T>(next: &Next<T>, timeout: Duration) -> Failure {
    match next {
        Next::Stopped => Code::Interrupted.into(),
        Next::End => Code::Closed.into(),
        _ if timeout.is_zero() => Code::Empty.into(),
        _ => Code::TimedOut.into(),
    }
}

/// Waits for packets, stores where an array of those that have arrived is, and returns their number. They are lent until the next call with
/// this capture: the bytes are in the ring of the interface, or where the file was read to. `FOREBAY_CLOSED`: the source has ended.
/// `FOREBAY_INTERRUPTED`: it was stopped, and all packets that had been received are taken.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_capture_next(
    handle: *mut forebay_capture,
    frames: *mut *const forebay_frame,
    timeout_ns: i64,
) -> isize {
    answer(|| {
        let place = Place::new(frames, "frames")?;
        place.put(null());
        alone(handle, |taking| {
            taking.frames.clear();
            let timeout = limit(timeout_ns).unwrap_or(Duration::MAX);
            let capture = taking.capture.as_mut().ok_or(Code::Closed)?;
            let found = capture.next_batch(timeout)?;
            let Next::Ready(batch) = found else {
                return Err(without(&found, timeout));
            };
            taking.frames.extend(batch.frames().map(|it| frame_of(&it)));
            place.put(taking.frames.as_ptr());
            Ok(taking.frames.len() as isize)
        })
    })
}

/// Calls the program's function for each packet, in this thread, until it returns another value than 0, the source has ended, or it was
/// stopped. Returns the number of calls. Packets after the last call stay in the source. Until it returns, every other call with this capture
/// except `forebay_capture_stop` is `FOREBAY_BUSY`, also in the function. An exception of the function, in C++, leaves this call, too: the
/// packets up to that one are taken, and the capture can go on.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn forebay_capture_each(
    handle: *mut forebay_capture,
    callback: forebay_frame_callback,
    context: *mut c_void,
) -> i64 {
    let _uncancelled = Uncancelled::new();
    let callback = callback.ok_or(Failure::invalid("`callback` is a null pointer"));
    let calls = callback.and_then(|callback| {
        alone(handle, |taking| {
            taking.frames.clear();
            let capture = taking.capture.as_mut().ok_or(Code::Closed)?;
            let mut calls = 0;
            while let Some(frame) = caught(|| Ok(capture.next_frame()?.map(|it| frame_of(&it))))? {
                calls += 1;
                // SAFETY: the program's function takes any context that the program gave, and a frame that exists meanwhile. What it
                // throws passes only frames of Rust that may unwind, and drops what they hold.
                if unsafe { callback(context, &raw const frame) } != 0 {
                    break;
                }
            }
            Ok(calls)
        })
    });
    answer(|| calls)
}

/// Prepares a wait in `poll`. 1: there is no packet; wait until the descriptor is readable, and try again. 0: do not wait, but try again: there
/// are packets, the source has ended, or it had packets that the filter rejected. Packets that are lent are lent no more.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_capture_arm(handle: *mut forebay_capture) -> c_int {
    answer(|| {
        alone(handle, |taking| {
            taking.frames.clear();
            let capture = taking.capture.as_mut().ok_or(Code::Closed)?;
            Ok(c_int::from(capture.arm()?))
        })
    })
}

/// Cancels the request of `forebay_capture_arm`: packets make the descriptor readable no more. A stop that no `forebay_capture_arm` has seen
/// yet still does.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_capture_disarm(handle: *mut forebay_capture) -> c_int {
    done(|| {
        alone(handle, |taking| {
            taking.capture.as_mut().ok_or(Code::Closed)?.disarm();
            Ok(())
        })
    })
}

/// The descriptor for `forebay_capture_arm`. It is readable while packets wait, once the source has ended, and after `forebay_capture_stop`
/// until the next `forebay_capture_arm`. With a share, and with `ssh:` after a stop, it also becomes readable every 10 ms. It belongs to the capture until `forebay_capture_finish`: do not read or close it.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_capture_descriptor(handle: *mut forebay_capture) -> c_int {
    answer(|| {
        alone(handle, |taking| {
            let capture = taking.capture.as_mut().ok_or(Code::Closed)?;
            Ok(number(capture.descriptor()?))
        })
    })
}

/// Detaches the capture from its source: calls that wait return. Packets received so far can still be taken. Any thread may call it, and a
/// signal handler: it changes neither `errno` nor the last error of the thread.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_capture_stop(handle: *const forebay_capture) -> c_int {
    keeping_errno(|| match shared(handle, |source| source.stopper.stop()) {
        Ok(()) => 0,
        Err(shut) => Failure::from(shut).code as c_int,
    })
}

/// The link type of an interface as in capture files (1: Ethernet). `FOREBAY_NOT_FOUND`: there is none with this number so far.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_capture_link_type(handle: *mut forebay_capture, interface: u32) -> c_int {
    answer(|| Ok(c_int::from(interface_of(handle, interface)?.link.0)))
}

/// The interface of a capture with this number, also after its end.
pub(super) fn interface_of(handle: *const forebay_capture, number: u32) -> Result<Interface> {
    alone(handle, |taking| {
        let found = taking.interfaces()?.get(number as usize);
        Ok(found.cloned().ok_or(Code::NotFound)?)
    })
}

fn counts(ledger: &Ledger) -> forebay_counts {
    let known = |count: Option<u64>| count.unwrap_or(FOREBAY_UNKNOWN);
    let dropped = &ledger.dropped;
    forebay_counts {
        size: size_of::<forebay_counts>(),
        received: ledger.received,
        counted: ledger.counted,
        filtered: ledger.filtered,
        unread: ledger.unread,
        kernel: known(dropped.kernel),
        rx_ring: dropped.rx_ring,
        fill_ring: dropped.fill_ring,
        peer: known(dropped.peer),
        overrun: dropped.overrun,
        interface_dropped: known(ledger.interface_dropped),
    }
}

/// Stores the counts so far; after `forebay_capture_finish`, those at the end. Set `size` before.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_capture_counts(
    handle: *mut forebay_capture,
    result: *mut forebay_counts,
) -> c_int {
    done(|| {
        alone(handle, |taking| {
            put_versioned(result, counts(&taking.ledger()?), "counts")
        })
    })
}

/// Ends the capture, and stores its counts. Packets that were received and not taken are `unread`. Packets that are lent are lent no more.
/// `counts` may be null. `FOREBAY_INVALID`: its `size` is wrong, and the capture goes on. Another error is that of the source, which failed
/// while its last packets were counted: the capture has ended, and the counts are stored.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_capture_finish(
    handle: *mut forebay_capture,
    result: *mut forebay_counts,
) -> c_int {
    done(|| {
        check_size(result)?;
        alone(handle, |taking| {
            taking.frames.clear();
            let mut capture = taking.capture.take().ok_or(Code::Closed)?;
            let finished = capture.finish();
            let ledger = capture.ledger();
            taking.last = Some(Last {
                ledger,
                interfaces: capture.interfaces().to_vec(),
                recorded: capture.recorded().to_vec(),
            });
            if !result.is_null() {
                put_versioned(result, counts(&ledger), "counts")?;
            }
            finished?;
            Ok(())
        })
    })
}

/// Ends the capture, if it has not ended, and gives its memory back. `FOREBAY_BUSY`: a call in another thread uses it, and nothing has
/// happened: stop it, and wait for that thread. No signal handler may stop it any more.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_capture_destroy(handle: *mut forebay_capture) -> c_int {
    done(|| {
        let taking = shared(handle, |source| source.place().take())?;
        let taking = taking.ok_or(Code::Busy)?; // Nobody gets it any more, nor what it lends.
        destroy(handle)?;
        drop(taking);
        Ok(())
    })
}

/// Compiles a filter in the language of libpcap, for packets of this link type (1: Ethernet).
#[unsafe(no_mangle)]
pub extern "C" fn forebay_filter_compile(
    expression: *const c_char,
    link_type: u16,
    filter: *mut *mut forebay_filter,
) -> c_int {
    done(|| {
        let place = Place::new(filter, "filter")?;
        let filter = text(expression, "expression")?.parse::<Filter>();
        let program =
            filter.and_then(|it| it.compile(LinkType(link_type), View::Packet, MAX_SNAPLEN));
        give_one(program.map_err(forebay::Error::from)?, &place)
    })
}

/// Returns 1 if the packet with these bytes and this length on the wire matches, and otherwise 0.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_filter_matches(
    handle: *const forebay_filter,
    data: *const c_void,
    len: usize,
    wire_len: u32,
) -> c_int {
    answer(|| {
        let data: &[u8] = items(data.cast(), len, "data")?;
        let kept = shared(handle, |program| program.run(data, wire_len))?;
        Ok(c_int::from(kept > 0))
    })
}

/// Gives the filter back.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_filter_destroy(handle: *mut forebay_filter) -> c_int {
    done(|| destroy(handle))
}
