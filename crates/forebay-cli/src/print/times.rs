//! The time before a line: `-t` to `-ttttt`.

use super::text::Text;
use jiff::{Timestamp, tz::TimeZone};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Times {
    /// The time of day.
    #[default]
    OfDay,
    None,
    /// Seconds since 1970.
    Epoch,
    /// Since the packet before.
    SincePrevious,
    /// The date, too.
    Date,
    /// Since the first packet.
    SinceFirst,
}

impl Times {
    /// The form that this number of `-t` asks for.
    pub fn of_letters(count: u8) -> Option<Times> {
        Some(match count {
            0 => Times::OfDay,
            1 => Times::None,
            2 => Times::Epoch,
            3 => Times::SincePrevious,
            4 => Times::Date,
            5 => Times::SinceFirst,
            _ => return None,
        })
    }
}

pub struct Clock {
    times: Times,
    nanoseconds: bool,
    zone: TimeZone,
    /// The packet that differences are counted from.
    reference: Option<u64>,
    /// The second that `text` shows.
    second: Option<u64>,
    text: Text,
}

const SECOND: u64 = 1_000_000_000;

impl Clock {
    pub fn new(times: Times, nanoseconds: bool) -> Self {
        Clock {
            times,
            nanoseconds,
            zone: TimeZone::system(),
            reference: None,
            second: None,
            text: Text::default(),
        }
    }

    /// Appends the time and a blank.
    pub fn print(&mut self, time_ns: u64, out: &mut Text) {
        // Differences are those of the printed times.
        let time_ns = match self.nanoseconds {
            true => time_ns,
            false => time_ns / 1000 * 1000,
        };
        let second = time_ns / SECOND;
        match self.times {
            Times::None => return,
            Times::Epoch => drop(out.num(second)),
            Times::OfDay | Times::Date => {
                // Most packets are in the same second as the packet before.
                if self.second != Some(second) {
                    self.second = Some(second);
                    self.describe(second);
                }
                out.raw(self.text.bytes());
            }
            Times::SincePrevious | Times::SinceFirst => {
                let reference = *self.reference.get_or_insert(time_ns);
                let difference = time_ns.abs_diff(reference);
                let seconds = difference / SECOND;
                out.byte(if time_ns < reference { b'-' } else { b' ' });
                out.padded(seconds / 3600 % 100, 2).byte(b':');
                out.padded(seconds / 60 % 60, 2).byte(b':');
                out.padded(seconds % 60, 2);
                self.fraction(difference, out);
                if self.times == Times::SincePrevious {
                    self.reference = Some(time_ns);
                }
                return;
            }
        }
        self.fraction(time_ns, out);
    }

    fn fraction(&self, time_ns: u64, out: &mut Text) {
        let ns = time_ns % SECOND;
        out.byte(b'.');
        out.three_digits(ns / 1_000_000).three_digits(ns / 1000);
        if self.nanoseconds {
            out.three_digits(ns);
        }
        out.byte(b' ');
    }

    fn describe(&mut self, second: u64) {
        self.text.clear();
        let stamp = Timestamp::from_second(second as i64).unwrap_or_default();
        let local = self.zone.to_datetime(stamp);
        let text = &mut self.text;
        if self.times == Times::Date {
            text.padded(local.year().max(0) as u64, 4).byte(b'-');
            text.padded(local.month() as u64, 2).byte(b'-');
            text.padded(local.day() as u64, 2).byte(b' ');
        }
        text.padded(local.hour() as u64, 2).byte(b':');
        text.padded(local.minute() as u64, 2).byte(b':');
        text.padded(local.second() as u64, 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times: Times, nanoseconds: bool, all: &[u64]) -> String {
        let mut clock = Clock::new(times, nanoseconds);
        clock.zone = TimeZone::UTC;
        let mut text = Text::default();
        all.iter().for_each(|&time| clock.print(time, &mut text));
        String::from_utf8(text.bytes().to_vec()).unwrap()
    }

    #[test]
    fn times_have_the_forms_of_tcpdump() {
        let all = [
            1_700_000_000_000_001_999,
            1_700_000_001_500_002_003,
            1_700_000_001_400_000_000,
        ];
        for (times, nanoseconds, expected) in [
            (
                Times::OfDay,
                false,
                "22:13:20.000001 22:13:21.500002 22:13:21.400000 ",
            ),
            (Times::None, false, ""),
            (
                Times::Epoch,
                true,
                "1700000000.000001999 1700000001.500002003 1700000001.400000000 ",
            ),
            (
                Times::SincePrevious,
                false,
                " 00:00:00.000000  00:00:01.500001 -00:00:00.100002 ",
            ),
            (
                Times::SincePrevious,
                true,
                " 00:00:00.000000000  00:00:01.500000004 -00:00:00.100002003 ",
            ),
            (
                Times::Date,
                false,
                "2023-11-14 22:13:20.000001 2023-11-14 22:13:21.500002 2023-11-14 22:13:21.400000 ",
            ),
            (
                Times::SinceFirst,
                false,
                " 00:00:00.000000  00:00:01.500001  00:00:01.399999 ",
            ),
        ] {
            assert_eq!(of(times, nanoseconds, &all), expected, "{times:?}");
        }
        assert_eq!(
            of(Times::Date, true, &[u64::MAX]).len(),
            "2554-07-21 23:34:33.709551615 ".len()
        );
    }
}
