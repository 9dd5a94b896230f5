//! The JSON object at the end of a capture.

use super::{
    json::{SCHEMA, cut},
    on_files::Ran,
    request::Request,
    sharing::Ended,
};
use crate::{
    counts::{causes, filtered, source},
    sandbox::Sandbox,
};
use forebay::memory::HugePages;
use forebay_net::{
    recorder::Recorded,
    session::{Source, Summary},
};
use serde_json::{Value, json};

/// All errors in one string; `null` if there were none.
fn errors(summary: &Summary) -> Option<String> {
    let errors = [&summary.port_error, &summary.store_error];
    let texts = errors.into_iter().flatten().map(|e| e.to_string());
    let texts: Vec<_> = texts
        .chain(summary.files.compressed.error.clone())
        .collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

/// A row a thread; none with one thread.
fn threads(source: &Source) -> impl Iterator<Item = Value> {
    source.threads.iter().enumerate().map(|(number, thread)| {
        json!({
            "thread": number,
            "cpu": thread.cpu,
            "received": thread.received,
            "taken": thread.taken,
            "filtered": thread.filtered,
            "unread": thread.unread,
            "dropped": thread.dropped,
            "file": thread.file,
        })
    })
}

/// What the recorder has done.
fn recorder(request: &Request, recorded: &Recorded) -> Value {
    let cuts: Vec<_> = recorded.cuts.iter().map(cut).collect();
    json!({
        "memory_bytes": request.ring_bytes,
        "files_written": recorded.files,
        "files_failed": recorded.failed,
        "triggers_refused": recorded.refused,
        "files": cuts,
    })
}

/// The readers of a capture.
fn readers(request: &Request, summary: &Summary, read: &Ended) -> Value {
    let name = request.share_name();
    let served = read.served.map(|(address, served)| {
        json!({
            "address": address.to_string(),
            "clients": served.clients,
            "refused": served.refused,
            "sent": served.sent,
            "lost": served.lost,
            "unsent": served.unsent,
            "unread": served.unread,
        })
    });
    json!({
        "name": name.map(|name| name.to_string()),
        "packets": summary.shared,
        "max_readers": read.max_readers,
        "served": served,
    })
}

/// The whole object, without what `--verify` adds.
pub fn object(
    summary: &Summary,
    request: &Request,
    unprinted: u64,
    ran: Option<&Ran>,
    read: Option<&Ended>,
    sandbox: &Sandbox,
    recorded: Option<&Recorded>,
) -> Value {
    let ledger = &summary.ledger;
    let sources: Vec<_> = summary.sources.iter().map(source).collect();
    let store = summary.store.map(|store| {
        json!({
            "bytes": store.bytes,
            "limit_bytes": store.limit_bytes,
            "high_water_bytes": summary.totals.high_water_bytes,
            "buffer_bytes": store.buffer_bytes,
            "direct": store.direct,
            "in_memory": store.in_memory,
            "thread": store.thread,
            "huge_pages": matches!(store.huge_pages, HugePages::Got { .. }),
        })
    });
    let totals = &summary.totals;
    let compressed = &summary.files.compressed;
    // A stream is named as on the command line.
    let stream = request.write.iter().filter(|_| summary.files.written == 0);
    let stream = stream.filter(|_| request.rotation.is_none());
    let files = summary.files.last.iter().chain(stream);
    let files: Vec<_> = files.map(|path| path.display().to_string()).collect();
    json!({
        "schema": SCHEMA,
        "running": false,
        "received": ledger.received,
        "written": ledger.written,
        "counted": ledger.counted,
        "durable": totals.durable,
        "filtered": filtered(ledger, summary.filters_uncounted),
        "unread": ledger.unread,
        "dropped": causes(&ledger.dropped),
        "interface_dropped": ledger.interface_dropped,
        "gaps": summary.gaps,
        "odd_packets": {
            "raised_lengths": summary.odd.raised_lengths,
            "limited_times": summary.odd.limited_times,
            "carried_times": summary.odd.carried_times,
            "broken_options": summary.odd.broken_options,
            "late": summary.odd.late,
            "unknown_interfaces": summary.odd.unknown_interfaces,
        },
        "not_copied": {
            "interfaces": summary.left.interfaces,
            "comments": summary.left.comments,
            "options": summary.left.options,
            "name_resolution": summary.left.name_resolution,
            "decryption_secrets": summary.left.decryption_secrets,
            "custom": summary.left.custom,
            "systemd_journal": summary.left.journal,
            "other": summary.left.other,
        },
        "wire_bytes": summary.wire_bytes,
        "packets_cut": summary.cut,
        "bytes": summary.bytes,
        "durable_bytes": totals.durable_bytes,
        "seconds": summary.elapsed.as_secs_f64(),
        "cpu_seconds": summary.cpu.as_secs_f64(),
        "files": files,
        "files_written": summary.files.written,
        "files_removed": summary.files.removed,
        "files_removed_for_space": summary.files.removed_for_space,
        "files_recovered": summary.files.recovered,
        "compressed": {
            "files": compressed.files,
            "bytes_before": compressed.bytes_before,
            "bytes": compressed.bytes,
            "left": compressed.left,
            "failed": compressed.failed,
        },
        "command": ran.map(|ran| json!({
            "files": ran.files,
            "failed": ran.failed,
            "left": ran.left,
        })),
        "shared": read.map(|read| readers(request, summary, read)),
        "recorder": recorded.map(|recorded| recorder(request, recorded)),
        "syncs": { "count": totals.syncs, "slowest_seconds": totals.slowest_sync.as_secs_f64() },
        "poll": {
            "busy_seconds": summary.modes.busy.as_secs_f64(),
            "asleep_seconds": summary.modes.asleep.as_secs_f64(),
            "looks": summary.modes.looks,
            "sleeps": summary.modes.sleeps,
        },
        "threads": summary.sources.iter().flat_map(threads).collect::<Vec<_>>(),
        "got": { "sources": sources, "store": store },
        "sandbox": sandbox.as_json(),
        "reports_unprinted": unprinted,
        "ended_by": summary.is_out_of_room.then_some("keep_free"),
        "error": errors(summary),
        "law_holds": ledger.check().is_ok(),
    })
}
