//! `forebay info`: what capture files hold, as text that reads like capinfos, or as JSON.

use crate::{
    args::Info as Flags,
    output::{self, Form, Meter, plain},
    sandbox::{self, Needs},
};
use anyhow::Result;
use forebay_net::{
    info::{Info, InfoConfig, OneInterface, Tally},
    port::{Resolution, Statistics},
    units,
};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{path::Path, process::ExitCode};

const SCHEMA: u32 = 1;

/// Prints a report on every file that can be read; fails if one cannot be read to its end.
///
/// # Errors
/// The report cannot be written.
pub fn run(flags: &Flags) -> Result<ExitCode> {
    sandbox::enter(&flags.sandbox, &Needs::default().reading(&flags.files));
    let form = match flags.json {
        true => Form::Json(SCHEMA),
        false if flags.table || flags.count => Form::Text(""),
        false => Form::Text("\n"),
    };
    let config = InfoConfig {
        sha256: flags.hashes,
        sha1: flags.hashes,
    };
    if flags.table {
        output::answer(&format!("{}\n", columns(flags).join("\t")))?;
    }
    output::report_on(&flags.files, form, |path| {
        let len = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        let meter = Meter::new(path, len * config.work_per_byte());
        let info = Info::with(path, &config, meter.done())?;
        drop(meter);
        if let Some(error) = &info.error {
            output::error(error);
        }
        let text = match flags.json {
            true => output::json(&as_json(path, &info)),
            false if flags.table => row(flags, path, &info),
            false if flags.count => {
                let mut lines = Lines::default();
                lines.put("File name", path.display());
                lines.put("Packets", info.all.packets);
                lines.put_hashes(&info);
                lines.0
            }
            false => as_text(path, &info),
        };
        Ok((info.error.is_none(), text))
    })
}

/// The names of the columns of `-T`.
fn columns(flags: &Flags) -> Vec<&'static str> {
    let mut names = vec!["File name", "Packets"];
    if !flags.count {
        names.extend([
            "File type",
            "File size (bytes)",
            "Packets cut short",
            "Data on the wire (bytes)",
            "Data in the file (bytes)",
            "First packet",
            "Last packet",
            "Duration (seconds)",
            "Packets per second",
            "Bits per second",
            "Average packet (bytes)",
            "In order of time",
            "Interfaces",
        ]);
    }
    if flags.hashes {
        names.extend(["SHA-256", "SHA-1"]);
    }
    names
}

/// The values of these columns; what is unknown is empty.
fn row(flags: &Flags, path: &Path, info: &Info) -> String {
    fn shown(value: Option<impl ToString>) -> String {
        value.map_or_else(String::new, |value| value.to_string())
    }
    let all = &info.all;
    let name = plain(&path.display().to_string()).into_owned();
    let mut values = vec![name, all.packets.to_string()];
    if !flags.count {
        let per_second = |count: u64| {
            shown(seconds(all).map(|seconds| format!("{:.2}", count as f64 / seconds)))
        };
        let duration = |ns: u64| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
        let average = all.wire_bytes as f64 / all.packets as f64;
        values.extend([
            format_name(info),
            shown(info.bytes),
            all.cut.to_string(),
            all.wire_bytes.to_string(),
            all.captured_bytes.to_string(),
            shown(all.span_ns.map(|(first, _)| time(first))),
            shown(all.span_ns.map(|(_, last)| time(last))),
            shown(all.nanoseconds().map(duration)),
            per_second(all.packets),
            per_second(8 * all.wire_bytes),
            shown((all.packets > 0).then(|| format!("{average:.2}"))),
            shown(info.in_order),
            info.interfaces.len().to_string(),
        ]);
    }
    if flags.hashes {
        values.push(shown(info.sha256.map(|sum| hexadecimal(&sum))));
        values.push(shown(info.sha1.map(|sum| hexadecimal(&sum))));
    }
    values.join("\t")
}

/// UTC, to the nanosecond.
fn time(ns: u64) -> String {
    match Timestamp::from_nanosecond(ns.into()) {
        Ok(time) => format!("{time:.9}"),
        Err(_) => format!("{ns} ns after 1970"),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn format_name(info: &Info) -> String {
    let format = info.kind.name();
    match info.compression {
        Some(compression) => format!("{format} ({compression})"),
        None => format.into(),
    }
}

/// Seconds from the first packet to the last, if that can be a divisor.
fn seconds(tally: &Tally) -> Option<f64> {
    let ns = tally.nanoseconds().filter(|&ns| ns > 0)?;
    Some(ns as f64 / 1e9)
}

/// `nanoseconds (9)`.
fn precision(resolution: Resolution) -> String {
    let Resolution(byte) = resolution;
    match (byte & 0x80 > 0, byte & 0x7f) {
        (false, 0) => "seconds (0)".into(),
        (false, 3) => "milliseconds (3)".into(),
        (false, 6) => "microseconds (6)".into(),
        (false, 9) => "nanoseconds (9)".into(),
        (false, n) => format!("10^-{n} seconds"),
        (true, n) => format!("2^-{n} seconds"),
    }
}

/// Labels in one column, values in the next.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn put(&mut self, label: &str, value: impl std::fmt::Display) {
        let value = value.to_string();
        self.0 += &format!("{:<23}{}\n", format!("{label}:"), plain(&value));
    }

    fn put_some(&mut self, label: &str, value: Option<impl std::fmt::Display>) {
        if let Some(value) = value {
            self.put(label, value);
        }
    }

    fn put_hashes(&mut self, info: &Info) {
        self.put_some("SHA-256", info.sha256.map(|sum| hexadecimal(&sum)));
        self.put_some("SHA-1", info.sha1.map(|sum| hexadecimal(&sum)));
    }
}

/// `92084860 bytes (92.08 MB)`.
fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} bytes"),
        _ => format!("{count} bytes ({}B)", units::scaled(count as f64)),
    }
}

fn as_text(path: &Path, info: &Info) -> String {
    let mut lines = Lines::default();
    let all = &info.all;
    lines.put("File name", path.display());
    lines.put("File type", format_name(info));
    lines.put_some("File size", info.bytes.map(bytes));
    lines.put("Packets", all.packets);
    if all.cut > 0 {
        lines.put("Packets cut short", all.cut);
    }
    lines.put("Data on the wire", bytes(all.wire_bytes));
    lines.put("Data in the file", bytes(all.captured_bytes));
    if let Some((first, last)) = all.span_ns {
        lines.put("First packet", time(first));
        lines.put("Last packet", time(last));
        let ns = last - first;
        let (seconds, ns) = (ns / 1_000_000_000, ns % 1_000_000_000);
        lines.put("Duration", format!("{seconds}.{ns:09} s"));
    }
    if let Some(seconds) = seconds(all) {
        let per_second = |count: u64| units::scaled(count as f64 / seconds);
        lines.put("Packet rate", format!("{}pps", per_second(all.packets)));
        lines.put(
            "Data rate",
            format!("{}b/s", per_second(8 * all.wire_bytes)),
        );
    }
    if all.packets > 0 {
        let average = all.wire_bytes as f64 / all.packets as f64;
        lines.put("Average packet", format!("{average:.2} bytes"));
    }
    let order = match info.in_order {
        Some(true) => "yes",
        Some(false) => "no (mergecap merges files by time, reordercap sorts one)",
        None => "unknown, some packets have no time",
    };
    lines.put("In order of time", order);
    lines.put_hashes(info);
    for section in &info.sections {
        let texts = [
            ("Hardware", &section.hardware),
            ("Operating system", &section.os),
            ("Application", &section.application),
        ];
        for (label, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            lines.put(label, text);
        }
    }
    let skipped: Vec<_> = skipped(info)
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    if !skipped.is_empty() {
        lines.put("Other blocks", skipped.join(", "));
    }
    let odd = &info.odd;
    let oddities = [
        ("Lengths raised", odd.raised_lengths),
        ("Times limited", odd.limited_times),
        ("Times carried", odd.carried_times),
        ("Broken options", odd.broken_options),
        ("Unknown interfaces", odd.unknown_interfaces),
    ];
    for (label, count) in oddities.into_iter().filter(|(_, count)| *count > 0) {
        lines.put(label, count);
    }
    for (number, one) in info.interfaces.iter().enumerate() {
        put_interface(&mut lines, number, one);
    }
    lines.0
}

fn put_interface(lines: &mut Lines, number: usize, one: &OneInterface) {
    let interface = &one.interface;
    let name = match interface.name.as_str() {
        "" => "(no name)",
        name => name,
    };
    lines.put(&format!("Interface {number}"), name);
    let mut put = |label: &str, value: String| lines.put(&format!("  {label}"), value);
    if !interface.description.is_empty() {
        put("Description", interface.description.clone());
    }
    put("Link type", interface.link.to_string());
    let snaplen = match interface.snaplen {
        u32::MAX => "no limit".into(),
        snaplen => snaplen.to_string(),
    };
    put("Snapshot length", snaplen);
    put("Time resolution", precision(interface.resolution));
    if let Some(speed) = interface.bits_per_second {
        put("Speed", format!("{}b/s", units::scaled(speed as f64)));
    }
    put("Packets", one.tally.packets.to_string());
    if one.recorded_drops > 0 {
        put("Lost in gaps", format!("{} packets", one.recorded_drops));
    }
    for (label, count) in one.recorded.iter().flat_map(counts) {
        if let Some(count) = count {
            put(label, count.to_string());
        }
    }
}

/// The counts of a statistics block.
fn counts(recorded: &Statistics) -> [(&'static str, Option<u64>); 5] {
    [
        ("Seen by interface", recorded.interface_received),
        ("Lost by interface", recorded.interface_dropped),
        ("Passed the filter", recorded.received),
        ("Dropped by kernel", recorded.dropped),
        ("Delivered", recorded.delivered),
    ]
}

fn skipped(info: &Info) -> [(&'static str, u64); 6] {
    let skipped = &info.skipped;
    [
        ("name_resolution", skipped.name_resolution),
        ("custom", skipped.custom),
        ("systemd_journal", skipped.systemd_journal),
        ("decryption_secrets", skipped.decryption_secrets),
        ("padding", skipped.padding),
        ("other", skipped.other),
    ]
}

fn as_json(path: &Path, info: &Info) -> Value {
    let all = &info.all;
    let seconds = seconds(all);
    let per_second = |count: u64| seconds.map(|seconds| count as f64 / seconds);
    let average = (all.packets > 0).then(|| all.wire_bytes as f64 / all.packets as f64);
    let sections: Vec<_> = info
        .sections
        .iter()
        .map(|section| {
            json!({
                "hardware": section.hardware,
                "os": section.os,
                "application": section.application,
                "comments": section.comments,
            })
        })
        .collect();
    let interfaces: Vec<_> = info.interfaces.iter().map(interface_as_json).collect();
    let skipped: serde_json::Map<_, _> = skipped(info)
        .into_iter()
        .map(|(kind, count)| (kind.to_owned(), json!(count)))
        .collect();
    json!({
        "schema": SCHEMA,
        "file": path.display().to_string(),
        "format": info.kind.name(),
        "packing": info.compression,
        "bytes": info.bytes,
        "sha256": info.sha256.map(|sum| hexadecimal(&sum)),
        "sha1": info.sha1.map(|sum| hexadecimal(&sum)),
        "packets": all.packets,
        "packets_cut": all.cut,
        "wire_bytes": all.wire_bytes,
        "captured_bytes": all.captured_bytes,
        "first": all.span_ns.map(|(first, _)| time(first)),
        "last": all.span_ns.map(|(_, last)| time(last)),
        "seconds": all.nanoseconds().map(|ns| ns as f64 / 1e9),
        "packets_per_second": per_second(all.packets),
        "bits_per_second": per_second(8 * all.wire_bytes),
        "average_packet_bytes": average,
        "in_order": info.in_order,
        "sections": sections,
        "interfaces": interfaces,
        "skipped_blocks": skipped,
        "odd_packets": {
            "raised_lengths": info.odd.raised_lengths,
            "limited_times": info.odd.limited_times,
            "carried_times": info.odd.carried_times,
            "broken_options": info.odd.broken_options,
            "unknown_interfaces": info.odd.unknown_interfaces,
        },
        "comments": info.comments,
        "error": info.error.as_ref().map(|error| error.to_string()),
    })
}

fn interface_as_json(one: &OneInterface) -> Value {
    let interface = &one.interface;
    json!({
        "name": interface.name,
        "description": interface.description,
        "link_type": interface.link.0,
        "link_name": interface.link.names().map(|(name, _)| name),
        "snaplen": interface.snaplen,
        "resolution": interface.resolution.0,
        "bits_per_second": interface.bits_per_second,
        "packets": one.tally.packets,
        "wire_bytes": one.tally.wire_bytes,
        "captured_bytes": one.tally.captured_bytes,
        "lost_in_gaps": one.recorded_drops,
        "recorded": one.recorded.map(|recorded| json!({
            "interface_received": recorded.interface_received,
            "interface_dropped": recorded.interface_dropped,
            "received": recorded.received,
            "dropped": recorded.dropped,
            "delivered": recorded.delivered,
        })),
    })
}
