//! Runs tcpdump for its verdicts and its programs.

use crate::corpus::Packet;
use forebay_testing::lab::tool;
use std::path::Path;
use std::process::Output;

/// The link types that have a corpus, by number in files: Ethernet, RAW, LINUX_SLL, LINUX_SLL2, NULL, LOOP, PPP.
pub const LINKS: [u16; 7] = [1, 101, 113, 276, 0, 108, 9];

/// The snapshot length, in tcpdump and here.
pub const SNAPLEN: u32 = 262_144;

/// Writes a pcap file in which a packet's time is its number.
pub fn write(path: &Path, link: u16, packets: &[Packet]) {
    let mut bytes = Vec::new();
    let words = [0xA1B2_C3D4, 0x0004_0002, 0, 0, SNAPLEN, u32::from(link)];
    bytes.extend(words.map(u32::to_le_bytes).concat());
    for (number, packet) in packets.iter().enumerate() {
        let words = [number as u32, 0, packet.data.len() as u32, packet.wire_len];
        bytes.extend(words.map(u32::to_le_bytes).concat());
        bytes.extend(&packet.data);
    }
    std::fs::write(path, bytes).unwrap();
}

/// The numbers of the packets in such a file.
fn numbers(mut bytes: &[u8]) -> Vec<usize> {
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut numbers = Vec::new();
    bytes = &bytes[24..];
    while !bytes.is_empty() {
        numbers.push(word(bytes, 0) as usize);
        bytes = &bytes[16 + word(bytes, 8) as usize..];
    }
    numbers
}

/// The packets of a file that tcpdump accepts, or its error for the expression.
pub fn kept(path: &Path, expression: &str) -> Result<Vec<usize>, String> {
    let mut tcpdump = tool("tcpdump");
    tcpdump
        .arg("-r")
        .arg(path)
        .args(["-w", "-", "--", expression]);
    answer(tcpdump.output()).map(|bytes| numbers(&bytes))
}

/// The program that tcpdump prints for an expression and the link type of a file: `-d`, `-dd` or `-ddd`.
pub fn printed(form: &str, path: &Path, expression: &str) -> Result<String, String> {
    let mut tcpdump = tool("tcpdump");
    tcpdump.arg("-r").arg(path).args([form, "--", expression]);
    answer(tcpdump.output()).map(|bytes| String::from_utf8(bytes).unwrap())
}

pub fn answer(output: std::io::Result<Output>) -> Result<Vec<u8>, String> {
    let output = output.expect("tcpdump runs");
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().into()),
    }
}
