//! The terminal: its alternate screen, what is drawn there, and the keys that arrive.

use super::{
    flow_writer::FlowWriter,
    latest::{Latest, Update},
    screen,
    state::{Action, State},
};
use crate::{
    flow::Flow,
    output::causes,
    signals::{self, Asked},
};
use anyhow::{Context, Result};
use ratatui::{
    DefaultTerminal, Frame,
    crossterm::{
        event::{self, Event as Input, KeyEventKind},
        terminal::{disable_raw_mode, enable_raw_mode, is_raw_mode_enabled},
    },
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{retry_on_intr, write},
    process::{getpgrp, getsid},
    termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr},
};
use signal_hook::{consts::SIGSTOP, low_level::raise};
use std::{
    io::{IsTerminal, stdin, stdout},
    mem::ManuallyDrop,
    os::fd::AsFd,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

/// The longest wait for a key before the screen looks for new counts.
const KEY_WAIT: Duration = Duration::from_millis(100);
/// The longest wait for a terminal that accepts no output.
pub const TERMINAL_WAIT: Duration = Duration::from_millis(100);
/// Enters the alternate screen and hides the cursor.
const ENTER_SCREEN: &[u8] = b"\x1b[?1049h\x1b[?25l";
/// The wheel sends arrow keys. Unlike reports of the mouse, this leaves selecting text to the terminal.
const WHEEL_SCROLLS: &[u8] = b"\x1b[?1007s\x1b[?1007h";
/// Leaves the alternate screen, shows the cursor, and restores what the wheel does.
const LEAVE_SCREEN: &[u8] = b"\x1b[?1007r\x1b[?1049l\x1b[?25h";

/// Requests by signals. Relaxed: they publish nothing else.
static SUSPENDS: AtomicBool = AtomicBool::new(false);
static RESUMES: AtomicBool = AtomicBool::new(false);

/// Handles a signal on the thread for signals; `stop`: the first one that requests the end.
pub fn heed(asked: Asked, stop: impl FnOnce()) {
    match asked {
        Asked::Stop if signals::stops() > 1 => end_now(),
        Asked::Stop => stop(),
        Asked::Suspend => SUSPENDS.store(true, Relaxed),
        Asked::Resume => RESUMES.store(true, Relaxed),
        _ => {}
    }
}

/// A terminal in raw mode, on its alternate screen. It is restored when this is dropped, and before a panic is printed. If it
/// accepts no output, only raw mode ends: dropping the inner terminal would block.
pub struct Terminal(ManuallyDrop<DefaultTerminal>);

impl Terminal {
    pub fn with<T>(act: impl FnOnce(&mut DefaultTerminal) -> Result<T>) -> Result<T> {
        let terminal = ratatui::try_init().context("the terminal cannot be used")?;
        let mut terminal = Terminal(ManuallyDrop::new(terminal));
        let _ = write(stdout(), WHEEL_SCROLLS);
        leave_suspending_to_the_terminal();
        act(&mut terminal.0)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore(TERMINAL_WAIT);
    }
}

/// Ends raw mode, and leaves the alternate screen if the terminal accepts output within `wait`.
fn restore(wait: Duration) {
    // It writes nothing.
    let _ = disable_raw_mode();
    if is_writable(stdout(), wait) {
        // Not through the lock of standard output: another thread may hold it.
        let _ = write(stdout(), LEAVE_SCREEN);
    }
}

/// Raw mode turns Ctrl-Z into a plain key. The terminal itself sends its signal to every process of a pipeline, without which the shell
/// would wait for the others; no process in the sandbox could. Ctrl-C and Ctrl-\ stay keys.
fn leave_suspending_to_the_terminal() {
    let stdout = stdout();
    let Ok(mut modes) = tcgetattr(&stdout) else {
        return;
    };
    modes.local_modes |= LocalModes::ISIG;
    for code in [SpecialCodeIndex::VINTR, SpecialCodeIndex::VQUIT] {
        modes.special_codes[code] = 0;
    }
    let _ = tcsetattr(&stdout, OptionalActions::Now, &modes);
}

/// Stops the process with the terminal restored, until a shell continues it. Nothing happens if no shell could do that.
fn suspend(terminal: &mut DefaultTerminal) -> Result<()> {
    // A shell with job control puts each job into its own process group.
    if getsid(None).is_ok_and(|session| session == getpgrp()) {
        return Ok(());
    }
    restore(TERMINAL_WAIT);
    raise(SIGSTOP).context("cannot suspend")?;
    resume(terminal)
}

/// Takes the terminal again, which the shell has used meanwhile, and draws everything anew.
fn resume(terminal: &mut DefaultTerminal) -> Result<()> {
    // After a STOP, raw mode was not ended by us, but by the shell.
    let _ = disable_raw_mode();
    enable_raw_mode().context("the terminal cannot be used")?;
    leave_suspending_to_the_terminal();
    if is_writable(stdout(), TERMINAL_WAIT) {
        let _ = write(stdout(), ENTER_SCREEN);
        let _ = write(stdout(), WHEEL_SCROLLS);
    }
    repaint(terminal)
}

/// Draws everything anew with the next frame. Unlike `clear`, it does not ask the terminal where the cursor is, which a slow one answers too late.
fn repaint(terminal: &mut DefaultTerminal) -> Result<()> {
    let size = terminal
        .size()
        .context("cannot read the size of the terminal")?;
    terminal
        .resize(size.into())
        .context("cannot draw on the terminal")
}

/// Ends the process although the main thread may be blocked by the terminal.
pub fn end_now() {
    if is_raw_mode_enabled().unwrap_or(false) {
        restore(Duration::ZERO);
    }
    // Unlike `std::process::exit`, it flushes nothing to the terminal.
    signal_hook::low_level::exit(1);
}

/// Whether a write to `file` would not block, or becomes so within `wait`. A file that only returns errors is writable.
pub fn is_writable(file: impl AsFd, wait: Duration) -> bool {
    let wait = Timespec {
        tv_sec: 0,
        tv_nsec: wait.subsec_nanos().into(),
    };
    let ready = retry_on_intr(|| poll(&mut [PollFd::new(&file, PollFlags::OUT)], Some(&wait)));
    ready.is_ok_and(|files| files > 0)
}

enum Arrived {
    Key,
    Nothing,
    HangUp,
}

/// Waits for a key. crossterm would read a terminal that is gone, such as a closed window, again and again.
fn key_within(wait: Duration) -> Arrived {
    let wait = Timespec {
        tv_sec: 0,
        tv_nsec: wait.subsec_nanos().into(),
    };
    let (stdin, stdout) = (stdin(), stdout());
    // Keys come from standard input if it is a terminal.
    let keys = match stdin.is_terminal() {
        true => stdin.as_fd(),
        false => stdout.as_fd(),
    };
    let mut files = [PollFd::from_borrowed_fd(keys, PollFlags::IN)];
    // A signal ends the wait, too: the caller looks what it requests.
    let ready = poll(&mut files, Some(&wait)).unwrap_or(0);
    match files[0].revents() {
        _ if ready == 0 => Arrived::Nothing,
        found if found.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) => {
            Arrived::HangUp
        }
        _ => Arrived::Key,
    }
}

fn is_gone() -> bool {
    matches!(key_within(Duration::ZERO), Arrived::HangUp)
}

/// Begins or ends the file of this flow. Returns why that is not possible.
fn write_flow(writer: &mut Option<FlowWriter>, flow: Flow) -> Option<String> {
    match writer {
        Some(writer) => writer.toggle(flow).err().map(|error| causes(&error)),
        None => {
            Some("w writes a flow to a file if top is started with --write-flows FOLDER".into())
        }
    }
}

/// Draws, until the user quits, a signal ends the program, or the terminal is gone.
pub fn show(
    terminal: &mut DefaultTerminal,
    mut state: State,
    updates: &Latest<Update>,
    writer: &mut Option<FlowWriter>,
) -> Result<()> {
    let mut waiting = None;
    let mut is_changed = true;
    let mut size = terminal
        .size()
        .context("cannot read the size of the terminal")?;
    loop {
        waiting = updates.take().or(waiting);
        if let Some(update) = waiting.take_if(|update| !state.is_paused || update.ended.is_some()) {
            state.update(update.status, &update.snapshot);
            state.ended = update.ended;
            is_changed = true;
        }
        if let Some(progress) = writer.as_mut().and_then(FlowWriter::poll) {
            is_changed |= state.written.as_ref() != Some(&progress);
            state.written = Some(progress);
        }
        if is_changed && is_writable(stdout(), TERMINAL_WAIT) {
            let draw = |frame: &mut Frame<'_>| {
                state.fit(screen::table_rows(frame.area(), &state));
                screen::draw(frame, &state);
            };
            let drawn = terminal.draw(draw).map(drop);
            if is_gone() {
                return Ok(());
            }
            drawn.context("cannot draw on the terminal")?;
            is_changed = false;
        }
        if signals::stops() > 0 {
            return Ok(());
        }
        if SUSPENDS.swap(false, Relaxed) {
            suspend(terminal)?;
            is_changed = true;
        }
        if RESUMES.swap(false, Relaxed) {
            resume(terminal)?;
            is_changed = true;
        }
        match key_within(KEY_WAIT) {
            Arrived::Key => {}
            Arrived::Nothing => {
                let now = terminal
                    .size()
                    .context("cannot read the size of the terminal")?;
                is_changed |= now != size;
                size = now;
                continue;
            }
            Arrived::HangUp => return Ok(()),
        }
        while event::poll(Duration::ZERO).context("cannot read keys")? {
            match event::read().context("cannot read keys")? {
                Input::Key(key) if key.kind != KeyEventKind::Release => {
                    is_changed = true;
                    match state.key(key) {
                        Action::None => {}
                        Action::Quit => return Ok(()),
                        Action::Repaint => repaint(terminal)?,
                        Action::Write(flow) => state.note = write_flow(writer, flow),
                    }
                }
                Input::Resize(..) => is_changed = true,
                _ => {}
            }
        }
    }
}
