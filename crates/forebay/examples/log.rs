//! Appends the lines of standard input to a record file, and tells now and then how far they are safe:
//! `yes | cargo run --release -p forebay --example log -- FILE`
//!
//! Kill it with `kill -9` while it runs, and look with `forebay records check FILE`: what it had told to be durable is there.

use forebay::store::{Config, FileSink, Records, SyncPolicy};
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
    let config = Config {
        sync: SyncPolicy::Interval(Duration::from_secs(1)),
        ..Config::default()
    };
    let mut log = Records::<[u8]>::in_blocks(FileSink::create(&path, true)?, &config)?;
    let mut told = 0;
    for line in io::stdin().lock().split(b'\n') {
        log.append(&line?)?;
        if log.totals().durable > told {
            told = log.totals().durable;
            println!("{told} durable");
        }
    }
    let end = log.close().wait_to_the_end();
    println!(
        "{} accepted, {} written, {} durable",
        end.totals.accepted, end.totals.written, end.totals.durable
    );
    end.error.map_or(Ok(()), |error| Err(error.into()))
}
