//! The command: flags, output, exit codes.

use super::{
    Answer, Request,
    args::Args,
    block::Block,
    flows::shown,
    output::Output,
    part::PartFile,
    plan::{self, Plan},
    read::{self, Reading},
    report::{Outcome, Progress, is_broken_pipe, report},
};
use crate::{
    archive::{Archive, BadRequest, counted::Reads},
    segment,
    table::Catalogue,
};
use anyhow::{Context, Result, anyhow, bail, ensure};
use forebay_net::{
    filter::{self, Filter, View},
    format::Format,
    moment,
    port::LinkType,
};
use jiff::Zoned;
use std::{
    io::{self, BufWriter, IsTerminal, Write},
    ops::ControlFlow,
    path::Path,
    process::{Child, Command, ExitCode, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::signal::unix::{SignalKind, signal};

/// How often a search that waits for the index looks whether it should stop.
const STOP_CHECK: Duration = Duration::from_millis(50);

/// Runs the command.
///
/// # Errors
/// The expression or a time is wrong, the archive cannot be read, or the output cannot be written.
pub async fn run(args: &Args) -> Result<ExitCode> {
    let request = request(args, &Zoned::now());
    let request = request.map_err(|error| BadRequest(format!("{error:#}")))?;
    let stop = Arc::new(AtomicBool::new(false));
    tokio::spawn(watch_signals(stop.clone())?);
    let reads = Arc::new(Reads::default());
    let archive = Archive::open(&args.archive, false)?.counted(&reads);
    let Some(outcome) = search(args, &archive, &request, &stop).await? else {
        // Standard error may be closed: there is nowhere left to report that.
        let _ = writeln!(
            io::stderr(),
            "forebay find: interrupted before a packet was read"
        );
        return Ok(ExitCode::from(130));
    };
    report(args, &request, &outcome, &reads)?;
    Ok(match &outcome.reading {
        reading if reading.failed.iter().any(|it| !it.is_of_store) => ExitCode::from(1),
        reading if !reading.failed.is_empty() => ExitCode::from(3),
        reading if reading.stopped => ExitCode::from(130),
        _ => ExitCode::SUCCESS,
    })
}

/// The first Ctrl-C sets `stop`, so that the command ends in good order; the second one ends it at once.
///
/// # Errors
/// Signals cannot be handled.
pub fn watch_signals(stop: Arc<AtomicBool>) -> Result<impl Future<Output = ()> + Send> {
    let mut interrupt = signal(SignalKind::interrupt()).context("handling signals")?;
    let mut terminate = signal(SignalKind::terminate()).context("handling signals")?;
    Ok(async move {
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if stop.swap(true, Relaxed) {
                std::process::exit(130);
            }
        }
    })
}

fn request(args: &Args, now: &Zoned) -> Result<Request> {
    let filter = filter(&args.expression.join(" "))?;
    let parse = |text: &Option<String>, flag: &str, default: i64| match text {
        Some(text) => moment::parse(text, now).map_err(|what| anyhow!("{flag}: {what}")),
        None => Ok(default),
    };
    let from = parse(&args.from, "--from", i64::MIN)?;
    let to = parse(&args.to, "--to", i64::MAX)?;
    if from >= to {
        bail!(
            "--from {} is not before --to {}: no packet is between them",
            shown(from),
            shown(to)
        );
    }
    for name in &args.sensor {
        ensure!(
            segment::is_sensor_name(name),
            "--sensor {name}: cannot be the name of a sensor"
        );
    }
    let answer = match args {
        Args { flows: true, .. } => Answer::Flows,
        Args { count: true, .. } => Answer::Count,
        Args {
            explain: true,
            write: None,
            ..
        } => Answer::Plan,
        _ => Answer::Packets,
    };
    Ok(Request {
        filter,
        from,
        to,
        sensors: args.sensor.clone(),
        answer,
        limit: args.limit,
    })
}

/// Parses an expression. One that matches no packet of any link type that captures usually have is refused.
pub(super) fn filter(expression: &str) -> Result<Filter> {
    let filter: Filter = expression.parse().map_err(|error| anyhow!("{error}"))?;
    let mut first = None;
    for link in [1, 101, 113, 276, 0, 9, 104, 105, 127] {
        // 802.11, where contradictions such as `ip and ip6` are not noticed.
        let is_wireless = matches!(link, 105 | 127);
        if is_wireless && first.as_ref().is_some_and(filter::Error::matches_nothing) {
            continue;
        }
        match filter.compile(LinkType(link), View::Packet, 262_144) {
            Ok(_) => return Ok(filter),
            Err(error) => first = first.or(Some(error)),
        }
    }
    first.map_or(Ok(filter), |error| Err(anyhow!("{error}")))
}

fn is_sigpipe(status: std::process::ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt;
    status.signal() == Some(13)
}

/// Reads the index as far as it is needed.
async fn planned(archive: &Archive, request: &Request) -> Result<Plan> {
    let times = plan::Times::of(request);
    let needed = move |date: &str, statistics: Option<&str>| times.may_have(date, statistics);
    let catalogue = Catalogue::open_for(archive, needed).await?;
    let catalogue = catalogue.with_context(|| format!("{0}: there is no index here. Is it an archive? `forebay archive ship SPOOL {0}` makes one", archive.name()))?;
    archive.check_sensors("--sensor", &request.sensors).await?;
    plan::plan(archive, &catalogue, request).await
}

/// Returns after a signal has set `stop`.
async fn stopped(stop: &AtomicBool) {
    while !stop.load(Relaxed) {
        tokio::time::sleep(STOP_CHECK).await;
    }
}

/// Makes the C library keep freed memory for the next pieces. It returns what is free above twice the largest piece that was freed, so
/// after a small one, each file of the index would be read into new pages, whose faults take a fifth of the time.
fn keep_freed_memory() {
    // The largest piece that counts. It is never touched, so it takes no memory.
    drop(std::hint::black_box(Vec::<u8>::with_capacity(31 << 20)));
}

/// `None`: it was stopped before it knew which packets to read.
async fn search(
    args: &Args,
    archive: &Archive,
    request: &Request,
    stop: &AtomicBool,
) -> Result<Option<Outcome>> {
    keep_freed_memory();
    let mut plan = tokio::select! {
        plan = planned(archive, request) => plan?,
        () = stopped(stop) => return Ok(None),
    };
    let mut outcome = Outcome::default();
    let mut progress = Progress::new(args, &plan);
    let mut progressed = |reading: &Reading| {
        progress.draw(reading);
        match stop.load(Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    match request.answer {
        Answer::Plan => {}
        Answer::Packets => {
            let Destination {
                to,
                name,
                child,
                part,
            } = open(args)?;
            let format = args
                .write
                .as_deref()
                .map_or(Format::Pcapng, Format::of_path);
            let mut output = Output::begin(to, &name, format)?;
            let mut left = request.limit.unwrap_or(u64::MAX);
            let reading = read::read(
                archive,
                &plan.blocks,
                request,
                |packet, sources| {
                    output.packet(&packet, sources)?;
                    left -= 1;
                    Ok(if left == 0 {
                        ControlFlow::Break(())
                    } else {
                        ControlFlow::Continue(())
                    })
                },
                &mut progressed,
            );
            let reading = reading.await;
            outcome.packets = output.packets;
            let ended = reading.and_then(|reading| {
                outcome.lost = Some(output.finish(&reading.interfaces)?);
                outcome.reading = reading;
                Ok(())
            });
            let printed = child.map(|mut child| child.wait());
            match ended {
                Err(error) if is_broken_pipe(&error) => {
                    outcome.reader_ended = true;
                    outcome.reading.stopped = stop.load(Relaxed);
                }
                ended => ended?,
            }
            let printed = printed.transpose();
            if let Some(status) = printed.context("waiting for `forebay capture`")? {
                // Ctrl-C reaches both, and a closed pipe ends the one that prints.
                let is_expected = status.success() || outcome.reading.stopped;
                if !is_expected && !is_sigpipe(status) {
                    bail!("`forebay capture -r -`, which prints the packets, failed: {status}");
                }
            }
            part.map_or(Ok(()), PartFile::finish)?;
        }
        Answer::Flows | Answer::Count => {
            let mut flows = std::mem::take(&mut plan.flows);
            let (certain, uncertain): (Vec<Block>, Vec<Block>) = std::mem::take(&mut plan.blocks)
                .into_iter()
                .partition(|it| it.is_certain);
            outcome.from_index = certain.iter().map(|it| it.packets).sum();
            drop(certain);
            outcome.packets = outcome.from_index;
            outcome.reading = read::read(
                archive,
                &uncertain,
                request,
                |packet, sources| {
                    outcome.packets += 1;
                    if request.answer == Answer::Flows {
                        flows.packet(&packet, sources);
                    }
                    Ok(ControlFlow::Continue(()))
                },
                &mut progressed,
            )
            .await?;
            plan.blocks = uncertain;
            let mut to = BufWriter::new(io::stdout().lock());
            let printed = match request.answer {
                Answer::Flows => {
                    outcome.flows = Some(flows.len() as u64);
                    flows.print(&mut to, args.json, request.limit)
                }
                _ if args.json => Ok(()),
                _ => writeln!(to, "{}", outcome.packets).context("writing to standard output"),
            };
            match printed.and_then(|()| to.flush().context("writing to standard output")) {
                Err(error) if is_broken_pipe(&error) => {}
                printed => printed?,
            }
        }
    }
    progress.clear();
    outcome.plan = plan;
    Ok(Some(outcome))
}

/// The destination of the packets.
struct Destination {
    to: Box<dyn Write>,
    name: String,
    /// The program that prints them.
    child: Option<Child>,
    /// What gets its name at the end.
    part: Option<PartFile>,
}

fn open(args: &Args) -> Result<Destination> {
    match args.write.as_deref() {
        Some(path) if path == Path::new("-") => {
            if io::stdout().is_terminal() {
                bail!(
                    "-w - would write packets to a terminal. Redirect standard output, or leave out -w to print them"
                );
            }
            let to = BufWriter::with_capacity(1 << 20, io::stdout());
            Ok(Destination {
                to: Box::new(to),
                name: "standard output".into(),
                child: None,
                part: None,
            })
        }
        Some(path) => {
            let (file, part) = PartFile::create(path)?;
            Ok(Destination {
                to: Box::new(BufWriter::with_capacity(1 << 20, file)),
                name: path.display().to_string(),
                child: None,
                part,
            })
        }
        None => {
            let beside = std::env::current_exe()
                .ok()
                .map(|it| it.with_file_name("forebay"))
                .filter(|it| it.exists());
            let program = beside.unwrap_or_else(|| "forebay".into());
            let child = Command::new(&program)
                .args(["capture", "-r", "-"])
                .stdin(Stdio::piped())
                .spawn();
            let mut child = child.with_context(|| {
                format!("starting `{} capture -r -`, which prints packets. Install forebay, or use -w FILE, --flows or --count", program.display())
            })?;
            let stdin = child
                .stdin
                .take()
                .context("the pipe to `forebay capture` is missing")?;
            let to = BufWriter::with_capacity(64 << 10, stdin);
            Ok(Destination {
                to: Box::new(to),
                name: "the pipe to `forebay capture`".into(),
                child: Some(child),
                part: None,
            })
        }
    }
}
