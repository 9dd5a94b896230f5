//! The keys of segments in an archive, and the names of records about them.

use super::directory::Directory;
use jiff::{Timestamp, tz::TimeZone};

/// The folder of all segments in an archive.
pub const FOLDER: &str = "segments";

/// The formats of capture files, as their names in a key end.
const FORMATS: [&str; 2] = ["pcapng", "pcap"];

/// The date (UTC) of a time in nanoseconds since 1970, as `2026-11-23`, and its hour.
pub fn date_and_hour(time_ns: u64) -> (String, u8) {
    let time = Timestamp::from_nanosecond(time_ns.into()).unwrap_or(Timestamp::UNIX_EPOCH);
    let time = time.to_zoned(TimeZone::UTC);
    (time.date().to_string(), time.hour() as u8)
}

/// The key of a segment in the archive: `segments/sensor=S/date=YYYY-MM-DD/hour=HH/SHA256.pcapng.zst`. Date and hour are those of its
/// first packet; a segment without packets has those of 1970.
pub fn key(directory: &Directory, is_packed: bool) -> String {
    let (date, hour) = date_and_hour(directory.first_ns.unwrap_or(0));
    let Directory {
        sensor,
        sha256,
        format,
        ..
    } = directory;
    let packing = if is_packed { ".zst" } else { "" };
    format!("{FOLDER}/sensor={sensor}/date={date}/hour={hour:02}/{sha256}.{format}{packing}")
}

/// Whether a sensor may have this name.
pub fn is_sensor_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=64).contains(&name.len()) && name.bytes().all(is_allowed) && !name.starts_with('.')
}

/// Whether this is a SHA-256 as names have it.
pub(crate) fn is_sha256(text: &str) -> bool {
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.len() == 64 && text.bytes().all(is_hex)
}

/// The keys that the same capture file may have: packed, and plain.
pub fn keys(directory: &Directory) -> [String; 2] {
    [key(directory, true), key(directory, false)]
}

/// What all keys of the same capture file of a sensor have in common; `None`: it is not the key of a segment.
pub fn identity(key: &str) -> Option<String> {
    let (sensor, _, sha256) = parse_key(key)?;
    Some(format!("{FOLDER}/sensor={sensor}/{sha256}"))
}

/// Whether a segment with this key may have this directory.
pub(crate) fn is_of_key(directory: &Directory, key: &str) -> bool {
    let format = key.strip_suffix(".zst").unwrap_or(key).rsplit('.').next();
    parse_key(key).is_none_or(|(sensor, _, sha256)| {
        (sensor, sha256, format)
            == (
                &*directory.sensor,
                &*directory.sha256,
                Some(&*directory.format),
            )
    })
}

/// The sensor, the date and the SHA-256 in the key of a segment; `None`: it is not the key of a segment.
pub fn parse_key(key: &str) -> Option<(&str, &str, &str)> {
    let mut parts = key.split('/');
    if parts.next()? != FOLDER {
        return None;
    }
    let sensor = parts.next()?.strip_prefix("sensor=")?;
    let date = parts.next()?.strip_prefix("date=")?;
    let hour = parts.next()?.strip_prefix("hour=")?;
    let (sha256, format) = parts.next()?.split_once('.')?;
    let is_key = is_sha256(sha256)
        && FORMATS.contains(&format.strip_suffix(".zst").unwrap_or(format))
        && is_sensor_name(sensor)
        && date.len() <= 16
        && hour.len() == 2;
    (is_key && parts.next().is_none()).then_some((sensor, date, sha256))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_sensor_date_and_hash_and_is_parsed_back() {
        let sha256 = "ab".repeat(32);
        let directory = Directory {
            sensor: "hall-3".into(),
            sha256: sha256.clone(),
            format: "pcapng".into(),
            first_ns: Some(1_700_000_000_000_000_000),
            ..Directory::default()
        };
        let key = key(&directory, true);
        assert_eq!(
            key,
            format!("segments/sensor=hall-3/date=2023-11-14/hour=22/{sha256}.pcapng.zst")
        );
        assert_eq!(parse_key(&key), Some(("hall-3", "2023-11-14", &*sha256)));
        for other in [
            "segments/sensor=a/date=b/hour=1/short.pcapng",
            "index/x",
            "",
        ] {
            assert_eq!(parse_key(other), None, "{other}");
        }
    }
}
