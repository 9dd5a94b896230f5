//! Packets: one by one, and in loops.

use crate::{
    abi::{self, Handler, PacketHeader, Stats, Stats64},
    border::{call, end_if_cancelled, exports, guarded, item, items, put, put_prefix},
    failure::Failure,
    handle::{Delivered, Handle, Next, Source, State},
    intake::BATCH,
    live::Live,
    registry::Given,
};
use std::{
    ffi::{c_char, c_int, c_uchar},
    ptr::null,
    time::Duration,
};

/// The outcome of a round of packets.
enum Round {
    /// This number of packets was handed over; 0 if a device had none in time.
    Packets(c_int),
    /// A file has ended.
    End,
    /// The program asked to stop, before the first packet.
    Break,
}

/// Hands over up to `count` packets. If `count` is not positive, that is all packets of a file, as far as the result can count them, or
/// those that a device has, up to a batch. Waits once for the first packet of a device, up to `limit`.
fn round(
    handle: &Handle,
    count: c_int,
    limit: Option<Duration>,
    mut each: impl FnMut(&Delivered),
) -> Result<Round, Failure> {
    let (is_live, is_file) = {
        let state = handle.state()?;
        state.activated()?;
        (
            matches!(state.source, Source::Live(_)),
            state.file().is_some(),
        )
    };
    let count = match count {
        ..=0 if is_live => BATCH as c_int,
        ..=0 => c_int::MAX,
        count => count,
    };
    let mut packets = 0;
    let mut may_wait = is_live;
    let outcome = loop {
        if handle.is_asked_to_break() {
            if packets > 0 {
                break Ok(Round::Packets(packets));
            }
            handle.take_break();
            break Ok(Round::Break);
        }
        let packet = match handle.ready() {
            Some(packet) => packet,
            None => match handle.next() {
                Ok(Next::Packet(packet)) => packet,
                Ok(Next::End) if packets > 0 => break Ok(Round::Packets(packets)),
                Ok(Next::End) => break Ok(Round::End),
                Ok(Next::NotNow) if may_wait => {
                    may_wait = false;
                    let wait = match &mut handle.state()?.source {
                        Source::Live(live) => live.prepare_wait(limit)?,
                        _ => None,
                    };
                    if let Some(wait) = wait {
                        wait.poll(handle.wake()?)?;
                    }
                    continue;
                }
                Ok(Next::NotNow) if is_file => continue,
                Ok(Next::NotNow) => break Ok(Round::Packets(packets)),
                Err(failure) => break Err(failure),
            },
        };
        each(&packet);
        packets += 1;
        if packets == count {
            break Ok(Round::Packets(packets));
        }
        may_wait = false;
    };
    if is_live && let Source::Live(live) = &mut handle.state()?.source {
        if let Some(stats) = live.due_stats() {
            handle.counts.note(stats);
        }
        live.show_waiting();
    }
    outcome
}

/// As [`round`], for a function that returns a number. The end of a file is 0.
fn dispatch(
    handle: &Handle,
    count: c_int,
    limit: Option<Duration>,
    each: impl FnMut(&Delivered),
) -> c_int {
    match round(handle, count, limit, each) {
        Ok(Round::Packets(packets)) => packets,
        Ok(Round::End) => 0,
        Ok(Round::Break) => abi::BREAK,
        Err(failure) => handle.fail(&failure),
    }
}

/// One packet, or what `dispatch` returns without one.
fn one(handle: &Handle) -> (c_int, Option<Delivered>) {
    let mut found = None;
    let returned = dispatch(handle, 1, None, |packet| found = Some(*packet));
    (returned, found)
}

/// The device, whose packets are counted.
fn counted(state: &mut State) -> Result<&mut Live, Failure> {
    let is_file = state.file().is_some();
    match &mut state.source {
        Source::Live(live) => Ok(live),
        _ if is_file => Err("Statistics aren't available from savefiles".into()),
        _ => Err("Statistics aren't available from a pcap_open_dead pcap_t".into()),
    }
}

/// The counts now, or those of shortly before for a signal handler that has interrupted another call.
fn stats(handle: &Handle) -> Result<Stats, Failure> {
    let counts = match handle.state() {
        Ok(mut state) => {
            state.activated()?;
            counted(&mut state)?.stats()
        }
        Err(failure) => return handle.counts.get().ok_or(failure),
    };
    handle.counts.note(counts);
    Ok(counts)
}

/// Hands a packet to the program's function. The header is a copy, which a nested read does not change.
fn hand(handler: Handler, user: *mut c_uchar, packet: &Delivered) {
    call(handler, user, &raw const packet.header, packet.data);
}

/// How long a loop waits before it ends if its thread was cancelled.
const CANCELLED_WITHIN: Duration = Duration::from_millis(500);

#[allow(unsafe_code)] // As in `exports!`; but the thread may end in it.
#[unsafe(no_mangle)]
extern "C-unwind" fn pcap_loop(
    handle: Given<Handle>,
    count: c_int,
    handler: Handler,
    user: *mut c_uchar,
) -> c_int {
    let mut left = count;
    // If the program closes the handle in its function, the loop ends as after `pcap_breakloop`.
    let mut if_closed = abi::ERROR;
    loop {
        let (packets, is_file) = guarded((abi::ERROR, false), || {
            let Some(handle) = handle.get() else {
                return (if_closed, false);
            };
            let is_file = handle.state().is_ok_and(|state| state.file().is_some());
            let each = |packet: &Delivered| hand(handler, user, packet);
            let batch = BATCH as c_int;
            let now = if left <= 0 { batch } else { left.min(batch) };
            (
                dispatch(&handle, now, Some(CANCELLED_WITHIN), each),
                is_file,
            )
        });
        end_if_cancelled();
        if_closed = abi::BREAK;
        match packets {
            // A device had nothing in time.
            0 if !is_file => {}
            ..=0 => return packets,
            _ if count <= 0 => {}
            _ if packets >= left => return 0,
            _ => left -= packets,
        }
    }
}

exports! {
    fn pcap_dispatch(
        handle: Given<Handle>,
        count: c_int,
        handler: Handler,
        user: *mut c_uchar,
    ) -> c_int = abi::ERROR; {
        let Some(handle) = handle.get() else {
            return abi::ERROR;
        };
        dispatch(&handle, count, None, |packet| hand(handler, user, packet))
    }

    fn pcap_next(handle: Given<Handle>, header: *mut PacketHeader) -> *const c_uchar = null(); {
        let packet = handle.get().and_then(|handle| one(&handle).1);
        let Some(packet) = packet else {
            return null();
        };
        put(header, packet.header);
        packet.data
    }

    fn pcap_next_ex(
        handle: Given<Handle>,
        header: *mut *const PacketHeader,
        data: *mut *const c_uchar,
    ) -> c_int = abi::ERROR; {
        let Some(handle) = handle.get() else {
            return abi::ERROR;
        };
        let is_file = handle.state().is_ok_and(|state| state.file().is_some());
        match one(&handle) {
            (_, Some(packet)) => match handle.state() {
                Ok(mut state) => {
                    put(header, state.keep(packet.header));
                    put(data, packet.data);
                    1
                }
                Err(failure) => handle.fail(&failure),
            },
            (0, None) if is_file => abi::BREAK,
            (returned, None) => returned,
        }
    }

    fn pcap_breakloop(handle: Given<Handle>) = (); {
        if let Some(handle) = handle.get() {
            handle.break_loop();
        }
    }

    fn pcap_stats(handle: Given<Handle>, stats: *mut Stats) -> c_int = abi::ERROR; {
        let Some(handle) = handle.get() else {
            return abi::ERROR;
        };
        match self::stats(&handle) {
            Ok(counts) => {
                put(stats, counts);
                0
            }
            Err(failure) => handle.fail(&failure),
        }
    }

    // Of `forebay/pcap.h`.
    fn forebay_pcap_stats64(handle: Given<Handle>, stats: *mut Stats64) -> c_int = abi::ERROR; {
        Handle::ask(handle, |state| {
            let live = counted(state)?;
            // The program has only as many counts as the header that it was compiled with.
            let room = item(stats.cast::<u64>(), 0).map_or(0, |size| size as usize);
            if room < 2 * size_of::<u64>() || room % size_of::<u64>() != 0 {
                return Err("forebay_pcap_stats64: size is not set".into());
            }
            let mut counts = live.exact_counts();
            counts.size = counts.size.min(room as u64);
            put_prefix(stats, counts, room);
            Ok(0)
        })
    }

    fn pcap_setdirection(handle: Given<Handle>, direction: c_int) -> c_int = abi::ERROR; {
        Handle::ask(handle, |state| {
            let Source::Live(live) = &mut state.source else {
                return Err("Setting direction is not supported on this handle".into());
            };
            live.set_direction(direction).map(|()| 0)
        })
    }

    fn pcap_setnonblock(
        handle: Given<Handle>,
        is_nonblocking: c_int,
        errors: *mut c_char,
    ) -> c_int = abi::ERROR; {
        Handle::run(handle, |handle, state| {
            match &mut state.source {
                Source::Created(settings) => settings.nonblocking = is_nonblocking != 0,
                Source::Live(live) => live.set_nonblocking(is_nonblocking != 0)?,
                Source::File(..) => {
                    let failure = "Savefiles cannot be put into non-blocking mode".into();
                    return Ok(handle.fail_into(errors, &failure));
                }
                Source::Dead => {
                    let failure = "A pcap_open_dead pcap_t does not have a non-blocking mode".into();
                    return Ok(handle.fail_into(errors, &failure));
                }
            }
            Ok(0)
        })
    }

    fn pcap_getnonblock(handle: Given<Handle>, errors: *mut c_char) -> c_int = abi::ERROR; {
        Handle::run(handle, |handle, state| Ok(match &state.source {
            Source::Created(_) => handle.fail_into(errors, &Failure::not_activated()),
            Source::Live(live) => live.is_nonblocking().into(),
            Source::File(..) => 0,
            Source::Dead => {
                let failure = "A pcap_open_dead pcap_t does not have a non-blocking mode".into();
                handle.fail_into(errors, &failure)
            }
        }))
    }

    fn pcap_inject(handle: Given<Handle>, data: *const c_uchar, len: usize) -> c_int = abi::ERROR; {
        inject(handle, data, len)
    }

    fn pcap_sendpacket(handle: Given<Handle>, data: *const c_uchar, len: c_int) -> c_int = abi::ERROR; {
        match usize::try_from(len) {
            Ok(len) if inject(handle, data, len) >= 0 => 0,
            _ => abi::ERROR,
        }
    }
}

/// Sends a frame, and returns its length.
fn inject(handle: Given<Handle>, data: *const c_uchar, len: usize) -> c_int {
    let Some(handle) = handle.get() else {
        return abi::ERROR;
    };
    let sent = match (handle.sender.get(), items(data, len)) {
        (None, _) => Err(cannot_send(&handle)),
        (_, None) => Err("a null pointer was supplied as the packet".into()),
        (Some(sender), Some(frame)) => sender.send(frame),
    };
    match sent {
        Ok(()) => c_int::try_from(len).unwrap_or(c_int::MAX),
        Err(failure) => handle.fail(&failure),
    }
}

/// Why a handle without a device does not send.
fn cannot_send(handle: &Handle) -> Failure {
    match handle.state() {
        Err(failure) => failure,
        Ok(state) => match &state.source {
            Source::Created(_) => Failure::not_activated(),
            Source::File(..) => "Sending packets isn't supported on savefiles".into(),
            _ => "Packets can't be sent on a pcap_open_dead pcap_t".into(),
        },
    }
}
