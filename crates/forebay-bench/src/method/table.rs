//! Tables, printed as text and as JSON.

use super::samples::{Side, Summary, Times};
use anyhow::{Error, Result};
use serde::Serialize;
use std::{fmt, ops::Not};

/// Rows under named columns, with notes.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// What was compared, and how.
    pub title: String,
    /// The columns after the rows' names.
    pub columns: Vec<String>,
    /// One for each side.
    pub rows: Vec<Row>,
    /// What a reader must know to read it right.
    pub notes: Vec<String>,
}

/// One side's figures.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The side.
    pub name: String,
    /// As many as there are columns, or one that says why there are none.
    pub cells: Vec<Cell>,
}

/// A figure, or what stands in its place.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Cell {
    /// A median with its spread.
    Spread {
        /// The figure.
        #[serde(flatten)]
        summary: Summary,
        /// The true figure may exceed it.
        #[serde(skip_serializing_if = "Not::not")]
        at_least: bool,
        /// Decimals to show.
        #[serde(skip)]
        decimals: usize,
    },
    /// One number.
    Number(Figure),
    /// Words.
    Text(String),
    /// Unknown on this machine.
    Unknown,
}

/// A number, and the decimals to show.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(transparent)]
pub struct Figure {
    value: f64,
    #[serde(skip)]
    decimals: usize,
}

impl Cell {
    /// One number, shown with this number of decimals.
    pub fn number(value: f64, decimals: usize) -> Cell {
        Cell::Number(Figure { value, decimals })
    }

    /// How many times `other` a summary's median is, if both are known.
    pub fn times(summary: Option<Summary>, other: Option<f64>) -> Cell {
        let both = summary.zip(other);
        both.map_or(Cell::Unknown, |(summary, other)| {
            Cell::number(summary.median / other, 2)
        })
    }

    /// The same figure, which the true one may exceed.
    pub fn at_least(mut self) -> Cell {
        if let Cell::Spread { at_least, .. } = &mut self {
            *at_least = true;
        }
        self
    }

    /// A summary, or that there is none.
    pub fn spread(summary: Option<Summary>, decimals: usize) -> Cell {
        summary.map_or(Cell::Unknown, |summary| Cell::Spread {
            summary,
            at_least: false,
            decimals,
        })
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Spread {
                summary,
                at_least,
                decimals,
            } => {
                let (median, low, high) = (summary.median, summary.low, summary.high);
                f.write_str(if *at_least { "at least " } else { "" })?;
                write!(f, "{median:.decimals$}")?;
                match summary.samples {
                    1 => Ok(()),
                    _ => write!(f, " ({low:.decimals$}–{high:.decimals$})"),
                }
            }
            Cell::Number(Figure { value, decimals }) => write!(f, "{value:.decimals$}"),
            Cell::Text(text) => f.write_str(text),
            Cell::Unknown => f.write_str("–"),
        }
    }
}

impl Table {
    /// An empty one.
    pub fn new(title: impl Into<String>, columns: &[&str]) -> Table {
        Table {
            title: title.into(),
            columns: columns.iter().map(|&column| column.into()).collect(),
            rows: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn row(&mut self, name: impl Into<String>, cells: Vec<Cell>) {
        let name = name.into();
        self.rows.push(Row { name, cells });
    }

    /// Adds a row for each side of a contest: nanoseconds, cycles, and the cells that `more` makes of its number and times.
    pub fn timed(
        &mut self,
        sides: &[Side<'_>],
        times: &[Times],
        mut more: impl FnMut(usize, &Times) -> Vec<Cell>,
    ) {
        for (number, (side, time)) in sides.iter().zip(times).enumerate() {
            let mut cells = vec![Cell::spread(Some(time.ns), 2), Cell::spread(time.cycles, 1)];
            cells.extend(more(number, time));
            self.row(&side.name, cells);
        }
    }

    /// Adds a row for each side: the cells that `cells` makes of its result, or why it could not run.
    pub fn results<'a, T>(
        &mut self,
        names: impl IntoIterator<Item = &'a str>,
        results: &[Result<T>],
        cells: impl Fn(&T) -> Vec<Cell>,
    ) {
        for (name, result) in names.into_iter().zip(results) {
            match result {
                Ok(result) => self.row(name, cells(result)),
                Err(why) => self.skipped(name, why),
            }
        }
    }

    /// Adds a row for each of these sides: none could run.
    pub fn all_skipped<'a>(&mut self, names: impl IntoIterator<Item = &'a str>, why: &Error) {
        names.into_iter().for_each(|name| self.skipped(name, why));
    }

    /// Adds a row for a side that could not run.
    pub fn skipped(&mut self, name: impl Into<String>, why: &Error) {
        self.row(name, vec![Cell::Text(format!("skipped: {why:#}"))]);
    }

    /// Adds a note.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| row.cells.iter().map(Cell::to_string).collect())
            .collect();
        let name_width = self.rows.iter().map(|row| row.name.chars().count()).max();
        let name_width = name_width.unwrap_or(0);
        // A single cell under many columns is a reason for missing figures: it needs no column.
        let width_of = |column: usize| {
            let cells = shown
                .iter()
                .filter(|cells| cells.len() == self.columns.len())
                .map(|cells| cells[column].chars().count());
            cells
                .chain([self.columns[column].chars().count()])
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width_of).collect();
        wrapped(&self.title, "", f)?;
        write!(f, "  {:name_width$}", "")?;
        for (column, &width) in self.columns.iter().zip(&widths) {
            write!(f, "  {column:>width$}")?;
        }
        writeln!(f)?;
        for (row, cells) in self.rows.iter().zip(&shown) {
            write!(f, "  {:name_width$}", row.name)?;
            match cells.len() == widths.len() {
                true => {
                    for (cell, &width) in cells.iter().zip(&widths) {
                        write!(f, "  {cell:>width$}")?;
                    }
                }
                false => write!(f, "  {}", cells.join(" "))?,
            }
            writeln!(f)?;
        }
        self.notes
            .iter()
            .try_for_each(|note| wrapped(note, "  * ", f))
    }
}

/// Columns of a line of text.
const WIDTH: usize = 80;

/// Lines of at most [`WIDTH`] columns: the first after `mark`, the others after as many spaces.
fn wrapped(text: &str, mark: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let indent = mark.chars().count();
    let mut width = indent;
    f.write_str(mark)?;
    for (at, word) in text.split(' ').enumerate() {
        let more = word.chars().count();
        match at {
            0 => {}
            _ if width + 1 + more > WIDTH => {
                write!(f, "\n{:indent$}", "")?;
                width = indent;
            }
            _ => {
                f.write_str(" ")?;
                width += 1;
            }
        }
        f.write_str(word)?;
        width += more;
    }
    writeln!(f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_is_in_them_and_a_skipped_row_needs_none() {
        let mut table = Table::new("what", &["ns", "cycles"]);
        table.row("one", vec![Cell::number(1.25, 1), Cell::Unknown]);
        table.skipped(
            "another",
            &anyhow::anyhow!("needs something that is not here"),
        );
        table.note("so it is");
        let expected = "what\n            ns  cycles\n  one      1.2       –\n  \
                        another  skipped: needs something that is not here\n  * so it is\n";
        assert_eq!(table.to_string(), expected);
        let json = serde_json::to_value(&table).unwrap();
        assert_eq!(json["rows"][0]["cells"][0], 1.25);
        assert!(json["rows"][0]["cells"][1].is_null());
    }

    #[test]
    fn long_titles_and_notes_take_several_lines() {
        let title = ["word"; 20].join(" ");
        let mut table = Table::new(&title, &[]);
        table.note(&title);
        let text = table.to_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], ["word"; 16].join(" "));
        assert_eq!(lines[1], ["word"; 4].join(" "));
        assert_eq!(lines[3], format!("  * {}", ["word"; 15].join(" ")));
        assert_eq!(lines[4], format!("    {}", ["word"; 5].join(" ")));
    }

    #[test]
    fn a_figure_that_may_be_higher_is_marked_in_text_and_json() {
        let summary = Summary::of(vec![1.0, 2.0, 3.0]);
        let cell = Cell::spread(summary, 1).at_least();
        assert_eq!(cell.to_string(), "at least 2.0 (1.0–3.0)");
        let one = Cell::spread(Summary::of(vec![2.0]), 1);
        assert_eq!(one.to_string(), "2.0", "one sample has no spread");
        let json = serde_json::to_value(&cell).unwrap();
        assert_eq!(
            (&json["median"], &json["at_least"]),
            (&2.0.into(), &true.into())
        );
    }
}
