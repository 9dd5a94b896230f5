//! Reports of a pipe: while it runs, and at its end. Plain data; the command formats it.

use super::Hash;
use forebay::Error;
use std::time::Duration;

/// The counts so far.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Time since the start.
    pub elapsed: Duration,
    /// [`Control::report`](super::Control::report) requested it.
    pub asked: bool,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes that every output still in use has accepted.
    pub bytes_written: u64,
    /// Bytes written per second since the previous report.
    pub bytes_per_second: f64,
    /// Newlines among the bytes written, if [`PipeConfig`](super::PipeConfig) asks for them.
    pub lines_written: u64,
    /// Lines written per second since the previous report.
    pub lines_per_second: f64,
    /// Fill level of the buffer, 0 to 1, including the intermediate pipes.
    pub fill: f64,
}

/// The result of an output.
#[derive(Debug)]
pub struct Outcome {
    /// The name in messages.
    pub name: String,
    /// Bytes that it accepted.
    pub bytes: u64,
    /// Its reader closed its end, which is a normal end unless it is a connection.
    pub reader_left: bool,
    /// Why it took no more bytes.
    pub error: Option<Error>,
}

/// The result of a pipe.
#[derive(Debug)]
pub struct Summary {
    /// Bytes read from all inputs.
    pub bytes_read: u64,
    /// Bytes that left the buffer: every output that remained to the end has them.
    pub bytes_written: u64,
    /// Newlines among them, if they were counted.
    pub lines_written: u64,
    /// Bytes written that the kernel moved or copied, past the buffer.
    pub bytes_passed: u64,
    /// From the first check of the input to the end of the last output.
    pub elapsed: Duration,
    /// Time that reading waited for room in the buffer, or in the intermediate pipes.
    pub producer_waited: Duration,
    /// Time that writing waited for bytes in the buffer.
    pub consumer_waited: Duration,
    /// The outputs, in the order given.
    pub outputs: Vec<Outcome>,
    /// The error that ended reading early. All bytes read are written nevertheless.
    pub input_error: Option<Error>,
    /// The checksum of the bytes written, as digits.
    pub checksum: Option<(Hash, String)>,
    /// A stop was requested.
    pub stopped: bool,
    /// A second stop, or the watchdog, discarded bytes that were read but not written yet.
    pub abandoned: bool,
    /// The watchdog found that no byte moved for too long.
    pub stalled: bool,
}

impl Summary {
    /// Whether the pipe succeeded: every output has all bytes, or its reader closed early.
    pub fn is_fine(&self) -> bool {
        let outputs_are_fine = self.outputs.iter().all(|output| output.error.is_none());
        outputs_are_fine && self.input_error.is_none() && !self.abandoned && !self.stalled
    }
}
