//! Threads that print, so that no other thread waits for a terminal or a pipe that nobody reads.
//!
//! ```text
//!   say, summary ──▶ waiting: as many as there are      ┐
//!   report ────────▶ waiting: up to 64 KiB, else dropped ├─▶ thread ──▶ write(2), which may block for ever
//!   show ──────────▶ one place: the newest display       ┘
//! ```
//! There is one thread for standard error and one for standard output; a single one where both are the same file, so that the
//! display and the lines of one terminal stay in order. Before [`start`], the calling thread writes its lines itself.

use super::{
    escape::plain,
    terminal::{Display, columns_of_stderr},
};
use crate::signals;
use anyhow::{Context, Result};
use forebay::standard;
use rustix::event::{PollFd, PollFlags, poll};
use std::{
    collections::VecDeque,
    fs::File,
    io::{self, ErrorKind, Write},
    os::{fd::AsFd, unix::fs::MetadataExt},
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

/// Bytes of waiting reports: some hundred reports.
const REPORT_BYTES: usize = 64 << 10;

/// After an interrupt, printing is abandoned when nothing could be printed for this time.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Output,
    Error,
}

static PRINTERS: OnceLock<Printers> = OnceLock::new();

struct Printers {
    error: Arc<Printer>,
    output: Arc<Printer>,
}

impl Printers {
    fn of(&self, stream: Stream) -> &Printer {
        match stream {
            Stream::Error => &self.error,
            Stream::Output => &self.output,
        }
    }
}

#[derive(Default)]
struct Printer {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Entry>,
    /// Bytes of the queued texts.
    bytes: usize,
    display: Option<String>,
    /// Whether the entry that is being printed is a summary; `None`: nothing is being printed.
    printing: Option<bool>,
    /// Incremented for every entry that is done.
    steps: u64,
    /// Why a summary could not be printed.
    failed: Option<io::Error>,
}

enum Entry {
    Line {
        to: Stream,
        text: String,
        is_summary: bool,
    },
    /// Keep the display's last text, and print below it.
    Keep(Option<String>),
    Hide,
    Show(String),
}

impl State {
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.display.is_none() && self.printing.is_none()
    }

    fn holds_summary(&self) -> bool {
        let is_summary = |entry: &Entry| {
            matches!(
                entry,
                Entry::Line {
                    is_summary: true,
                    ..
                }
            )
        };
        self.printing == Some(true) || self.waiting.iter().any(is_summary)
    }
}

impl Printer {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues `text` to be printed as a line; false if more than `limit` bytes wait already.
    fn line(&self, to: Stream, text: &str, is_summary: bool, limit: usize) -> bool {
        let mut state = self.state();
        if state.bytes + text.len() >= limit {
            return false;
        }
        state.bytes += text.len() + 1;
        let text = format!("{text}\n");
        state.waiting.push_back(Entry::Line {
            to,
            text,
            is_summary,
        });
        self.changed.notify_all();
        true
    }

    fn show(&self, text: String) {
        self.state().display = Some(text);
        self.changed.notify_all();
    }

    /// Ends the display, in order with the lines around it.
    fn end_display(&self, stays: bool) {
        let mut state = self.state();
        let last = state.display.take();
        state.waiting.push_back(match stays {
            true => Entry::Keep(last),
            false => Entry::Hide,
        });
        self.changed.notify_all();
    }

    /// Returns the next entry to print, and marks the one before as done.
    fn next(&self, done: io::Result<()>) -> Entry {
        let mut state = self.state();
        if let Some(was_summary) = state.printing.take() {
            state.steps += 1;
            if let (true, Err(error)) = (was_summary, done) {
                state.failed.get_or_insert(error);
            }
            self.changed.notify_all();
        }
        loop {
            if let Some(entry) = state.waiting.pop_front() {
                let mut is_a_summary = false;
                if let Entry::Line {
                    text, is_summary, ..
                } = &entry
                {
                    state.bytes -= text.len();
                    is_a_summary = *is_summary;
                }
                state.printing = Some(is_a_summary);
                return entry;
            }
            if let Some(text) = state.display.take() {
                state.printing = Some(false);
                return Entry::Show(text);
            }
            let woken = self.changed.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until everything is printed; false if nobody reads it and the user interrupted the wait.
    fn finish(&self, interrupts_before: u32) -> bool {
        let mut state = self.state();
        let mut last = (state.steps, Instant::now());
        while !state.is_idle() {
            let interrupts = signals::stops();
            if state.steps != last.0 {
                last = (state.steps, Instant::now());
            }
            let has_waited = interrupts > 0 && last.1.elapsed() >= PATIENCE;
            if interrupts > interrupts_before || has_waited {
                return !state.holds_summary();
            }
            let woken = self.changed.wait_timeout(state, PATIENCE / 20);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

/// From here on threads print, and no other thread waits for that. `draws_anywhere`: show the display even if standard error is
/// not a terminal. Privileges must be dropped before, since the threads inherit them.
///
/// # Errors
/// The system has no more threads or descriptors.
pub fn start(draws_anywhere: bool) -> Result<()> {
    if PRINTERS.get().is_some() {
        return Ok(());
    }
    let file = |fd: io::Result<_>| fd.map(File::from).context("cannot open standard error");
    let error = file(io::stderr().as_fd().try_clone_to_owned())?;
    // A closed stream accepts nothing, which is an error if something is to be printed there.
    let output = standard::output().or_else(|_| File::open("/dev/null"));
    let output = output.context("cannot open standard output")?;
    let identity = |file: &File| Some((file.metadata().ok()?.dev(), file.metadata().ok()?.ino()));
    let are_one = identity(&error) == identity(&output);
    let of_error = Arc::new(Printer::default());
    let of_output = match are_one {
        true => of_error.clone(),
        false => Arc::new(Printer::default()),
    };
    if !are_one {
        spawn(&of_output, &error, &output, false)?;
    }
    spawn(&of_error, &error, &output, draws_anywhere)?;
    let _ = PRINTERS.set(Printers {
        error: of_error,
        output: of_output,
    });
    Ok(())
}

fn spawn(printer: &Arc<Printer>, error: &File, output: &File, draws_anywhere: bool) -> Result<()> {
    const FAILED: &str = "cannot start a thread that prints";
    let printer = printer.clone();
    let display = Display::new(error.try_clone().context(FAILED)?, draws_anywhere);
    let (error, output) = (
        error.try_clone().context(FAILED)?,
        output.try_clone().context(FAILED)?,
    );
    let thread = std::thread::Builder::new().name("forebay-print".into());
    let spawned = thread.spawn(move || print(&printer, display, &error, &output));
    spawned.map(drop).context(FAILED)
}

fn print(printer: &Printer, mut display: Display, error: &File, output: &File) {
    let mut done = Ok(());
    loop {
        done = match printer.next(done) {
            Entry::Line { to, text, .. } => {
                let text = display.print(&text);
                write_whole(
                    if to == Stream::Error { error } else { output },
                    text.as_bytes(),
                )
            }
            Entry::Keep(last) => {
                let mut text = last.map_or_else(String::new, |last| display.draw(last));
                text += &display.keep();
                write_whole(error, text.as_bytes())
            }
            Entry::Hide => write_whole(error, display.hide().as_bytes()),
            Entry::Show(text) => write_whole(error, display.draw(text).as_bytes()),
        };
    }
}

/// Writes everything, however long that takes, even if another process made the shared descriptor non-blocking.
pub fn write_whole(mut to: &File, mut left: &[u8]) -> io::Result<()> {
    while !left.is_empty() {
        match to.write(left) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(taken) => left = &left[taken..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let _ = poll(&mut [PollFd::new(&to, PollFlags::OUT)], None);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Prints a line on standard error, with foreign text made safe. If it cannot be printed, the work goes on.
///
/// An error of a filter is three lines: the message, the expression, and marks under the wrong word.
pub fn say(text: &str) {
    let mut lines = text.rsplitn(3, '\n');
    if let (Some(marks), Some(expression), Some(message)) =
        (lines.next(), lines.next(), lines.next())
        && !marks.is_empty()
        && marks.bytes().all(|byte| matches!(byte, b' ' | b'^'))
    {
        [message, expression, marks].into_iter().for_each(say);
        return;
    }
    let text = plain(text);
    match PRINTERS.get() {
        Some(printers) => {
            printers.error.line(Stream::Error, &text, false, usize::MAX);
        }
        None => {
            let _ = writeln!(io::stderr(), "{text}");
        }
    }
}

/// Prints a line of a kind that may occur any number of times; false: dropped, because nobody reads the earlier ones.
#[must_use]
pub fn report(to: Stream, text: &str) -> bool {
    match PRINTERS.get() {
        Some(printers) => {
            let printer = printers.of(to);
            printer.line(to, &plain(text), false, REPORT_BYTES)
        }
        None => true,
    }
}

/// Prints a line that the user asked for: [`finish`] reports if it cannot be printed.
pub fn summary(to: Stream, text: &str) {
    if let Some(printers) = PRINTERS.get() {
        printers.of(to).line(to, &plain(text), true, usize::MAX);
    }
}

/// Draws the line that `text` makes for the given number of columns, in place of the line before. If nobody reads it, only the
/// newest one is kept.
pub fn show(text: impl FnOnce(usize) -> String) {
    if let Some(printers) = PRINTERS.get() {
        printers.error.show(text(columns_of_stderr()));
    }
}

/// Ends the display; its last line stays.
pub fn keep() {
    if let Some(printers) = PRINTERS.get() {
        printers.error.end_display(true);
    }
}

/// Ends the display; its line is erased.
pub fn hide() {
    if let Some(printers) = PRINTERS.get() {
        printers.error.end_display(false);
    }
}

/// Waits until the lines so far are on standard error, so that lines of other threads come after them. It gives up after half a second,
/// in case nobody reads them.
pub fn settle() {
    let Some(printers) = PRINTERS.get() else {
        return;
    };
    let printer = &printers.error;
    let is_busy = |state: &mut State| !state.is_idle();
    let limit = Duration::from_millis(500);
    let _ = printer
        .changed
        .wait_timeout_while(printer.state(), limit, is_busy);
}

/// Waits until everything is printed; false if a [`summary`] was not. After an interrupt, gives up when nothing moves for a
/// second, or at the next interrupt.
pub fn finish() -> bool {
    let Some(printers) = PRINTERS.get() else {
        return true;
    };
    let interrupts = signals::stops();
    let mut is_printed = printers.output.finish(interrupts);
    if !is_printed {
        say("forebay: error: the summary was not printed: nobody reads standard output");
    }
    is_printed &= printers.error.finish(interrupts);
    for printer in [&printers.output, &printers.error] {
        let failed = printer.state().failed.take();
        if let Some(error) = failed.filter(|error| error.kind() != ErrorKind::BrokenPipe) {
            say(&format!(
                "forebay: error: the summary cannot be printed: {error}"
            ));
            printers.error.finish(interrupts);
            is_printed = false;
        }
    }
    is_printed
}
