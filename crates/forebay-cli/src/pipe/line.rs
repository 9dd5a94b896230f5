//! pv's progress line, with mbuffer's fill level in it.
//!
//! ```text
//!  name: 3.42 GiB 0:00:31 [ 118 MiB/s] buffer 64 % [======>        ] 42 % ETA 0:00:43
//! ```

use super::request::Fields;
use forebay_io::pipe::Progress;
use forebay_net::units;
use std::time::Duration;

/// Settings of a line, besides the counts.
#[derive(Debug, Default)]
pub struct Layout {
    pub fields: Fields,
    pub name: Option<String>,
    /// Expected number of bytes.
    pub size: Option<u64>,
}

/// `0:00:31`, `25:01:02`.
pub fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    format!(
        "{}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

fn average(progress: &Progress) -> f64 {
    progress.bytes_written as f64 / progress.elapsed.as_secs_f64().max(1e-9)
}

/// 0 to 1; `None` if the size is unknown or was too small, so that nobody knows how much is left.
fn done(progress: &Progress, size: Option<u64>) -> Option<f64> {
    let size = size.filter(|&size| size > 0 && progress.bytes_written <= size)?;
    Some(progress.bytes_written as f64 / size as f64)
}

impl Layout {
    /// The line in at most `columns` columns, without fields that do not fit; `ticks` moves the bar if the size is unknown.
    pub fn line(&self, progress: &Progress, ticks: u64, columns: usize) -> String {
        let mut fields = self.fields;
        // The least important fields are left out first.
        let least: [fn(&mut Fields) -> &mut bool; 6] = [
            |fields| &mut fields.bar,
            |fields| &mut fields.average,
            |fields| &mut fields.buffer,
            |fields| &mut fields.timer,
            |fields| &mut fields.eta,
            |fields| &mut fields.rate,
        ];
        let mut least = least.into_iter();
        loop {
            let line = self.line_of(&fields, progress, ticks, columns);
            match least.next() {
                Some(field) if line.chars().count() > columns => *field(&mut fields) = false,
                _ => return line,
            }
        }
    }

    fn line_of(&self, fields: &Fields, progress: &Progress, ticks: u64, columns: usize) -> String {
        let mut parts = Vec::new();
        let mut put = |is_shown: bool, part: String| parts.extend(is_shown.then_some(part));
        let rate = |value| format!("[{:>7}B/s]", units::scaled_binary(value));
        let bytes = units::scaled_binary(progress.bytes_written as f64);
        put(fields.bytes, format!("{bytes:>7}B"));
        put(fields.timer, clock(progress.elapsed));
        put(fields.rate, rate(progress.bytes_per_second));
        put(fields.average, rate(average(progress)));
        put(
            fields.buffer,
            format!("buffer {:3.0} %", progress.fill * 100.0),
        );
        let done = done(progress, self.size);
        let mut behind = String::new();
        if let Some(done) = done {
            if fields.bar {
                behind += &format!(" {:3.0} %", (done * 100.0).floor());
            }
            if fields.eta && done < 1.0 {
                behind += &format!(" ETA {}", self.left(progress));
            }
        }
        let mut line = match &self.name {
            Some(name) => format!("{name}: {}", parts.join(" ")),
            None => parts.join(" "),
        };
        if fields.bar {
            let taken = line.chars().count() + behind.len() + 3;
            let cells = columns.saturating_sub(taken).clamp(8, 200);
            line += &format!(" [{}]", bar(done, cells, ticks));
        }
        line + &behind
    }

    /// `0:00:43`, or dashes while the time left is unknown.
    fn left(&self, progress: &Progress) -> String {
        let left = self
            .size
            .unwrap_or(0)
            .saturating_sub(progress.bytes_written) as f64;
        let seconds = left / average(progress);
        match Duration::try_from_secs_f64(seconds) {
            Ok(left) if left < Duration::from_secs(360_000) => clock(left),
            _ => "-:--:--".into(),
        }
    }

    /// Output for programs: `42`, with the time before it.
    pub fn numbers(&self, progress: &Progress) -> String {
        let time = match self.fields.timer {
            true => format!("{:.4} ", progress.elapsed.as_secs_f64()),
            false => String::new(),
        };
        match self.size.filter(|&size| size > 0 && !self.fields.bytes) {
            // A program that expects percentages gets no byte counts, even beyond the expected size.
            Some(size) => {
                let percent = u128::from(progress.bytes_written) * 100 / u128::from(size);
                format!("{time}{}", percent.min(100))
            }
            None => format!("{time}{}", progress.bytes_written),
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
            name: None,
            size,
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
    fn the_line_is_the_one_that_was_promised() {
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
        assert_eq!(
            layout.line(&progress(), 0, 40),
            "3.42 GiB [ 118 MiB/s] ETA 0:00:31"
        );
    }

    #[test]
    fn only_what_was_asked_for_is_shown() {
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
    fn bars_are_as_wide_as_they_say_wherever_they_stand() {
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
        assert_eq!(
            layout("b", Some(7_344_394_240)).numbers(&progress()),
            "3672197120"
        );
        assert_eq!(layout("t", None).numbers(&progress()), "31.0000 3672197120");
    }

    #[test]
    fn nobody_can_tell_how_long_nothing_takes() {
        let nothing = Progress::default();
        let line = layout("e", Some(100)).line(&nothing, 0, 79);
        assert_eq!(line, " ETA -:--:--");
    }
}
