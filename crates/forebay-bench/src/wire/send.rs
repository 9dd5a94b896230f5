//! The load: frames of one size, many a system call, each batch when it is due.
//!
//! The kernel cuts what a UDP socket sends into datagrams just before the wire (`UDP_SEGMENT`, on an interface that takes no longer
//! ones), which is the fastest way into a veth: frames one by one, though many a call, are half as many here. veth delivers on the
//! sender's processor, so what the kernel does to hand a frame to a capture is this process's time.
#![allow(unsafe_code)]

use super::lab::STATION;
use crate::method::process::tell;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::{
    hint, io, mem,
    net::UdpSocket,
    os::fd::AsRawFd,
    time::{Duration, Instant},
};

/// Bytes of Ethernet's, IP's and UDP's headers.
const HEADERS: usize = 14 + 20 + 8;

/// Most datagrams that the kernel cuts one send into (`UDP_MAX_SEGMENTS`), and most bytes.
const DATAGRAMS: usize = 64;
const SEND_BYTES: usize = 65_507;

/// What became of a load.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Sent {
    /// Frames a second.
    pub rate: f64,
    /// How late the latest batch was.
    pub latest: Duration,
}

/// Frames that are sent at once, of this size without their check sequence.
pub fn batch(frame_bytes: usize) -> usize {
    DATAGRAMS.min(SEND_BYTES / (frame_bytes - HEADERS))
}

/// Sends this number of frames of this size, whole batches, `rate` a second, and reports the result.
pub fn send(frames: u64, frame_bytes: usize, rate: u64) -> Result<()> {
    let batch = batch(frame_bytes);
    let payload = frame_bytes - HEADERS;
    let socket = UdpSocket::bind("0.0.0.0:0").context("opening a socket")?;
    cut_into(&socket, payload).context("asking for UDP_SEGMENT")?;
    socket.connect((STATION, 9)).context("to the other end")?; // the port that discards
    let bytes = vec![0; batch * payload];
    let (begun, mut sent, mut latest) = (Instant::now(), 0, Duration::ZERO);
    while sent < frames {
        let due = begun + Duration::from_secs_f64(sent as f64 / rate as f64);
        while Instant::now() < due {
            hint::spin_loop();
        }
        latest = latest.max(due.elapsed());
        let taken = socket.send(&bytes).context("sending")?;
        ensure!(
            taken == bytes.len(),
            "{taken} of {} bytes sent",
            bytes.len()
        );
        sent += batch as u64;
    }
    let rate = sent as f64 / begun.elapsed().as_secs_f64();
    tell(&Sent { rate, latest })
}

fn cut_into(socket: &UdpSocket, payload: usize) -> io::Result<()> {
    let payload = payload as libc::c_int;
    let (value, len) = ((&raw const payload).cast(), mem::size_of_val(&payload));
    let socket = socket.as_raw_fd();
    // SAFETY: the buffer has these bytes.
    let set =
        unsafe { libc::setsockopt(socket, libc::SOL_UDP, libc::UDP_SEGMENT, value, len as u32) };
    match set {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
