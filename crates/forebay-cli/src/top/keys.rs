//! How keys change what the screen shows.

use super::{
    state::{Action, Mode, Sort, State},
    tables::Kind,
};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

impl State {
    /// Handles a key.
    pub fn key(&mut self, key: KeyEvent) -> Action {
        self.note = None;
        let with_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match (self.mode, key.code) {
            (_, KeyCode::Char('c')) if with_control => return Action::Quit,
            (_, KeyCode::Char('l')) if with_control => return Action::Repaint,
            (Mode::Help, _) => self.mode = Mode::Table,
            (Mode::Details, KeyCode::Enter | KeyCode::Esc | KeyCode::Char('q')) => {
                self.mode = Mode::Table
            }
            (Mode::Details, KeyCode::Char('w')) => {
                return self.flow().map_or(Action::None, Action::Write);
            }
            (Mode::Typing, KeyCode::Enter) => self.mode = Mode::Table,
            (Mode::Typing, KeyCode::Esc) => {
                self.filter.clear();
                self.mode = Mode::Table;
            }
            (Mode::Typing, KeyCode::Backspace) => drop(self.filter.pop()),
            (Mode::Typing, KeyCode::Char(letter)) if letter.is_ascii() && !with_control => {
                self.filter.push(letter);
                self.select(|_, _| 0);
            }
            (Mode::Typing, _) => {}
            (Mode::Table, KeyCode::Char('d')) if with_control => {
                self.select(|at, page| at + page / 2)
            }
            (Mode::Table, KeyCode::Char('u')) if with_control => {
                self.select(|at, page| at.saturating_sub(page / 2))
            }
            (Mode::Table | Mode::Details, code) => return self.command(code),
        }
        Action::None
    }

    fn command(&mut self, code: KeyCode) -> Action {
        let kinds = Kind::ALL.len();
        let beside = |kind: Kind, step: usize| Kind::ALL[(kind as usize + step) % kinds];
        let kind = self.kind;
        match code {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Char('?' | 'h') => self.mode = Mode::Help,
            KeyCode::Enter => {
                // From here on it is this row, wherever it is.
                let rows = self.shown();
                let row = rows.get(self.position(&rows)).map(|row| row.name.clone());
                if row.is_some() {
                    (self.selected, self.mode) = (row, Mode::Details);
                }
            }
            KeyCode::Char('/') => self.mode = Mode::Typing,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('r') => self.sort = Sort::Rate,
            KeyCode::Char('b') => self.sort = Sort::Bytes,
            KeyCode::Char('p') => self.sort = Sort::Packets,
            KeyCode::Char('R') => self.is_reversed = !self.is_reversed,
            KeyCode::Char(number @ '1'..='4') => {
                self.kind = Kind::ALL[number as usize - '1' as usize]
            }
            KeyCode::Tab | KeyCode::Right => self.kind = beside(kind, 1),
            KeyCode::BackTab | KeyCode::Left => self.kind = beside(kind, kinds - 1),
            KeyCode::Down | KeyCode::Char('j') => self.select(|at, _| at + 1),
            KeyCode::Up | KeyCode::Char('k') => self.select(|at, _| at.saturating_sub(1)),
            KeyCode::PageDown => self.select(|at, page| at + page),
            KeyCode::PageUp => self.select(|at, page| at.saturating_sub(page)),
            KeyCode::Home | KeyCode::Char('g') => self.select(|_, _| 0),
            KeyCode::End | KeyCode::Char('G') => self.select(|_, _| usize::MAX),
            _ => {}
        }
        if self.kind != kind {
            (self.selected, self.first, self.mode) = (None, 0, Mode::Table);
        }
        Action::None
    }

    /// Selects the row that `step` returns for the position of the selected one and the rows of a page.
    fn select(&mut self, step: impl FnOnce(usize, usize) -> usize) {
        let rows = self.shown();
        let at = step(self.position(&rows), self.page);
        let at = at.min(rows.len().saturating_sub(1));
        // At the top the selection stays there when rows change places.
        let row = rows
            .get(at)
            .filter(|_| at > 0 || self.mode == Mode::Details);
        self.selected = row.map(|row| row.name.clone());
    }
}
