//! Raw flags become resolved ones, and each refusal names its flag.

use super::Usage;
use crate::args::Capture as Flags;
use anyhow::{Context, Result};
use forebay::{store, time::Clock};
use forebay_net::{
    open::{self, Name, Options},
    port::Port,
    session::{Config, Output},
    units,
};
use std::{
    fs::File,
    io::IsTerminal,
    os::fd::AsFd,
    path::{Path, PathBuf},
    time::Duration,
};

/// A request for a capture, understood.
pub struct Request {
    pub write: Option<PathBuf>,
    pub count: Option<u64>,
    pub snaplen: u32,
    pub quiet: bool,
    pub json: bool,
    pub stats_interval: Option<Duration>,
    pub fail_on_drop: bool,
    names: Vec<Name>,
    clock: Clock,
    options: Options,
    store: store::Config,
}

fn refuse<T>(what: String) -> Result<T> {
    Err(Usage(what).into())
}

impl Request {
    pub fn from_flags(flags: &Flags) -> Result<Self> {
        if flags.interfaces.is_empty() {
            return refuse(
                "no port to capture from. Name one with -i, such as -i sim or -i eth0; -D lists them"
                    .into(),
            );
        }
        let count = match flags
            .count
            .as_deref()
            .map(|text| (text, units::count(text)))
        {
            Some((_, Some(0))) => return refuse("-c 0 captures nothing. Use 1 or more".into()),
            Some((text, None)) => {
                return refuse(format!("-c {text} is no count. Use one such as 1000 or 5M"));
            }
            Some((_, count)) => count,
            None => None,
        };
        let snaplen = match flags.snaplen.parse() {
            Ok(0) => 262_144,
            Ok(bytes @ 1..=262_144) => bytes,
            _ => {
                let text = &flags.snaplen;
                return refuse(format!(
                    "-s {text} is no snapshot length. Use 1 to 262144, or 0"
                ));
            }
        };
        let ring_bytes = match &flags.ring {
            None => None,
            Some(text) => match units::bytes(text, 1024).filter(|&bytes| bytes > 0) {
                Some(bytes) => Some(bytes),
                None => {
                    return refuse(format!("-B {text} is no ring size. Use one such as 64M"));
                }
            },
        };
        let stats_interval = match &flags.stats_interval {
            None => None,
            Some(text) => match units::duration(text).filter(|every| !every.is_zero()) {
                Some(every) => Some(every),
                None => {
                    return refuse(format!(
                        "--stats-interval {text} is no time. Use one such as 5"
                    ));
                }
            },
        };
        let names: Vec<Name> = flags
            .interfaces
            .iter()
            .map(|name| {
                name.parse()
                    .map_err(|error| Usage(format!("-i {name}: {error}")))
            })
            .collect::<Result<_, _>>()?;
        let clock = open::clock(&names).map_err(|error| Usage(error.to_string()))?;
        let request = Request {
            names,
            clock,
            write: flags.write.clone(),
            count,
            snaplen,
            quiet: flags.quiet,
            json: flags.json,
            stats_interval,
            fail_on_drop: flags.fail_on_drop,
            options: Options {
                ring_bytes,
                promiscuous: !flags.not_promiscuous,
                snaplen,
            },
            store: parse_store(&flags.store, flags.unbuffered)?,
        };
        if request.writes_stdout() && std::io::stdout().is_terminal() {
            return refuse("-w - would write packets to your terminal. Send it into a pipe".into());
        }
        Ok(request)
    }

    pub fn writes_stdout(&self) -> bool {
        self.write.as_deref() == Some(Path::new("-"))
    }

    pub fn clock(&self) -> Clock {
        self.clock.clone()
    }

    pub fn open_ports(&self) -> Result<Vec<Box<dyn Port>>> {
        Ok(open::ports(&self.names, &self.options, &self.clock)?)
    }

    pub fn output(&self) -> Result<Output> {
        Ok(match &self.write {
            None => Output::Count,
            Some(_) if self.writes_stdout() => {
                let fd = std::io::stdout().as_fd().try_clone_to_owned();
                let file = File::from(fd.context("standard output cannot be written")?);
                Output::Stream(file, "standard output".into())
            }
            Some(path) => Output::File(path.clone()),
        })
    }

    pub fn config(&self) -> Config {
        let shortest = Duration::from_millis(250);
        Config {
            snaplen: self.snaplen,
            count: self.count,
            store: self.store.clone(),
            progress_every: self.stats_interval.unwrap_or(shortest).min(shortest),
            ..Config::default()
        }
    }
}

fn parse_store(text: &str, unbuffered: bool) -> Result<store::Config> {
    let parsed = text.split_once('x').and_then(|(buffers, size)| {
        let buffers = buffers.parse().ok()?;
        Some((buffers, usize::try_from(units::bytes(size, 1)?).ok()?))
    });
    let Some((buffers, buffer_bytes)) = parsed else {
        return refuse(format!(
            "--store {text} is not COUNTxSIZE. Use one such as 16x4M"
        ));
    };
    let mut config = store::Config {
        buffers,
        buffer_bytes,
        ..store::Config::default()
    };
    if unbuffered {
        config.flush_every = Duration::ZERO;
    }
    match config.validate() {
        Ok(()) => Ok(config),
        Err(error) => refuse(format!("--store {text}: {error}")),
    }
}
