//! Text output of `pipe` while it runs and at its end. All of it goes to standard error.

use crate::{
    args::Pipe as Flags,
    output::{self, Fields, Layout, Stream, clock, say},
};
use forebay_io::pipe::{Progress, Summary};
use forebay_net::units;
use std::{
    io::{IsTerminal, stderr},
    net::SocketAddr,
};

pub struct Screen {
    layout: Layout,
    /// Whether lines are displayed: standard error is a terminal, or `-f` was given.
    is_shown: bool,
    is_numeric: bool,
    waits_for_bytes: bool,
    ticks: u64,
}

impl Screen {
    pub fn new(flags: &Flags) -> Self {
        let may_show = flags.force || stderr().is_terminal();
        Screen {
            layout: Layout {
                fields: fields(flags),
                name: flags.name.clone(),
                counts_lines: flags.line_mode,
                ..Layout::default()
            },
            is_shown: may_show && !flags.quiet && !flags.numeric,
            is_numeric: flags.numeric && !flags.quiet,
            waits_for_bytes: flags.wait,
            ticks: 0,
        }
    }

    /// Whether a display is shown while the pipe runs.
    pub fn is_shown(&self) -> bool {
        self.is_shown || self.is_numeric
    }

    /// The expected number of bytes: that of `-s`, unless the input files are known to have more. Lines are known only from `-s`.
    pub fn expect(&mut self, said: Option<u64>, known: Option<u64>) {
        let known = known.filter(|_| !self.layout.counts_lines);
        self.layout.size = said.max(known);
        if let (Some(said), Some(known)) = (said, known)
            && said < known
            && self.is_shown
        {
            output::note(format_args!(
                "-s expects {said} bytes, but the inputs have {known}: progress is shown for these. mbuffer's -s is --block-size here"
            ));
        }
    }

    /// Waiting for a peer.
    pub fn listening(&self, address: SocketAddr) {
        if self.is_shown {
            output::note(format_args!("waiting for a connection to {address}"));
        }
    }

    pub fn show(&mut self, progress: &Progress) {
        if progress.asked {
            let _ = output::report(Stream::Error, &self.report(progress));
            return;
        }
        if self.waits_for_bytes && progress.bytes_written == 0 {
            return;
        }
        if self.is_numeric {
            let _ = output::report(Stream::Error, &self.layout.numbers(progress));
            return;
        }
        output::show(|columns| self.layout.line(progress, self.ticks, columns));
        self.ticks += 1;
    }

    pub fn end(&mut self, summary: &Summary) {
        output::keep();
        if let Some(error) = &summary.input_error {
            output::error(error);
        }
        for output in &summary.outputs {
            if let Some(error) = &output.error {
                output::error(error);
            }
            if output.reader_left && self.is_shown {
                let name = &output.name;
                output::note(format_args!(
                    "the reader of {name} left after {} bytes",
                    output.bytes
                ));
            }
        }
        if summary.stalled {
            output::error("no byte has moved for as long as --watchdog allows");
        }
        if summary.abandoned {
            let lost = summary.bytes_read - summary.bytes_written;
            let lost = output::counted(lost, "byte was", "bytes were");
            output::note(format_args!("gave up: {lost} read and not written"));
        }
        if self.is_shown {
            output::note(format_args!(
                "producer waited {:.1} s, consumer waited {:.1} s",
                summary.producer_waited.as_secs_f64(),
                summary.consumer_waited.as_secs_f64(),
            ));
            say(&self.closing_line(summary));
        }
        if let Some((hash, digits)) = &summary.checksum {
            say(&format!("{hash}: {digits}"));
        }
    }

    /// The counts, on request.
    fn report(&self, progress: &Progress) -> String {
        let average = progress.bytes_written as f64 / progress.elapsed.as_secs_f64().max(1e-9);
        let lines = match self.layout.counts_lines {
            true => format!(
                ", {}",
                output::counted(progress.lines_written, "line", "lines")
            ),
            false => String::new(),
        };
        format!(
            "forebay: {} bytes read, {} written{lines}, {}, {}B/s, buffer {:.0} %",
            progress.bytes_read,
            progress.bytes_written,
            clock(progress.elapsed),
            units::scaled_binary(average),
            progress.fill * 100.0,
        )
    }

    fn closing_line(&self, summary: &Summary) -> String {
        let seconds = summary.elapsed.as_secs_f64();
        let (bytes, lines) = (summary.bytes_written, summary.lines_written);
        let scaled = units::scaled_binary(bytes as f64);
        let rate = |count: u64| count as f64 / seconds.max(1e-9);
        match self.layout.counts_lines {
            true => format!(
                "summary: {} ({bytes} bytes) in {seconds:.1} sec - average of {} lines/s",
                output::counted(lines, "line", "lines"),
                units::scaled(rate(lines).round()).trim_end(),
            ),
            false => format!(
                "summary: {scaled}Byte ({bytes} bytes) in {seconds:.1} sec - average of {}B/s",
                units::scaled_binary(rate(bytes)),
            ),
        }
    }
}

/// The fields that were requested; without any, all but the average.
pub fn fields(flags: &Flags) -> Fields {
    let requested = Fields {
        bytes: flags.bytes,
        timer: flags.timer,
        rate: flags.rate,
        average: flags.average_rate,
        buffer: flags.buffer_percent,
        bar: flags.progress,
        eta: flags.eta,
    };
    match requested == Fields::default() && !flags.numeric {
        true => Fields::usual(),
        false => requested,
    }
}
