//! The command `forebay-archive`: parses, runs, prints, exits.
//!
//! Exit codes: 0 success, 1 failure at run time, or packets that do not add up, 2 bad request.
#![forbid(unsafe_code)]

mod cli {
    pub mod args;
    pub mod text;
}

use anyhow::{Context, Result};
use clap::Parser;
use cli::{
    args::{self, Command, Flags},
    text,
};
use forebay_archive::{
    archive::Archive,
    expire::{self, ExpireConfig},
    find, rebuild,
    ship::{Event, Ship, ShipConfig, spool::Keep},
    status,
};
use serde_json::json;
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};

fn main() -> ExitCode {
    let flags = match Flags::try_parse() {
        Ok(flags) => flags,
        Err(error) => {
            let _ = error.print();
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
            ExitCode::FAILURE
        }
    }
}

async fn run(command: &Command) -> Result<ExitCode> {
    match command {
        Command::Ship(flags) => ship(flags).await,
        Command::Find(flags) => find::run(flags).await,
        Command::Status(flags) => print_status(flags).await,
        Command::Rebuild(flags) => rebuild(flags).await,
        Command::Expire(flags) => expire(flags).await,
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
    let config = ShipConfig {
        spool: flags.spool.clone(),
        archive: Archive::open(&flags.to, true)?,
        sensor: sensor.clone(),
        keep: flags.keep_local.unwrap_or(Keep::Nothing),
        limit_bytes: flags.spool_limit,
        drops_oldest: flags.when_full == args::WhenFull::DropOldest,
        compress: !flags.no_compress,
        once: flags.once,
    };
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
        Event::Shipped(..) => {}
        Event::Dropped(file, packets) => {
            text::note(&format!(
                "{}: dropped with {packets} packets: the spool is full",
                file.path.display()
            ));
        }
        Event::Warning(what) => text::note(&what),
    };
    let mut interrupt = signal(SignalKind::interrupt()).context("handling signals")?;
    let mut terminate = signal(SignalKind::terminate()).context("handling signals")?;
    let mut ship = Ship::new(config, &mut report)?;
    let done = tokio::select! {
        done = ship.run() => done,
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
    };
    let counts = ship.counts;
    text::line(&match flags.json {
        true => text::counts_json(&sensor, &counts).to_string(),
        false => text::counts(&sensor, &counts),
    })?;
    done.map(|()| ExitCode::SUCCESS)
}

async fn print_status(flags: &args::Status) -> Result<ExitCode> {
    let archive = Archive::open(&flags.archive, false)?;
    let sensors = status::status(&archive, &flags.spool).await?;
    if sensors.is_empty() && !flags.json {
        text::note(&format!(
            "{}: no sensor has shipped anything here",
            flags.archive
        ));
    }
    let mut is_sound = true;
    for (name, sensor) in &sensors {
        is_sound &= sensor.is_sound();
        text::line(&match flags.json {
            true => text::sensor_json(name, sensor).to_string(),
            false => text::sensor(name, sensor),
        })?;
    }
    Ok(ExitCode::from(u8::from(!is_sound)))
}

async fn rebuild(flags: &args::Rebuild) -> Result<ExitCode> {
    let archive = Archive::open(&flags.archive, false)?;
    let done = rebuild::rebuild(&archive, &mut |error| text::note(&format!("{error:#}"))).await?;
    let failed = done.missing - done.added;
    text::line(&match flags.json {
        true => json!({"schema": 1, "segments": done.segments, "missing": done.missing, "added": done.added}).to_string(),
        false => format!(
            "{} segments, {} of them without rows; added the rows of {}",
            done.segments, done.missing, done.added
        ),
    })?;
    Ok(ExitCode::from(u8::from(failed > 0)))
}

async fn expire(flags: &args::Expire) -> Result<ExitCode> {
    let archive = Archive::open(&flags.archive, false)?;
    let config = ExpireConfig {
        older_than: flags.older_than,
        max_bytes: flags.max,
        dry_run: flags.dry_run,
    };
    let mut is_whole = true;
    let mut failed = |error| {
        is_whole = false;
        text::note(&format!("{error:#}; it stays"));
    };
    let done = expire::expire(&archive, &config, &mut failed).await?;
    let verb = if flags.dry_run {
        "would remove"
    } else {
        "removed"
    };
    text::line(&match flags.json {
        true => json!({"schema": 1, "dry_run": flags.dry_run, "segments": done.segments, "packets": done.packets, "bytes": done.bytes})
            .to_string(),
        false => format!("{verb} {} segments with {} packets, {} bytes", done.segments, done.packets, done.bytes),
    })?;
    Ok(ExitCode::from(u8::from(!is_whole)))
}
