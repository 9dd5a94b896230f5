//! What `status` counts.

use crate::segment;
use std::path::PathBuf;

/// A sensor, and the date in the keys of segments.
pub(super) type Day = (String, String);

/// What is counted.
#[derive(Clone, Debug, Default)]
pub struct StatusConfig {
    /// Spools on this machine, by the name of the sensor.
    pub spools: Vec<(String, PathBuf)>,
    /// Only these sensors. Empty: all.
    pub sensors: Vec<String>,
    /// Only captures from this date on, as `2026-11-23` (UTC).
    pub since: Option<String>,
}

impl StatusConfig {
    pub(super) fn wants(&self, sensor: &str, date: &str) -> bool {
        self.wants_sensor(sensor) && self.since.as_ref().is_none_or(|since| date >= &**since)
    }

    pub(super) fn wants_sensor(&self, sensor: &str) -> bool {
        self.sensors.is_empty() || self.sensors.iter().any(|it| it == sensor)
    }

    pub(super) fn wants_key(&self, key: &str) -> bool {
        segment::parse_key(key).is_some_and(|(sensor, date, _)| self.wants(sensor, date))
    }
}

/// Adds a number that was read from an object: it can be any.
pub(super) fn add(sum: &mut u64, number: u64) {
    *sum = sum.saturating_add(number);
}
