//! Queues from processes that are not trusted: each sender has its own lane to the hub, which checks everything that it reads there.

#![allow(unsafe_code)] // The names are this library's.
#![allow(non_camel_case_types)] // These, too.

use super::watch::within;
use crate::{
    border::{self, Place, Versioned, answer, descriptor, done, items, items_mut, limit, number},
    ends::{destroy, give_one},
    failure::{Failure, Result},
    handles::{exclusive, handles, shared},
};
use forebay::{
    error::Code,
    queue::lanes::{Hub, LanesConfig, RecvError, Sender},
};
use std::{
    ffi::{c_int, c_void},
    os::{fd::AsFd, unix::net::UnixStream},
    time::Duration,
};

/// The receiving end of lanes. All threads may use it at the same time.
pub struct forebay_hub(());

/// The sending end of a lane. One thread at a time may use it.
pub struct forebay_lane(());

handles!(forebay_hub => Hub, forebay_lane => Sender);

/// Settings of a hub. Zeros are the defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct forebay_hub_options {
    /// `sizeof(struct forebay_hub_options)`.
    pub size: usize,
    /// The most senders at a time; 0 is 64.
    pub max_peers: usize,
    /// The most bytes of a lane, which its sender provides; 0 is 1 MiB.
    pub max_lane_bytes: usize,
}

// SAFETY: `repr(C)`, a size first, and numbers.
unsafe impl Versioned for forebay_hub_options {
    const SIZES: &'static [usize] = &[24];
}

/// A message that a hub received, or the end of a lane.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct forebay_hub_received {
    /// `FOREBAY_TOO_LONG`: the bytes that the buffer needs.
    pub len: usize,
    /// The number that the hub gave the sender.
    pub peer: u64,
    /// The number of the message in its lane.
    pub sequence: u64,
    /// 1: the lane of this peer has ended, and no message was received. `FOREBAY_CLOSED`: the sender closed it or its process ended.
    /// `FOREBAY_DAMAGED`: it broke the protocol. Other lanes go on.
    pub lane_ended: u32,
    pub reserved: u32,
}

fn hub<R>(handle: *const forebay_hub, body: impl FnOnce(&Hub) -> Result<R>) -> Result<R> {
    shared(handle, body)?
}

fn lane<R>(handle: *const forebay_lane, body: impl FnOnce(&mut Sender) -> Result<R>) -> Result<R> {
    exclusive(handle, body)?
}

fn socket(number: c_int) -> Result<UnixStream> {
    Ok(descriptor(number)?.into())
}

/// Makes a hub. `options` may be null.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_hub_create(
    options: *const forebay_hub_options,
    hub: *mut *mut forebay_hub,
) -> c_int {
    done(|| {
        let place = Place::new(hub, "hub")?;
        let options = border::options(options)?;
        let default = LanesConfig::default();
        let or = |number: usize, default: usize| if number == 0 { default } else { number };
        let config = LanesConfig {
            max_peers: or(options.max_peers, default.max_peers),
            max_lane_bytes: or(options.max_lane_bytes, default.max_lane_bytes),
        };
        give_one(Hub::new(&config)?, &place)
    })
}

/// Accepts a sender that is connected by a Unix stream socket, and returns its number. The library duplicates the socket. Close
/// your own: it would keep the lane open.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_hub_accept(
    handle: *mut forebay_hub,
    connected: c_int,
    timeout_ns: i64,
) -> i64 {
    answer(|| {
        let socket = socket(connected)?;
        hub(handle, |it| {
            let peer = match limit(timeout_ns) {
                None => it.accept(socket)?,
                Some(limit) => it.accept_timeout(socket, limit)?,
            };
            Ok(peer.number() as i64)
        })
    })
}

/// Copies the next message of any lane into a buffer of `room` bytes, and returns its length. With a time limit of 0 it never waits:
/// `FOREBAY_EMPTY`. If `received->lane_ended` is 1, the code says how the lane of `received->peer` ended.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_hub_receive(
    handle: *mut forebay_hub,
    buffer: *mut c_void,
    room: usize,
    timeout_ns: i64,
    received: *mut forebay_hub_received,
) -> isize {
    answer(|| {
        let place = Place::new(received, "received")?;
        let buffer: &mut [u8] = items_mut(buffer.cast(), room, "buffer")?;
        hub(handle, |it| {
            let answer = within!(timeout_ns, it, recv, try_recv, recv_timeout, buffer);
            let (len, peer, sequence, lane_ended) = match &answer {
                Ok(it) => (it.len, it.peer.number(), it.sequence, 0),
                Err(RecvError::TooSmall { peer, needed }) => (*needed, peer.number(), 0, 0),
                Err(RecvError::Ended { peer, .. }) => (0, peer.number(), 0, 1),
                Err(_) => (0, 0, 0, 0),
            };
            place.put(forebay_hub_received {
                len,
                peer,
                sequence,
                lane_ended,
                reserved: 0,
            });
            match answer {
                Err(error @ RecvError::Ended { .. }) => {
                    Err(Failure::new(error.code(), error.to_string()))
                }
                answer => Ok(answer?.len as isize),
            }
        })
    })
}

/// Ends the lane of this sender. `FOREBAY_NOT_FOUND`: there is none.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_hub_expel(handle: *mut forebay_hub, peer: u64) -> c_int {
    done(|| {
        hub(handle, |it| {
            let lanes = it.stats();
            let lane = lanes.iter().find(|lane| lane.peer.number() == peer);
            it.expel(lane.ok_or(Code::NotFound)?.peer);
            Ok(())
        })
    })
}

/// Prepares a wait in `poll`. 1: there is nothing yet; wait until the descriptor is readable, and try again. 0: there is something, or the
/// hub is closed; do not wait.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_hub_arm(handle: *mut forebay_hub) -> c_int {
    answer(|| hub(handle, |it| Ok(c_int::from(it.arm()))))
}

/// The descriptor for `forebay_hub_arm`. It belongs to the hub: do not read or close it.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_hub_descriptor(handle: *mut forebay_hub) -> c_int {
    answer(|| hub(handle, |it| Ok(number(it.as_fd()))))
}

/// Ends all lanes. Calls that wait return `FOREBAY_CLOSED`.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_hub_close(handle: *mut forebay_hub) -> c_int {
    done(|| {
        hub(handle, |it| {
            it.close();
            Ok(())
        })
    })
}

/// Ends the hub.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_hub_destroy(handle: *mut forebay_hub) -> c_int {
    done(|| destroy(handle))
}

/// Makes a lane of `capacity_bytes` to the hub at the other end of a Unix stream socket, and waits until the hub accepts it. The library
/// duplicates the socket. Close your own: it would keep the lane open after this process has ended it.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_lane_attach(
    connected: c_int,
    capacity_bytes: usize,
    timeout_ns: i64,
    lane: *mut *mut forebay_lane,
) -> c_int {
    done(|| {
        let place = Place::new(lane, "lane")?;
        let socket = socket(connected)?;
        let lane = match limit(timeout_ns) {
            None => Sender::attach(socket, capacity_bytes)?,
            Some(limit) => Sender::attach_timeout(socket, capacity_bytes, limit)?,
        };
        give_one(lane, &place)
    })
}

/// Sends a copy of a message. With a time limit of 0 it never waits: `FOREBAY_FULL`.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_lane_send(
    handle: *mut forebay_lane,
    message: *const c_void,
    len: usize,
    timeout_ns: i64,
) -> c_int {
    done(|| {
        let message: &[u8] = items(message.cast(), len, "message")?;
        lane(handle, |it| {
            Ok(within!(
                timeout_ns,
                it,
                send,
                try_send,
                send_timeout,
                message
            )?)
        })
    })
}

/// The longest message, in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_lane_largest(handle: *mut forebay_lane) -> isize {
    answer(|| lane(handle, |it| Ok(it.largest() as isize)))
}

/// Ends the lane. The hub receives what was sent.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_lane_destroy(handle: *mut forebay_lane) -> c_int {
    done(|| destroy(handle))
}
