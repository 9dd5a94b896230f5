//! What `replay` and `generate` share: they open an interface for sending, and print how that went.

use crate::{
    args::Sending as Flags,
    output, privileges,
    sandbox::{self, Needs, Sandbox},
    signals::{self, Asked},
    usage::refuse,
};
use anyhow::Result;
use forebay::standard;
use forebay_net::{
    open::{self, Name},
    session::Control,
    transmit::{PaceReport, TxBackend, TxConfig, TxFailed, TxPort},
};
use serde_json::{Map, Value, json};
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// An open interface, with the signals that control it.
pub struct Sender {
    pub port: Box<dyn TxPort>,
    pub sandbox: Sandbox,
    pub control: Control,
    wants_counts: Arc<AtomicBool>,
}

impl Sender {
    /// Opens the interface, drops privileges, and enters the sandbox, in which only `files` can be read.
    ///
    /// # Errors
    /// A bad request, or the interface cannot be opened.
    pub fn open(interface: &Name, flags: &Flags, files: &[PathBuf]) -> Result<Sender> {
        if interface.interface().is_none() {
            return refuse(
                "-i: packets can be sent only on an interface of this machine, such as eth0",
            );
        }
        if flags.json {
            standard::output()?;
        }
        let config = TxConfig {
            backend: match flags.tx_ring {
                true => TxBackend::Ring,
                false => TxBackend::Messages,
            },
            bypass_qdisc: flags.bypass_qdisc,
            patience: flags.wait,
            ..TxConfig::default()
        };
        let port = open::transmit(interface, &config)?;
        privileges::shed(None)?;
        if files.is_empty() {
            privileges::drop_files()?;
        }
        let needs = Needs {
            sends: true,
            ..Needs::default()
        };
        let sandbox = sandbox::enter(&flags.sandbox, &needs.reading(files));
        let control = Control::new()?;
        // Relaxed: it publishes nothing but itself.
        let wants_counts = Arc::new(AtomicBool::new(false));
        let (heard, asked_for_counts) = (control.clone(), wants_counts.clone());
        signals::listen(&[Asked::Report], move |asked| match asked {
            Asked::Stop => heard.stop(),
            Asked::Report => asked_for_counts.store(true, Relaxed),
            _ => {}
        })?;
        output::start(false)?;
        Ok(Sender {
            port,
            sandbox,
            control,
            wants_counts,
        })
    }

    /// Returns a function that reports whether a signal has asked for the counts since its last call.
    pub fn counts_requests(&self) -> impl Fn() -> bool + use<> {
        let wants_counts = self.wants_counts.clone();
        move || wants_counts.swap(false, Relaxed)
    }
}

/// `850 ns`, `1.20 µs`, `3.40 ms`.
pub fn time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.2} µs", ns as f64 / 1e3),
        _ => format!("{:.2} ms", ns as f64 / 1e6),
    }
}

/// The line about packets that failed, if there are any.
pub fn failed_line(failed: &TxFailed) -> Option<String> {
    let parts = output::some_of(&[
        (failed.too_long, "too long"),
        (failed.too_short, "shorter than a header"),
        (failed.link_down, "because the interface was down or gone"),
        (failed.refused, "refused by the system"),
        (failed.abandoned, "abandoned"),
    ]);
    (!parts.is_empty()).then(|| format!("failed: {}", parts.join(", ")))
}

/// The fields of a JSON summary about the port and the pace.
pub fn fields(sender: &Sender, pace: &PaceReport) -> Map<String, Value> {
    let (info, counts) = (sender.port.info(), sender.port.counts());
    let failed = counts.failed;
    let has_pace = pace.packets > 1;
    let gap_error = |share| has_pace.then(|| pace.gap_error_ns(share));
    let fields = json!({
        "interface": sender.port.name(),
        "backend": info.backend,
        "copy": info.copy,
        "bypasses_qdisc": info.bypasses_qdisc,
        "sent": counts.sent,
        "accepted": counts.accepted,
        "accepted_bytes": counts.accepted_bytes,
        "failed": {
            "too_long": failed.too_long,
            "too_short": failed.too_short,
            "link_down": failed.link_down,
            "refused": failed.refused,
            "abandoned": failed.abandoned,
        },
        "retried": counts.retried,
        "worst_lag_ns": has_pace.then_some(pace.worst_lag_ns),
        "gap_error_ns": {
            "p50": gap_error(0.5),
            "p90": gap_error(0.9),
            "p99": gap_error(0.99),
            "p999": gap_error(0.999),
            "max": gap_error(1.0),
        },
        "sandbox": sender.sandbox.as_json(),
    });
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
