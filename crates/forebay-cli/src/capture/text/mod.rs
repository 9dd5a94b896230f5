//! Text output of `capture`: start lines, a progress line on a terminal, warnings, and tcpdump's three final lines, followed by
//! ours. All of it goes to standard error.

mod closing;

use super::{
    lines::{Printed, not_shown},
    on_files::Ran,
    request::{Request, rotation},
};
use crate::{
    listening::{listening, not_as_on_the_wire},
    output::{self, Line, Stream, TimeLeft, counted, note_wrapped, packets, say, say_wrapped},
    sandbox::Sandbox,
    signals, verify,
};
use closing::{closing_lines, cut_line, left_line, odd_lines, share, some_files};
use forebay::memory::HugePages;
use forebay_net::{
    port::Outages,
    session::{Behind, KeepFree, Progress, Recovered, Session, Summary},
    units,
    verify::VerifyReport,
};
use std::{
    cell::Cell,
    fs::File,
    io::{ErrorKind, IsTerminal, stderr, stdout},
    os::{fd::AsFd, unix::fs::FileTypeExt},
    time::{Duration, Instant},
};

pub struct Screen {
    quiet: bool,
    verbose: bool,
    /// Whether a progress line is displayed.
    draws: bool,
    writes: bool,
    left: TimeLeft,
    counts: bool,
    metadata: bool,
    /// Whether all packets come from files that have a name.
    reads_files: bool,
    snaplen: u32,
    series: Option<String>,
    keep_free: String,
    /// When the capture ended and only the output was left.
    finishing_since: Cell<Option<Instant>>,
    finishing_reported: Cell<bool>,
    outage_lines: Cell<u32>,
}

/// `1.488 Mpps`, `0.95 Gb/s`.
fn rate(value: f64, unit: &str) -> String {
    format!("{}{unit}", units::scaled(value))
}

/// Whether a progress line would be between printed packets, or between the lines of a program that reads them.
fn shares_terminal(request: &Request) -> bool {
    let is_read = |stdout: File| {
        let kind = stdout.metadata()?.file_type();
        Ok::<_, std::io::Error>(kind.is_fifo() || kind.is_socket())
    };
    let output = stdout().as_fd().try_clone_to_owned().map(File::from);
    request.prints() && (stdout().is_terminal() || output.and_then(is_read).unwrap_or(false))
}

impl Screen {
    pub fn new(request: &Request) -> Self {
        Screen {
            quiet: request.is_quiet,
            verbose: request.is_verbose,
            // The reader of our packets may print on the same terminal.
            draws: !request.is_quiet
                && stderr().is_terminal()
                && !request.writes_stdout()
                && !shares_terminal(request),
            writes: request.write.is_some(),
            left: TimeLeft::default(),
            counts: request.only_counts,
            metadata: request.session.metadata,
            reads_files: request.reads_named_files(),
            snaplen: request.session.snaplen,
            series: request.rotation.as_ref().map(rotation::described),
            keep_free: match request.keep_free {
                Some(KeepFree::Percent(share)) => format!("{share} %"),
                Some(KeepFree::Bytes(bytes)) => format!("{}B", units::scaled(bytes as f64)),
                None => String::new(),
            },
            finishing_since: Cell::new(None),
            finishing_reported: Cell::new(false),
            outage_lines: Cell::new(0),
        }
    }

    /// Prints the ports and the store, before the first packet.
    pub fn start(&self, session: &Session, sandbox: &Sandbox) {
        if self.quiet {
            return;
        }
        let (sources, store) = session.info();
        if self.verbose {
            note_wrapped(format_args!("{}", sandbox.described()));
        }
        for source in &sources {
            say_wrapped(&listening(source, self.snaplen, self.verbose));
            if let Some(text) = not_as_on_the_wire(source) {
                say_wrapped(&text);
            }
        }
        let Some(store) = store else {
            if self.counts {
                output::note("packets are only counted");
            }
            return;
        };
        let writes = match (store.direct, store.thread) {
            (true, _) => "direct writes",
            (false, true) => "writes through the page cache",
            (false, false) => "writes inline",
        };
        let huge = match store.huge_pages {
            HugePages::Got { .. } => "huge pages",
            HugePages::Refused | HugePages::NotAsked => "no huge pages",
        };
        let limit = match store.limit_bytes > store.bytes {
            true => format!(
                " growing to {}B if needed",
                units::scaled_binary(store.limit_bytes as f64)
            ),
            false => String::new(),
        };
        let mut text = format!(
            "forebay: buffers {}{limit}",
            units::binary(store.bytes as u64)
        );
        if self.verbose {
            let block = units::binary(store.buffer_bytes as u64);
            text += &format!(" in {block} blocks, {huge}, {writes}, adaptive polling");
        }
        say_wrapped(&text);
        if let Some(series) = &self.series {
            note_wrapped(format_args!("{series}"));
        }
    }

    pub fn progress(&self, progress: &Progress) {
        if self.draws {
            output::show(|columns| progress_line(progress, self, columns));
        }
    }

    /// An interface went down or is up again. The first outages are reported; an interface that flaps all the time is then only counted.
    pub fn outage(&self, source: &str, outages: &Outages) {
        let lines = self.outage_lines.get();
        if lines > MOST_OUTAGE_LINES {
            return;
        }
        self.outage_lines.set(lines + 1);
        let text = match outages.is_down {
            _ if lines == MOST_OUTAGE_LINES => {
                "the interface goes up and down; further outages are only counted".into()
            }
            true => "the interface went down; waiting until it is up again".into(),
            false => format!(
                "the interface is up again after {:.1} s; packets of that time were not seen",
                outages.last.as_secs_f64()
            ),
        };
        output::note(format_args!("{source}: {text}"));
    }

    /// Everything is captured, and a file that a killed capture left is still being read.
    pub fn recovering(&self) {
        if !self.quiet {
            output::note(
                "finishing a file that a killed capture left, for 30 s at most; interrupt to leave it to the next one",
            );
        }
    }

    /// Reports a file that a killed capture left.
    pub fn recovered(&self, file: &Recovered) {
        let path = file.path.display();
        let text = match &file.error {
            Some(error) => {
                format!("{error}. A capture that was killed left this file; it keeps its name")
            }
            None => {
                let cut = match (file.cut_bytes, &file.rest) {
                    (0, _) => String::new(),
                    (cut, Some(rest)) => {
                        format!("; {cut} bytes after them are in {}", rest.display())
                    }
                    (cut, None) => format!("; cut off {cut} bytes of an incomplete packet"),
                };
                format!(
                    "{path}: finished a file that a killed capture left, {}{cut}",
                    packets(file.packets)
                )
            }
        };
        if !self.quiet || file.error.is_some() {
            note_wrapped(format_args!("{text}"));
        }
        if let Some(error) = &file.unsynced {
            note_wrapped(format_args!("{error}"));
        }
    }

    /// Nothing more is captured; reports how much is left to write or to sync. A short end is not reported.
    pub fn finishing(&self, pending_bytes: u64, unsynced_bytes: u64) {
        let since = self.finishing_since.get().unwrap_or_else(Instant::now);
        self.finishing_since.set(Some(since));
        let size = |bytes: u64| format!("{}B", units::scaled(bytes as f64));
        let doing = match (pending_bytes, unsynced_bytes) {
            (0, 0) => return,
            (0, unsynced) => format!("syncing what is written, {}", size(unsynced)),
            (pending, _) => format!("writing what is left, {}", size(pending)),
        };
        let has_waited = since.elapsed() >= Duration::from_millis(400);
        if !self.quiet && has_waited && !self.finishing_reported.replace(true) {
            let again = if signals::stops() > 0 { " again" } else { "" };
            output::note(format_args!("{doing}; interrupt{again} to give up"));
        }
        if self.draws {
            output::show(|_| doing);
        }
    }

    /// Everything is captured, and some files are not compressed yet.
    pub fn compressing(&self, files: usize) {
        if !self.quiet {
            output::note(format_args!(
                "compressing finished files, {}; interrupt to leave them as they are",
                some_files(files as u64)
            ));
        }
    }

    /// Everything is written, and the program of `-z` still runs.
    pub fn running(&self) {
        if !self.quiet {
            let again = if signals::stops() > 0 { " again" } else { "" };
            output::note(format_args!(
                "waiting for the program of -z; interrupt{again} to end it"
            ));
        }
    }

    /// Reports files on which the program of `-z` did not run.
    pub fn ran(&self, ran: &Ran) {
        if ran.left > 0 {
            let files = some_files(ran.left);
            output::error(format_args!("-z: the program did not run on {files}"));
        }
    }

    /// The counts in a line, for the service manager.
    pub fn status(&self, progress: &Progress) -> String {
        progress_line(progress, self, usize::MAX)
    }

    /// Prints the counts, on request or periodically; false if nobody reads them.
    pub fn counts(&self, progress: &Progress) -> bool {
        let counts = progress_line(progress, self, usize::MAX);
        output::report(Stream::Error, &format!("forebay: {counts}"))
    }

    pub fn warn_behind(&self, behind: &Behind) {
        let when = match behind.room_for {
            Some(room) => format!("in about {:.1} s", room.as_secs_f64()),
            None => "if it goes on".into(),
        };
        output::warning(format_args!(
            "buffer {:.0} % full (writer {}B/s too slow); when it is full, packets wait in the source, and drops will follow {when}",
            behind.fill * 100.0,
            units::scaled(behind.bytes_per_second),
        ));
    }

    /// What arrived of generated frames.
    pub fn verified(&self, report: &VerifyReport, window: u64) {
        for line in verify::lines(report, window, self.verbose) {
            note_wrapped(format_args!("{line}"));
        }
    }

    /// Reports lines of packets that could not be printed.
    pub fn printed(&self, printed: &Printed) {
        if signals::stops() > 0 && stderr().is_terminal() && !self.draws {
            // The terminal shows ^C at the beginning of the line.
            say("");
        }
        if let Some(error) = &printed.error {
            output::error(format_args!("standard output: {error}"));
        }
        if printed.missed > 0 {
            let why = match (printed.reader_left, &printed.error) {
                (true, _) => "the reader of standard output has left",
                (false, Some(_)) => "standard output cannot be written",
                (false, None) => "standard output took them too slowly",
            };
            output::note(format_args!("{}: {why}", not_shown(printed.missed)));
        }
    }

    /// Ends the display when the reader of the printed packets has left: reports only failures, and losses if the capture failed.
    pub fn end_silently(&self, summary: &Summary, has_failed: bool) {
        output::hide();
        report_failures(summary, self.quiet);
        if has_failed {
            say_all(&closing_lines(summary, true, false));
        }
        report_violation(summary);
    }

    pub fn end(&self, summary: &Summary, unprinted: u64) {
        output::hide();
        report_failures(summary, self.quiet);
        if self.reads_files && !self.quiet && summary.port_error.as_ref().is_some_and(is_damage) {
            output::note("to cut off what is damaged: forebay repair FILE");
        }
        let dropped = &summary.ledger.dropped;
        let by_interface = summary.ledger.interface_dropped.unwrap_or(0);
        let lost = dropped.known() - dropped.writer + by_interface;
        let only_unread = summary.reader_left() && lost == 0;
        if !(self.quiet && only_unread) {
            say_all(&closing_lines(summary, self.quiet, self.verbose));
        }
        if summary.is_out_of_room {
            note_wrapped(format_args!(
                "ended to keep {} of the disk free (--keep-free): there is no older file to remove",
                self.keep_free
            ));
        }
        if unprinted > 0 {
            let reports = counted(unprinted, "report was", "reports were");
            note_wrapped(format_args!(
                "{reports} not printed: nobody read the earlier ones"
            ));
        }
        say_all(&odd_lines(&summary.odd));
        say_all(cut_line(summary, self.snaplen).as_slice());
        if self.metadata
            && let Some(left) = left_line(&summary.left)
        {
            say_wrapped(&left);
        }
        report_violation(summary);
    }
}

fn say_all(lines: &[String]) {
    lines.iter().for_each(|line| say_wrapped(line));
}

/// Prints what failed, or was given up.
fn report_failures(summary: &Summary, quiet: bool) {
    if let Some(error) = &summary.port_error {
        output::error(error);
    }
    match &summary.store_error {
        Some(_) if summary.reader_left() && quiet => {}
        Some(_) if summary.reader_left() => output::note("the reader of the output has left"),
        Some(error) => output::error(error),
        None => {}
    }
    if summary.abandoned > 0 {
        output::note(format_args!(
            "gave up: {} not written",
            counted(summary.abandoned, "packet was", "packets were")
        ));
    }
    if summary.sync_abandoned {
        output::note(
            "gave up: everything is written, but a power cut may still destroy what is not durable",
        );
    }
    if let Some(error) = &summary.files.compressed.error {
        output::error(error);
    }
}

/// Whether a file could be read up to a damaged place only.
fn is_damage(error: &forebay::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::InvalidData | ErrorKind::UnexpectedEof
    )
}

fn report_violation(summary: &Summary) {
    if let Err(violation) = summary.ledger.check() {
        output::error(violation);
    }
}

/// Number of outages that are reported before they are only counted.
const MOST_OUTAGE_LINES: u32 = 10;

/// The counts in this many columns, without fields that do not fit.
fn progress_line(progress: &Progress, screen: &Screen, columns: usize) -> String {
    let seconds = progress.elapsed.as_secs();
    let reading = progress.reading.filter(|&(_, len)| len > 0);
    let read = reading.map(|(read, len)| read as f64 / len as f64);
    let lost = match progress.ledger.dropped.in_sources() {
        Some(0) if read.is_some() => String::new(),
        Some(0) => "lost 0".into(),
        Some(lost) => {
            let of = progress.taken + lost;
            format!("lost {lost} ({:.1} %)", share(lost, of))
        }
        None => "lost ?".into(),
    };
    let taken = units::scaled(progress.taken as f64);
    let mut line = Line::default();
    line.put(3, format!("{:02}:{:02}", seconds / 60, seconds % 60));
    let packets = if progress.taken == 1 {
        "packet"
    } else {
        "packets"
    };
    line.put(1, format!("{} {packets}", taken.trim_end()));
    if let Some(read) = read {
        line.put(0, output::percent(read).trim_start().to_owned());
        line.put(0, screen.left.text(read, progress.elapsed));
    }
    line.put(2, rate(progress.packets_per_second, "pps"));
    line.put(5, rate(progress.bits_per_second, "b/s"));
    if !lost.is_empty() {
        line.put(0, lost);
    }
    if screen.writes {
        let written = units::scaled(progress.written_bytes as f64);
        line.put(4, format!("buffer {:.0} %", progress.fill * 100.0));
        line.put(6, format!("wrote {written}B"));
        if progress.file > 0 {
            line.put(7, format!("file {}", progress.file));
        }
    }
    line.fit("  ", columns)
}
