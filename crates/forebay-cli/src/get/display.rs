//! What `get` prints on standard error while bytes arrive and at the end.

use crate::output::{self, Fields, Layout, TimeLeft};
use forebay_io::{
    http::{Answer, Head, Kept, Url},
    pipe::Progress,
};
use std::time::{Duration, Instant};

/// Interval between two updates of the display.
const EVERY: Duration = Duration::from_millis(200);

/// What is printed on standard error.
pub struct TransferDisplay {
    quiet: bool,
    draws: bool,
    layout: Layout,
    began: Instant,
    /// When the display was drawn, how often, and the number of bytes that it showed.
    drawn: (Instant, u64, u64),
}

impl TransferDisplay {
    pub fn new(quiet: bool, draws: bool) -> Self {
        let began = Instant::now();
        TransferDisplay {
            quiet,
            draws,
            layout: Layout::default(),
            began,
            drawn: (began, 0, 0),
        }
    }

    pub fn redirected(&self, head: &Head, to: &Url) {
        if !self.quiet {
            output::note(format_args!("{}, on to {to}", status(head)));
        }
    }

    /// After a beginning was there that is not one of what the server has.
    pub fn begins_anew(&self, kept: Option<&Kept>) {
        if let Some(kept) = kept
            && !self.quiet
        {
            let bytes = output::counted(kept.bytes, "byte is", "bytes are");
            output::note(format_args!(
                "the file has changed, or the server sends no parts: {bytes} fetched again"
            ));
        }
    }

    pub fn has_no_version(&self) {
        if !self.quiet {
            output::note(
                "the server does not identify this version of the file (no strong ETag), so an interrupted fetch begins anew",
            );
        }
    }

    pub fn begins(&mut self, body_length: Option<u64>, kept: u64) {
        let size = body_length.map(|length| length.saturating_add(kept));
        self.layout = Layout {
            fields: Fields {
                buffer: false,
                ..Fields::usual()
            },
            already: kept,
            left: TimeLeft::beginning_at(kept as f64 / size.unwrap_or(0).max(1) as f64),
            size,
            ..Layout::default()
        };
        self.drawn.2 = kept;
    }

    pub fn written(&mut self, bytes: u64) {
        let bytes = bytes.saturating_add(self.layout.already);
        let (last, ticks, before) = self.drawn;
        let since = last.elapsed();
        if !self.draws || since < EVERY {
            return;
        }
        self.drawn = (Instant::now(), ticks + 1, bytes);
        let progress = Progress {
            elapsed: self.began.elapsed(),
            bytes_written: bytes,
            bytes_per_second: bytes.saturating_sub(before) as f64 / since.as_secs_f64(),
            ..Progress::default()
        };
        output::show(|columns| self.layout.line(&progress, ticks, columns));
    }

    /// `forebay: 1048576 bytes, 0.12 s, http://host/path`.
    pub fn ends(&self, answer: &Answer) {
        if !self.quiet {
            let kept = match self.layout.already {
                0 => String::new(),
                kept => format!(" after the {kept} of before"),
            };
            output::note(format_args!(
                "{}{kept}, {:.2} s, {}",
                output::counted(answer.written_bytes, "byte", "bytes"),
                self.began.elapsed().as_secs_f64(),
                answer.url
            ));
        }
    }
}

/// `404 Not Found`.
pub fn status(head: &Head) -> String {
    let text = format!("{} {}", head.status, head.reason);
    text.trim_end().to_owned()
}
