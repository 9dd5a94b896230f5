//! A large buffer in a pipe, as one library call: inputs → stream → outputs → summary.
//!
//! Two threads and a [`stream`] between them, and beside it pipes of ours for what goes from pipe to pipe: one reads into its
//! memory, one writes out of it, and the caller's thread supervises. It knows no packets, and imports nothing else of this crate. Read `filling` next,
//! then `draining`; `relay` says when bytes go from pipe to pipe past all of this; `place` has what can be named.
//!
//! ```text
//!  input ─┐    thread "filling"     ┌───────── the stream ──────────┐     thread "draining"   ┌─▶ output
//!  input ─┴─▶ read(2) into it ────▶ │ . . . │ c o n t e n t │ . . . │ ──▶ write(2) from it ───┼─▶ output
//!                    ▲              └── no copy but the kernel's ───┘             ▲           └─▶ output
//!                    └────────── Control: stop · abandon ─────────────────────────┘
//! ```
//!
//! **One output fails, the others go on**: it is an error of the summary. A reader of a pipe who leaves has had enough, and
//! that is none. When none is left, reading ends, too.

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

use control::Flag;
use draining::Draining;
use filling::Filling;
use forebay::{
    Error, Result,
    stream::{self, Reader, Writer, stream_with},
    sync::Eventfd,
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

/// How a pipe buffers.
#[derive(Clone, Debug)]
pub struct Config {
    /// The buffer, in bytes: 1 or more.
    pub capacity_bytes: usize,
    /// Read at most so many bytes at once, and write exactly so many but at the end: 1 to the capacity. `None`: up to a
    /// MiB, whatever there is.
    pub block_bytes: Option<usize>,
    /// Begin to write when the buffer is filled so far, and again so after it ran empty: percent, 0 to 100.
    pub start_writing: u8,
    /// Once the buffer was full, go on reading when it is drained so far: percent, 0 to 100.
    pub start_reading: u8,
    /// Most bytes a second to read, 1 or more.
    pub read_rate: Option<u64>,
    /// Most bytes a second to write, 1 or more.
    pub write_rate: Option<u64>,
    /// The check sum of what is written.
    pub hash: Option<Hash>,
    /// Make regular files durable at the end.
    pub sync: bool,
    /// How often the observer hears of the counts; `None`: only when [`Control::report`] asks.
    pub progress_every: Option<Duration>,
    /// Give up when no byte moves for so long.
    pub watchdog: Option<Duration>,
    /// Move pages from the input's pipe to the output's pipe inside the kernel (`splice(2)`), without copying them. Up to
    /// `capacity_bytes`, and 64 MiB, are held in pipes of our own on the way. The input's and the output's pipe are
    /// enlarged to 1 MiB.
    ///
    /// Set this to `false` for a producer that lends memory to its pipe with `vmsplice(2)`, or splices a file into it, and
    /// overwrites that memory or file once the pipe must have been drained. With splicing, the bytes on the way would
    /// change. Without it every byte is copied out of the pipe, and no pipe is resized.
    pub splice: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
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

impl Config {
    /// Checks the ranges given at each field.
    ///
    /// # Errors
    /// A field is out of its range.
    pub fn validate(&self) -> Result<()> {
        let bad = |what: &str, advice: &str| Err(Error::new("pipe", what).advise(advice));
        if self.capacity_bytes == 0 {
            return bad("a buffer of 0 bytes holds nothing", "Use 1 or more");
        }
        if self
            .block_bytes
            .is_some_and(|block| !(1..=self.capacity_bytes).contains(&block))
        {
            return bad(
                "the block does not fit the buffer",
                "Use 1 byte up to the buffer's size",
            );
        }
        if self.start_writing > 100 || self.start_reading > 100 {
            return bad("a watermark is beyond the buffer", "Use 0 to 100 percent");
        }
        if self.read_rate == Some(0) || self.write_rate == Some(0) {
            return bad("a rate of 0 never ends", "Use 1 byte a second or more");
        }
        Ok(())
    }
}

/// A pipe that is set up: inputs and outputs open, the buffer made.
///
/// ```
/// use forebay_net::pipe::{Config, Control, Input, Output, Pipe};
/// use std::{fs::File, io::{Read, Write}, os::fd::OwnedFd};
///
/// let file = |end: OwnedFd| File::from(end);
/// let (source, mut producer) = std::io::pipe().unwrap();
/// let (mut consumer, target) = std::io::pipe().unwrap();
/// let inputs = vec![Input::new(file(source.into()), "source")?];
/// let outputs = vec![Output::new(file(target.into()), "target")?];
/// let pipe = Pipe::open(inputs, outputs, Config::default(), Control::new()?)?;
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
    /// The way past the buffer.
    relay: Option<(Intake, Outlet)>,
    config: Config,
    clock: Clock,
    control: Control,
    counts: Counts,
}

/// What the two threads tell each other and who watches them.
#[derive(Debug)]
struct Counts {
    /// Written by the thread that fills. Relaxed, as the other: it publishes nothing but itself.
    read: AtomicU64,
    /// Written by the thread that drains.
    written: AtomicU64,
    /// When bytes moved last, on the pipe's clock: written by both threads. Relaxed, as the others.
    moved_at: AtomicU64,
    /// The thread that fills is through.
    filled: Flag,
    /// The thread that drains is through: nobody takes anything any more.
    drained: Flag,
}

impl Pipe {
    /// Makes the buffer, and empties the files that are to be. Its memory is made present while the pipe runs, whenever there is
    /// nothing else to do (pages of 2 MiB cost more to make than they bring here).
    ///
    /// # Errors
    /// The configuration is out of range, an output is an input, too, or the buffer cannot be had.
    pub fn open(
        mut inputs: Vec<Input>,
        mut outputs: Vec<Output>,
        config: Config,
        control: Control,
    ) -> Result<Self> {
        config.validate()?;
        let (writer, reader) = stream_with::<Eventfd>(&stream::Config {
            capacity_bytes: config.capacity_bytes,
            populate: false, // the thread that fills does that when it has nothing else to do
            ..stream::Config::default()
        })?;
        let flag = || Flag::new().map_err(control::no_descriptor);
        let counts = Counts {
            read: AtomicU64::new(0),
            written: AtomicU64::new(0),
            moved_at: AtomicU64::new(0),
            filled: flag()?,
            drained: flag()?,
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

    /// How many bytes there will be, where all inputs can tell.
    pub fn bytes(&self) -> Option<u64> {
        self.inputs.iter().map(Input::bytes).sum()
    }

    /// Moves bytes until the inputs end, no output is left, or [`Control::stop`] is called; then drains. `observe` hears of
    /// it meanwhile.
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
    /// `bytes` were read, at the time `now`.
    fn count_read(&self, bytes: u64, now: u64) {
        self.read.fetch_add(bytes, Relaxed);
        self.moved_at.fetch_max(now, Relaxed);
    }

    /// `bytes` were written, at the time `now`.
    fn count_written(&self, bytes: u64, now: u64) {
        self.written.fetch_add(bytes, Relaxed);
        self.moved_at.fetch_max(now, Relaxed);
    }

    /// Bytes read, and bytes written: never more.
    fn now(&self) -> (u64, u64) {
        let written = self.written.load(Relaxed);
        (self.read.load(Relaxed).max(written), written)
    }

    /// Bytes that are read and not written yet.
    fn held(&self) -> u64 {
        let (read, written) = self.now();
        read - written
    }
}

/// Tells that a thread is through, also if it panics.
struct Through<'a>(&'a Flag);

impl Drop for Through<'_> {
    fn drop(&mut self) {
        self.0.raise();
    }
}

/// The size of a large pipe of the kernel: what everybody may have.
const LARGE: usize = 1 << 20;

/// Whether a kernel pipe already has room for [`LARGE`] bytes.
fn is_large(pipe: impl AsFd) -> bool {
    rustix::pipe::fcntl_getpipe_size(pipe).is_ok_and(|size| size >= LARGE)
}

/// Enlarges a kernel pipe, which saves wake-ups, and returns whether it is large now.
///
/// The pipe belongs to other programs as well, and the size of a pipe is part of a contract: a producer that lends its
/// memory with `vmsplice(2)` knows that its memory is free again after it has written as many bytes as the pipe holds.
/// In a larger pipe it overwrites bytes that nobody has read. So a pipe is only enlarged where its pages are spliced on
/// and held in other pipes, which ends that contract anyway ([`Config::splice`] documents this). Where bytes are
/// copied, no pipe is resized.
fn enlarge(pipe: impl AsFd) -> bool {
    is_large(&pipe) || rustix::pipe::fcntl_setpipe_size(&pipe, LARGE).is_ok()
}

/// `percent` of `whole`, rounded up.
fn part(whole: usize, percent: u8) -> usize {
    (whole as u128 * u128::from(percent)).div_ceil(100) as usize
}

/// From now to `time` on `clock`.
fn until(time: u64, clock: &Clock) -> Timespec {
    let ns = time.saturating_sub(clock.now());
    Timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    }
}
