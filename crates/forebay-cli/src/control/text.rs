//! The counts of a capture as text.

use crate::output::clock;
use forebay_net::units::{binary, scaled, scaled_binary};
use serde_json::Value;
use std::{fmt::Write, time::Duration};

/// A count, or `unknown`.
fn count(value: &Value) -> String {
    value
        .as_u64()
        .map_or("unknown".into(), |count| count.to_string())
}

fn percent(value: &Value) -> Option<String> {
    Some(format!("{:.0} %", value.as_f64()? * 100.0))
}

/// The object of `status`, or the summary of a capture, one subject a line.
pub fn status(object: &Value) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        if !value.is_empty() {
            let _ = writeln!(text, "{name:10}{value}");
        }
    };
    let get = |key: &str| &object[key];
    let number = |key: &str| get(key).as_f64().unwrap_or(0.0);
    let time = clock(Duration::try_from_secs_f64(number("seconds")).unwrap_or_default());
    let is_running = get("running") == true;
    let state = match (is_running, get("stopping") == true) {
        (true, false) => format!("running for {time}"),
        (true, true) => format!("ending after {time}"),
        (false, _) => format!("ended after {time}"),
    };
    let process = get("pid").as_u64();
    let process = process.map_or(String::new(), |pid| format!(", process {pid}"));
    line("capture", state + &process);
    let sources = get("sources").as_array().into_iter().flatten();
    let sources = sources.map(|source| {
        let name = source["interface"].as_str().unwrap_or("?");
        let backend = source["backend"].as_str().unwrap_or("?");
        let down = if source["down"] == true { ", down" } else { "" };
        format!("{name} ({backend}{down})")
    });
    line("from", sources.collect::<Vec<_>>().join(", "));
    line("to", get("output").as_str().unwrap_or_default().into());
    if is_running {
        let (packets, bits) = (number("packets_per_second"), number("bits_per_second"));
        let rate = format!("{} packets/s, {}bit/s", scaled(packets), scaled(bits));
        line("rate", rate.replace("  ", " "));
    }
    line("received", count(get("received")));
    let has_output = get("buffer_limit_bytes").is_u64() || get("got")["store"].is_object();
    let taken = if has_output { "written" } else { "counted" };
    line(taken, count(get(taken)));
    line("filtered", count(get("filtered")));
    if get("unread").as_u64() > Some(0) {
        line("unread", count(get("unread")));
    }
    if let Some(causes) = get("dropped").as_object() {
        // A cause whose count is unknown may have lost packets.
        let causes = causes.iter().filter(|(_, lost)| lost.as_u64() != Some(0));
        let causes: Vec<_> = causes
            .map(|(cause, lost)| format!("{cause} {}", count(lost)))
            .collect();
        let none = causes.is_empty();
        line("dropped", if none { "0".into() } else { causes.join(", ") });
    }
    if get("interface_dropped").as_u64() > Some(0) {
        let lost = count(get("interface_dropped"));
        line(
            "interface",
            format!("{lost} lost before they were received"),
        );
    }
    let fill = |now: &str, max: &str| {
        let (now, max) = (percent(get(now)), percent(get(max)));
        let now = now.map(|now| format!("{now} full"));
        let parts = [now, max.map(|max| format!("at most {max}"))];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    };
    if is_running {
        line("ring", fill("ring_fill", "ring_max_fill"));
        if let Some(limit) = get("buffer_limit_bytes").as_u64() {
            let fill = fill("buffer_fill", "buffer_max_fill");
            line(
                "buffers",
                format!("{fill} of {}B", scaled_binary(limit as f64)),
            );
        }
    }
    if has_output {
        let size = |key| binary(get(key).as_u64().unwrap_or(0));
        let sizes = format!(
            "{} written, {} durable",
            size("bytes"),
            size("durable_bytes")
        );
        line("bytes", sizes);
    }
    if let Some(files) = get("files_written").as_u64().filter(|&files| files > 0) {
        let newest = get("newest_files")
            .as_array()
            .and_then(|files| files.last());
        let newest = newest.or_else(|| get("files").as_array()?.last());
        let newest = newest.and_then(Value::as_str);
        let newest = newest.map_or(String::new(), |newest| format!(", the newest is {newest}"));
        line("files", format!("{files} complete{newest}"));
    }
    let metrics = get("metrics").as_str();
    line(
        "metrics",
        metrics.map_or(String::new(), |at| format!("http://{at}/metrics")),
    );
    line("share", get("share").as_str().unwrap_or_default().into());
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn causes_are_left_out_if_they_lost_nothing() {
        for (dropped, shown) in [
            (json!({ "kernel": 0, "disk": 0 }), "0"),
            (
                json!({ "kernel": 12, "peer": 0, "disk": 3 }),
                "kernel 12, disk 3",
            ),
            (json!({ "kernel": null, "disk": 0 }), "kernel unknown"),
        ] {
            let text = status(&json!({ "dropped": dropped }));
            let line = format!("dropped   {shown}");
            assert!(text.lines().any(|it| it == line), "{line:?} in {text}");
        }
    }
}
