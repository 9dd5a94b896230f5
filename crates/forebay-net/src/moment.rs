//! Times as people type them: `--from -2h`, `--to yesterday`, `--from '2026-11-23 14:00'`.
//!
//! `forebay capture` and `forebay-archive` have the same flags.

use jiff::{Span, Timestamp, Zoned, civil};

/// What `--from` and `--to` accept, for errors.
const FORMS: &str = "Write a time such as 2026-11-23T14:00:00Z, '2026-11-23 14:00' (local), 14:00 (today), 2026-11-23, -2h, today, yesterday, now or @SECONDS";

/// Reads a time, in nanoseconds since 1970. Times without an offset are local, in the zone of `now`.
///
/// ```
/// use forebay_net::moment;
/// let now = "2026-11-23T15:30:00+01:00[+01:00]".parse()?;
/// let half_an_hour_ago = moment::parse("-30m", &now);
/// assert_eq!(half_an_hour_ago, moment::parse("2026-11-23T14:00:00Z", &now));
/// assert_eq!(half_an_hour_ago, moment::parse("15:00", &now));
/// # Ok::<(), jiff::Error>(())
/// ```
///
/// # Errors
/// The text is not a time, or one that nanoseconds in 64 bits cannot express.
pub fn parse(text: &str, now: &Zoned) -> Result<i64, String> {
    let time = read(text, now).ok_or_else(|| format!("'{text}' is not a time. {FORMS}"))?;
    i64::try_from(time.as_nanosecond())
        .map_err(|_| format!("'{text}' is not between 1677 and 2262"))
}

fn read(text: &str, now: &Zoned) -> Option<Timestamp> {
    let local =
        |time: civil::DateTime| Some(time.to_zoned(now.time_zone().clone()).ok()?.timestamp());
    let midnight = |day: civil::Date| local(day.at(0, 0, 0, 0));
    match text {
        "now" => return Some(now.timestamp()),
        "today" => return midnight(now.date()),
        "yesterday" => return midnight(now.date().yesterday().ok()?),
        _ => {}
    }
    if let Some(ago) = text.strip_prefix('-') {
        return before(ago, now);
    }
    if let Some(seconds) = text.strip_prefix('@') {
        let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
        let digits = |text: &str| text.bytes().all(|it| it.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 9 {
            return None;
        }
        let nanoseconds = format!("{fraction:0<9}").parse().ok()?;
        return Timestamp::new(whole.parse().ok()?, nanoseconds).ok();
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Some(time);
    }
    // A date of jiff may be followed by a time, and a time by a date: only what is complete counts.
    if text.contains([':', 'T', 't', ' ']) {
        return match text.parse::<civil::DateTime>() {
            Ok(time) => local(time),
            Err(_) => local(text.parse::<civil::Time>().ok()?.on(
                now.year(),
                now.month(),
                now.day(),
            )),
        };
    }
    midnight(text.parse::<civil::Date>().ok()?)
}

/// The time this long before `now`: `90s`, `30m`, `2h`, `1d`, `1w`. Days and weeks are those of the calendar.
fn before(text: &str, now: &Zoned) -> Option<Timestamp> {
    let unit = text.find(|letter: char| !letter.is_ascii_digit())?;
    let (number, unit) = text.split_at(unit);
    let number: i64 = number.parse().ok()?;
    let span = match unit {
        "s" => Span::new().try_seconds(number),
        "m" | "min" => Span::new().try_minutes(number),
        "h" => Span::new().try_hours(number),
        "d" => Span::new().try_days(number),
        "w" => Span::new().try_weeks(number),
        _ => return None,
    };
    Some(now.checked_sub(span.ok()?).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_the_time_it_says() {
        let now: Zoned = "2026-11-23T15:30:00+01:00[+01:00]".parse().unwrap();
        for (text, time) in [
            ("now", "2026-11-23T14:30:00Z"),
            ("today", "2026-11-22T23:00:00Z"),
            ("yesterday", "2026-11-21T23:00:00Z"),
            ("-90s", "2026-11-23T14:28:30Z"),
            ("-30m", "2026-11-23T14:00:00Z"),
            ("-2h", "2026-11-23T12:30:00Z"),
            ("-1d", "2026-11-22T14:30:00Z"),
            ("-1w", "2026-11-16T14:30:00Z"),
            ("14:00", "2026-11-23T13:00:00Z"),
            ("2026-11-20", "2026-11-19T23:00:00Z"),
            ("2026-11-20 08:15", "2026-11-20T07:15:00Z"),
            ("2026-11-20T08", "2026-11-20T07:00:00Z"),
            ("20261120T081500", "2026-11-20T07:15:00Z"),
            ("2026-11-20T08:15:01.5", "2026-11-20T07:15:01.5Z"),
            ("2026-11-20T08:15:00Z", "2026-11-20T08:15:00Z"),
            ("2026-11-20T08:15:00-05:00", "2026-11-20T13:15:00Z"),
            ("@1700000000.25", "2023-11-14T22:13:20.25Z"),
        ] {
            let expected: Timestamp = time.parse().unwrap();
            let found = parse(text, &now).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(i128::from(found), expected.as_nanosecond(), "{text}");
        }
        for text in [
            "",
            "-",
            "2h",
            "-h",
            "-2y",
            "@",
            "@-5",
            "tomorrow",
            "2026-13-01",
            "25:00",
            "-99999999999999999999s",
        ] {
            assert!(parse(text, &now).is_err(), "{text}");
        }
        assert!(parse("9000-01-01", &now).unwrap_err().contains("2262"));
    }
}
