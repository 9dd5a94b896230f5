//! Printed packets: a thread formats and writes them, so that no terminal holds up the capture.
//!
//! ```text
//!  session ──▶ copy of each packet ──▶ queue ──▶ thread: print::Printer ──▶ standard output
//!                  │ no room: files wait; live packets are counted, and not shown
//! ```
//! After the queue was full, nothing is put into it until half of it is empty again: so a slow terminal shows packets in runs, and
//! the count of those that are missing between them.

use super::request::{Printing, Request};
use crate::{
    output::{self, write_whole},
    print::{Layout, Packet, Printer, Style, Text},
    signals,
};
use anyhow::{Context, Result};
use forebay::{
    queue::{
        RecvError, SendError,
        spsc::{self, Receiver, Sender},
    },
    standard,
};
use forebay_net::{
    port::{Direction, Frame, Interface, LinkType},
    session::Control,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    fs::File,
    io::{self, IsTerminal},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc,
    },
    time::{Duration, Instant},
};

/// Bytes of queued packets: for a file or a pipe enough for a stall of a third of a second; for a terminal less, since nobody
/// wants to see what is long gone.
const QUEUE_BYTES: usize = 32 << 20;
const TERMINAL_QUEUE_BYTES: usize = 1 << 20;
/// Bytes of a packet that its line is made of, if nothing is dumped or summed up.
const LINE_BYTES: usize = 64 << 10;
/// Output is written when this much is ready, or when no packet waits. Lines count as printed when the whole write is done, so
/// a slow terminal gets less at once.
const WRITE_BYTES: usize = 64 << 10;
const TERMINAL_WRITE_BYTES: usize = 4 << 10;
/// While no packet comes, this often it is checked whether the reader has left.
const IDLE: Duration = Duration::from_millis(500);
/// How long the session's thread may wait at once for room.
const SHORT_WAIT: Duration = Duration::from_millis(5);
/// After an interrupt, printing is abandoned when nothing could be printed for this time.
const PATIENCE: Duration = Duration::from_secs(1);

/// Published by one thread and read by the other, each value on its own: relaxed.
#[derive(Default)]
struct Shared {
    /// Bytes that the printing thread has taken from the queue.
    taken: AtomicU64,
    /// Packets that the session has shown to the [`Feeder`], set when the session ends.
    offered: AtomicU64,
    /// Packets whose lines are written.
    printed: AtomicU64,
    /// The reader of standard output has left, or it cannot be written.
    is_over: AtomicBool,
    /// The user does not want the remaining lines.
    is_abandoned: AtomicBool,
}

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

/// What precedes the bytes of a packet in the queue.
const HEADER: usize = 40;

/// Puts packets into the queue, for the session.
pub struct Feeder {
    sender: Sender,
    shared: Arc<Shared>,
    capacity: u64,
    /// Bytes put into the queue.
    sent: u64,
    /// Packets that the session has shown.
    offered: u64,
    /// Packets that found no room since the last one that did.
    missed: u64,
    most_bytes: usize,
    sends_names: bool,
    /// The sources wait for the lines.
    waits: bool,
    /// Time stands still meanwhile.
    is_virtual: bool,
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
        let waits = request.all_wait();
        let (capacity, write_bytes) = match is_terminal {
            true => (TERMINAL_QUEUE_BYTES, TERMINAL_WRITE_BYTES),
            false => (QUEUE_BYTES, WRITE_BYTES),
        };
        let (sender, receiver) = spsc::queue(capacity)?;
        let style = Style {
            interfaces: names_interfaces && printing.layout.is_lines(),
            colours: printing.layout.is_lines()
                && printing
                    .has_colours
                    .unwrap_or_else(|| is_terminal && wants_colours()),
            ..printing.style.clone()
        };
        let shared = Arc::new(Shared::default());
        let (tell, ended) = mpsc::channel();
        let feeder = Feeder {
            sender,
            shared: shared.clone(),
            capacity: capacity as u64,
            sent: 0,
            offered: 0,
            missed: 0,
            most_bytes: match style.verbose > 0 || style.dump != Default::default() {
                true => usize::MAX,
                false => LINE_BYTES,
            },
            sends_names: style.interfaces || !printing.layout.is_lines(),
            waits,
            is_virtual: request.clock().is_virtual(),
        };
        let mut writer = Writer {
            printer: Printer::new(style),
            text: Text::default(),
            output,
            layout: printing.layout.clone(),
            at_once: printing.at_once,
            write_bytes,
            unwritten: 0,
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

impl Feeder {
    /// Takes a packet of the session; `false`: there is no room, and its source waits.
    pub fn put(&mut self, frame: &Frame<'_>, interface: &Interface) -> bool {
        let is_taken = self.queue(frame, interface);
        self.offered += u64::from(is_taken);
        is_taken
    }

    fn queue(&mut self, frame: &Frame<'_>, interface: &Interface) -> bool {
        if self.shared.is_over.load(Relaxed) {
            return true;
        }
        if self.missed > 0 && !self.waits {
            let queued = self.sent - self.shared.taken.load(Relaxed);
            if queued > self.capacity / 2 {
                return self.miss();
            }
        }
        let name = if self.sends_names {
            interface.name.as_bytes()
        } else {
            b""
        };
        let name = &name[..name.len().min(255)];
        let data = &frame.data[..frame.data.len().min(self.most_bytes)];
        let len = HEADER + name.len() + data.len();
        // While nobody sleeps, virtual time stands still: waiting then costs no packet.
        while self.is_virtual
            && signals::stops() == 0
            && matches!(
                self.sender.reserve_timeout(len, SHORT_WAIT),
                Err(SendError::TimedOut)
            )
        {}
        let reserved = match self.waits {
            false => self.sender.try_reserve(len),
            true => self.sender.reserve_timeout(len, SHORT_WAIT),
        };
        match reserved {
            Ok(mut reserved) => {
                let bytes = reserved.bytes();
                bytes[..8].copy_from_slice(&frame.time_ns.to_ne_bytes());
                bytes[8..16].copy_from_slice(&self.missed.to_ne_bytes());
                bytes[16..20].copy_from_slice(&frame.wire_len.to_ne_bytes());
                bytes[20..24].copy_from_slice(&(frame.data.len() as u32).to_ne_bytes());
                bytes[24..26].copy_from_slice(&interface.link.0.to_ne_bytes());
                bytes[26] = frame.direction as u8;
                bytes[27] = name.len() as u8;
                bytes[HEADER..HEADER + name.len()].copy_from_slice(name);
                bytes[HEADER + name.len()..].copy_from_slice(data);
                reserved.commit();
                self.sent += len as u64;
                self.missed = 0;
                true
            }
            Err(SendError::Closed) => true,
            Err(_) if self.waits && signals::stops() == 0 => false,
            Err(_) => self.miss(),
        }
    }

    fn miss(&mut self) -> bool {
        self.missed += 1;
        true
    }
}

impl Drop for Feeder {
    fn drop(&mut self) {
        self.shared.offered.store(self.offered, Relaxed);
    }
}

struct Writer {
    printer: Printer,
    text: Text,
    output: File,
    layout: Layout,
    at_once: bool,
    write_bytes: usize,
    /// Packets whose lines are in `text`.
    unwritten: u64,
    shared: Arc<Shared>,
}

impl Writer {
    /// Prints packets until the session has ended, or the user has had enough.
    fn run(&mut self, mut receiver: Receiver) -> io::Result<()> {
        self.layout.head(&mut self.text);
        while !self.shared.is_abandoned.load(Relaxed) {
            match receiver.try_take() {
                Ok(message) => {
                    self.print(&message)?;
                    continue;
                }
                Err(RecvError::Empty) => {}
                Err(_) => return self.write(),
            }
            self.write()?;
            match receiver.take_timeout(IDLE) {
                Ok(message) => self.print(&message)?,
                Err(RecvError::TimedOut) if self.reader_has_left() => {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
                Err(RecvError::TimedOut) => {}
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Whether the other side of a pipe or socket is gone, which the next write would notice.
    fn reader_has_left(&self) -> bool {
        let mut fds = [PollFd::new(&self.output, PollFlags::empty())];
        let polled = poll(&mut fds, Some(&Timespec::default()));
        let gone = PollFlags::ERR | PollFlags::HUP;
        polled.is_ok() && fds[0].revents().intersects(gone)
    }

    fn print(&mut self, message: &[u8]) -> io::Result<()> {
        let Some((header, rest)) = message.split_first_chunk::<HEADER>() else {
            return Ok(());
        };
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| header[at + byte]));
        let half = |at: usize| u32::from_ne_bytes(std::array::from_fn(|byte| header[at + byte]));
        let (missed, name_len) = (word(8), usize::from(header[27]));
        if missed > 0 {
            self.write()?;
            output::note(not_shown(missed));
        }
        let (name, data) = rest.split_at(name_len.min(rest.len()));
        let packet = Packet {
            link: LinkType(u16::from_ne_bytes([header[24], header[25]])),
            interface: std::str::from_utf8(name).unwrap_or_default(),
            direction: match header[26] {
                1 => Direction::Inbound,
                2 => Direction::Outbound,
                _ => Direction::Unknown,
            },
            time_ns: word(0),
            data,
            captured: half(20),
            wire_len: half(16),
        };
        let (printer, text) = (&mut self.printer, &mut self.text);
        self.layout.print(printer, &packet, output::json, text);
        self.unwritten += 1;
        let written = match self.at_once || self.text.len() >= self.write_bytes {
            true => self.write(),
            false => Ok(()),
        };
        self.shared.taken.fetch_add(message.len() as u64, Relaxed);
        written
    }

    fn write(&mut self) -> io::Result<()> {
        let written = write_whole(&self.output, self.text.bytes());
        self.text.clear();
        let packets = std::mem::take(&mut self.unwritten);
        if written.is_ok() {
            self.shared.printed.fetch_add(packets, Relaxed);
        }
        written
    }
}

/// `1,204 packets not shown`
pub fn not_shown(count: u64) -> String {
    let mut digits = count.to_string();
    let mut at = digits.len();
    while at > 3 {
        at -= 3;
        digits.insert(at, ',');
    }
    let packets = if count == 1 { "packet" } else { "packets" };
    format!("{digits} {packets} not shown")
}

#[cfg(test)]
mod tests {
    use super::not_shown;

    #[test]
    fn counts_are_grouped() {
        assert_eq!(not_shown(1), "1 packet not shown");
        assert_eq!(not_shown(999), "999 packets not shown");
        assert_eq!(not_shown(1204), "1,204 packets not shown");
        assert_eq!(not_shown(1_000_000), "1,000,000 packets not shown");
    }
}
