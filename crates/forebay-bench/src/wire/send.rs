//! The load: bursts of frames, each burst of one size and sent with one system call when it is due.
//!
//! The kernel cuts what a UDP socket sends into datagrams just before the wire (`UDP_SEGMENT`, on an interface that takes no longer
//! ones), which is the fastest way into a veth: frames one by one, though many a call, are half as many here. veth delivers on the
//! sender's processor, so what the kernel does to hand a frame to a capture is this process's time.
#![allow(unsafe_code)]

use super::{
    burst::{Burst, HEADERS},
    lab::STATION,
};
use crate::method::process::tell;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::{
    hint, io, mem,
    net::UdpSocket,
    os::fd::AsRawFd,
    time::{Duration, Instant},
};

/// What became of a load.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Sent {
    pub frames: u64,
    /// Frames a second.
    pub rate: f64,
    /// How late the latest batch was.
    pub latest: Duration,
}

/// Sends these bursts over and over for this time, `rate` frames a second or as many as possible, and reports the result.
pub fn send(bursts: &[Burst], rate: Option<f64>, time: Duration) -> Result<()> {
    let sockets: Result<Vec<_>> = bursts.iter().map(|burst| socket(*burst)).collect();
    let sockets = sockets?;
    let (begun, mut sent, mut latest) = (Instant::now(), 0, Duration::ZERO);
    let mut turns = bursts.iter().zip(&sockets).cycle();
    let elapsed = loop {
        let now = begun.elapsed();
        if let Some(rate) = rate {
            let due = Duration::from_secs_f64(sent as f64 / rate);
            if due >= time {
                break due;
            }
            while begun.elapsed() < due {
                hint::spin_loop();
            }
            latest = latest.max(begun.elapsed() - due);
        } else if now >= time {
            break now;
        }
        let (burst, (socket, bytes)) = turns.next().context("nothing to send")?;
        let taken = socket.send(bytes).context("sending")?;
        ensure!(
            taken == bytes.len(),
            "{taken} of {} bytes sent",
            bytes.len()
        );
        sent += burst.frames as u64;
    };
    let rate = sent as f64 / elapsed.max(begun.elapsed()).as_secs_f64();
    tell(&Sent {
        frames: sent,
        rate,
        latest,
    })
}

/// A socket that cuts the bytes into the frames of a burst.
fn socket(burst: Burst) -> Result<(UdpSocket, Vec<u8>)> {
    let payload = burst.frame_bytes - HEADERS;
    let socket = UdpSocket::bind("0.0.0.0:0").context("opening a socket")?;
    cut_into(&socket, payload).context("asking for UDP_SEGMENT")?;
    socket.connect((STATION, 9)).context("to the other end")?; // the port that discards
    Ok((socket, vec![0; burst.frames * payload]))
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
