//! The names of the records of sensors.

use crate::segment;

/// What a page has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageKind {
    Shipped,
    Expired,
}

/// The sensor, the date and the kind of a page; `None`: it is another object.
pub(super) fn parse_page(key: &str) -> Option<(&str, &str, PageKind)> {
    let mut parts = key.strip_prefix("sensors/")?.split('/');
    let (sensor, folder) = (parts.next()?, parts.next()?);
    let (date, file) = (parts.next()?, parts.next()?);
    let kind = match folder {
        "shipped" | "days" => PageKind::Shipped,
        "expired" => PageKind::Expired,
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

/// The sensor and the hash in the key of such a record.
pub(super) fn parse_old(key: &str) -> Option<(&str, &str)> {
    let (sensor, file) = key.strip_prefix("sensors/")?.split_once('/')?;
    let sha256 = file.strip_prefix("expired-")?.strip_suffix(".json")?;
    (segment::is_sensor_name(sensor) && !sha256.contains('/')).then_some((sensor, sha256))
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

/// The record that says that the loss of a segment was accepted.
pub(super) fn vanished_record(sensor: &str, sha256: &str) -> String {
    format!("sensors/{sensor}/vanished-{sha256}.json")
}
