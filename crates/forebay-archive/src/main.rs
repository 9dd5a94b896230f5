//! The command `forebay-archive`: parses, runs, prints, exits.
//!
//! Exit codes: 0 success, 1 failure at run time, or packets that do not add up, 2 bad request, 3 the store did not answer or refused, 130
//! ended by a signal.
#![forbid(unsafe_code)]

mod cli {
    pub mod args;
    pub mod job;
    pub mod metrics;
    pub mod text;
    pub mod verify;
}

use anyhow::{Context, Error, Result, anyhow};
use clap::Parser;
use cli::{
    args::{self, Command, Flags},
    job,
    metrics::{self, Metrics},
    text,
};
use forebay_archive::{
    announce::{Address, Queue},
    archive::Archive,
    clock,
    compact::{self, CompactConfig},
    expire::{self, ExpireConfig, Undeleted, Verdict},
    find,
    gather::{self, Gather, GatherConfig},
    hold::{self, Hold},
    index::IndexFile,
    ledger, rebuild,
    ship::{
        Event, Ship, ShipConfig,
        spool::{Keep, Spool},
    },
    status::{self, StatusConfig},
    table::TableFile,
};
use forebay_net::units::{self, counted};
use serde_json::{Value, json};
use std::{
    path::Path,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};
use tokio::signal::unix::{SignalKind, signal};

fn main() -> ExitCode {
    let flags = match Flags::try_parse() {
        Ok(flags) => flags,
        Err(error) => {
            text::bad_arguments(&error);
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let done = runtime.context("starting threads").and_then(|runtime| {
        let done = runtime.block_on(run(&flags.command));
        // Requests that were given up must not hold up the end.
        runtime.shutdown_background();
        done
    });
    match done {
        Ok(code) => code,
        Err(error) => {
            text::note(&format!("{error:#}"));
            ExitCode::from(job::code_of(&error))
        }
    }
}

async fn run(command: &Command) -> Result<ExitCode> {
    match command {
        Command::Ship(flags) => ship(flags).await,
        Command::Index(flags) => index(flags).await,
        Command::Find(flags) => find::run(flags).await,
        Command::Status(flags) => print_status(flags).await,
        Command::Verify(flags) => {
            let work = async |counts: &mut Value| cli::verify::run(flags, counts).await;
            job::run("verify", &flags.archive, &flags.job, work).await
        }
        Command::Rebuild(flags) => {
            let work = async |counts: &mut Value| rebuild(flags, counts).await;
            job::run("rebuild", &flags.archive, &flags.job, work).await
        }
        Command::Expire(flags) => {
            let work = async |counts: &mut Value| expire(flags, counts).await;
            job::run("expire", &flags.archive, &flags.job, work).await
        }
        Command::Hold(flags) => hold(flags).await,
        Command::Compact(flags) => {
            let work = async |counts: &mut Value| compact(flags, counts).await;
            job::run("compact", &flags.archive, &flags.job, work).await
        }
    }
}

async fn ship(flags: &args::Ship) -> Result<ExitCode> {
    let sensor = match &flags.sensor {
        Some(sensor) => sensor.clone(),
        None => std::fs::read_to_string("/proc/sys/kernel/hostname")
            .unwrap_or_default()
            .trim()
            .to_owned(),
    };
    // A wrong name of the spool or the sensor must not leave a new folder as an archive.
    drop(Spool::open(&flags.spool, &sensor)?);
    let announce = flags.announce.as_ref();
    let announce = announce.map(|it| with_credentials(it, flags.nats_credentials.as_deref()));
    let config = ShipConfig {
        spool: flags.spool.clone(),
        archive: Archive::open(&flags.to, true)?,
        sensor: sensor.clone(),
        keep: flags.keep_local.unwrap_or(Keep::Nothing),
        limit_bytes: flags.spool_limit,
        drops_oldest: flags.when_full == args::WhenFull::DropOldest,
        compress: !flags.no_compress,
        announce: announce.transpose()?,
        once: flags.once,
        snapshots: flags.metrics.are_wanted(),
    };
    let mut metrics = Metrics::open(&flags.metrics).await?;
    let mut report = |event: Event<'_>| match event {
        Event::Shipped(file, packed) if flags.json => {
            let shipped = json!({"schema": 1, "event": "shipped", "file": file.name(), "segment": packed.key,
                "packets": packed.directory.packets, "bytes": file.bytes, "stored_bytes": packed.bytes});
            let _ = text::line(&shipped.to_string());
        }
        Event::Dropped(file, packets) if flags.json => {
            let dropped = json!({"schema": 1, "event": "dropped", "file": file.name(), "packets": packets, "bytes": file.bytes});
            let _ = text::line(&dropped.to_string());
        }
        Event::Shipped(file, packed) => {
            let packets = counted(packed.directory.packets, "packet", "packets");
            text::note(&format!("shipped {}, {packets}", file.name()));
        }
        Event::Dropped(file, packets) => {
            text::note(&format!(
                "{}: dropped with {}: the spool is full",
                file.path.display(),
                counted(packets, "packet", "packets")
            ));
        }
        Event::Warning(what) => text::note(&what),
        Event::Progress(snapshot) => metrics.renew(metrics::of_ship(&sensor, &snapshot)),
    };
    let stop = signals(1)?;
    let mut ship = Ship::new(config, &mut report)?;
    let done = tokio::select! {
        done = ship.run() => Some(done),
        () = stop => None,
    };
    // Without `--once` a signal is the usual end.
    let done = done.unwrap_or_else(|| match flags.once {
        true => Err(anyhow!("ended by a signal before everything was shipped")),
        false => Ok(()),
    });
    let counts = ship.counts;
    text::line(&match flags.json {
        true => text::counts_json(&sensor, &counts).to_string(),
        false => text::counts(&sensor, &counts),
    })?;
    done.map(|()| ExitCode::SUCCESS)
}

async fn index(flags: &args::Index) -> Result<ExitCode> {
    let config = GatherConfig {
        archive: Archive::open(&flags.archive, false)?,
        queue: Queue::new(with_credentials(
            &flags.from,
            flags.nats_credentials.as_deref(),
        )?),
        batch: flags.batch.into(),
        wait: flags.wait,
        hold: flags.take_over,
        tries: flags.tries,
        once: flags.once,
        snapshots: flags.metrics.are_wanted(),
    };
    let mut metrics = Metrics::open(&flags.metrics).await?;
    let mut report = |event: gather::Event<'_>| match event {
        gather::Event::Indexed(it) if flags.json => {
            let indexed = json!({"schema": 1, "event": "indexed", "segment": it.segment, "packets": it.packets});
            let _ = text::line(&indexed.to_string());
        }
        gather::Event::Indexed(_) => {}
        gather::Event::SetAside(message, reason) if flags.json => {
            let aside =
                json!({"schema": 1, "event": "set_aside", "message": message, "reason": reason});
            let _ = text::line(&aside.to_string());
        }
        gather::Event::SetAside(message, reason) => {
            text::note(&format!("{reason}. The message is set aside: {message}"));
        }
        gather::Event::Warning(what) => text::note(&what),
        gather::Event::Progress(counts, left, clocks) => {
            metrics.renew(metrics::of_index(&counts, left, clocks));
        }
    };
    // The first signal lets a commit finish. The second one does not wait for that.
    let (stop, abort) = (signals(1)?, signals(2)?);
    let mut gather = Gather::new(config, &mut report);
    let done = tokio::select! {
        done = gather.run(stop) => done,
        () = abort => Ok(()),
    };
    let counts = gather.counts;
    text::line(&match flags.json {
        true => text::gathered_json(&counts).to_string(),
        false => text::gathered(&counts),
    })?;
    let code = u8::from(counts.set_aside > 0);
    let code = done.map_or_else(|error| job::after(code, error), |()| Ok(code));
    code.map(ExitCode::from)
}

fn with_credentials(address: &Address, file: Option<&Path>) -> Result<Address> {
    match file {
        Some(file) => address.clone().with_credentials(file),
        None => Ok(address.clone()),
    }
}

/// Completes after this number of signals to end.
fn signals(number: usize) -> Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt()).context("handling signals")?;
    let mut terminate = signal(SignalKind::terminate()).context("handling signals")?;
    Ok(async move {
        for _ in 0..number {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        }
    })
}

async fn print_status(flags: &args::Status) -> Result<ExitCode> {
    let archive = Archive::open(&flags.archive, false)?;
    let config = StatusConfig {
        spools: flags.spool.clone(),
        sensors: flags.sensor.clone(),
        since: flags.since.map(status::date_before),
    };
    let sensors = status::status(&archive, &config).await?;
    if sensors.is_empty() && !flags.json {
        let what = match flags.since {
            Some(_) => "there is no capture of this time",
            None => "no sensor has shipped anything here",
        };
        text::note(&format!("{}: {what}", archive.name()));
    }
    let clocks = clock::wrong(&archive, sensors.keys()).await?;
    let mut code = 0;
    for (name, sensor) in &sensors {
        code = match sensor {
            it if it.is_sound() => code,
            it if it.adds_up() => job::worst(code, 3),
            _ => 1,
        };
        let ahead_s = clocks.get(&**name).copied();
        let mut object = text::sensor_json(name, sensor);
        object["clock_ahead_s"] = json!(ahead_s);
        text::line(&match flags.json {
            true => object.to_string(),
            false => text::sensor(name, sensor),
        })?;
        if let Some(ahead_s) = ahead_s.filter(|_| !flags.json) {
            text::line(&text::wrong_clock(ahead_s))?;
        }
    }
    Ok(ExitCode::from(code))
}

async fn rebuild(flags: &args::Rebuild, counts: &mut Value) -> Result<u8> {
    let archive = Archive::open(&flags.archive, false)?;
    let undeleted = match flags.undelete {
        true => expire::undelete(&archive).await?,
        false => Undeleted::default(),
    };
    if undeleted.young > 0 {
        text::note(&format!(
            "{} expired less than an hour ago, and an `expire` may be deleting them: try again later",
            units::counted(undeleted.young, "segment", "segments")
        ));
    }
    let mut code = 0;
    let mut failed = |error: Error| {
        code = job::worst(code, job::code_of(&error));
        text::note(&format!("{error:#}"));
    };
    let done = match rebuild::rebuild(&archive, &mut failed).await {
        Ok(done) => done,
        Err(error) => return job::after(code, error),
    };
    let accepted = match flags.accept_missing {
        true => ledger::accept(&archive).await?,
        false => 0,
    };
    if accepted > 0 {
        let segments = counted(accepted, "segment", "segments");
        text::note(&format!("accepted that {segments} are gone"));
    }
    *counts = json!({"schema": 1, "segments": done.segments, "missing": done.missing, "added": done.added, "unreadable": done.unreadable, "removed": done.removed, "undeleted": undeleted.segments, "accepted": accepted});
    text::line(&match flags.json {
        true => counts.to_string(),
        false => format!(
            "{} segments, {} of them without rows, and {} not returned by the store; added the rows of {}, and removed those of {} that do not exist; {} do not count as expired any more",
            done.segments,
            done.missing,
            done.unreadable,
            done.added,
            done.removed,
            undeleted.segments
        ),
    })?;
    Ok(job::worst(code, u8::from(undeleted.young > 0)))
}

async fn expire(flags: &args::Expire, counts: &mut Value) -> Result<u8> {
    let archive = Archive::open(&flags.archive, false)?;
    let config = ExpireConfig {
        older_than: flags.older_than,
        keep: flags.keep.clone(),
        max_bytes: flags.max,
        dry_run: flags.dry_run,
    };
    for rule in flags.keep.iter().filter(|it| !it.is_known()) {
        text::note(&format!(
            "--keep '{rule}': the index does not know a part of this. Packets that may match are kept"
        ));
    }
    let mut code = 0;
    let mut report = |event: Verdict<'_>| match event {
        Verdict::Failed(error) => {
            code = job::worst(code, job::code_of(&error));
            text::note(&format!("{error:#}; it stays"));
        }
        Verdict::Goes(..) | Verdict::Stays(..) if !flags.dry_run => {}
        Verdict::Goes(key, bytes, why) => text::chosen(flags.json, key, bytes, true, why),
        Verdict::Stays(key, bytes, why) => text::chosen(flags.json, key, bytes, false, why),
    };
    let done = match expire::expire(&archive, &config, &mut report).await {
        Ok(done) => done,
        Err(error) => return job::after(code, error),
    };
    *counts = text::expired_json(flags.dry_run, &done);
    text::line(&match flags.json {
        true => counts.to_string(),
        false => text::expired(flags.dry_run, &done),
    })?;
    Ok(job::worst(code, u8::from(done.over_bytes > 0)))
}

async fn hold(flags: &args::Hold) -> Result<ExitCode> {
    let archive = Archive::open(&flags.archive, false)?;
    if let Some(case) = &flags.release {
        hold::release(&archive, case).await?;
        text::note(&format!("released {case}"));
        return Ok(ExitCode::SUCCESS);
    }
    let Some(case) = &flags.case else {
        let mut code = 0;
        for hold in hold::list(&archive).await? {
            match hold {
                Ok(hold) => text::line(&text::hold(flags.json, &hold))?,
                Err(error) => {
                    code = job::worst(code, job::code_of(&error));
                    text::note(&format!("{error:#}"));
                }
            }
        }
        return Ok(ExitCode::from(code));
    };
    let times = [flags.from.as_deref(), flags.to.as_deref()];
    let hold = Hold::new(case, &flags.expression.join(" "), times, &flags.sensor)?;
    if !hold.is_known()? {
        text::note(
            "the index does not know a part of this expression. All packets that may match are held",
        );
    }
    hold::place(&archive, &hold).await?;
    text::line(&text::hold(flags.json, &hold))?;
    // A mistyped name of a sensor would hold nothing.
    let segments = hold::segments(&archive, &hold).await?;
    text::note(&format!("{case} holds {segments} segments now"));
    Ok(ExitCode::SUCCESS)
}

async fn compact(flags: &args::Compact, counts: &mut Value) -> Result<u8> {
    let archive = Archive::open(&flags.archive, false)?;
    let stop = Arc::new(AtomicBool::new(false));
    tokio::spawn(find::watch_signals(stop.clone())?);
    let config = CompactConfig {
        target_bytes: flags.target_size,
        dry_run: flags.dry_run,
    };
    let mut progress = |old: &[TableFile], new: &IndexFile| {
        text::note(&format!(
            "{}: {} files are one of {} now",
            new.date,
            old.len(),
            units::binary(new.bytes.len() as u64)
        ));
        !stop.load(Relaxed)
    };
    let done = compact::compact(&archive, &config, &mut progress).await?;
    let vacuumed = match flags.vacuum {
        Some(age) if !stop.load(Relaxed) => {
            Some(compact::vacuum(&archive, age, flags.dry_run).await?)
        }
        _ => None,
    };
    *counts = text::compacted_json(flags.dry_run, &done, vacuumed.as_ref());
    text::line(&match flags.json {
        true => counts.to_string(),
        false => text::compacted(flags.dry_run, &done, vacuumed.as_ref()),
    })?;
    if let Some(error) = done.accounts_error {
        text::note(&format!(
            "the accounts of the sensors were not rolled up: {error}"
        ));
        return Ok(if done.store_failed { 3 } else { 1 });
    }
    Ok(if stop.load(Relaxed) { 130 } else { 0 })
}
