//! What `rotate` and `flush` have done. A capture carries them out after it has answered, so its counts are asked for until they show it.

use super::client::Client;
use anyhow::Result;
use forebay_net::units::{binary, counted};
use serde_json::Value;
use std::{
    thread::sleep,
    time::{Duration, Instant},
};

/// The longest wait, and the time between two questions.
const PATIENCE: Duration = Duration::from_secs(3);
const ASK_EVERY: Duration = Duration::from_millis(50);

/// Waits until the counts show that the request was carried out, and describes what changed since `before`.
pub fn described(client: &mut Client, command: &str, before: &Value) -> Result<String> {
    let began = Instant::now();
    loop {
        let status = client.ask("status")?["status"].take();
        let text = match command {
            "rotate" => rotated(before, &status),
            _ => flushed(before, &status),
        };
        if let Some(text) = text {
            return Ok(text);
        }
        if began.elapsed() > PATIENCE {
            return Ok(format!(
                "{command} was requested; the capture has not reported that it is done\n"
            ));
        }
        sleep(ASK_EVERY);
    }
}

fn number(status: &Value, key: &str) -> u64 {
    status[key].as_u64().unwrap_or(0)
}

/// `None`: no further file is complete yet.
fn rotated(before: &Value, status: &Value) -> Option<String> {
    let newest = |status: &Value| {
        let files = status["newest_files"].as_array()?;
        files.last()?.as_str().map(str::to_owned)
    };
    let file = newest(status).filter(|file| newest(before).as_ref() != Some(file))?;
    let all = counted(number(status, "files_written"), "file", "files");
    Some(format!(
        "{file} is complete ({all} so far), and the next file has begun\n"
    ))
}

/// `None`: packets that were taken before are not written yet.
fn flushed(before: &Value, status: &Value) -> Option<String> {
    let seconds = |status: &Value| status["seconds"].as_f64().unwrap_or(0.0);
    // The counts are published four times a second; those of the request's moment follow.
    let wanted = number(before, "bytes") + number(before, "pending_bytes");
    if seconds(status) <= seconds(before) || number(status, "bytes") < wanted {
        return None;
    }
    let more = number(status, "bytes") - number(before, "bytes");
    let output = status["output"].as_str().unwrap_or("the output");
    let (bytes, durable) = (number(status, "bytes"), number(status, "durable_bytes"));
    Some(format!(
        "flushed: {} more are in {output}. It has {}, and {} are synced to the disk\n",
        binary(more),
        binary(bytes),
        binary(durable),
    ))
}
