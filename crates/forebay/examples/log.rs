//! Appends the lines of standard input to a record file, new or existing, and prints how many are durable, once a second:
//! `yes | cargo run --release -p forebay --example log -- FILE`
//!
//! Kill it with `kill -9` while it runs, then check the file with `forebay records check FILE`: every record that was reported
//! as durable is there. Start it again with the same file: it cuts off a torn block and continues.

use forebay::{
    records::Records,
    store::{FileConfig, StoreConfig, SyncPolicy},
};
use std::{error::Error, io::BufRead, path::Path, time::Duration};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: log FILE")?;
    let config = StoreConfig {
        sync: SyncPolicy::Interval(Duration::from_secs(1)),
        ..StoreConfig::default()
    };
    let (mut log, found) =
        Records::<[u8]>::open_append(Path::new(&path), &FileConfig::default(), &config)?;
    let torn = found.cut.map_or(0, |cut| cut.bytes);
    println!("{} records found, {torn} bytes cut off", found.records);
    let mut reported = 0;
    for line in std::io::stdin().lock().split(b'\n') {
        log.append(&line?)?;
        if log.totals().durable > reported {
            reported = log.totals().durable;
            println!("{reported} durable");
        }
    }
    let end = log.close().finish();
    println!(
        "{} accepted, {} durable",
        end.totals.accepted, end.totals.durable
    );
    end.error.map_or(Ok(()), |error| Err(error.into()))
}
