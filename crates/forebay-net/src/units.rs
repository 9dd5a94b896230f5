//! Parses and prints quantities as people write them, such as `5M`.
//!
//! | quantity | without a unit | K, M, G, T | Ki, Mi, Gi (also `KiB`) | kB, MB, GB |
//! |---|---|---|---|---|
//! | counts and rates ([`count`]) | ×1 | ×1000 | ×1024 | – |
//! | sizes ([`bytes`]) | the caller's unit | ×1024 | ×1024 | ×1000 |

use std::time::Duration;

/// Parses a decimal number with an optional fraction, times `scale`. The result must be whole and must fit.
fn scale(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 12 {
        return None;
    }
    let whole = whole.parse::<u128>().ok()?.checked_mul(scale as u128)?;
    let part = match fraction {
        "" => 0,
        digits => {
            let scaled = digits.parse::<u128>().ok()? * scale as u128;
            let unit = 10u128.pow(digits.len() as u32);
            if !scaled.is_multiple_of(unit) {
                return None;
            }
            scaled / unit
        }
    };
    u64::try_from(whole.checked_add(part)?).ok()
}

fn split(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    text.split_at(end)
}

/// A count or rate: `5M`, `1.5k`, `1000`, `2Ki`.
///
/// ```
/// # use forebay_net::units::count;
/// assert_eq!(count("5M"), Some(5_000_000));
/// assert_eq!(count("2.5G"), Some(2_500_000_000));
/// assert_eq!(count("5 M"), None);
/// ```
pub fn count(text: &str) -> Option<u64> {
    let (number, unit) = split(text);
    let factor = match unit {
        "" => 1,
        "k" | "K" => 1000,
        "m" | "M" => 1_000_000,
        "g" | "G" => 1_000_000_000,
        "t" | "T" => 1_000_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return None,
    };
    scale(number, factor)
}

/// A size in bytes; a bare number counts in units of `bare`.
///
/// ```
/// # use forebay_net::units::bytes;
/// assert_eq!(bytes("64M", 1024), Some(64 << 20));
/// assert_eq!(bytes("64MB", 1024), Some(64_000_000));
/// assert_eq!(bytes("512", 1024), Some(512 * 1024));
/// ```
pub fn bytes(text: &str, bare: u64) -> Option<u64> {
    let (number, unit) = split(text);
    let factor = match unit {
        "" => bare,
        "B" => 1,
        "K" | "k" | "Ki" | "KiB" => 1 << 10,
        "M" | "m" | "Mi" | "MiB" => 1 << 20,
        "G" | "g" | "Gi" | "GiB" => 1 << 30,
        "T" | "t" | "Ti" | "TiB" => 1 << 40,
        "kB" | "KB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return None,
    };
    scale(number, factor)
}

/// A time with its unit: `500ns`, `20us`, `1.5ms`, `2s`, `1min`, `2h`, `30d`; a bare number is seconds.
///
/// ```
/// # use forebay_net::units::duration;
/// # use std::time::Duration;
/// assert_eq!(duration("1.5ms"), Some(Duration::from_micros(1500)));
/// assert_eq!(duration("2"), Some(Duration::from_secs(2)));
/// ```
pub fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = split(text);
    let ns = match unit {
        "ns" => 1,
        "us" => 1000,
        "ms" => 1_000_000,
        "" | "s" => 1_000_000_000,
        "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return None,
    };
    scale(number, ns).map(Duration::from_nanos)
}

/// Three or four digits and a decimal prefix: `1.488 M`, `480 M`, `38`, `1 G`.
///
/// ```
/// # use forebay_net::units::scaled;
/// assert_eq!(scaled(1_488_095.0), "1.488 M");
/// assert_eq!(scaled(1e9), "1 G");
/// assert_eq!(scaled(999.0), "999 ");
/// ```
pub fn scaled(value: f64) -> String {
    let (value, prefix) = match value {
        v if v >= 1e12 => (v / 1e12, "T"),
        v if v >= 1e9 => (v / 1e9, "G"),
        v if v >= 1e6 => (v / 1e6, "M"),
        v if v >= 1e4 => (v / 1e3, "k"),
        v => (v, ""),
    };
    let digits = match value {
        v if v == v.trunc() || v >= 1000.0 => 0,
        v if v >= 100.0 => 1,
        v if v >= 10.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$} {prefix}")
}

/// A size with a binary prefix where that is exact: `64 MiB`, `1500 B`.
///
/// ```
/// # use forebay_net::units::binary;
/// assert_eq!(binary(64 << 20), "64 MiB");
/// assert_eq!(binary(1500), "1500 B");
/// ```
pub fn binary(bytes: u64) -> String {
    for (shift, prefix) in [(30, "G"), (20, "M"), (10, "K")] {
        if bytes >= 1 << shift && bytes.is_multiple_of(1 << shift) {
            return format!("{} {prefix}iB", bytes >> shift);
        }
    }
    format!("{bytes} B")
}

/// Three digits and a binary prefix: `3.42 Gi`, `118 Mi`, `0 `.
///
/// ```
/// # use forebay_net::units::scaled_binary;
/// assert_eq!(scaled_binary(3_672_197_120.0), "3.42 Gi");
/// assert_eq!(scaled_binary(123_731_968.0), "118 Mi");
/// assert_eq!(scaled_binary(1023.0 * 1024.0), "1.00 Mi");
/// assert_eq!(scaled_binary(999.0), "999 ");
/// ```
pub fn scaled_binary(value: f64) -> String {
    let (mut value, mut prefix) = (value, "");
    for larger in ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"] {
        if value < 999.5 {
            break;
        }
        (value, prefix) = (value / 1024.0, larger);
    }
    let digits = match value {
        _ if prefix.is_empty() => 0,
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {prefix}")
}

/// A number with a noun or a clause in the right form: `1 gap is`, `2 gaps are`.
///
/// ```
/// # use forebay_net::units::counted;
/// assert_eq!(counted(1, "file", "files"), "1 file");
/// assert_eq!(counted(0, "file", "files"), "0 files");
/// ```
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
