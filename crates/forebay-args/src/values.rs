//! The values of flags: sizes, times, counts and percentages. An error says what to use instead; clap adds the name of the flag.

use forebay_net::{moment, units};
use jiff::Zoned;
use std::time::Duration;

pub type Parsed<T> = Result<T, String>;

/// A count of 1 or more: `1000`, `5M`.
pub fn count(text: &str) -> Parsed<u64> {
    let count = units::count(text).filter(|&count| count > 0);
    count.ok_or_else(|| format!("'{text}' is not a count. Use a value such as 1000 or 5M"))
}

/// A size of 1 byte or more: `512k`, `64M`; a bare number counts in units of `bare` bytes.
pub fn size(text: &str, bare: u64) -> Parsed<u64> {
    let bytes = units::bytes(text, bare).filter(|&bytes| bytes > 0);
    bytes.ok_or_else(|| format!("'{text}' is not a size. Use a value such as 512k or 64M"))
}

/// A size of 1 byte or more; a bare number counts bytes.
pub fn bytes(text: &str) -> Parsed<u64> {
    size(text, 1)
}

/// A time of more than 0: `10`, `500ms`; a bare number is seconds.
pub fn time(text: &str) -> Parsed<Duration> {
    let time = units::duration(text).filter(|time| !time.is_zero());
    time.ok_or_else(|| format!("'{text}' is not a time. Use a value such as 10 or 500ms"))
}

/// A point in time, in nanoseconds since 1970; earlier times become 1970.
pub fn moment(text: &str) -> Parsed<u64> {
    let time = moment::parse(text, &Zoned::now())?;
    Ok(u64::try_from(time).unwrap_or(0))
}

/// `0` to `100`, with or without a percent sign.
pub fn percent(text: &str) -> Parsed<u8> {
    match text.strip_suffix('%').unwrap_or(text).parse() {
        Ok(percent @ 0..=100) => Ok(percent),
        _ => Err(format!("'{text}' is not a percentage. Use 0 to 100")),
    }
}
