//! Moves bytes from inputs to outputs through a large buffer, with one call.
//!
//! One thread reads into the memory of a [`stream`](forebay::stream), another writes from it, and the caller's thread supervises both. If
//! input and output are kernel pipes, the kernel can move memory pages between them instead, without the stream.
//!
//! ```text
//!  input ─┐    thread "filling"     ┌───────── the stream ──────────┐     thread "draining"   ┌─▶ output
//!  input ─┴─▶ read(2) into it ────▶ │ . . . │ c o n t e n t │ . . . │ ──▶ write(2) from it ───┼─▶ output
//!                    ▲              └── only the kernel copies  ───┘             ▲           └─▶ output
//!                    └────────── Control: stop · abandon ─────────────────────────┘
//! ```
//!
//! **If one output fails, the others continue**, and the error is part of the summary. It is not an error if the reader of an output pipe
//! closes it: this output just ends. When no output is left, reading ends, too.

mod control;
mod digest;
mod draining;
mod filling;
mod input;
mod limiter;
mod output;
mod pace;
mod place;
mod relay;
mod summary;
mod supervisor;
#[cfg(test)]
mod tests;

pub use control::Control;
pub use digest::Hash;
pub use input::Input;
pub use output::{Existing, Output};
pub use place::{Place, split_port};
pub use summary::{Outcome, Progress, Summary};

use draining::Draining;
use filling::Filling;
use forebay::{
    Error, Result,
    stream::{Reader, StreamConfig, Writer, stream_with},
    sync::{Eventfd, Signal},
    time::Clock,
};
use relay::{Intake, Outlet};
use rustix::event::Timespec;
use std::{
    os::fd::AsFd,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
    time::Duration,
};
use supervisor::Supervisor;

/// Settings of a pipe's buffer.
#[derive(Clone, Debug)]
pub struct PipeConfig {
    /// Size of the buffer in bytes: 1 or more.
    pub capacity_bytes: usize,
    /// Read at most this many bytes at once, and write exactly this many except at the end: 1 to the capacity. `None`: any size
    /// up to 1 MiB.
    pub block_bytes: Option<usize>,
    /// Start writing at this fill level, and again after the buffer ran empty: percent, 0 to 100.
    pub start_writing: u8,
    /// After the buffer was full, resume reading at this fill level: percent, 0 to 100.
    pub start_reading: u8,
    /// Maximum bytes read per second, 1 or more.
    pub read_rate: Option<u64>,
    /// Maximum bytes written per second, 1 or more.
    pub write_rate: Option<u64>,
    /// The checksum to compute of the bytes written.
    pub hash: Option<Hash>,
    /// Make regular files durable at the end.
    pub sync: bool,
    /// The interval of reports to the observer; `None`: only when [`Control::report`] requests one.
    pub progress_every: Option<Duration>,
    /// Give up when no byte moves for this long.
    pub watchdog: Option<Duration>,
    /// Move pages from the input's pipe to the output's pipe inside the kernel (`splice(2)`), without copying them. Intermediate
    /// pipes hold up to `capacity_bytes`, at most 64 MiB. The input's and the output's pipe are enlarged to 1 MiB.
    ///
    /// Set this to `false` for a producer that lends memory to its pipe with `vmsplice(2)`, or splices a file into it, and
    /// overwrites that memory or file once the pipe must have been drained. With splicing, the bytes in transit would change.
    /// Without it, every byte is copied out of the pipe, and no pipe is resized.
    pub splice: bool,
}

impl Default for PipeConfig {
    fn default() -> Self {
        PipeConfig {
            capacity_bytes: 64 << 20,
            block_bytes: None,
            start_writing: 0,
            start_reading: 100,
            read_rate: None,
            write_rate: None,
            hash: None,
            sync: false,
            progress_every: None,
            watchdog: None,
            splice: true,
        }
    }
}

impl PipeConfig {
    /// Checks the ranges that the fields document.
    ///
    /// # Errors
    /// A field is out of range.
    pub fn validate(&self) -> Result<()> {
        let bad = |what: &str, advice: &str| Err(Error::new("pipe", what).advise(advice));
        if self.capacity_bytes == 0 {
            return bad("a buffer of 0 bytes cannot hold anything", "Use 1 or more");
        }
        if self
            .block_bytes
            .is_some_and(|block| !(1..=self.capacity_bytes).contains(&block))
        {
            return bad(
                "the block does not fit in the buffer",
                "Use 1 byte up to the buffer's size",
            );
        }
        if self.start_writing > 100 || self.start_reading > 100 {
            return bad("a watermark is out of range", "Use 0 to 100 percent");
        }
        if self.read_rate == Some(0) || self.write_rate == Some(0) {
            return bad(
                "a rate of 0 would never finish",
                "Use at least 1 byte per second",
            );
        }
        Ok(())
    }
}

/// A pipe that is ready to run: inputs and outputs are open, the buffer exists.
///
/// ```
/// use forebay_io::pipe::{PipeConfig, Control, Input, Output, Pipe};
/// use std::{fs::File, io::{Read, Write}, os::fd::OwnedFd};
///
/// let file = |end: OwnedFd| File::from(end);
/// let (source, mut producer) = std::io::pipe().unwrap();
/// let (mut consumer, target) = std::io::pipe().unwrap();
/// let inputs = vec![Input::new(file(source.into()), "source")?];
/// let outputs = vec![Output::new(file(target.into()), "target")?];
/// let pipe = Pipe::open(inputs, outputs, PipeConfig::default(), Control::new()?)?;
/// let thread = std::thread::spawn(move || pipe.run(&mut |_| {}));
/// producer.write_all(b"through a large buffer").unwrap();
/// drop(producer);
/// let mut text = String::new();
/// consumer.read_to_string(&mut text).unwrap();
/// assert_eq!(text, "through a large buffer");
/// let summary = thread.join().unwrap();
/// assert!(summary.is_fine());
/// assert_eq!((summary.bytes_read, summary.bytes_written), (22, 22));
/// # Ok::<(), forebay::Error>(())
/// ```
pub struct Pipe {
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    writer: Writer<Eventfd>,
    reader: Reader<Eventfd>,
    /// The bypass of the buffer.
    relay: Option<(Intake, Outlet)>,
    config: PipeConfig,
    clock: Clock,
    control: Control,
    counts: Counts,
}

/// State shared by the two threads and the supervisor.
#[derive(Debug)]
struct Counts {
    /// Written by the reading thread. Relaxed, like the other counts: it publishes only itself.
    read: AtomicU64,
    /// Written by the writing thread.
    written: AtomicU64,
    /// When bytes last moved, on the pipe's clock. Written by both threads. Relaxed, like the others.
    moved_at: AtomicU64,
    /// The reading thread has ended.
    filled: Signal,
    /// The writing thread has ended: no output takes any more bytes.
    drained: Signal,
}

impl Pipe {
    /// Creates the buffer, and empties the output files that are to be truncated. The buffer's memory is populated while the pipe
    /// runs, whenever the reading thread is idle. (Pages of 2 MiB cost more to create than they save here.)
    ///
    /// # Errors
    /// The configuration is out of range, an output is also an input, or the buffer cannot be created.
    pub fn open(
        mut inputs: Vec<Input>,
        mut outputs: Vec<Output>,
        config: PipeConfig,
        control: Control,
    ) -> Result<Self> {
        config.validate()?;
        let (writer, reader) = stream_with::<Eventfd>(&StreamConfig {
            capacity_bytes: config.capacity_bytes,
            populate: false, // the reading thread populates it when idle
            ..StreamConfig::default()
        })?;
        let counts = Counts {
            read: AtomicU64::new(0),
            written: AtomicU64::new(0),
            moved_at: AtomicU64::new(0),
            filled: Signal::new()?,
            drained: Signal::new()?,
        };
        for output in &mut outputs {
            output.prepare(&inputs)?;
        }
        let beside = relay::bytes_beside(config.capacity_bytes);
        let relay = relay::relay(&inputs, &outputs, &config, beside);
        if relay.is_some() {
            inputs.iter_mut().for_each(Input::enlarge);
            outputs.iter().for_each(Output::enlarge);
        }
        Ok(Pipe {
            counts,
            relay,
            inputs,
            outputs,
            writer,
            reader,
            config,
            clock: Clock::real(),
            control,
        })
    }

    /// The total number of bytes, if it is known for all inputs.
    pub fn bytes(&self) -> Option<u64> {
        self.inputs.iter().map(Input::bytes).sum()
    }

    /// Moves bytes until the inputs end, no output is left, or [`Control::stop`] is called; then drains. `observe` receives the
    /// counts meanwhile.
    ///
    /// # Panics
    /// If one of its threads cannot be started, or panics.
    pub fn run(self, observe: &mut dyn FnMut(&Progress)) -> Summary {
        let (config, clock) = (&self.config, &self.clock);
        let (control, counts) = (&self.control, &self.counts);
        let began = clock.now();
        let (inputs, outputs) = (self.inputs, self.outputs);
        let (intake, outlet) = self.relay.unzip();
        let (writer, reader) = (self.writer, self.reader);
        let filling = Filling::new(writer, intake, config, clock.clone(), control, counts);
        let draining = Draining::new(
            reader,
            outlet,
            outputs,
            config,
            clock.clone(),
            control,
            counts,
        );
        let (filled, mut drained, has_stalled) = thread::scope(|scope| {
            let start = |name: &str| thread::Builder::new().name(name.into());
            let filling = start("filling").spawn_scoped(scope, move || {
                let _through = Through(&counts.filled);
                filling.run(inputs)
            });
            let draining = start("draining").spawn_scoped(scope, move || {
                let _through = Through(&counts.drained);
                draining.run()
            });
            let (filling, draining) = (filling.expect("a thread"), draining.expect("a thread"));
            let has_stalled = Supervisor::new(config, clock, control, counts).run(observe);
            let filled = filling.join().expect("filling does not panic");
            let drained = draining.join().expect("draining does not panic");
            (filled, drained, has_stalled)
        });
        for output in &mut drained.outputs {
            output.finish(config.sync);
        }
        let (bytes_read, bytes_written) = counts.now();
        let outcome = |output: Output| output.into_outcome(drained.passed);
        let outputs = drained.outputs.into_iter().map(outcome);
        Summary {
            bytes_read,
            bytes_written,
            bytes_passed: drained.passed,
            elapsed: Duration::from_nanos(clock.now() - began),
            producer_waited: filled.waited,
            consumer_waited: drained.waited,
            outputs: outputs.collect(),
            input_error: filled.ended.err(),
            checksum: drained.hasher.map(digest::Hasher::finish),
            stopped: control.is_stopping(),
            abandoned: control.is_abandoned() && bytes_written < bytes_read,
            stalled: has_stalled,
        }
    }
}

impl Counts {
    fn count_read(&self, bytes: u64, now: u64) {
        self.read.fetch_add(bytes, Relaxed);
        self.moved_at.fetch_max(now, Relaxed);
    }

    fn count_written(&self, bytes: u64, now: u64) {
        self.written.fetch_add(bytes, Relaxed);
        self.moved_at.fetch_max(now, Relaxed);
    }

    /// Bytes read and bytes written; never more written than read.
    fn now(&self) -> (u64, u64) {
        let written = self.written.load(Relaxed);
        (self.read.load(Relaxed).max(written), written)
    }

    /// Bytes that are read but not written yet.
    fn held(&self) -> u64 {
        let (read, written) = self.now();
        read - written
    }
}

/// Reports the end of a thread, even if it panics.
struct Through<'a>(&'a Signal);

impl Drop for Through<'_> {
    fn drop(&mut self) {
        self.0.raise();
    }
}

/// The size of a large kernel pipe, which every user may have.
const LARGE: usize = 1 << 20;

/// Whether a kernel pipe already has room for [`LARGE`] bytes.
fn is_large(pipe: impl AsFd) -> bool {
    rustix::pipe::fcntl_getpipe_size(pipe).is_ok_and(|size| size >= LARGE)
}

/// Enlarges a kernel pipe, which saves wake-ups. Returns whether it is large now.
///
/// The pipe belongs to other programs as well, and its size is part of a contract: a producer that lends memory with
/// `vmsplice(2)` knows that the memory is free again after it has written as many bytes as the pipe holds. In a larger pipe it
/// would overwrite bytes that are not read yet. Therefore a pipe is enlarged only if its pages are spliced and held in other
/// pipes, which breaks that contract anyway ([`PipeConfig::splice`] documents this). If bytes are copied, no pipe is resized.
fn enlarge(pipe: impl AsFd) -> bool {
    is_large(&pipe) || rustix::pipe::fcntl_setpipe_size(&pipe, LARGE).is_ok()
}

/// `percent` of `whole`, rounded up.
fn part(whole: usize, percent: u8) -> usize {
    (whole as u128 * u128::from(percent)).div_ceil(100) as usize
}

/// The time from now until `time` on `clock`.
fn until(time: u64, clock: &Clock) -> Timespec {
    let ns = time.saturating_sub(clock.now());
    Timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    }
}
