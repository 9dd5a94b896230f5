//! What a pipe tells: while it runs, and at its end. Plain data; the command turns it into lines.

use super::Hash;
use forebay::Error;
use std::time::Duration;

/// The counts so far.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Time since the start.
    pub elapsed: Duration,
    /// [`Control::report`](super::Control::report) asked for it.
    pub asked: bool,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes that every output has which still takes any.
    pub bytes_written: u64,
    /// Of these, how many a second since the last report.
    pub bytes_per_second: f64,
    /// How full the buffer is, 0 to 1: what pipes beside it hold counts, too.
    pub fill: f64,
}

/// How an output fared.
#[derive(Debug)]
pub struct Outcome {
    /// How messages call it.
    pub name: String,
    /// Bytes that it took.
    pub bytes: u64,
    /// Its reader went away: an end like any other, for what is no connection.
    pub reader_left: bool,
    /// Why it took no more.
    pub error: Option<Error>,
}

/// How a pipe ended.
#[derive(Debug)]
pub struct Summary {
    /// Bytes read from all inputs.
    pub bytes_read: u64,
    /// Bytes that left the buffer: every output has them that was there to the end.
    pub bytes_written: u64,
    /// Of these, how many the kernel handed on from pipe to pipe: they never were in the buffer.
    pub bytes_passed: u64,
    /// From the first look at the input to the end of the last output.
    pub elapsed: Duration,
    /// How long reading waited for room in the buffer, or in pipes beside it.
    pub producer_waited: Duration,
    /// How long writing waited for bytes in the buffer.
    pub consumer_waited: Duration,
    /// The outputs, as they were given.
    pub outputs: Vec<Outcome>,
    /// Why reading ended before its time. What was read is written nevertheless.
    pub input_error: Option<Error>,
    /// The check sum of the bytes written, as digits.
    pub checksum: Option<(Hash, String)>,
    /// A stop was asked for.
    pub stopped: bool,
    /// A second one, or the watchdog, gave up what was read and not written yet.
    pub abandoned: bool,
    /// The watchdog saw no byte move for too long.
    pub stalled: bool,
}

impl Summary {
    /// Whether the pipe did what it was asked to: all that was read is where it belongs, or its reader wanted no more.
    pub fn is_fine(&self) -> bool {
        let outputs_are_fine = self.outputs.iter().all(|output| output.error.is_none());
        outputs_are_fine && self.input_error.is_none() && !self.abandoned && !self.stalled
    }
}
