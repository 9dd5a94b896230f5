//! The progress line: whether it may be drawn on a terminal, and how wide it may be.

use rustix::{process::getpgrp, termios};
use std::{
    fs::File,
    io::{IsTerminal, stderr},
};

/// Columns if the width is unknown.
const USUAL_COLUMNS: usize = 80;
const USUAL_ROWS: usize = 24;
/// Messages are not broken into narrower lines.
const MIN_COLUMNS: usize = 20;
/// Columns of `^C` and `^Z`, which the terminal shows after the line. If they went to the next row, the line could not be erased.
const ECHO: usize = 2;

/// Whether `terminal` is a terminal that we may draw on: a background job would draw over the output of other programs.
pub fn is_ours(terminal: &impl std::os::fd::AsFd) -> bool {
    termios::tcgetpgrp(terminal).is_ok_and(|foreground| foreground == getpgrp())
}

/// Columns that a line on `terminal` may fill without wrapping, also when a key is shown after it.
pub fn columns(terminal: &impl std::os::fd::AsFd) -> usize {
    let size = termios::tcgetwinsize(terminal);
    let columns = size.map_or(0, |size| usize::from(size.ws_col));
    let columns = if columns == 0 { USUAL_COLUMNS } else { columns };
    columns.saturating_sub(1 + ECHO).max(1)
}

pub struct Display {
    terminal: File,
    /// Draw even if standard error is not a terminal.
    is_forced: bool,
    /// The newest text, drawn again below each printed line.
    text: Option<String>,
    /// Columns of the visible line, the last one; and lines above it.
    drawn: usize,
    above: usize,
}

impl Display {
    pub fn new(terminal: File, is_forced: bool) -> Self {
        Display {
            terminal,
            is_forced,
            text: None,
            drawn: 0,
            above: 0,
        }
    }

    /// Columns that may be drawn on now. Checked at each draw: the window may be resized, and the job moved to the background.
    fn columns(&mut self) -> Option<usize> {
        if is_ours(&self.terminal) {
            return Some(columns(&self.terminal));
        }
        if self.is_forced && !self.terminal.is_terminal() {
            return Some(usize::MAX);
        }
        // The line that we drew may belong to other programs' output now.
        (self.drawn, self.above) = (0, 0);
        None
    }

    /// Text to write so that `text` is displayed.
    pub fn draw(&mut self, text: String) -> String {
        let text = self.text.insert(text).clone();
        let Some(columns) = self.columns() else {
            return String::new();
        };
        let lines: Vec<_> = text.split('\n').map(|it| clipped(it, columns)).collect();
        let start = match lines.len() > 1 && self.above == 0 && self.drawn > 0 {
            // A single line that becomes the first of several may be longer than it.
            true => {
                self.drawn = 0;
                "\r\x1b[J".into()
            }
            false => self.start(),
        };
        self.above = lines.len() - 1;
        let width = lines.last().map_or(0, |last| width(last));
        let gone = self.drawn.min(columns).saturating_sub(width);
        // The cursor is after the blanks, and so is ^C.
        self.drawn = width + gone;
        format!("{start}{}{:gone$}", lines.join("\n"), "")
    }

    /// Text to write so that `line` is printed, and the display is below it.
    pub fn print(&mut self, line: &str) -> String {
        let mut all = self.erased();
        all += line;
        if let Some(text) = self.text.take() {
            all += &self.draw(text);
        }
        all
    }

    /// Text to write so that the display is erased.
    pub fn hide(&mut self) -> String {
        self.text = None;
        self.erased()
    }

    /// Text to write so that the display stays, and other output follows below it.
    pub fn keep(&mut self) -> String {
        self.text = None;
        let is_drawn = self.columns().is_some() && self.drawn > 0;
        (self.drawn, self.above) = (0, 0);
        String::from(if is_drawn { "\n" } else { "" })
    }

    /// Text to write so that the cursor is where the display begins, and no line above its last one is left.
    fn start(&mut self) -> String {
        match std::mem::take(&mut self.above) {
            0 => "\r".into(),
            above => format!("\r\x1b[{above}A\x1b[J"),
        }
    }

    fn erased(&mut self) -> String {
        let columns = self.columns().unwrap_or(0);
        if self.above > 0 {
            self.drawn = 0;
            return self.start();
        }
        match std::mem::take(&mut self.drawn).min(columns) {
            0 => String::new(),
            drawn => {
                let drawn = (drawn + ECHO).min(columns.saturating_add(ECHO));
                format!("\r{:drawn$}\r", "")
            }
        }
    }
}

/// Columns that a character takes, or more: some characters beyond ASCII take two.
fn letter_width(letter: char) -> usize {
    if letter.is_ascii() { 1 } else { 2 }
}

fn width(text: &str) -> usize {
    text.chars().map(letter_width).sum()
}

/// The longest beginning of `text` that fits.
fn clipped(text: &str, columns: usize) -> &str {
    let mut taken = 0;
    for (at, letter) in text.char_indices() {
        taken += letter_width(letter);
        if taken > columns {
            return &text[..at];
        }
    }
    text
}

/// Columns of messages; `None`: standard error is no terminal.
pub fn columns_of_messages() -> Option<usize> {
    let stderr = stderr();
    stderr
        .is_terminal()
        .then(|| (columns(&stderr) + 1 + ECHO).max(MIN_COLUMNS))
}

/// Columns for a display on standard error.
pub fn columns_of_stderr() -> usize {
    columns(&stderr())
}

/// Lines for a display on standard error.
pub fn rows_of_stderr() -> usize {
    let size = termios::tcgetwinsize(stderr());
    let rows = size.map_or(0, |size| usize::from(size.ws_row));
    if rows < 2 { USUAL_ROWS } else { rows - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_a_line_that_becomes_several() {
        let mut display = Display::new(File::open("/dev/null").unwrap(), true);
        assert_eq!(
            display.draw("in 1 GiB/s, 50 %".into()),
            "\rin 1 GiB/s, 50 %"
        );
        assert_eq!(display.draw("a\nbc".into()), "\r\x1b[Ja\nbc");
        assert_eq!(display.draw("a\nb".into()), "\r\x1b[1A\x1b[Ja\nb ");
        assert_eq!(display.draw("a".into()), "\r\x1b[1A\x1b[Ja ");
    }
}
