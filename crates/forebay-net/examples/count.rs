//! Counts the packets of capture files and prints the time per packet:
//! `cargo run --release -p forebay-net --example count -- FILE…`
//!
//! The shortest loop over a file: poll, take the frames, and check for the end.

use forebay::Result;
use forebay_net::{
    file::File,
    port::{Port, Wake},
};
use std::{path::Path, time::Instant};

fn main() -> Result<()> {
    for path in std::env::args_os().skip(1) {
        let begin = Instant::now();
        let mut file = File::open(Path::new(&path))?;
        let mut bytes = 0_u64;
        while !matches!(file.arm()?, Wake::End) {
            let mut burst = file.receive(256)?;
            while let Some(frame) = burst.next_frame() {
                bytes += frame.data.len() as u64;
            }
        }
        let seconds = begin.elapsed().as_secs_f64();
        let packets = file.counts().received;
        println!(
            "{}: {packets} packets, {bytes} bytes, {:.1} ns a packet",
            file.name(),
            seconds * 1e9 / packets.max(1) as f64
        );
    }
    Ok(())
}
