//! Writes capture files of mixed traffic, for measuring the archive.
//!
//! ```console
//! $ cargo run --release -p forebay-archive --example traffic -- FOLDER FILES PACKETS FLOWS [fresh]
//! ```
//! Each of the `FILES` files has `PACKETS` packets of a link of 1 Gbit/s that is always busy. The `FLOWS` flows have their share of the
//! packets by Zipf's law: flow number N is N times rarer than the first one. A flow sends 1 to 8 packets at once. 45 % of the packets have 66 bytes,
//! 40 % have 1514, and the others 100 to 1000: 718 on average. Three quarters of the flows are TCP to port 443, the others UDP to
//! port 53. The payloads are pieces of one MiB of random bytes, so a compressor finds some of them again. With `fresh`, the bytes of
//! each payload are new, so it cannot be compressed, as encrypted traffic.

use anyhow::{Context, Result};
use forebay_net::{
    format::Format,
    port::{Frame, Interface, LinkType},
};
use forebay_testing::dice::Dice;
use std::{
    fs::File,
    io::{BufWriter, Write},
    path::Path,
};

const BEGIN_NS: u64 = 1_795_305_600_000_000_000;
/// What a frame occupies on the wire besides its bytes: preamble, checksum, gap.
const GAP_BYTES: u64 = 24;

struct Traffic {
    dice: Dice,
    /// The sum of the weights up to each flow.
    weights: Vec<f64>,
    time_ns: u64,
    noise: Vec<u8>,
    is_fresh: bool,
}

fn main() -> Result<()> {
    let usage = "usage: traffic FOLDER FILES PACKETS FLOWS [fresh]";
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let is_fresh = args.pop_if(|last| last == "fresh").is_some();
    let [folder, files, packets, flows] = &*args else {
        anyhow::bail!(usage);
    };
    let [files, packets, flows] = [files, packets, flows].map(|it| it.parse::<u64>());
    let (files, packets, flows) = (
        files.context(usage)?,
        packets.context(usage)?,
        flows.context(usage)?,
    );
    let mut sum = 0.0;
    let mut traffic = Traffic {
        dice: Dice(flows),
        weights: (1..=flows)
            .map(|number| {
                sum += 1.0 / number as f64;
                sum
            })
            .collect(),
        time_ns: BEGIN_NS,
        noise: Dice(1).bytes(1 << 20),
        is_fresh,
    };
    std::fs::create_dir_all(folder).with_context(|| format!("{folder}: creating it"))?;
    for number in 0..files {
        traffic.write(
            &Path::new(folder).join(format!("mix-{number:04}.pcapng")),
            packets,
        )?;
    }
    Ok(())
}

impl Traffic {
    fn write(&mut self, path: &Path, packets: u64) -> Result<()> {
        let file =
            File::create(path).with_context(|| format!("{}: creating it", path.display()))?;
        let mut file = BufWriter::with_capacity(1 << 20, file);
        let format = Format::Pcapng;
        let interface = Interface {
            name: "eth0".into(),
            link: LinkType::ETHERNET,
            ..Interface::default()
        };
        let described = format.describe(&interface, 0);
        file.write_all(&format.header("traffic"))?;
        file.write_all(&format.interface(&interface, &described, 262_144))?;
        let (mut data, mut record) = (Vec::new(), Vec::new());
        let mut left = packets;
        while left > 0 {
            let flow = self.flow();
            let train = (1 + self.dice.below(8_u64)).min(left);
            left -= train;
            for _ in 0..train {
                self.frame(flow, &mut data);
                let frame = Frame {
                    data: &data,
                    wire_len: data.len() as u32,
                    time_ns: self.time_ns,
                    ..Frame::default()
                };
                record.clear();
                record.resize(format.frame_len(&frame, 262_144), 0);
                format.put_frame(&mut record, &frame, &described, 262_144);
                file.write_all(&record)?;
                self.time_ns += (data.len() as u64 + GAP_BYTES) * 8;
            }
        }
        file.flush().context("writing")
    }

    /// The number of a flow, by Zipf's law.
    fn flow(&mut self) -> u64 {
        let all = self.weights.last().copied().unwrap_or(0.0);
        let at = self.dice.any() as f64 / u64::MAX as f64 * all;
        self.weights.partition_point(|it| *it < at) as u64
    }

    /// A packet of a flow, in one of both directions.
    fn frame(&mut self, flow: u64, data: &mut Vec<u8>) {
        let len = match self.dice.below(100_u8) {
            0..45 => 66,
            45..60 => 100 + self.dice.below(901_usize),
            _ => 1514,
        };
        let mut of_flow = Dice(flow << 8);
        let client = [10, 0, of_flow.below(8_u8), of_flow.byte()];
        let server = [
            100,
            64 + of_flow.below(64_u8),
            of_flow.byte(),
            of_flow.byte(),
        ];
        let ports = [
            32_768 + of_flow.below(28_000_u16),
            if flow % 4 == 3 { 53 } else { 443 },
        ];
        let is_answer = len == 1514 || self.dice.below(2_u8) == 0;
        let order = if is_answer { [1, 0] } else { [0, 1] };
        data.clear();
        data.extend([2; 12]);
        data.extend([8, 0, 0x45, 0]);
        data.extend((len as u16 - 14).to_be_bytes());
        data.extend([0, 0, 0x40, 0, 64, if flow % 4 == 3 { 17 } else { 6 }, 0, 0]);
        for end in order {
            data.extend([client, server][end]);
        }
        for end in order {
            data.extend(ports[end].to_be_bytes());
        }
        match flow % 4 {
            3 => data.extend([(len as u16 - 34).to_be_bytes(), [0; 2]].concat()),
            _ => data.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 4, 0, 0, 0, 0, 0]),
        }
        let missing = len - data.len();
        if self.is_fresh {
            data.extend(self.dice.bytes(missing));
        } else {
            let begin = self.dice.below(self.noise.len() - 1514);
            data.extend(&self.noise[begin..begin + missing]);
        }
    }
}
