//! Segments: finished capture files, packed so that parts of them can be read alone.
//!
//! ```text
//!  zstd   │ block │ block │ … │ directory (skippable frame) │ seek table (skippable frame) │
//!  plain  │ block │ block │ … │ directory (a pcapng block that readers skip)               │
//! ```
//! A block is at most [`BLOCK_BYTES`] of whole records, or one record that is longer. In a packed segment it is one zstd frame; the
//! seek table is that of the "zstd seekable format", and `zstd -d` returns the file as the capture wrote it. The directory
//! ([`Directory`]) holds what decoding a block alone needs: the sections and interfaces that precede it.
//!
//! The key of a segment contains the SHA-256 of the capture file, so the same file always has the same key.

mod directory;
mod pack;
mod read;
mod tail;

pub(crate) use directory::hex;
pub use directory::{Block, Directory};
pub use pack::{Pack, Packed, pack};
pub use read::{decoder, unpack};
pub use tail::{Tail, read_tail};

use jiff::{Timestamp, tz::TimeZone};

/// The maximum length of a block before it is packed, in bytes, unless a single record is longer.
pub const BLOCK_BYTES: usize = 4 << 20;

/// The folder of all segments in an archive.
pub const FOLDER: &str = "segments";

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

/// The sensor, the date and the SHA-256 in the key of a segment; `None`: it is not the key of a segment.
pub fn parse_key(key: &str) -> Option<(&str, &str, &str)> {
    let mut parts = key.split('/');
    if parts.next()? != FOLDER {
        return None;
    }
    let sensor = parts.next()?.strip_prefix("sensor=")?;
    let date = parts.next()?.strip_prefix("date=")?;
    parts.next()?.strip_prefix("hour=")?;
    let (sha256, _) = parts.next()?.split_once('.')?;
    let is_hash = sha256.len() == 64 && sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_hash && parts.next().is_none()).then_some((sensor, date, sha256))
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
