//! Printed packets: a thread writes their lines, so that no terminal holds up the capture.
//!
//! ```text
//!  session ──▶ copy of each packet ──▶ queue ──▶ thread: composer ──▶ standard output
//!          │       │ no room: pipes wait; live packets are counted, and not shown
//!          └─▶ composer ──▶ queue ──▶ thread ──▶ standard output                           all packets of regular files
//! ```
//! After the queue was full, no live packet is put into it until half of it is empty again: so a slow terminal shows packets in runs, and
//! the count of those that are missing between them.
//!
//! If all packets of regular files are printed, lines are never held back for a packet that does not come. There the session's thread composes
//! the lines, from the bytes that were read: copying the packets for another thread costs more than that thread would save.

mod composer;
mod feeder;
mod message;
mod shared;
mod writer;

use super::request::{Printing, Request};
use crate::{
    output,
    print::{Printer, Style},
    signals,
};
use anyhow::{Context, Result};
use composer::Composer;
pub use feeder::Feeder;
use feeder::{Feeding, LineFeeder, MAX_TEXT, PacketFeeder};
use forebay::{
    queue::{QueueConfig, spsc},
    standard,
};
use forebay_net::session::Control;
use shared::Shared;
use std::{
    io::{self, IsTerminal},
    sync::{Arc, atomic::Ordering::Relaxed, mpsc},
    time::{Duration, Instant},
};
pub use writer::not_shown;
use writer::{WRITE_BYTES, Writer};

/// Bytes of queued packets: for a file or a pipe enough for a stall of a third of a second; for a terminal less, since nobody
/// wants to see what is long gone.
const QUEUE_BYTES: usize = 32 << 20;
const TERMINAL_QUEUE_BYTES: usize = 1 << 20;
/// Lines composed by the session's thread are queued when there is this much text, since each message wakes the thread that writes it.
const LINE_MESSAGE_BYTES: usize = 256 << 10;
/// Bytes of queued lines: two usual messages. They stay in a second-level cache.
const LINE_QUEUE_BYTES: usize = 2 * MAX_TEXT;
/// Bytes of a packet that its line is made of, if nothing is dumped or summed up.
const LINE_BYTES: usize = 64 << 10;
/// Lines count as printed when the whole write is done, so a slow terminal gets less at once than [`WRITE_BYTES`].
const TERMINAL_WRITE_BYTES: usize = 4 << 10;
/// After an interrupt, printing is abandoned when nothing could be printed for this time.
const PATIENCE: Duration = Duration::from_secs(1);

/// The thread that prints.
pub struct Lines {
    shared: Arc<Shared>,
    ended: mpsc::Receiver<io::Result<()>>,
}

/// What became of the lines.
pub struct Printed {
    /// Packets without a line: there was no room, printing was abandoned, or it failed.
    pub missed: u64,
    /// The reader of standard output has left.
    pub reader_left: bool,
    pub error: Option<io::Error>,
}

impl Lines {
    /// Starts the thread. `control` is stopped when nobody reads the lines and there is no other output.
    ///
    /// # Errors
    /// Standard output is closed, or the system has no more memory or threads.
    pub fn start(
        request: &Request,
        printing: &Printing,
        control: &Control,
        names_interfaces: bool,
    ) -> Result<(Lines, Feeder)> {
        let output = standard::output()?;
        let is_terminal = output.is_terminal();
        let composes = request.takes_all_of_regular_files() && !printing.at_once;
        let (capacity, write_bytes) = match is_terminal {
            true => (TERMINAL_QUEUE_BYTES, TERMINAL_WRITE_BYTES),
            false if composes => (LINE_QUEUE_BYTES, LINE_MESSAGE_BYTES),
            false => (QUEUE_BYTES, WRITE_BYTES),
        };
        let write_bytes = if printing.at_once { 1 } else { write_bytes };
        let (sender, receiver) = spsc::queue_with(&QueueConfig {
            capacity_bytes: capacity,
            populate: false,
            ..QueueConfig::default()
        })?;
        let style = Style {
            interfaces: names_interfaces && printing.layout.is_lines(),
            colours: printing.layout.is_lines()
                && printing
                    .has_colours
                    .unwrap_or_else(|| is_terminal && wants_colours()),
            ..printing.style.clone()
        };
        let most_bytes = match style.verbose > 0 || style.dump != Default::default() {
            true => usize::MAX,
            false => LINE_BYTES,
        };
        let sends_names = style.interfaces || !printing.layout.is_lines();
        let composer = Composer::new(Printer::new(style), printing.layout.clone());
        let (feeding, composer) = match composes {
            true => {
                let lines = LineFeeder {
                    sender,
                    composer,
                    queue_bytes: write_bytes,
                    queued: 0,
                };
                (Feeding::Lines(Box::new(lines)), None)
            }
            false => {
                let packets = PacketFeeder {
                    sender,
                    capacity: capacity as u64,
                    sent: 0,
                    missed: 0,
                    most_bytes,
                    sends_names,
                    waits: request.all_wait(),
                    is_virtual: request.clock().is_virtual(),
                };
                (Feeding::Packets(packets), Some(composer))
            }
        };
        let shared = Arc::new(Shared::default());
        let (tell, ended) = mpsc::channel();
        let feeder = Feeder {
            feeding,
            shared: shared.clone(),
            offered: 0,
        };
        let mut writer = Writer {
            composer,
            output,
            write_bytes,
            shared: shared.clone(),
        };
        let only_prints = !request.has_output();
        let control = control.clone();
        let thread = std::thread::Builder::new().name("forebay-lines".into());
        let spawned = thread.spawn(move || {
            let printed = writer.run(receiver);
            writer.shared.is_over.store(true, Relaxed);
            if printed.is_err() && only_prints {
                control.stop();
            }
            let _ = tell.send(printed);
        });
        spawned.context("cannot start a thread that prints")?;
        Ok((Lines { shared, ended }, feeder))
    }

    /// Waits until everything is printed. After an interrupt, gives up when nothing moves for a second, or at the next
    /// interrupt.
    pub fn finish(self) -> Printed {
        let interrupts_before = signals::stops();
        let mut last = (0, Instant::now());
        let (error, is_abandoned) = loop {
            match self.ended.recv_timeout(PATIENCE / 20) {
                Ok(printed) => break (printed.err(), false),
                Err(mpsc::RecvTimeoutError::Disconnected) => break (None, false),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            let taken = self.shared.taken.load(Relaxed);
            if taken != last.0 {
                last = (taken, Instant::now());
            }
            let interrupts = signals::stops();
            let has_waited = interrupts > 0 && last.1.elapsed() >= PATIENCE;
            if interrupts > interrupts_before || has_waited {
                break (None, true);
            }
        };
        let reader_left = error
            .as_ref()
            .is_some_and(|it| it.kind() == io::ErrorKind::BrokenPipe);
        if is_abandoned {
            self.shared.is_abandoned.store(true, Relaxed);
            output::note("gave up printing");
        }
        let offered = self.shared.offered.load(Relaxed);
        Printed {
            missed: offered.saturating_sub(self.shared.printed.load(Relaxed)),
            reader_left,
            error: error.filter(|_| !reader_left),
        }
    }
}

/// Whether the user has not turned colours off: <https://no-color.org>.
fn wants_colours() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !is_set("NO_COLOR") && std::env::var_os("TERM").is_some_and(|term| term != "dumb")
}
