//! The names of the records of sensors.

use crate::segment;

/// What a page has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageKind {
    Shipped,
    Expired,
    Vanished,
    Dropped,
}

impl PageKind {
    /// The folder of its pages that are not the account itself.
    pub(super) fn folder(self) -> &'static str {
        match self {
            PageKind::Shipped => "days",
            PageKind::Expired => "expired",
            PageKind::Vanished => "vanished",
            PageKind::Dropped => "dropped",
        }
    }
}

/// The sensor, the date and the kind of a page; `None`: it is another object.
pub(super) fn parse_page(key: &str) -> Option<(&str, &str, PageKind)> {
    let mut parts = key.strip_prefix("sensors/")?.split('/');
    let (sensor, folder) = (parts.next()?, parts.next()?);
    let (date, file) = (parts.next()?, parts.next()?);
    let kind = match folder {
        "shipped" | "days" => PageKind::Shipped,
        "expired" => PageKind::Expired,
        "vanished" => PageKind::Vanished,
        "dropped" => PageKind::Dropped,
        _ => return None,
    };
    let is_page =
        segment::is_sensor_name(sensor) && file.ends_with(".json") && parts.next().is_none();
    is_page.then_some((sensor, date, kind))
}

/// The identity of a segment, as [`segment::identity`].
pub fn id(sensor: &str, sha256: &str) -> String {
    format!("{}/sensor={sensor}/{sha256}", segment::FOLDER)
}

/// The sensor in the identity of a segment.
pub fn sensor_of(id: &str) -> Option<&str> {
    let (_, rest) = id.split_once("/sensor=")?;
    Some(rest.split_once('/')?.0)
}

/// The record of a removed segment that earlier versions wrote.
pub(super) fn old_record(sensor: &str, sha256: &str) -> String {
    format!("sensors/{sensor}/expired-{sha256}.json")
}

/// A record of a single segment or file: its sensor, its kind, and the identity of what it is about. That of a file that was dropped is
/// the key of its record.
pub(super) fn parse_single(key: &str) -> Option<(&str, PageKind, String)> {
    let (sensor, file) = key.strip_prefix("sensors/")?.split_once('/')?;
    let (kind, name) = file.strip_suffix(".json")?.split_once('-')?;
    let (kind, id) = match kind {
        "expired" if segment::is_sha256(name) => (PageKind::Expired, id(sensor, name)),
        "vanished" if segment::is_sha256(name) => (PageKind::Vanished, id(sensor, name)),
        "dropped" => (PageKind::Dropped, key.to_owned()),
        _ => return None,
    };
    (segment::is_sensor_name(sensor) && !name.contains('/')).then_some((sensor, kind, id))
}

/// The key of the sums of a day.
pub(super) fn sums_of(sensor: &str, date: &str) -> String {
    format!("sensors/{sensor}/days/{date}.json")
}

/// The sensor and the date of such a key.
pub(super) fn parse_sums(key: &str) -> Option<(&str, &str)> {
    let (sensor, rest) = key.strip_prefix("sensors/")?.split_once('/')?;
    let date = rest.strip_prefix("days/")?.strip_suffix(".json")?;
    (segment::is_sensor_name(sensor) && !date.contains('/')).then_some((sensor, date))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_a_segment_has_the_hash_of_a_file_in_its_name() {
        let sha256 = "0a".repeat(32);
        let key = old_record("hall", &sha256);
        assert_eq!(parse_single(&key).unwrap().2, id("hall", &sha256));
        for name in ["", "x", &sha256[1..], &sha256.to_uppercase()] {
            for kind in ["expired", "vanished"] {
                let key = format!("sensors/hall/{kind}-{name}.json");
                assert_eq!(parse_single(&key), None, "{key}");
            }
        }
    }
}
