//! JSON output of a running `capture`. The schema is documented in docs/capture.md; a change of meaning raises its number.

use crate::counts::{causes, filtered};
use forebay_net::{recorder::Cut, serve::Client, session::Progress};
use serde_json::{Value, json};

pub const SCHEMA: u32 = 1;

/// The counts while the capture runs.
pub fn progress(progress: &Progress) -> Value {
    let ledger = &progress.ledger;
    json!({
        "schema": SCHEMA,
        "running": true,
        "received": ledger.received,
        "taken": progress.taken,
        "written": ledger.written,
        "counted": ledger.counted,
        "durable": progress.durable,
        "filtered": filtered(ledger, progress.filters_uncounted),
        "unread": ledger.unread,
        "dropped": causes(&ledger.dropped),
        "interface_dropped": ledger.interface_dropped,
        "file": progress.file,
        "files_written": progress.files_written,
        "files_removed": progress.files_removed,
        "files_removed_for_space": progress.files_removed_for_space,
        "wire_bytes": progress.wire_bytes,
        "packets_cut": progress.cut,
        "bytes": progress.written_bytes,
        "durable_bytes": progress.durable_bytes,
        "seconds": progress.elapsed.as_secs_f64(),
        "packets_per_second": progress.packets_per_second,
        "bits_per_second": progress.bits_per_second,
        "ring_fill": progress.ring_fill,
        "buffer_fill": progress.fill,
        "pending_bytes": progress.pending_bytes,
        "high_water_bytes": progress.high_water_bytes,
    })
}

/// A client of `--serve` that has left.
pub fn client(client: &Client) -> Value {
    json!({
        "schema": SCHEMA,
        "client": client.address.to_string(),
        "received": client.ledger.received,
        "sent": client.ledger.written,
        "unread": client.ledger.unread,
        "dropped": causes(&client.ledger.dropped),
        "seconds": client.elapsed.as_secs_f64(),
        "error": client.error,
    })
}

/// A file of the recorder.
pub fn cut(cut: &Cut) -> Value {
    json!({
        "schema": SCHEMA,
        "recording": cut.path.display().to_string(),
        "triggers": cut.triggers,
        "first_trigger_ns": cut.trigger_ns.0,
        "last_trigger_ns": cut.trigger_ns.1,
        "first_packet_ns": cut.packets_ns.map(|(first, _)| first),
        "last_packet_ns": cut.packets_ns.map(|(_, last)| last),
        "memory_was_too_small": cut.is_short,
        "received": cut.ledger.received,
        "written": cut.ledger.written,
        "unread": cut.ledger.unread,
        "dropped": causes(&cut.ledger.dropped),
        "lost_before": cut.ledger.interface_dropped,
        "packets_cut": cut.packets_cut,
        "bytes": cut.bytes,
        "error": cut.error,
        "law_holds": cut.ledger.check().is_ok(),
    })
}
