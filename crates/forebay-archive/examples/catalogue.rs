//! Makes the index of a fleet of sensors, without segments: for measuring how long a search needs to find out what to read.
//!
//! ```console
//! $ cargo run --release -p forebay-archive --example catalogue -- ARCHIVE SENSORS FROM TO ROWS
//! ```
//! Adds the hours `FROM` to `TO` (exclusive) of 22 November 2026 (UTC). Each sensor has a segment for each five minutes, with `ROWS` rows.
//! The rows of the segments of five minutes are committed at once, as `forebay-archive index` does. Sensor number S has the hosts
//! 10.S.0.0/24, with S modulo 256, which communicate with 65025 servers in 100.64.0.0/16.

use anyhow::{Context, Result, ensure};
use forebay_archive::{
    archive::Archive,
    index::{self, Row, flow::Flow},
    segment::{self, Directory},
    table::{Rows, Table},
};
use forebay_net::port::LinkType;
use forebay_testing::dice::Dice;

const USAGE: &str = "usage: catalogue ARCHIVE SENSORS FROM TO ROWS";
/// The midnight before all times.
const BEGIN_NS: u64 = 1_795_305_600_000_000_000;
const SLOT_NS: u64 = 300_000_000_000;
/// Rows of a block: the segments have as many blocks as their rows need.
const BLOCK_ROWS: u64 = 100;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [archive, numbers @ ..] = &*args else {
        anyhow::bail!(USAGE);
    };
    let numbers: Vec<u64> = numbers
        .iter()
        .map(|it| it.parse())
        .collect::<Result<_, _>>()?;
    let &[sensors, from, to, rows] = &*numbers else {
        anyhow::bail!(USAGE);
    };
    ensure!(rows > 0, "a segment without rows has no file in the index");
    let runtime = tokio::runtime::Runtime::new().context("starting threads")?;
    runtime.block_on(async {
        let archive = Archive::open(archive, true)?;
        let mut table = Table::open_or_create(&archive).await?;
        for slot in from * 12..to * 12 {
            let segments: Vec<Rows> = (0..sensors)
                .map(|sensor| segment_of(sensor, slot, rows))
                .collect::<Result<_>>()?;
            table.append(&segments).await?;
        }
        let files = table.files()?;
        let bytes: u64 = files.iter().map(|it| it.bytes).sum();
        println!(
            "{} files of the index, {bytes} bytes, version {}",
            files.len(),
            table.version()
        );
        Ok(())
    })
}

/// The rows of a sensor in five minutes.
fn segment_of(sensor: u64, slot: u64, count: u64) -> Result<Rows> {
    let mut dice = Dice((sensor << 32 | slot) + 1);
    let begin_ns = BEGIN_NS + slot * SLOT_NS;
    let rows: Vec<Row> = (0..count)
        .map(|number| {
            let client = [10, sensor as u8, 0, dice.below(254_u8) + 1];
            let server = [100, 64, dice.below(255_u8), dice.below(255_u8)];
            let port = 32_768 + dice.below(28_000_u16);
            let first_ns = begin_ns + dice.below(SLOT_NS - 1);
            let packets = 1 + dice.below(40_u64);
            Row {
                flow: Flow::of(LinkType::ETHERNET, &tcp(client, server, port)).0,
                block: (number / BLOCK_ROWS * 2_000_000, 2_000_000),
                first_ns,
                last_ns: (first_ns + dice.below(1_000_000_000_u64)).min(begin_ns + SLOT_NS - 1),
                packets,
                bytes: packets * 700,
                tcp_flags: 0x1a,
                ..Row::default()
            }
        })
        .collect();
    let name = format!("sensor-{sensor:05}");
    let directory = Directory {
        sensor: name.clone(),
        format: "pcapng".into(),
        sha256: format!(
            "{:016x}{:016x}{:032x}",
            dice.any(),
            dice.any(),
            sensor << 32 | slot
        ),
        first_ns: Some(begin_ns),
        ..Directory::default()
    };
    let segment = segment::key(&directory, true);
    let files = index::write(rows, &name, &segment)?;
    Ok(Rows { segment, files })
}

/// The headers of a packet of TCP to port 443.
fn tcp(client: [u8; 4], server: [u8; 4], port: u16) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0]);
    frame.extend(client);
    frame.extend(server);
    frame.extend(port.to_be_bytes());
    frame.extend(443_u16.to_be_bytes());
    frame.extend([0; 16]);
    frame
}
