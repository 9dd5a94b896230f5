//! Moves bytes from inputs to outputs through a large buffer, with one call.
//!
//! One thread reads into the memory of a [`stream`](forebay::stream), another writes from it, and the caller's thread supervises both. If
//! input and output are kernel pipes, the kernel can move memory pages between them instead, without the stream. So can it from a regular
//! file to a pipe or to another file.
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

mod config;
mod control;
mod counts;
mod digest;
mod direct;
mod draining;
mod filling;
mod input;
mod kernel_pipe;
mod limiter;
mod output;
mod pace;
mod place;
mod relay;
mod summary;
mod supervisor;
#[cfg(test)]
mod tests;

pub use config::PipeConfig;
pub use control::Control;
pub use digest::Hash;
pub use input::Input;
pub use output::{Existing, Output};
pub use place::{Place, split_port};
pub use summary::{Outcome, Progress, Summary};

use counts::Counts;
use direct::Direct;
use draining::Draining;
use filling::Filling;
use forebay::{
    Result,
    stream::{Reader, StreamConfig, Writer, stream_with},
    sync::{Eventfd, Signal},
    time::Clock,
};
use relay::{Intake, Outlet};
use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
    time::Duration,
};
use supervisor::Supervisor;

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
    direct: Option<Direct>,
    config: PipeConfig,
    clock: Clock,
    control: Control,
    counts: Counts,
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
            lines: AtomicU64::new(0),
            moved_at: AtomicU64::new(0),
            filled: Signal::new()?,
            drained: Signal::new()?,
        };
        for output in &mut outputs {
            output.prepare(&inputs)?;
        }
        let beside = relay::bytes_beside(config.capacity_bytes);
        let relay = relay::relay(&inputs, &outputs, &config, beside);
        let direct = Direct::new(&inputs, &outputs, &config);
        if relay.is_some() {
            inputs.iter_mut().for_each(Input::enlarge);
        }
        if relay.is_some() || direct.is_some() {
            outputs.iter().for_each(Output::enlarge);
        }
        Ok(Pipe {
            counts,
            relay,
            direct,
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
        let ways = (intake, self.direct);
        let filling = Filling::new(writer, ways, config, clock.clone(), control, counts);
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
        let passed = drained.passed + filled.given;
        let outcome = |output: Output| output.into_outcome(passed);
        let outputs = drained.outputs.into_iter().map(outcome);
        Summary {
            bytes_read,
            bytes_written,
            lines_written: counts.lines.load(Relaxed),
            bytes_passed: passed,
            elapsed: Duration::from_nanos(clock.now() - began),
            producer_waited: filled.waited,
            consumer_waited: drained.waited.saturating_sub(filled.gave_for),
            outputs: outputs.collect(),
            input_error: filled.ended.err(),
            checksum: drained.hasher.map(digest::Hasher::finish),
            stopped: control.is_stopping(),
            abandoned: control.is_abandoned() && bytes_written < bytes_read,
            stalled: has_stalled,
        }
    }
}

/// Reports the end of a thread, even if it panics.
struct Through<'a>(&'a Signal);

impl Drop for Through<'_> {
    fn drop(&mut self) {
        self.0.raise();
    }
}
