//! `forebay bridge`: forwards frames between two interfaces, and accounts for every one.

use crate::{
    args::Bridge as Flags,
    output::{self, Stream, clock, note_wrapped, plain, say, say_wrapped},
    privileges,
    sandbox::{self, Needs, Sandbox},
    signals::{self, Asked},
    usage::{self, Usage},
};
use anyhow::Result;
use forebay_net::{
    bridge::{Bridge, BridgeConfig, DirectionCounts, Directions},
    filter::{Filter, View},
    link::{self, Offload},
    open::{self, Name, Options},
    port::Outages,
    session::{Control, Event, Output, Progress, SessionConfig, Summary},
    transmit::{TxFailed, TxInfo},
};
use serde_json::{Value, json};
use std::{
    io::{IsTerminal, stderr},
    process::ExitCode,
};

const SCHEMA: u32 = 1;

/// Bridges two interfaces until it is stopped.
///
/// # Errors
/// An interface cannot be opened, or the output cannot be created.
pub fn run(flags: &Flags) -> Result<ExitCode> {
    let filter = usage::filter(&flags.expression)?;
    let names = [flags.first.clone(), flags.second.clone()];
    let clock = open::clock(&names).map_err(|error| Usage(error.to_string()))?;
    let mut config = BridgeConfig::default();
    config.receive = Options {
        ring_bytes: flags.ring,
        delay: flags.delay,
        take_traffic: flags.take_traffic,
        ..config.receive
    };
    let bridge = Bridge::open(names, &config, clock)?;
    let max_frame_bytes = bridge.max_frame_bytes();
    let warnings = warnings(&bridge.names(), max_frame_bytes)?;
    privileges::shed(None)?;
    let mut needs = Needs {
        sends: true,
        ..Needs::default()
    };
    let output = match &flags.tap {
        None => Output::Count,
        Some(path) => {
            if let Some(filter) = &filter {
                check(filter, &flags.first, &bridge.names()[0])?;
            }
            sandbox::create_output(path);
            needs = needs.writing(path);
            Output::File(path.clone())
        }
    };
    let sandbox = sandbox::enter(&flags.sandbox, &needs);
    let control = Control::new()?;
    let config = SessionConfig {
        filter,
        ..SessionConfig::default()
    };
    let (session, directions) = bridge.session(output, config, control.clone())?;
    privileges::drop_files()?;
    signals::listen(&[Asked::Report], move |asked| match asked {
        Asked::Stop => control.stop(),
        Asked::Report => control.report(),
        _ => {}
    })?;
    output::start(false)?;
    let [a, b] = directions.names();
    if !flags.quiet {
        let bytes = max_frame_bytes.into_iter().min().unwrap_or(0);
        output::note(format_args!(
            "bridging {a} and {b}, frames of up to {bytes} bytes"
        ));
        if directions.infos().iter().all(|it| it.backend == "af_xdp") {
            let how = directions.infos()[0].copy;
            note_wrapped(format_args!("shared memory (UMEM): a frame is {how}"));
        }
        warnings.iter().for_each(|text| say_wrapped(text));
    }
    if let Some(warning) = session.warning() {
        output::warning(warning);
    }
    let draws = !flags.quiet && stderr().is_terminal();
    let summary = session.run(&mut |event| match event {
        Event::Outage { source, outages } => say_outage(source, &outages),
        Event::Progress(progress) if progress.asked => say(&status(progress, &directions)),
        Event::Progress(progress) if draws => {
            output::show(|columns| {
                status(progress, &directions)
                    .chars()
                    .take(columns)
                    .collect()
            });
        }
        _ => {}
    });
    let counts = directions.counts(&summary);
    output::hide();
    for direction in &counts {
        if !flags.quiet || direction.lost() > 0 {
            say_wrapped(&closing_line(direction));
        }
    }
    if let Some(lost @ 1..) = summary.ledger.dropped.peer {
        note_wrapped(format_args!(
            "{lost} frames were lost before the bridge: the ring of a veth interface was full. See docs/wire.md"
        ));
    }
    let errors = errors(&summary, &counts);
    for error in &errors {
        output::error(error);
    }
    if flags.json {
        let infos = directions.infos();
        let object = as_json(&summary, &counts, &infos, flags, &sandbox, &errors);
        output::summary(Stream::Output, &output::json(&object));
    }
    Ok(ExitCode::from(u8::from(!errors.is_empty())))
}

/// Rejects a filter that is not valid for the link type of the interfaces, before a file is created. A session rejects it, too, but only
/// in the sandbox, where the new file cannot be removed.
fn check(filter: &Filter, first: &Name, name: &str) -> Result<()> {
    let (link, view) = open::link_of(first)?;
    let view = match view {
        View::Socket => View::Restored, // the session filters, not the kernel
        view => view,
    };
    match filter.compile(link, view, 262_144) {
        Err(error) if !error.matches_nothing() => Err(error.refused_by(name).into()),
        _ => Ok(()),
    }
}

/// Reasons why frames of one interface may not fit on the other.
fn warnings(names: &[String; 2], max_frame_bytes: [u32; 2]) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    let [a, b] = names;
    if max_frame_bytes[0] != max_frame_bytes[1] {
        texts.push(format!(
            "forebay: warning: {a} sends frames of up to {} bytes and {b} up to {}: longer ones fail. ip link set {a} mtu …",
            max_frame_bytes[0], max_frame_bytes[1]
        ));
    }
    for link in link::interfaces()?
        .iter()
        .filter(|it| names.contains(&it.name))
    {
        let device = link.device()?;
        // Others can be split again.
        let mut on = device.changing_offloads();
        on.retain(|it| *it == Offload::LargeReceive);
        if let Some(command) = device.command_for(&link.name, &on) {
            texts.push(format!(
                "forebay: warning: {} merges received segments such that they cannot be split again: {command}",
                link.name
            ));
        }
    }
    Ok(texts)
}

/// `0:00:07  va to vb 12345  vb to va 678  lost 0`
fn status(progress: &Progress, directions: &Directions) -> String {
    let [a, b] = directions.names();
    let (a, b) = (plain(&a).into_owned(), plain(&b).into_owned());
    let [forth, back] = directions.forwarded();
    let lost = progress.ledger.dropped.known() + directions.failed();
    let time = clock(progress.elapsed);
    format!("{time}  {a} to {b} {forth}  {b} to {a} {back}  lost {lost}")
}

fn say_outage(source: &str, outages: &Outages) {
    match outages.is_down {
        true => output::note(format_args!(
            "{source}: the interface went down; waiting until it is up again"
        )),
        false => output::note(format_args!(
            "{source}: the interface is up again after {:.1} s",
            outages.last.as_secs_f64()
        )),
    }
}

/// Causes with their counts, of those that are not 0.
fn causes(direction: &DirectionCounts) -> Vec<(&'static str, u64)> {
    let TxFailed {
        too_long,
        too_short,
        link_down,
        refused,
        abandoned,
    } = direction.failed;
    vec![
        ("too_long", too_long),
        ("too_short", too_short),
        ("link_down", link_down),
        ("refused", refused),
        ("abandoned", abandoned),
        ("truncated", direction.truncated),
    ]
}

/// `va to vb: 10 received = 7 forwarded + 1 filtered + 2 failed {too long 2} + 0 dropped`
fn closing_line(direction: &DirectionCounts) -> String {
    let failed = direction.failed.total() + direction.truncated;
    let causes = causes(direction);
    let some = causes.iter().filter(|(_, count)| *count > 0);
    let some: Vec<_> = some
        .map(|(cause, count)| format!("{} {count}", cause.replace('_', " ")))
        .collect();
    let causes = match some.is_empty() {
        true => String::new(),
        false => format!(" {{{}}}", some.join(", ")),
    };
    let unread = match direction.unread {
        0 => String::new(),
        unread => format!(" + {unread} unread"),
    };
    let refused = match direction.refused {
        0 => String::new(),
        refused => format!(" + {refused} refused by the failed --tap"),
    };
    let dropped = direction
        .dropped
        .map_or("unknown".into(), |it| it.to_string());
    let mut text = format!(
        "forebay: {} to {}: {} received = {} forwarded + {} filtered + {failed} failed{causes} + {dropped} dropped{unread}{refused}",
        plain(&direction.from),
        plain(&direction.to),
        direction.received,
        direction.forwarded,
        direction.filtered,
    );
    if let Some(lost @ 1..) = direction.interface_dropped {
        text += &format!("; {lost} dropped by the interface before that");
    }
    text
}

/// What failed, and counts that do not add up.
fn errors(summary: &Summary, counts: &[DirectionCounts; 2]) -> Vec<String> {
    let errors = [&summary.port_error, &summary.store_error];
    let mut texts: Vec<_> = errors
        .into_iter()
        .flatten()
        .map(|it| it.to_string())
        .collect();
    let checks = counts
        .iter()
        .map(DirectionCounts::check)
        .chain([summary.ledger.check()]);
    texts.extend(checks.filter_map(|check| check.err().map(|it| it.to_string())));
    texts
}

fn as_json(
    summary: &Summary,
    counts: &[DirectionCounts; 2],
    infos: &[TxInfo; 2],
    flags: &Flags,
    sandbox: &Sandbox,
    errors: &[String],
) -> Value {
    let direction = |(it, info): (&DirectionCounts, &TxInfo)| {
        let failed: serde_json::Map<_, _> = causes(it)
            .into_iter()
            .map(|(cause, count)| (cause.to_owned(), count.into()))
            .collect();
        json!({
            "from": it.from,
            "to": it.to,
            "backend": info.backend,
            "copy": info.copy,
            "received": it.received,
            "forwarded": it.forwarded,
            "forwarded_bytes": it.forwarded_bytes,
            "filtered": it.filtered,
            "failed": failed,
            "dropped": { "kernel": it.dropped },
            "unread": it.unread,
            "refused": it.refused,
            "interface_dropped": it.interface_dropped,
            "retried": it.retried,
            "law_holds": it.check().is_ok(),
        })
    };
    let outages = summary.sources.iter().map(|source| {
        json!({
            "interface": source.name,
            "count": source.outages.count,
            "seconds": source.outages.total.as_secs_f64(),
        })
    });
    let tap = flags.tap.as_ref().map(|path| {
        json!({
            "file": path.display().to_string(),
            "written": summary.ledger.written,
            "bytes": summary.bytes,
            "dropped": summary.ledger.dropped.disk + summary.ledger.dropped.writer,
        })
    });
    let holds = counts.iter().all(|it| it.check().is_ok()) && summary.ledger.check().is_ok();
    json!({
        "schema": SCHEMA,
        "running": false,
        "directions": counts.iter().zip(infos).map(direction).collect::<Vec<_>>(),
        "outages": outages.collect::<Vec<_>>(),
        "peer_dropped": summary.ledger.dropped.peer,
        "tap": tap,
        "seconds": summary.elapsed.as_secs_f64(),
        "cpu_seconds": summary.cpu.as_secs_f64(),
        "sandbox": sandbox.as_json(),
        "error": (!errors.is_empty()).then(|| errors.join("; ")),
        "law_holds": holds,
    })
}
