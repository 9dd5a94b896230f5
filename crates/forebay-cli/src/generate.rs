//! `forebay generate`: sends numbered frames on an interface. `verify` counts them where they arrive.

use crate::{
    args::{Criterion, Generate as Flags},
    output::{self, Line, Stream, TimeLeft, note_wrapped},
    sending::{self, Sender, failed_line, time},
};
use anyhow::Result;
use forebay::time::Clock;
use forebay_net::{
    generate::{self, GenerateConfig, Generated},
    sim::Spec,
    units,
};
use serde_json::{Value, json};
use std::process::ExitCode;

const SCHEMA: u32 = 1;

pub fn run(flags: &Flags) -> Result<ExitCode> {
    let config = config(flags);
    let mut sender = Sender::open(&flags.interface, &flags.sending, &[])?;
    let name = sender.port.name().to_owned();
    if !flags.sending.quiet {
        note_wrapped(format_args!("sending on {name}: {}", config.spec));
    }
    let (all, left) = (config.spec.count, TimeLeft::default());
    let wants_counts = sender.counts_requests();
    let sent = generate::run(
        sender.port.as_mut(),
        &config,
        Clock::real(),
        &sender.control,
        &mut |progress| {
            if wants_counts() {
                note_wrapped(law(progress));
            }
            if !flags.sending.quiet {
                output::show(|columns| progress_line(progress, (all, &left), columns));
            }
        },
    )?;
    output::hide();
    print(flags, &sent);
    if flags.sending.json {
        let object = object(&sent, &config.spec, &sender);
        output::summary(Stream::Output, &output::json(&object));
    }
    Ok(exit_code(&sent))
}

fn config(flags: &Flags) -> GenerateConfig {
    let count = flags.spec.count.into_iter().chain(flags.count).min();
    let (count, stop_after) = Criterion::limits(&flags.autostop, count);
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

fn frames(count: u64) -> String {
    output::counted(count, "frame", "frames")
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
    let failed = failed_line(&sent.counts.failed);
    if !flags.sending.quiet || failed.is_some() {
        note_wrapped(law(sent));
    }
    if let Some(line) = failed {
        note_wrapped(line);
    }
    if !sent.is_ended {
        note_wrapped("the end markers were not sent: verify cannot count what was lost at the end");
    }
    if flags.sending.quiet || sent.frames < 2 {
        return;
    }
    note_wrapped(format_args!(
        "took {:.3} s, {}pps, {}b/s on the wire",
        sent.elapsed.as_secs_f64(),
        units::scaled(sent.frames_per_second()),
        units::scaled(bits_per_second(sent, &flags.spec))
    ));
    let pace = &sent.pace;
    if pace.packets > 1 {
        let [half, most] = [0.5, 0.99].map(|share| time(pace.gap_error_ns(share)));
        note_wrapped(format_args!(
            "gap error at most {half} for 50 % of the gaps, {most} for 99 %; worst lag {}",
            time(pace.worst_lag_ns)
        ));
    }
    if !sent.postponed.is_zero() {
        note_wrapped(format_args!(
            "more than 100 ms late, so later frames were postponed: {:.1} s in all",
            sent.postponed.as_secs_f64()
        ));
    }
}

fn progress_line(
    progress: &Generated,
    (all, left): (Option<u64>, &TimeLeft),
    columns: usize,
) -> String {
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
    if let Some(all) = all {
        let done = progress.frames as f64 / all as f64;
        line.put(3, output::percent(done).trim_start().to_owned());
        if progress.frames > 0 {
            line.put(4, left.text(done, progress.elapsed));
        }
    }
    line.put(0, format!("failed {}", progress.counts.failed.total()));
    line.fit("  ", columns)
}

fn object(sent: &Generated, spec: &Spec, sender: &Sender) -> Value {
    let mut object = json!({
        "schema": SCHEMA,
        "sender": sent.sender,
        "frames": sent.frames,
        "markers": sent.markers,
        "seconds": sent.elapsed.as_secs_f64(),
        "postponed_seconds": sent.postponed.as_secs_f64(),
        "frames_per_second": sent.frames_per_second(),
        "bits_per_second": bits_per_second(sent, spec),
        "ended": sent.is_ended,
        "error": sent.error.as_ref().map(|error| error.to_string()),
        "law_holds": sent.law_holds(),
    });
    if let Value::Object(fields) = &mut object {
        fields.extend(sending::fields(sender, &sent.pace));
    }
    object
}
