//! What only some ports know about themselves.

use super::{Outages, SocketLosses, Statistics, ThreadCounts};

/// What only some ports know ([`Port::report`](super::Port::report)). The default is for ports that know nothing of it.
#[derive(Clone, Debug, Default)]
pub struct PortReport<'a> {
    /// The losses of an AF_XDP port by cause, at the last call of [`Port::counts`](super::Port::counts). Other sources have none.
    pub socket_losses: SocketLosses,
    /// The share of the source's ring that is filled now, 0 to 1, if the source has a ring and this is known. Frames that the
    /// kernel still collects in its current block are not included.
    pub ring_fill: Option<f64>,
    /// The outages so far, if the source waits for its interface to return.
    pub outages: Outages,
    /// The counts of each thread, if several threads read this source; otherwise empty.
    pub threads: Vec<ThreadCounts>,
    /// With [`TimeSource::Hardware`](super::TimeSource::Hardware): how many of the frames handed out have a time of the hardware.
    /// The others have one of the system's clock.
    pub hardware_times: Option<u64>,
    /// The statistics that a capture file contains for each of its interfaces, to be copied. Live sources have none.
    pub file_statistics: &'a [Option<Statistics>],
    /// For a regular file: the bytes that are read so far, and its length. Other sources have no known end.
    pub reading: Option<(u64, u64)>,
}
