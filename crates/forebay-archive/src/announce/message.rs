//! The message about one segment.

use crate::segment;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

const SCHEMA: u64 = 1;
/// Longer messages are refused.
const MAX_BYTES: usize = 4096;

/// What a message says: a segment is in the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The key of the segment.
    pub segment: String,
    /// The packets in it.
    pub packets: u64,
    /// The identity of its archive. `None`: an older version announced it.
    pub archive: Option<String>,
}

impl Announcement {
    /// The message as JSON: `{"schema": 1, "segment": KEY, "packets": N, "archive": ID}`.
    ///
    /// ```
    /// use forebay_archive::announce::Announcement;
    /// let segment = format!("segments/sensor=hall/date=2026-11-23/hour=07/{}.pcapng.zst", "ab".repeat(32));
    /// let announced = Announcement { segment, packets: 7, archive: Some("0f".repeat(16)) };
    /// assert_eq!(Announcement::decode(&announced.encode())?, announced);
    /// # Ok::<(), anyhow::Error>(())
    /// ```
    pub fn encode(&self) -> Vec<u8> {
        let Announcement {
            segment,
            packets,
            archive,
        } = self;
        json!({"schema": SCHEMA, "segment": segment, "packets": packets, "archive": archive})
            .to_string()
            .into_bytes()
    }

    /// Decodes a message. Anybody may have written it, so all of it is checked.
    ///
    /// # Errors
    /// It is malformed, or of a newer version of forebay.
    pub fn decode(bytes: &[u8]) -> Result<Announcement> {
        ensure!(
            bytes.len() <= MAX_BYTES,
            "the message has {} bytes, more than {MAX_BYTES}",
            bytes.len()
        );
        let value: Value = serde_json::from_slice(bytes).context("the message is not JSON")?;
        let number = |name: &str| {
            let number = value[name].as_u64();
            number.with_context(|| format!("the message has no number `{name}`"))
        };
        let schema = number("schema")?;
        ensure!(
            schema == SCHEMA,
            "the message has version {schema}, this program knows {SCHEMA}: install a newer forebay-archive"
        );
        let segment = value["segment"].as_str().unwrap_or_default();
        let is_key = segment::parse_key(segment)
            .is_some_and(|(sensor, date, _)| segment::is_sensor_name(sensor) && is_date(date));
        ensure!(is_key, "the message names no segment");
        Ok(Announcement {
            segment: segment.into(),
            packets: number("packets")?,
            archive: value["archive"].as_str().map(str::to_owned),
        })
    }
}

fn is_date(text: &str) -> bool {
    text.parse::<jiff::civil::Date>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_or_foreign_message_is_refused_with_a_reason() {
        let sha256 = "0f".repeat(32);
        let key = format!("segments/sensor=hall/date=2026-11-23/hour=07/{sha256}.pcapng");
        let good = |segment: &str| json!({"schema": 1, "segment": segment, "packets": 1});
        assert!(Announcement::decode(good(&key).to_string().as_bytes()).is_ok());
        let newer = json!({"schema": 2, "segment": key, "packets": 1});
        let negative = json!({"schema": 1, "segment": key, "packets": -1});
        let other = |segment: &str| (good(segment).to_string(), "names no segment");
        for (message, reason) in [
            ("hello".to_owned(), "is not JSON"),
            ("[]".to_owned(), "no number `schema`"),
            (newer.to_string(), "install a newer forebay-archive"),
            (negative.to_string(), "no number `packets`"),
            other("index/_delta_log/0.json"),
            other(&key.replace("hall", "../..")),
            other(&key.replace("2026-11-23", "..")),
            (" ".repeat(5000), "more than 4096"),
        ] {
            let error = Announcement::decode(message.as_bytes()).unwrap_err();
            assert!(error.to_string().contains(reason), "{message}: {error}");
        }
    }
}
