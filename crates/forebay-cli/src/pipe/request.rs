//! Turns flags into a request for a pipe, and rejects flags that contradict each other.

use super::screen::Screen;
use crate::{
    args::{Input, Pipe as Flags},
    usage::{Usage, refuse},
};
use anyhow::Result;
use forebay_io::pipe::{self, Existing, Output, PipeConfig, Place};
use forebay_net::units;
use std::path::PathBuf;

pub struct Request {
    inputs: Vec<Place>,
    outputs: Vec<Place>,
    existing: Existing,
    pub config: PipeConfig,
}

impl Request {
    pub fn from_flags(flags: &Flags) -> Result<Self> {
        let (mut interval, mut inputs) = (flags.interval, Vec::new());
        for input in &flags.inputs {
            match input {
                Input::Interval(time) => interval = *time,
                Input::Place(place) => inputs.push(place.clone()),
            }
        }
        flags.files.iter().try_for_each(refuse_value_of_mbuffer)?;
        inputs.extend_from_slice(&flags.listen);
        inputs.extend_from_slice(&flags.files);
        let mut outputs = [&flags.outputs[..], &flags.connect].concat();
        for places in [&mut inputs, &mut outputs] {
            if places.is_empty() {
                places.push(Place::Standard);
            }
        }
        for (places, flag) in [(&inputs, "-i -"), (&outputs, "-o -")] {
            let standard = places.iter().filter(|place| **place == Place::Standard);
            if standard.count() > 1 {
                return refuse(format!("{flag} can be given only once"));
            }
        }
        let config = PipeConfig {
            capacity_bytes: flags.memory,
            block_bytes: flags.block_size,
            start_writing: flags.start_writing,
            start_reading: flags.start_reading,
            read_rate: flags.read_rate,
            write_rate: flags.write_rate,
            hash: flags.hash,
            counts_lines: flags.line_mode,
            sync: flags.sync,
            progress_every: Some(interval),
            watchdog: flags.watchdog,
            splice: !flags.no_splice,
        };
        config
            .validate()
            .map_err(|error| Usage(error.to_string()))?;
        Ok(Request {
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

    /// The folders of the output files, after these are open.
    pub fn folders(&self) -> Vec<PathBuf> {
        let file = |place: &Place| match place {
            Place::File(path) if path.is_file() => path.canonicalize().ok(),
            _ => None,
        };
        let files = self.outputs.iter().filter_map(file);
        files.filter_map(|it| Some(it.parent()?.into())).collect()
    }

    pub fn open_inputs(&self, screen: &Screen) -> Result<Vec<pipe::Input>> {
        let open = |place| {
            Ok(pipe::Input::open(place, &mut |address| {
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
}

/// `-r 10M` is mbuffer's limit; here `-r` takes no value, so `10M` is a file name. If there is no such file, explain that.
fn refuse_value_of_mbuffer(place: &Place) -> Result<()> {
    let Place::File(path) = place else {
        return Ok(());
    };
    let text = path.to_str().filter(|text| units::bytes(text, 1).is_some());
    match text {
        Some(text) if !path.exists() => refuse(format!(
            "{text}: there is no such file. If it was meant as the value of a flag: -p, -r, -b and -n take no value here, as in pv; mbuffer's -p is --start-reading, its -r is --read-rate"
        )),
        _ => Ok(()),
    }
}
