//! Appends the lines of standard input to a record file, new or existing, and regularly prints how many are safe:
//! `yes | cargo run --release -p forebay --example log -- FILE`
//!
//! Kill it with `kill -9` while it runs, then check the file with `forebay records check FILE`: every record reported as durable
//! is there. Start it again with the same file: it cuts off a torn block and continues.

use forebay::store::{FileConfig, Records, StoreConfig, SyncPolicy};
use std::{
    error::Error,
    io::{self, BufRead},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

fn main() -> ExitCode {
    let Err(error) = run() else {
        return ExitCode::SUCCESS;
    };
    eprintln!("log: {error}");
    ExitCode::FAILURE
}

fn run() -> Result<(), Box<dyn Error>> {
    let path = PathBuf::from(std::env::args_os().nth(1).ok_or("usage: log FILE")?);
    let config = StoreConfig {
        sync: SyncPolicy::Interval(Duration::from_secs(1)),
        ..StoreConfig::default()
    };
    let (mut log, found) = Records::<[u8]>::open_append(&path, &FileConfig::default(), &config)?;
    if found.records > 0 {
        println!("{} records found", found.records);
    }
    if let Some(cut) = found.cut {
        println!("cut off {} bytes of a torn block", cut.bytes);
    }
    let mut told = 0;
    for line in io::stdin().lock().split(b'\n') {
        log.append(&line?)?;
        if log.totals().durable > told {
            told = log.totals().durable;
            println!("{told} durable");
        }
    }
    let end = log.close().finish();
    println!(
        "{} accepted, {} written, {} durable",
        end.totals.accepted, end.totals.written, end.totals.durable
    );
    end.error.map_or(Ok(()), |error| Err(error.into()))
}
