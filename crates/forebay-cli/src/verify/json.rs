//! JSON output of a verification. The schema is documented in docs/generate.md; a change of meaning raises its number.

use crate::{counts, sandbox::Sandbox};
use forebay_net::{
    session::Summary,
    verify::{SenderReport, VerifyReport},
};
use serde_json::{Value, json};

const SCHEMA: u32 = 1;

fn sender(sender: &SenderReport) -> Value {
    let flows = sender.flows.iter().enumerate();
    let flows = flows.map(|(number, flow)| {
        json!({
            "flow": number,
            "received": flow.received,
            "lost": flow.lost,
            "reordered": flow.reordered,
        })
    });
    json!({
        "interface": sender.interface,
        "sender": sender.sender,
        "first": sender.first,
        "sent": sender.sent,
        "expected": sender.expected,
        "received": sender.received,
        "lost": sender.lost,
        "gaps": sender.gaps,
        "longest_gap": sender.longest_gap,
        "duplicates": sender.duplicates,
        "reordered": sender.reordered,
        "longest_distance": sender.longest_distance,
        "reordered_in_flow": sender.reordered_in_flow,
        "late": sender.late,
        "markers": sender.markers,
        "flows": flows.collect::<Vec<_>>(),
    })
}

/// The counts of a verifier.
pub fn object(report: &VerifyReport, window: u64) -> Value {
    json!({
        "frames": report.frames,
        "received": report.received(),
        "lost": report.lost(),
        "duplicates": report.duplicates(),
        "reordered": report.reordered(),
        "late": report.late(),
        "markers": report.markers(),
        "corrupted": report.corrupted,
        "cut": report.cut,
        "foreign": report.foreign,
        "outbound": report.outbound,
        "untracked": report.untracked,
        "window": window,
        "lossless": report.is_lossless(),
        "senders": report.senders.iter().map(sender).collect::<Vec<_>>(),
        "law_holds": report.check().is_ok(),
    })
}

/// The result of `verify`.
pub fn summary(summary: &Summary, report: &VerifyReport, window: u64, sandbox: &Sandbox) -> Value {
    let ledger = &summary.ledger;
    let holds = ledger.check().is_ok() && report.check().is_ok() && report.frames == ledger.counted;
    json!({
        "schema": SCHEMA,
        "received": ledger.received,
        "counted": ledger.counted,
        "filtered": counts::filtered(ledger, summary.filters_uncounted),
        "unread": ledger.unread,
        "dropped": counts::causes(&ledger.dropped),
        "interface_dropped": ledger.interface_dropped,
        "seconds": summary.elapsed.as_secs_f64(),
        "cpu_seconds": summary.cpu.as_secs_f64(),
        "verify": object(report, window),
        "got": { "sources": summary.sources.iter().map(counts::source).collect::<Vec<_>>() },
        "sandbox": sandbox.as_json(),
        "error": summary.port_error.as_ref().map(|error| error.to_string()),
        "law_holds": holds,
    })
}
