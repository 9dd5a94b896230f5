//! Text output of a verification.

use crate::output::{self, Line, counted, plain, some_of};
use forebay_net::{
    ledger::Ledger,
    session::{Progress, Summary},
    units,
    verify::{SenderReport, VerifyReport},
};

/// `0.0012 %`: with enough digits to see that it is not zero.
fn percent(part: u64, whole: u64) -> String {
    let share = part as f64 * 100.0 / whole.max(1) as f64;
    match share {
        0.0 => "0 %".into(),
        0.01.. => format!("{share:.2} %"),
        _ => format!("{share:.1e} %"),
    }
}

/// What arrived of each sender.
pub fn lines(report: &VerifyReport, window: u64, verbose: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for sender in &report.senders {
        of_sender(sender, window, &mut lines);
        if verbose {
            lines.extend(of_flows(sender));
        }
    }
    if report.senders.is_empty() {
        lines.push("no generated frame arrived".into());
    }
    if report.untracked > 0 {
        let frames = counted(report.untracked, "frame is", "frames are");
        lines.push(format!("{frames} of further senders, too many to verify"));
    }
    lines
}

fn of_sender(sender: &SenderReport, window: u64, lines: &mut Vec<String>) {
    let flows = counted(sender.flows.len() as u64, "flow", "flows");
    lines.push(format!(
        "{}: sender {}, {flows}: {} expected = {} received + {} lost ({})",
        plain(&sender.interface),
        sender.sender,
        sender.expected,
        sender.received,
        sender.lost,
        percent(sender.lost, sender.expected),
    ));
    let mut line = |text: String| lines.push(format!("  {text}"));
    if sender.lost > 0 {
        let gaps = counted(sender.gaps, "gap", "gaps");
        let frames = counted(sender.longest_gap, "frame", "frames");
        line(format!("lost in {gaps}, the longest of {frames}"));
    }
    if sender.late > 0 {
        let frames = counted(sender.late, "frame", "frames");
        line(format!(
            "{frames} arrived more than {window} numbers late, counted as lost"
        ));
    }
    if sender.reordered > 0 {
        line(format!(
            "{} reordered, by up to {}; {} within a flow",
            sender.reordered,
            counted(sender.longest_distance, "number", "numbers"),
            sender.reordered_in_flow
        ));
    }
    if sender.duplicates > 0 {
        line(counted(sender.duplicates, "duplicate", "duplicates"));
    }
    if sender.first > 0 {
        line(format!(
            "its beginning did not arrive: {} before number {0} not counted",
            sender.first,
        ));
    }
    if sender.sent.is_none() {
        line("its end did not arrive: frames lost after the last one are not counted".into());
    }
}

fn of_flows(sender: &SenderReport) -> impl Iterator<Item = String> {
    let head = format!(
        "  {:>4} {:>20} {:>20} {:>20}",
        "flow", "received", "lost", "reordered"
    );
    let flows = sender.flows.iter().enumerate();
    let rows = flows.map(|(number, flow)| {
        let (received, lost, reordered) = (flow.received, flow.lost, flow.reordered);
        format!("  {number:>4} {received:>20} {lost:>20} {reordered:>20}")
    });
    [head].into_iter().chain(rows)
}

/// `1000 frames = 990 received + 4 duplicates + 6 markers`, with what the session did not show to the verifier.
pub fn law(summary: &Summary, report: &VerifyReport) -> String {
    let ledger = &summary.ledger;
    let columns = some_of(&[
        (report.duplicates(), "duplicates"),
        (report.late(), "late"),
        (report.markers(), "markers"),
        (report.corrupted, "corrupted"),
        (report.cut, "cut"),
        (report.foreign, "foreign"),
        (report.outbound, "outbound"),
        (report.untracked, "of further senders"),
        (ledger.filtered, "filtered"),
        (ledger.unread, "unread"),
    ]);
    let columns: String = columns.iter().map(|it| format!(" + {it}")).collect();
    let dropped = match ledger.dropped.in_sources() {
        Some(dropped) => format!("{dropped} dropped here"),
        None => "unknown dropped here".into(),
    };
    format!(
        "{} frames = {} received{columns} + {dropped}, in {:.2} s",
        ledger.received,
        report.received(),
        summary.elapsed.as_secs_f64()
    )
}

/// Losses that are not those of the path.
pub fn lost_here(ledger: &Ledger) -> Option<String> {
    let dropped = ledger.dropped.known();
    let packets = counted(dropped, "packet was", "packets were");
    (dropped > 0).then(|| {
        format!(
            "{packets} dropped on this machine, and count as lost if they were generated. Try a larger -B"
        )
    })
}

/// The counts so far in this many columns.
pub fn progress(progress: &Progress, report: &VerifyReport, columns: usize) -> String {
    let seconds = progress.elapsed.as_secs();
    let (received, lost) = (report.received(), report.lost());
    let mut line = Line::default();
    line.put(3, format!("{:02}:{:02}", seconds / 60, seconds % 60));
    line.put(1, format!("{}received", units::scaled(received as f64)));
    line.put(
        2,
        format!("{}pps", units::scaled(progress.packets_per_second)),
    );
    let expected = received.saturating_add(lost);
    line.put(0, format!("lost {lost} ({})", percent(lost, expected)));
    line.put(4, format!("reordered {}", report.reordered()));
    line.put(5, format!("duplicates {}", report.duplicates()));
    line.put(6, format!("corrupted {}", report.corrupted));
    if let Some((read, len)) = progress.reading.filter(|&(_, len)| len > 0) {
        line.put(
            0,
            output::percent(read as f64 / len as f64)
                .trim_start()
                .to_owned(),
        );
    }
    line.fit("  ", columns)
}
