//! What the commands print.

use anyhow::{Context, Result};
use forebay_archive::{
    archive::{printable, without_password, without_passwords},
    compact::{Compacted, Vacuumed},
    expire::Expired,
    gather,
    hold::Hold,
    ship::{Amount, Counts},
    status::Sensor,
};
use forebay_net::units::{self, counted};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::io::{self, Write};

/// Prints lines of data on standard output, without control characters.
///
/// # Errors
/// It cannot be written. A closed pipe is not an error.
pub fn line(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{}", printable(text)).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("writing to standard output")
        }
        _ => Ok(()),
    }
}

/// Prints a message on standard error, without control characters and passwords.
pub fn note(text: &str) {
    let plain: String = without_passwords(text)
        .chars()
        .map(|it| if it.is_control() { ' ' } else { it })
        .collect();
    let _ = writeln!(io::stderr().lock(), "forebay-archive: {plain}");
}

/// Prints what is wrong with the arguments, which it may repeat, without passwords.
pub fn bad_arguments(error: &clap::Error) {
    let whole = error.render().to_string();
    let mut text = whole.clone();
    for argument in std::env::args_os().skip(1) {
        let argument = argument.to_string_lossy();
        // A password may have spaces.
        let parts = [Some(&*argument), argument.split_once('=').map(|it| it.1)];
        for part in parts.into_iter().flatten().filter(|it| it.contains('@')) {
            text = text.replace(part, &without_password(part));
        }
    }
    let text = without_passwords(&text);
    if text == whole {
        let _ = error.print(); // with colors
    } else {
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }
}

pub fn counts(sensor: &str, counts: &Counts) -> String {
    let amount = |it: &Amount| {
        let files = counted(it.files, "file", "files");
        format!("{files} with {}", counted(it.packets, "packet", "packets"))
    };
    let mut text = format!(
        "{sensor}: shipped {} ({} sent)",
        amount(&counts.shipped),
        units::binary(counts.sent_bytes)
    );
    for (count, one, many) in [
        (
            counts.repeated_files,
            "was in the archive already",
            "were in the archive already",
        ),
        (
            counts.failed.files,
            "is in the folder `failed`",
            "are in the folder `failed`",
        ),
        (counts.failures, "try failed", "tries failed"),
    ] {
        if count > 0 {
            text += &format!("; {}", counted(count, one, many));
        }
    }
    if counts.dropped.files > 0 {
        let dropped = amount(&counts.dropped);
        text += &format!("; dropped {dropped} because the spool was full");
    }
    text
}

pub fn counts_json(sensor: &str, counts: &Counts) -> Value {
    json!({
        "schema": 1,
        "sensor": sensor,
        "shipped_files": counts.shipped.files,
        "shipped_packets": counts.shipped.packets,
        "repeated_files": counts.repeated_files,
        "sent_bytes": counts.sent_bytes,
        "dropped_files": counts.dropped.files,
        "dropped_packets": counts.dropped.packets,
        "failed_files": counts.failed.files,
        "failed_packets": counts.failed.packets,
        "failures": counts.failures,
    })
}

pub fn gathered(counts: &gather::Counts) -> String {
    let mut text = format!(
        "indexed {} with {} in {}",
        counted(counts.segments, "segment", "segments"),
        counted(counts.packets, "packet", "packets"),
        counted(counts.commits, "commit", "commits")
    );
    let message = ["message was", "messages were"];
    let time = ["time", "times"];
    for (count, [one, many], what) in [
        (counts.repeated, message, " about segments in the index"),
        (counts.expired, message, " about segments that have expired"),
        (
            counts.failed_tries,
            ["try at a segment", "tries at a segment"],
            " failed",
        ),
        (counts.set_aside, message, " set aside"),
        (
            counts.other_archive,
            time,
            " a message about another archive was given back",
        ),
        (counts.failures, time, " the store or the server failed"),
    ] {
        if count > 0 {
            text += &format!("; {}{what}", counted(count, one, many));
        }
    }
    text
}

pub fn gathered_json(counts: &gather::Counts) -> Value {
    json!({
        "schema": 1,
        "segments": counts.segments,
        "packets": counts.packets,
        "commits": counts.commits,
        "repeated": counts.repeated,
        "expired": counts.expired,
        "failed_tries": counts.failed_tries,
        "set_aside": counts.set_aside,
        "other_archive": counts.other_archive,
        "failures": counts.failures,
    })
}

pub fn sensor(name: &str, sensor: &Sensor) -> String {
    let known = |count: Option<u64>| count.map_or("unknown".into(), |it| it.to_string());
    let packed = match sensor.plain_bytes {
        0 => String::new(),
        plain => {
            let stored = sensor.stored_bytes - sensor.damaged_bytes - sensor.unreadable_bytes;
            format!(", {} % of the captures", stored * 100 / plain)
        }
    };
    let mut text = format!(
        "{name}: {} segments, {}{packed}\n  captured {} = shipped {} + waiting {} + expired {} + dropped {} + vanished {}\n  indexed {}; lost by the kernel {}, by the interface {}",
        sensor.segments,
        units::binary(sensor.stored_bytes),
        sensor.captured,
        sensor.shipped,
        known(sensor.waiting),
        sensor.expired,
        sensor.dropped,
        sensor.vanished,
        sensor.indexed,
        known(sensor.lost[0]),
        known(sensor.lost[1]),
    );
    let parts = sensor.parts();
    if parts != sensor.captured {
        let difference = i128::from(sensor.captured) - i128::from(parts);
        text += &format!(
            "\n  DOES NOT ADD UP: {difference} packets that captures counted are not in their files"
        );
    }
    for (key, captured, packets) in &sensor.differing {
        text += &format!(
            "\n  the statistics in {key} count {captured} packets, it has {packets}: its file is a part of another capture, or packets are missing"
        );
    }
    for (kind, files, bytes) in sensor.uncounted.iter().filter(|it| it.1 > 0) {
        let bytes = units::binary(*bytes);
        text += &format!("\n  {files} {kind} files in the spool ({bytes}) are in no count");
    }
    if sensor.in_flight > 0 {
        text += &format!("\n  {} segments are not in the index yet", sensor.in_flight);
    }
    if sensor.not_deleted > 0 {
        text += &format!(
            "\n  {} segments ({}) have expired and were not deleted: run `forebay-archive expire` again, or `rebuild --undelete` to bring them back",
            sensor.not_deleted,
            units::binary(sensor.not_deleted_bytes)
        );
    }
    for key in &sensor.missing {
        text += &format!(
            "\n  {key} was shipped and is GONE. Restore it, or accept the loss with `forebay-archive rebuild --accept-missing`"
        );
    }
    for key in &sensor.unindexed {
        text += &format!(
            "\n  the index does not have the packets of {key}: run `forebay-archive rebuild`"
        );
    }
    for key in &sensor.dangling {
        text += &format!(
            "\n  the index has rows of {key}, which is missing: run `forebay-archive rebuild`"
        );
    }
    for what in sensor.damaged.iter().chain(&sensor.unreadable) {
        text += &format!("\n  {what}");
    }
    text
}

pub fn wrong_clock(ahead_s: i64) -> String {
    let differ = if ahead_s > 0 {
        "ahead of"
    } else {
        "slower than"
    };
    let seconds = counted(ahead_s.unsigned_abs(), "second", "seconds");
    format!("  its clock was {seconds} {differ} that of the store when it shipped last: set it")
}

pub fn sensor_json(name: &str, sensor: &Sensor) -> Value {
    json!({
        "schema": 1,
        "sensor": name,
        "segments": sensor.segments,
        "stored_bytes": sensor.stored_bytes,
        "damaged_bytes": sensor.damaged_bytes,
        "plain_bytes": sensor.plain_bytes,
        "captured": sensor.captured,
        "shipped": sensor.shipped,
        "waiting": sensor.waiting,
        "expired": sensor.expired,
        "dropped": sensor.dropped,
        "vanished": sensor.vanished,
        "indexed": sensor.indexed,
        "lost_kernel": sensor.lost[0],
        "lost_interface": sensor.lost[1],
        "differing": sensor.differing,
        "uncounted": sensor.uncounted,
        "in_flight": sensor.in_flight,
        "not_deleted": sensor.not_deleted,
        "not_deleted_bytes": sensor.not_deleted_bytes,
        "missing": sensor.missing,
        "unindexed": sensor.unindexed,
        "dangling": sensor.dangling,
        "damaged": sensor.damaged,
        "unreadable": sensor.unreadable,
        "unreadable_bytes": sensor.unreadable_bytes,
        "is_sound": sensor.is_sound(),
    })
}

/// Prints what happens to a segment, and why.
pub fn chosen(json: bool, key: &str, bytes: u64, goes: bool, why: &str) {
    let _ = line(&match json {
        true => json!({"schema": 1, "segment": key, "bytes": bytes, "goes": goes, "reason": why})
            .to_string(),
        false => {
            let verb = if goes { "would remove" } else { "keeps" };
            format!("{verb} {key} ({}): {why}", units::binary(bytes))
        }
    });
}

pub fn hold(json: bool, hold: &Hold) -> String {
    if json {
        return serde_json::to_string(hold).unwrap_or_default();
    }
    let expression = match &*hold.expression {
        "" => "all packets",
        expression => expression,
    };
    let mut text = format!("{}: {expression}", hold.case);
    for (word, time) in [("from", hold.from_ns), ("before", hold.to_ns)] {
        let time = time.and_then(|it| Timestamp::from_nanosecond(it.into()).ok());
        text += &time.map_or(String::new(), |it| format!(", {word} {it}"));
    }
    if !hold.sensors.is_empty() {
        text += &format!(", of {}", hold.sensors.join(", "));
    }
    text + &format!(" (placed {})", hold.placed)
}

pub fn expired(dry_run: bool, done: &Expired) -> String {
    let verb = if dry_run { "would remove" } else { "removed" };
    let mut text = format!(
        "{verb} {} segments with {} packets, {} bytes",
        done.segments, done.packets, done.bytes
    );
    if done.not_deleted > 0 {
        text += &format!(
            "; {} of them, {} bytes, have expired and were not deleted. The next `expire` tries again, and `rebuild --undelete` brings them back",
            done.not_deleted, done.not_deleted_bytes
        );
    }
    if done.held > 0 {
        text += &format!(
            "; holds keep {} segments, {} bytes",
            done.held, done.held_bytes
        );
    }
    if done.over_bytes > 0 {
        text += &format!(
            "; {} bytes above --max are left, because of holds",
            done.over_bytes
        );
    }
    text
}

pub fn expired_json(dry_run: bool, done: &Expired) -> Value {
    json!({
        "schema": 1,
        "dry_run": dry_run,
        "segments": done.segments,
        "packets": done.packets,
        "bytes": done.bytes,
        "not_deleted": done.not_deleted,
        "not_deleted_bytes": done.not_deleted_bytes,
        "held": done.held,
        "held_bytes": done.held_bytes,
        "over_bytes": done.over_bytes,
    })
}

pub fn compacted(dry_run: bool, done: &Compacted, vacuumed: Option<&Vacuumed>) -> String {
    let size = units::binary;
    let mut text = match dry_run {
        true if done.merged == 0 => format!(
            "would merge none of the {} files of the index",
            done.files_before
        ),
        true => format!(
            "would merge {} of the {} files of the index ({}) into {}, and these again if they are small",
            done.merged,
            done.files_before,
            size(done.merged_bytes),
            done.made
        ),
        false => format!(
            "merged {} files ({}) into {} ({}); the index had {} files and has {}",
            done.merged,
            size(done.merged_bytes),
            done.made,
            size(done.made_bytes),
            done.files_before,
            done.files
        ),
    };
    if done.conflicts > 0 {
        text += &format!(
            "; {} groups were changed by other programs meanwhile",
            done.conflicts
        );
    }
    if done.accounts.objects > 0 {
        let verb = if dry_run { "would merge" } else { "merged" };
        let (objects, days) = (done.accounts.objects, done.accounts.closed);
        text += &format!("; {verb} {objects} records of sensors");
        if days > 0 {
            text += &format!(", and only sums are left of {days} days");
        }
    }
    if let Some(vacuumed) = vacuumed {
        let verb = if dry_run { "would delete" } else { "deleted" };
        text += &format!(
            "; {verb} {} old files ({})",
            vacuumed.files,
            size(vacuumed.bytes)
        );
    }
    text
}

pub fn compacted_json(dry_run: bool, done: &Compacted, vacuumed: Option<&Vacuumed>) -> Value {
    json!({
        "schema": 1,
        "dry_run": dry_run,
        "files_before": done.files_before,
        "files": done.files,
        "merged_files": done.merged,
        "merged_bytes": done.merged_bytes,
        "made_files": done.made,
        "made_bytes": done.made_bytes,
        "deleted_log_objects": done.log_objects,
        "merged_records": done.accounts.objects,
        "closed_days": done.accounts.closed,
        "conflicts": done.conflicts,
        "deleted_files": vacuumed.map(|it| it.files),
        "deleted_bytes": vacuumed.map(|it| it.bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dry_run_of_compact_says_what_it_would_do() {
        let mut done = Compacted {
            files_before: 9,
            ..Compacted::default()
        };
        let nothing = "would merge none of the 9 files of the index";
        assert_eq!(compacted(true, &done, None), nothing);
        (done.merged, done.merged_bytes, done.made) = (7, 2048, 2);
        (done.accounts.objects, done.accounts.closed) = (20, 3);
        let vacuumed = Vacuumed {
            files: 4,
            bytes: 1024,
        };
        assert_eq!(
            compacted(true, &done, Some(&vacuumed)),
            "would merge 7 of the 9 files of the index (2 KiB) into 2, and these again if they are small; would merge 20 records of \
             sensors, and only sums are left of 3 days; would delete 4 old files (1 KiB)"
        );
    }

    #[test]
    fn one_file_is_counted_in_the_singular() {
        let mut counts = Counts::default();
        counts.shipped.files = 1;
        counts.shipped.packets = 2;
        counts.failures = 1;
        assert_eq!(
            super::counts("hall", &counts),
            "hall: shipped 1 file with 2 packets (0 B sent); 1 try failed"
        );
    }
}
