//! Progress lines: fields side by side. If the terminal is too narrow, the least important ones are left out.
//!
//! ```text
//!  capture    00:31  46 M packets  1.488 Mpps  0.95 Gb/s  lost 0  buffer 64 %
//!  pipe, get  name: 3.42 GiB 0:00:31 [ 118 MiB/s] buffer 64 % [======>        ] 42 % ETA 0:00:43
//! ```

use super::time_left::{TimeLeft, clock};
use forebay_io::pipe::Progress;
use forebay_net::units;
use std::time::Duration;

#[derive(Default)]
pub struct Line(Vec<(u32, Field)>);

enum Field {
    Text(String),
    /// A bar that fills what is left of the line: the share that is done, and ticks that move it if that is unknown.
    Bar(Option<f64>, u64),
}

/// The narrowest and the widest bar.
const MIN_CELLS: usize = 8;
const MAX_CELLS: usize = 200;

impl Field {
    fn min_width(&self) -> usize {
        match self {
            Field::Text(text) => text.chars().count(),
            Field::Bar(..) => MIN_CELLS + 2,
        }
    }
}

impl Line {
    /// Adds a field. Those of the highest rank are left out first, those of rank 0 never.
    pub fn put(&mut self, rank: u32, text: String) {
        self.0.push((rank, Field::Text(text)));
    }

    /// The line in this many columns, with `gap` between fields.
    pub fn fit(mut self, gap: &str, columns: usize) -> String {
        let width = loop {
            let widths = self
                .0
                .iter()
                .map(|(_, field)| field.min_width() + gap.len());
            let width = widths.sum::<usize>().saturating_sub(gap.len());
            match self.0.iter().map(|(rank, _)| *rank).max() {
                Some(last @ 1..) if width > columns => self.0.retain(|(rank, _)| *rank < last),
                _ => break width,
            }
        };
        let cells = (MIN_CELLS + columns.saturating_sub(width)).min(MAX_CELLS);
        let texts = self.0.into_iter().map(|(_, field)| match field {
            Field::Text(text) => text,
            Field::Bar(done, ticks) => format!("[{}]", bar(done, cells, ticks)),
        });
        texts.collect::<Vec<_>>().join(gap)
    }
}

/// Fields of a transfer's line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    pub bytes: bool,
    pub timer: bool,
    pub rate: bool,
    pub average: bool,
    pub buffer: bool,
    pub bar: bool,
    pub eta: bool,
}

impl Fields {
    /// The default fields.
    pub fn usual() -> Self {
        Fields {
            bytes: true,
            timer: true,
            rate: true,
            average: false,
            buffer: true,
            bar: true,
            eta: true,
        }
    }
}

/// Settings of a transfer's line, which is pv's, with mbuffer's fill level in it.
#[derive(Debug, Default)]
pub struct Layout {
    pub fields: Fields,
    pub name: Option<String>,
    /// Expected number of bytes, or of lines.
    pub size: Option<u64>,
    /// Of what is written, this was there before the start.
    pub already: u64,
    /// Lines are counted, not bytes.
    pub counts_lines: bool,
    pub left: TimeLeft,
}

/// ` 42 %`, rounded down.
pub fn percent(done: f64) -> String {
    format!("{:3.0} %", (done * 100.0).floor())
}

/// `night.pcapng: 0:00:31 [======>        ]  42 % ETA 0:00:43`: how much of a file is read.
pub fn reading(
    name: &str,
    (done, left): (f64, &TimeLeft),
    elapsed: Duration,
    columns: usize,
) -> String {
    let mut line = Line::default();
    line.put(2, format!("{name}:"));
    line.put(3, clock(elapsed));
    line.0.push((4, Field::Bar(Some(done), 0)));
    line.put(0, percent(done));
    line.put(0, left.text(done, elapsed));
    line.fit(" ", columns)
}

/// Columns of a line that is read by people, where there is no terminal.
const COLUMNS: usize = 80;

/// `text` in lines of at most 80 columns, broken at blanks; all but the first are indented.
pub fn wrapped(text: &str) -> Vec<String> {
    wrapped_at(text, COLUMNS, "  ")
}

/// The same for another number of columns and another indentation.
pub fn wrapped_at(text: &str, max_columns: usize, indent: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is a first line");
        let columns = line.chars().count() + 1 + word.chars().count();
        if line.is_empty() {
            line.push_str(word);
        } else if columns <= max_columns {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(format!("{indent}{word}"));
        }
    }
    lines
}

impl Layout {
    /// What was written, in bytes or lines, and how much of that a second.
    fn written(&self, progress: &Progress) -> (u64, f64) {
        match self.counts_lines {
            false => (progress.bytes_written, progress.bytes_per_second),
            true => (progress.lines_written, progress.lines_per_second),
        }
    }

    /// An amount with its unit, in the usual width: ` 118 MiB`, `  1.20 k`.
    pub fn amount(&self, value: f64) -> String {
        match self.counts_lines {
            false => format!("{:>7}B", units::scaled_binary(value)),
            true => format!("{:>7}", units::scaled(value).trim_end()),
        }
    }

    /// 0 to 1; `None` if the size is unknown or was too small, so that the rest is unknown.
    fn done(&self, written: u64) -> Option<f64> {
        let size = self.size.filter(|&size| size > 0 && written <= size)?;
        Some(written as f64 / size as f64)
    }

    /// The line in at most `columns` columns, without fields that do not fit; `ticks` moves the bar if the size is unknown.
    pub fn line(&self, progress: &Progress, ticks: u64, columns: usize) -> String {
        let fields = self.fields;
        let (written, per_second) = self.written(progress);
        let average =
            written.saturating_sub(self.already) as f64 / progress.elapsed.as_secs_f64().max(1e-9);
        let rate = |value| format!("[{}/s]", self.amount(value));
        let mut line = Line::default();
        let mut put = |is_shown: bool, rank, text| {
            if is_shown {
                line.put(rank, text);
            }
        };
        if let Some(name) = &self.name {
            put(true, 0, format!("{name}:"));
        }
        put(fields.bytes, 0, self.amount(written as f64));
        put(fields.timer, 3, clock(progress.elapsed));
        put(fields.rate, 1, rate(per_second));
        put(fields.average, 5, rate(average));
        let fill = progress.fill * 100.0;
        put(fields.buffer, 4, format!("buffer {fill:3.0} %"));
        let done = self.done(written);
        if fields.bar {
            line.0.push((6, Field::Bar(done, ticks)));
        }
        if let Some(done) = done {
            if fields.bar {
                line.put(6, percent(done));
            }
            if fields.eta && done < 1.0 {
                line.put(2, self.left.text(done, progress.elapsed));
            }
        }
        line.fit(" ", columns)
    }

    /// Output for programs: `42`, with the time before it.
    pub fn numbers(&self, progress: &Progress) -> String {
        let time = match self.fields.timer {
            true => format!("{:.4} ", progress.elapsed.as_secs_f64()),
            false => String::new(),
        };
        let written = self.written(progress).0;
        match self.size.filter(|&size| size > 0 && !self.fields.bytes) {
            // A program that expects percentages gets no byte counts, even beyond the expected size.
            Some(size) => {
                let percent = u128::from(written) * 100 / u128::from(size);
                format!("{time}{}", percent.min(100))
            }
            None => format!("{time}{written}"),
        }
    }
}

/// `======>     `; without a size, `   <=>      `, which moves back and forth.
fn bar(done: Option<f64>, cells: usize, ticks: u64) -> String {
    let Some(done) = done else {
        let places = cells - 3;
        let place = (ticks % (2 * places as u64)) as usize;
        let place = place.min(2 * places - place);
        return format!("{:place$}<=>{:rest$}", "", "", rest = places - place);
    };
    let filled = (done * cells as f64) as usize;
    let head = if filled < cells { ">" } else { "" };
    let line = format!("{}{head}", "=".repeat(filled));
    format!("{line:cells$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(fields: &str, size: Option<u64>) -> Layout {
        let has = |letter| fields.contains(letter);
        Layout {
            fields: Fields {
                bytes: has('b'),
                timer: has('t'),
                rate: has('r'),
                average: has('a'),
                buffer: has('T'),
                bar: has('p'),
                eta: has('e'),
            },
            size,
            ..Layout::default()
        }
    }

    fn progress() -> Progress {
        Progress {
            elapsed: Duration::from_secs(31),
            bytes_written: 3_672_197_120,
            bytes_per_second: 123_731_968.0,
            fill: 0.64,
            ..Progress::default()
        }
    }

    #[test]
    fn the_line_has_the_documented_form() {
        let line = layout("btrTpe", Some(7_344_394_240)).line(&progress(), 0, 79);
        assert_eq!(
            line,
            "3.42 GiB 0:00:31 [ 118 MiB/s] buffer  64 % [========>       ]  50 % ETA 0:00:31"
        );
        assert!(line.chars().count() < 80, "{line}");
    }

    #[test]
    fn the_line_is_never_longer_than_the_terminal_is_wide() {
        let layout = layout("btraTpe", Some(7_344_394_240));
        let lengths = (10..200).map(|columns| layout.line(&progress(), 0, columns).len());
        assert!(lengths.zip(10..).all(|(length, columns)| length <= columns));
        let narrow = layout.line(&progress(), 0, 40);
        assert_eq!(narrow, "3.42 GiB [ 118 MiB/s] ETA 0:00:31");
    }

    #[test]
    fn only_the_requested_fields_are_shown() {
        assert_eq!(layout("b", None).line(&progress(), 0, 79), "3.42 GiB");
        assert_eq!(layout("t", None).line(&progress(), 0, 79), "0:00:31");
        assert_eq!(layout("r", None).line(&progress(), 0, 79), "[ 118 MiB/s]");
        assert_eq!(layout("a", None).line(&progress(), 0, 79), "[ 113 MiB/s]");
        assert_eq!(layout("e", None).line(&progress(), 0, 79), "");
        let mut named = layout("b", None);
        named.name = Some("tape".into());
        assert_eq!(named.line(&progress(), 0, 79), "tape: 3.42 GiB");
    }

    #[test]
    fn bars_are_as_wide_as_requested_at_every_step() {
        for cells in [8, 9, 33] {
            for step in 0..200_u32 {
                let known = bar(Some(f64::from(step) / 199.0), cells, 0);
                assert_eq!(known.chars().count(), cells, "{known}");
                let unknown = bar(None, cells, step.into());
                assert_eq!(unknown.chars().count(), cells, "{unknown}");
            }
        }
        assert_eq!(bar(Some(1.0), 4, 0), "====");
        assert_eq!(bar(Some(0.5), 4, 0), "==> ");
    }

    #[test]
    fn beyond_the_expected_size_nothing_claims_to_be_complete() {
        let line = layout("bpe", Some(131_072)).line(&progress(), 5, 79);
        assert!(line.contains("<=>"), "{line}");
        assert!(!line.contains('%') && !line.contains("ETA"), "{line}");
        assert_eq!(layout("", Some(131_072)).numbers(&progress()), "100");
        let exact = layout("p", Some(progress().bytes_written)).line(&progress(), 5, 79);
        assert!(exact.ends_with("=] 100 %"), "{exact}");
    }

    #[test]
    fn numbers_are_percent_or_bytes() {
        assert_eq!(layout("", Some(7_344_394_240)).numbers(&progress()), "50");
        let bytes = layout("b", Some(7_344_394_240)).numbers(&progress());
        assert_eq!(bytes, "3672197120");
        assert_eq!(layout("t", None).numbers(&progress()), "31.0000 3672197120");
    }

    #[test]
    fn a_long_line_is_broken_at_blanks() {
        let text = "forebay: ".to_owned() + &"some words ".repeat(20);
        let lines = wrapped(text.trim());
        assert!(lines.len() > 2 && lines.iter().all(|line| line.chars().count() <= 80));
        let again: Vec<_> = lines.iter().map(|line| line.trim()).collect();
        assert_eq!(again.join(" "), text.trim());
        assert_eq!(wrapped("a b"), ["a b"]);
    }

    #[test]
    fn the_time_left_is_unknown_before_the_first_byte() {
        let nothing = Progress::default();
        let line = layout("e", Some(100)).line(&nothing, 0, 79);
        assert_eq!(line, "ETA -:--:--");
    }
}
