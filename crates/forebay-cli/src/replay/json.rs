//! The JSON object of a replay.

use crate::{args::Replay as Flags, output, sandbox::Sandbox};
use forebay_net::{replay::ReplaySummary, transmit::TxPort};
use serde_json::{Value, json};

const SCHEMA: u32 = 1;

pub fn summary(
    summary: &ReplaySummary,
    flags: &Flags,
    port: &dyn TxPort,
    sandbox: &Sandbox,
) -> Value {
    let counts = &summary.counts;
    let (sent, failed) = (&counts.sent, &counts.sent.failed);
    let info = port.info();
    let files: Vec<_> = flags
        .files
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let has_pace = summary.pace.packets > 1;
    let gap_error = |share| has_pace.then(|| summary.pace.gap_error_ns(share));
    json!({
        "schema": SCHEMA,
        "files": files,
        "interface": port.name(),
        "backend": info.backend,
        "copy": info.copy,
        "bypasses_qdisc": info.bypasses_qdisc,
        "read": counts.read,
        "filtered": counts.filtered,
        "cut": counts.cut,
        "skipped": counts.skipped,
        "unsent": counts.unsent,
        "sent": sent.sent,
        "accepted": sent.accepted,
        "accepted_bytes": sent.accepted_bytes,
        "failed": {
            "too_long": failed.too_long,
            "too_short": failed.too_short,
            "link_down": failed.link_down,
            "refused": failed.refused,
            "abandoned": failed.abandoned,
        },
        "retried": sent.retried,
        "law_holds": summary.law().is_ok(),
        "rewritten": counts.rewritten,
        "rewrite_incomplete": counts.incomplete,
        "rounds": counts.rounds,
        "seconds": summary.elapsed.as_secs_f64(),
        "stalled_seconds": summary.stalled.as_secs_f64(),
        "packets_per_second": summary.packets_per_second(),
        "bits_per_second": summary.bits_per_second(),
        "worst_lag_ns": has_pace.then_some(summary.pace.worst_lag_ns),
        "gap_error_ns": {
            "p50": gap_error(0.5),
            "p90": gap_error(0.9),
            "p99": gap_error(0.99),
            "p999": gap_error(0.999),
            "max": gap_error(1.0),
        },
        "stopped": summary.stopped,
        "error": summary.error.as_ref().map(|error| output::plain(&error.to_string()).into_owned()),
        "sandbox": sandbox.as_json(),
    })
}
