//! Turns flags into a request for a pipe. Each error names its flag.

use super::screen::Screen;
use crate::{
    args::Pipe as Flags,
    usage::{Usage, refuse},
};
use anyhow::Result;
use forebay_io::pipe::{Config, Existing, Hash, Input, Output, Place, split_port};
use forebay_net::units;
use std::{
    ffi::{OsStr, OsString},
    path::Path,
    time::Duration,
};

/// A parsed request for a pipe.
pub struct Request {
    /// Number of bytes that the user expects.
    pub size: Option<u64>,
    pub name: Option<String>,
    pub fields: Fields,
    pub numeric: bool,
    pub quiet: bool,
    pub force: bool,
    pub wait: bool,
    interval: Duration,
    inputs: Vec<Place>,
    outputs: Vec<Place>,
    existing: Existing,
    config: Config,
}

/// Fields of the display.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    pub bytes: bool,
    pub timer: bool,
    pub rate: bool,
    pub average: bool,
    pub buffer: bool,
    pub bar: bool,
    pub eta: bool,
}

impl Fields {
    /// The fields that were requested; without any, all but the average.
    fn from_flags(flags: &Flags) -> Self {
        let asked = Fields {
            bytes: flags.bytes,
            timer: flags.timer,
            rate: flags.rate,
            average: flags.average_rate,
            buffer: flags.buffer_percent,
            bar: flags.progress,
            eta: flags.eta,
        };
        if asked != Fields::default() || flags.numeric {
            return asked;
        }
        Fields::usual()
    }

    /// The default fields.
    pub fn usual() -> Self {
        Fields {
            bytes: true,
            timer: true,
            rate: true,
            average: false,
            buffer: true,
            bar: true,
            eta: true,
        }
    }
}

impl Request {
    pub fn from_flags(flags: &Flags) -> Result<Self> {
        let mut interval = duration("--interval", &flags.interval)?;
        let mut inputs = Vec::new();
        for name in &flags.inputs {
            match as_interval(name) {
                Some(text) => interval = duration("-i", text)?,
                None => inputs.push(place(name)?),
            }
        }
        for text in &flags.listen {
            inputs.push(listen(text)?);
        }
        for name in &flags.files {
            refuse_value_of_mbuffer(name)?;
            inputs.push(place(name)?);
        }
        if inputs.is_empty() {
            inputs.push(Place::Standard);
        }
        let mut outputs: Vec<_> = flags.outputs.iter().map(place).collect::<Result<_>>()?;
        for text in &flags.connect {
            outputs.push(place(&format!("tcp:{text}").into())?);
        }
        if outputs.is_empty() {
            outputs.push(Place::Standard);
        }
        for (places, flag) in [(&inputs, "-i -"), (&outputs, "-o -")] {
            let standard = places.iter().filter(|place| **place == Place::Standard);
            if standard.count() > 1 {
                return refuse(format!("{flag} can be given only once"));
            }
        }
        let optional =
            |flag, text: &Option<String>| text.as_deref().map(|text| size(flag, text)).transpose();
        let hash = flags.hash.as_deref().map(str::parse::<Hash>).transpose();
        let watchdog = flags.watchdog.as_deref();
        let watchdog = watchdog
            .map(|text| duration("--watchdog", text))
            .transpose()?;
        let block_bytes = optional("--block-size", &flags.block_size)?;
        let config = Config {
            capacity_bytes: memory(&flags.memory)?,
            block_bytes: block_bytes.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
            start_writing: percent("-P", &flags.start_writing)?,
            start_reading: percent("--start-reading", &flags.start_reading)?,
            read_rate: optional("--read-rate", &flags.read_rate)?,
            write_rate: optional("-R", &flags.write_rate)?,
            hash: hash.map_err(|error| Usage(format!("--hash: {error}")))?,
            sync: flags.sync,
            progress_every: None,
            watchdog,
            splice: !flags.no_splice,
        };
        config
            .validate()
            .map_err(|error| Usage(error.to_string()))?;
        Ok(Request {
            size: optional("-s", &flags.size)?,
            name: flags.name.clone(),
            fields: Fields::from_flags(flags),
            numeric: flags.numeric,
            quiet: flags.quiet,
            force: flags.force,
            wait: flags.wait,
            interval,
            inputs,
            outputs,
            existing: match (flags.truncate, flags.append) {
                (true, _) => Existing::Truncate,
                (_, true) => Existing::Append,
                _ => Existing::Refuse,
            },
            config,
        })
    }

    pub fn open_inputs(&self, screen: &Screen) -> Result<Vec<Input>> {
        let open = |place| {
            Ok(Input::open(place, &mut |address| {
                screen.listening(address)
            })?)
        };
        self.inputs.iter().map(open).collect()
    }

    pub fn open_outputs(&self, screen: &Screen) -> Result<Vec<Output>> {
        let existing = self.existing;
        let open = |place| {
            let listening = &mut |address| screen.listening(address);
            Ok(Output::open(place, existing, listening)?)
        };
        self.outputs.iter().map(open).collect()
    }

    pub fn config(&self, is_shown: bool) -> Config {
        Config {
            progress_every: is_shown.then_some(self.interval),
            ..self.config.clone()
        }
    }
}

fn place(name: &OsString) -> Result<Place> {
    Ok(Place::parse(name).map_err(|error| Usage(error.to_string()))?)
}

/// mbuffer's `-I [HOST:]PORT`; only HOST may connect.
fn listen(text: &str) -> Result<Place> {
    match split_port(text) {
        Some((host, port)) => Ok(Place::Listen {
            at: None,
            port,
            only: host.map(str::to_owned),
        }),
        None => refuse(format!(
            "-I {text} is not a port. Use a value such as 9000 or HOST:9000"
        )),
    }
}

/// `-i 0.5` is pv's, `-i file` mbuffer's.
fn as_interval(name: &OsStr) -> Option<&str> {
    name.to_str().filter(|text| text.parse::<f64>().is_ok())
}

/// `-r 10M` is mbuffer's limit; here `-r` takes no value, so `10M` is a file name. If there is no such file, explain that.
fn refuse_value_of_mbuffer(name: &OsStr) -> Result<()> {
    let is_size = |text: &&str| units::bytes(text, 1).is_some();
    match name.to_str().filter(is_size) {
        Some(text) if !Path::new(text).exists() => refuse(format!(
            "{text}: there is no such file. If it was meant as the value of a flag: -p, -r, -b and -n take no value here, as in pv; mbuffer's -p is --start-reading, its -r is --read-rate"
        )),
        _ => Ok(()),
    }
}

fn size(flag: &str, text: &str) -> Result<u64> {
    match units::bytes(text, 1).filter(|&bytes| bytes > 0) {
        Some(bytes) => Ok(bytes),
        None => refuse(format!(
            "{flag} {text} is not a size. Use a value such as 512k or 10M"
        )),
    }
}

fn duration(flag: &str, text: &str) -> Result<Duration> {
    match units::duration(text).filter(|time| !time.is_zero()) {
        Some(time) => Ok(time),
        None => refuse(format!(
            "{flag} {text} is not a time. Use a value such as 0.5 or 2s"
        )),
    }
}

fn percent(flag: &str, text: &str) -> Result<u8> {
    match text.strip_suffix('%').unwrap_or(text).parse() {
        Ok(percent @ 0..=100) => Ok(percent),
        _ => refuse(format!("{flag} {text} is not a percentage. Use 0 to 100")),
    }
}

/// A size, or a percentage of the machine's memory.
fn memory(text: &str) -> Result<usize> {
    let bytes = match text.strip_suffix('%') {
        None => size("-m", text)?,
        Some(part) => match (percent("-m", part)?, memory_of_the_machine()) {
            (1.., Some(all)) => all / 100 * u64::from(percent("-m", part)?),
            _ => return refuse(format!("-m {text} is not a size. Use a value such as 256M")),
        },
    };
    Ok(usize::try_from(bytes).unwrap_or(usize::MAX))
}

fn memory_of_the_machine() -> Option<u64> {
    let told = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = told
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
