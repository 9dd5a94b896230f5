//! The lines of a replay: start, progress, and the counts at the end.

use crate::{
    args::Replay as Flags,
    output::{self, Line, counted, note_wrapped, packets, some_of},
    sending::{failed_line, time},
};
use forebay_net::{
    replay::{CutFrames, ReplayCounts, ReplayProgress, ReplaySummary},
    transmit::TxPort,
    units,
};
use std::{cell::Cell, time::Duration};

/// A wait that is longer than this is reported.
const LONG_WAIT: Duration = Duration::from_secs(5);

pub struct Notices<'a> {
    flags: &'a Flags,
    start: String,
    /// When the packet is due whose wait was reported last.
    reported: Cell<Duration>,
}

impl<'a> Notices<'a> {
    pub fn new(flags: &'a Flags, port: &dyn TxPort) -> Self {
        let files = match flags.files.as_slice() {
            [one] => one.display().to_string(),
            many => format!("{} files", many.len()),
        };
        let speed = match (flags.multiplier, flags.pps, flags.mbps) {
            (Some(factor), ..) => format!("{factor} times as fast as captured"),
            (_, Some(rate), _) => format!("{}pps", units::scaled(rate.amount_per_second())),
            (.., Some(rate)) => format!("{}b/s", units::scaled(rate.amount_per_second())),
            _ if flags.topspeed => "as fast as possible".into(),
            _ => "as fast as captured".into(),
        };
        let start = format!("sending {files} on {}, {speed}", port.name());
        Notices {
            flags,
            start,
            reported: Cell::default(),
        }
    }

    pub fn start(&self) {
        if !self.flags.sending.quiet {
            note_wrapped(&self.start);
        }
    }

    pub fn counts(&self, progress: &ReplayProgress) {
        note_wrapped(sent_line(&progress.counts));
    }

    pub fn progress(&self, progress: &ReplayProgress) {
        if !self.flags.sending.quiet {
            self.report_wait(progress);
            output::show(|columns| progress_line(progress, columns));
        }
    }

    /// Reports when the next packet is due, if that is later than ever before.
    fn report_wait(&self, progress: &ReplayProgress) {
        let Some(due) = progress.next_due else { return };
        let wait = due.saturating_sub(progress.elapsed);
        if wait < LONG_WAIT || wait <= self.reported.get() {
            return;
        }
        self.reported.set(wait);
        let advice = match (self.flags.pps, self.flags.mbps) {
            (None, None) => ". --max-gap limits such waits",
            _ => "",
        };
        let wait = output::clock(wait);
        note_wrapped(format_args!(
            "the next packet is due in {wait} (hours:minutes:seconds){advice}"
        ));
    }

    pub fn end(&self, summary: &ReplaySummary, port: &dyn TxPort) {
        output::hide();
        let counts = &summary.counts;
        if let Some(error) = &summary.error {
            output::error(error);
        }
        let failed = counts.sent.failed.total();
        if !self.flags.sending.quiet || failed > 0 {
            note_wrapped(sent_line(counts));
        }
        if let Some(line) = failed_line(&counts.sent.failed) {
            note_wrapped(&line);
        }
        if counts.sent.failed.too_long > 0 {
            let max = port.max_frame_bytes();
            let name = port.name();
            note_wrapped(format_args!(
                "{} longer than the {max} bytes that {name} sends. Raise its MTU: ip link set {name} mtu N. Or capture without offloads, which merge packets: ethtool -K {name} gro off gso off tso off",
                counted(counts.sent.failed.too_long, "packet is", "packets are")
            ));
        }
        if !self.flags.sending.quiet {
            self.details(summary);
        }
        if let Err(why) = summary.law() {
            output::error(format_args!("the counts do not add up: {why}"));
        }
    }

    fn details(&self, summary: &ReplaySummary) {
        let counts = &summary.counts;
        let left_out = some_of(&[
            (counts.filtered, "filtered"),
            (counts.skipped, "skipped because they were cut"),
            (counts.unsent, "not sent because of the end"),
        ]);
        if !left_out.is_empty() {
            let read = packets(counts.read);
            note_wrapped(format_args!(
                "{read} read, of these {}",
                left_out.join(", ")
            ));
        }
        if counts.cut > counts.skipped {
            let what = match self.flags.cut {
                CutFrames::Pad => "zeros were added up to their original length",
                _ => "only that was sent (--cut pad adds zeros, --cut skip leaves them out)",
            };
            note_wrapped(format_args!(
                "of {} the files hold only the beginning: {what}",
                packets(counts.cut - counts.skipped)
            ));
        }
        if !self.flags.rewrite.is_empty() {
            note_wrapped(format_args!("{} rewritten", packets(counts.rewritten)));
        }
        if counts.incomplete > 0 {
            note_wrapped(format_args!(
                "{} could not be rewritten completely: headers, quoted packets or checksums are cut, in fragments or damaged, or a neighbour solicitation has a new target and not its group",
                packets(counts.incomplete)
            ));
        }
        if counts.sent.accepted > 1 {
            note_wrapped(format_args!(
                "{:.3} s, {:.1} packets/s, {}b/s",
                summary.elapsed.as_secs_f64(),
                summary.packets_per_second(),
                units::scaled(summary.bits_per_second())
            ));
        }
        let pace = &summary.pace;
        if pace.packets > 1 {
            let [half, most, nearly_all] =
                [0.5, 0.99, 0.999].map(|share| time(pace.gap_error_ns(share)));
            note_wrapped(format_args!(
                "gap error at most {half} for 50 % of the gaps, {most} for 99 %, {nearly_all} for 99.9 %; worst lag {}",
                time(pace.worst_lag_ns)
            ));
        }
        if counts.sent.retried > 0 {
            note_wrapped(format_args!(
                "the interface had no room {}; packets were sent later",
                times(counts.sent.retried)
            ));
        }
        if !summary.stalled.is_zero() {
            note_wrapped(format_args!(
                "the interface took nothing for {:.1} s; later packets were postponed by that time",
                summary.stalled.as_secs_f64()
            ));
        }
    }
}

fn times(count: u64) -> String {
    match count {
        1 => "once".into(),
        _ => format!("{count} times"),
    }
}

fn sent_line(counts: &ReplayCounts) -> String {
    let sent = &counts.sent;
    let pending = match sent.pending() {
        0 => String::new(),
        pending => format!(" + {pending} pending"),
    };
    format!(
        "{} sent = {} accepted + {} failed{pending}",
        packets(sent.sent),
        sent.accepted,
        sent.failed.total()
    )
}

fn progress_line(progress: &ReplayProgress, columns: usize) -> String {
    let mut line = Line::default();
    if progress.is_preloading {
        line.put(0, "reading into memory".into());
        return line.fit("  ", columns);
    }
    let sent = &progress.counts.sent;
    let seconds = progress.elapsed.as_secs_f64().max(1e-9);
    line.put(
        3,
        output::clock(Duration::from_secs(progress.elapsed.as_secs())),
    );
    line.put(0, format!("{}packets", units::scaled(sent.accepted as f64)));
    line.put(
        1,
        format!(
            "{}pps",
            units::scaled((sent.accepted as f64 / seconds).round())
        ),
    );
    let bits = 8.0 * sent.accepted_bytes as f64 / seconds;
    line.put(4, format!("{}b/s", units::scaled(bits.round())));
    line.put(2, format!("failed {}", sent.failed.total()));
    if let Some(done) = progress.done {
        line.put(5, format!("file {}", output::percent(done).trim_start()));
    }
    if progress.counts.rounds > 0 {
        line.put(6, format!("round {}", progress.counts.rounds + 1));
    }
    if progress.is_stalled {
        line.put(0, "waiting for the interface".into());
    }
    line.fit("  ", columns)
}
