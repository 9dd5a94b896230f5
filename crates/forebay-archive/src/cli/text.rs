//! What the commands print.

use anyhow::Result;
use forebay_archive::{ship::Counts, status::Sensor};
use forebay_net::units;
use serde_json::{Value, json};
use std::io::{self, Write};

/// Prints a line of data on standard output.
///
/// # Errors
/// It cannot be written. A closed pipe is not an error.
pub fn line(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Prints a message on standard error, without control characters.
pub fn note(text: &str) {
    let plain: String = text
        .chars()
        .map(|it| if it.is_control() { ' ' } else { it })
        .collect();
    let _ = writeln!(io::stderr().lock(), "forebay-archive: {plain}");
}

pub fn counts(sensor: &str, counts: &Counts) -> String {
    let mut text = format!(
        "{sensor}: shipped {} files with {} packets ({} sent)",
        counts.shipped_files,
        counts.shipped_packets,
        units::binary(counts.sent_bytes)
    );
    for (count, what) in [
        (counts.repeated_files, "were in the archive already"),
        (
            counts.failed_files,
            "cannot be read and are in the folder `failed`",
        ),
        (counts.failures, "tries failed"),
    ] {
        if count > 0 {
            text += &format!("; {count} {what}");
        }
    }
    if counts.dropped_files > 0 {
        let Counts {
            dropped_files,
            dropped_packets,
            ..
        } = counts;
        text += &format!(
            "; dropped {dropped_files} files with {dropped_packets} packets because the spool was full"
        );
    }
    text
}

pub fn counts_json(sensor: &str, counts: &Counts) -> Value {
    json!({
        "schema": 1,
        "sensor": sensor,
        "shipped_files": counts.shipped_files,
        "shipped_packets": counts.shipped_packets,
        "repeated_files": counts.repeated_files,
        "sent_bytes": counts.sent_bytes,
        "dropped_files": counts.dropped_files,
        "dropped_packets": counts.dropped_packets,
        "failed_files": counts.failed_files,
        "failures": counts.failures,
    })
}

pub fn sensor(name: &str, sensor: &Sensor) -> String {
    let known = |count: Option<u64>| count.map_or("unknown".into(), |it| it.to_string());
    let packed = match sensor.plain_bytes {
        0 => String::new(),
        plain => format!(", {} % of the captures", sensor.stored_bytes * 100 / plain),
    };
    let mut text = format!(
        "{name}: {} segments, {}{packed}\n  captured {} = shipped {} + waiting {} + expired {} + dropped {}\n  indexed {}; lost by the kernel {}, by the interface {}",
        sensor.segments,
        units::binary(sensor.stored_bytes),
        sensor.captured,
        sensor.shipped,
        known(sensor.waiting),
        sensor.expired,
        sensor.dropped,
        sensor.indexed,
        known(sensor.lost[0]),
        known(sensor.lost[1]),
    );
    let parts = sensor.shipped + sensor.waiting.unwrap_or(0) + sensor.expired + sensor.dropped;
    if parts != sensor.captured {
        let difference = i128::from(sensor.captured) - i128::from(parts);
        text += &format!(
            "\n  DOES NOT ADD UP: {difference} packets that captures counted are not in their files"
        );
    }
    for key in &sensor.unindexed {
        text += &format!(
            "\n  the index does not have the packets of {key}: run `forebay-archive rebuild`"
        );
    }
    for key in &sensor.dangling {
        text += &format!("\n  the index has rows of {key}, which is missing");
    }
    for what in &sensor.damaged {
        text += &format!("\n  {what}");
    }
    text
}

pub fn sensor_json(name: &str, sensor: &Sensor) -> Value {
    json!({
        "schema": 1,
        "sensor": name,
        "segments": sensor.segments,
        "stored_bytes": sensor.stored_bytes,
        "plain_bytes": sensor.plain_bytes,
        "captured": sensor.captured,
        "shipped": sensor.shipped,
        "waiting": sensor.waiting,
        "expired": sensor.expired,
        "dropped": sensor.dropped,
        "indexed": sensor.indexed,
        "lost_kernel": sensor.lost[0],
        "lost_interface": sensor.lost[1],
        "unindexed": sensor.unindexed,
        "dangling": sensor.dangling,
        "damaged": sensor.damaged,
        "is_sound": sensor.is_sound(),
    })
}
