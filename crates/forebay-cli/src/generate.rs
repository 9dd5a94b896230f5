//! `forebay generate`: sends numbered frames on an interface. `verify` counts them where they arrive.

use crate::{
    args::{Criterion, Generate as Flags},
    output::{self, Line, Stream},
    privileges,
    sandbox::{self, Needs, Sandbox},
    signals::{self, Asked},
    usage::refuse,
};
use anyhow::Result;
use forebay::{standard, time::Clock};
use forebay_net::{
    generate::{self, GenerateConfig, Generated},
    open::{self, Name},
    session::Control,
    sim::Spec,
    transmit::{TxBackend, TxConfig, TxFailed, TxInfo},
    units,
};
use serde_json::{Value, json};
use std::{
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

const SCHEMA: u32 = 1;

pub fn run(flags: &Flags) -> Result<ExitCode> {
    if !matches!(flags.interface, Name::Interface(_)) {
        return refuse(
            "-i: frames can be sent only on an interface of this machine, such as eth0".into(),
        );
    }
    let config = config(flags);
    if flags.json {
        standard::output()?;
    }
    let to = TxConfig {
        backend: match flags.tx_ring {
            true => TxBackend::Ring,
            false => TxBackend::Messages,
        },
        bypass_qdisc: flags.bypass_qdisc,
        patience: flags.wait,
        ..TxConfig::default()
    };
    let mut port = open::transmit(&flags.interface, &to)?;
    privileges::shed(None)?;
    let needs = Needs {
        sends: true,
        ..Needs::default()
    };
    let sandbox = sandbox::enter(&flags.sandbox, &needs);
    let control = Control::new()?;
    // Relaxed: it publishes nothing but itself.
    let wants_counts = Arc::new(AtomicBool::new(false));
    let (heard, asked_for_counts) = (control.clone(), wants_counts.clone());
    signals::listen(&[Asked::Report], move |asked| match asked {
        Asked::Stop => heard.stop(),
        Asked::Report => asked_for_counts.store(true, Relaxed),
        Asked::Flush | Asked::Rotate | Asked::Trigger => {}
    })?;
    output::start(false)?;
    let name = port.name().to_owned();
    if !flags.quiet {
        say(&format!("sending on {name}: {}", config.spec));
    }
    let sent = generate::run(
        port.as_mut(),
        &config,
        Clock::real(),
        &control,
        &mut |progress| {
            if wants_counts.swap(false, Relaxed) {
                say(&law(progress));
            }
            if !flags.quiet {
                output::show(|columns| progress_line(progress, config.spec.count, columns));
            }
        },
    )?;
    output::hide();
    print(flags, &sent);
    if flags.json {
        let object = object(&sent, &name, &config.spec, &port.info(), &sandbox);
        output::summary(Stream::Output, &output::json(&object));
    }
    Ok(exit_code(&sent))
}

fn config(flags: &Flags) -> GenerateConfig {
    let (mut count, mut stop_after) = (flags.spec.count, None::<Duration>);
    count = count.into_iter().chain(flags.count).min();
    for criterion in &flags.autostop {
        match *criterion {
            Criterion::Duration(time) => stop_after = stop_after.into_iter().chain([time]).min(),
            Criterion::Packets(most) => count = count.into_iter().chain([most]).min(),
            _ => {}
        }
    }
    GenerateConfig {
        spec: Spec {
            count,
            ..flags.spec
        },
        stop_after,
        from_mac: flags.from_mac,
        to_mac: flags.to_mac,
        from: flags.from,
        to: flags.to,
        ..GenerateConfig::default()
    }
}

fn exit_code(sent: &Generated) -> ExitCode {
    let failed = sent.counts.failed;
    match (
        sent.error.is_some() || !sent.law_holds(),
        failed.total() > failed.abandoned,
    ) {
        (true, _) => ExitCode::from(1),
        (false, true) => ExitCode::from(3),
        // A second stop asks for abandoned frames.
        (false, false) => ExitCode::SUCCESS,
    }
}

fn say(text: &str) {
    let lines = output::wrapped(&format!("forebay: {text}"));
    lines.iter().for_each(|line| output::say(line));
}

fn frames(count: u64) -> String {
    format!("{count} frame{}", if count == 1 { "" } else { "s" })
}

/// `1000010 sent = 1000000 frames + 10 markers = 1000010 accepted + 0 failed`.
fn law(sent: &Generated) -> String {
    let counts = &sent.counts;
    let pending = match counts.pending() {
        0 => String::new(),
        pending => format!(" + {pending} pending"),
    };
    format!(
        "sender {}: {} + {} markers = {} accepted + {} failed{pending}",
        sent.sender,
        frames(sent.frames),
        sent.markers,
        counts.accepted,
        counts.failed.total()
    )
}

fn causes(failed: &TxFailed) -> [(&'static str, u64); 5] {
    [
        ("too_long", failed.too_long),
        ("too_short", failed.too_short),
        ("link_down", failed.link_down),
        ("refused", failed.refused),
        ("abandoned", failed.abandoned),
    ]
}

/// `1.2 µs`.
fn time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
        _ => format!("{:.1} ms", ns as f64 / 1e6),
    }
}

/// The rate on the wire, with preambles, gaps and check sequences.
fn bits_per_second(sent: &Generated, spec: &Spec) -> f64 {
    sent.frames_per_second() * spec.mean_wire_bits()
}

fn print(flags: &Flags, sent: &Generated) {
    if let Some(error) = &sent.error {
        output::error(error);
    }
    if !sent.law_holds() {
        output::error("the counts do not add up. This is a bug in forebay; please report it");
    }
    let failed = &sent.counts.failed;
    if !flags.quiet || failed.total() > 0 {
        say(&law(sent));
    }
    let some: Vec<_> = causes(failed)
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(cause, count)| format!("{cause} {count}"))
        .collect();
    if !some.is_empty() {
        say(&format!("failed: {}", some.join(", ")));
    }
    if !sent.is_ended {
        say("the end markers were not sent: verify cannot count what was lost at the end");
    }
    if flags.quiet || sent.frames < 2 {
        return;
    }
    say(&format!(
        "in {:.3} s, {}pps, {}b/s on the wire",
        sent.elapsed.as_secs_f64(),
        units::scaled(sent.frames_per_second()),
        units::scaled(bits_per_second(sent, &flags.spec))
    ));
    let pace = &sent.pace;
    if pace.packets > 1 {
        let [half, most] = [0.5, 0.99].map(|share| time(pace.gap_error_ns(share)));
        say(&format!(
            "gap error at most {half} for 50 % of the gaps, {most} for 99 %; worst lag {}",
            time(pace.worst_lag_ns)
        ));
    }
    if !sent.postponed.is_zero() {
        say(&format!(
            "more than 100 ms late, so later frames were postponed: {:.1} s in all",
            sent.postponed.as_secs_f64()
        ));
    }
}

fn progress_line(progress: &Generated, count: Option<u64>, columns: usize) -> String {
    let mut line = Line::default();
    line.put(2, output::clock(progress.elapsed));
    line.put(
        0,
        format!("{}frames", units::scaled(progress.frames as f64)),
    );
    line.put(
        1,
        format!("{}pps", units::scaled(progress.frames_per_second())),
    );
    if let Some(count) = count {
        let done = progress.frames as f64 / count as f64;
        line.put(3, output::percent(done).trim_start().to_owned());
        if progress.frames > 0 {
            line.put(4, output::time_left(done, progress.elapsed));
        }
    }
    line.put(0, format!("failed {}", progress.counts.failed.total()));
    line.fit("  ", columns)
}

fn object(
    sent: &Generated,
    interface: &str,
    spec: &Spec,
    info: &TxInfo,
    sandbox: &Sandbox,
) -> Value {
    let counts = &sent.counts;
    let failed = causes(&counts.failed).into_iter();
    let failed: serde_json::Map<_, _> = failed
        .map(|(cause, count)| (cause.to_owned(), json!(count)))
        .collect();
    let is_paced = sent.pace.packets > 1;
    let gap_error = |share| is_paced.then(|| sent.pace.gap_error_ns(share));
    json!({
        "schema": SCHEMA,
        "interface": interface,
        "backend": info.backend,
        "copy": info.copy,
        "bypasses_qdisc": info.bypasses_qdisc,
        "sender": sent.sender,
        "frames": sent.frames,
        "markers": sent.markers,
        "sent": counts.sent,
        "accepted": counts.accepted,
        "accepted_bytes": counts.accepted_bytes,
        "failed": failed,
        "retried": counts.retried,
        "seconds": sent.elapsed.as_secs_f64(),
        "postponed_seconds": sent.postponed.as_secs_f64(),
        "frames_per_second": sent.frames_per_second(),
        "bits_per_second": bits_per_second(sent, spec),
        "worst_lag_ns": is_paced.then_some(sent.pace.worst_lag_ns),
        "gap_error_ns": {
            "p50": gap_error(0.5),
            "p90": gap_error(0.9),
            "p99": gap_error(0.99),
            "p999": gap_error(0.999),
            "max": gap_error(1.0),
        },
        "ended": sent.is_ended,
        "sandbox": sandbox.as_json(),
        "error": sent.error.as_ref().map(|error| error.to_string()),
        "law_holds": sent.law_holds(),
    })
}
