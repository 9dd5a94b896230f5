//! Counts and sources as JSON, for every subcommand that captures.

use forebay_net::{
    ledger::{Dropped, Ledger},
    port::Outages,
    session::Source,
};
use serde_json::{Value, json};

/// Packets that filters rejected; `None` if a source does not count them. A counted value is a part of the law.
pub fn filtered(ledger: &Ledger, is_uncounted: bool) -> Option<u64> {
    Some(ledger.filtered).filter(|&filtered| !is_uncounted || filtered > 0)
}

/// A source: an interface, a file or a share.
pub fn source(source: &Source) -> Value {
    json!({
        "interface": source.name,
        "description": source.interfaces.first().map_or("", |i| &i.description),
        "interfaces": source.interfaces.len(),
        "link_types": source.link_types().iter().map(|link| link.0).collect::<Vec<_>>(),
        "backend": source.got.backend,
        "copy": source.got.copy,
        "ring_bytes": source.got.ring_bytes,
        "ring_frames": source.got.ring_frames,
        "timestamps": source.got.timestamps,
        "hardware_times": source.hardware_times,
        "not_as_on_the_wire": source.got.offloads,
        "owner": source.got.owner.map(|owner| json!({ "uid": owner.uid, "pid": owner.pid })),
        "outages": outages(&source.outages),
    })
}

/// The times without a link.
pub fn outages(outages: &Outages) -> Value {
    json!({ "count": outages.count, "seconds": outages.total.as_secs_f64() })
}

/// The packets dropped, by cause.
pub fn causes(dropped: &Dropped) -> serde_json::Map<String, Value> {
    let causes = dropped.by_cause().into_iter();
    causes
        .map(|(cause, count)| (cause.to_owned(), json!(count)))
        .collect()
}
