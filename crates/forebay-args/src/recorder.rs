//! The flags of `capture` about the flight recorder.

use super::values::{self, Parsed};
use clap::Args as ClapArgs;
use forebay_net::{share::MIN_RING_BYTES, units};
use std::time::Duration;

#[derive(ClapArgs)]
#[command(next_help_heading = "Flight recorder")]
pub struct Recording {
    /// Keep the last packets in memory, and write them to a file when a trigger occurs. The limit is a TIME (30s: those of the
    /// last 30 seconds), a SIZE (2G: as many as fit into it), or both (30s,2G: whichever is reached first)
    ///
    /// A trigger is the signal USR1, the command 'forebay trigger', or a packet (--trigger). Each trigger starts a new file,
    /// unless --after extends the previous one. With -w a.pcapng, the files are called a_00001_20261121143000.pcapng, …. If only a TIME is given, the packets
    /// may use an eighth of the available memory, at most 2 GiB. If that is too little for this TIME, fewer packets are kept
    #[arg(long, value_name = "TIME|SIZE", requires = "write", value_parser = depth)]
    pub recorder: Option<Depth>,

    /// With --recorder, also write packets that arrive within this time after the trigger. If another trigger occurs in this
    /// time, the file is extended
    #[arg(long, value_name = "SECONDS", requires = "recorder", value_parser = values::time)]
    pub after: Option<Duration>,

    /// With --recorder, each packet that matches the filter expression EXPR is a trigger
    #[arg(long, value_name = "EXPR", requires = "recorder")]
    pub trigger: Option<String>,
}

/// How much a recorder keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    pub time: Option<Duration>,
    pub bytes: Option<u64>,
}

fn depth(text: &str) -> Parsed<Depth> {
    let mut depth = Depth::default();
    let wrong =
        || format!("'{text}' is neither a time nor a size. Use 30s, 2min, 2G, or both: 30s,2G");
    for part in text.split(',') {
        // A bare number could be either, and 5m could be minutes.
        if part.ends_with(|c: char| c.is_ascii_digit() || c == 'm') {
            return Err(format!(
                "'{part}' could be a time or a size. Use {part}s, 5min or 64M"
            ));
        }
        let (time, bytes) = (units::duration(part), units::bytes(part, 1));
        match (time.filter(|time| !time.is_zero()), bytes) {
            (Some(time), None) if depth.time.is_none() => depth.time = Some(time),
            (_, Some(bytes)) if depth.bytes.is_none() => depth.bytes = Some(bytes),
            _ => return Err(wrong()),
        }
    }
    match depth.bytes {
        Some(bytes) if bytes < MIN_RING_BYTES => {
            Err("it is less than 1M, the least for packets".into())
        }
        _ => Ok(depth),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_depth_is_a_time_or_a_size_or_both() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        for (text, time, bytes) in [
            ("30s", seconds(30), None),
            ("2min", seconds(120), None),
            ("2G", None, Some(2 << 30)),
            ("30s,64M", seconds(30), Some(64 << 20)),
            ("64MB,1s", seconds(1), Some(64_000_000)),
        ] {
            assert_eq!(depth(text), Ok(Depth { time, bytes }), "{text}");
        }
        for text in [
            "", "30", "5m", "0s", "1s,2s", "1M,2M", "1s,", "4k", "x", "1s,2M,3s", "-1s",
        ] {
            assert!(depth(text).is_err(), "{text}");
        }
    }
}
