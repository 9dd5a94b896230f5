//! Segments that were cut or changed: the packets of the intact blocks are found, and no others.

use super::tests::{Made, Seen, capture, request, simulated};
use crate::{archive::Archive, segment::Directory};
use forebay_net::port::LinkType;
use std::{fs, path::PathBuf};

/// A segment of several blocks, its file, and its packets.
struct Segment {
    made: Made,
    path: PathBuf,
    directory: Directory,
    stored: Vec<u8>,
    /// In the order of the file.
    packets: Vec<Seen>,
}

impl Segment {
    fn of(bytes: Vec<u8>, is_packed: bool) -> Segment {
        let none = capture(&[], 0);
        let captures = match is_packed {
            true => vec![("a", bytes)],
            false => vec![("b", none), ("a", bytes)],
        };
        let made = Made::of(captures);
        let packets = made.scanned(&request(""));
        let archive = Archive::open(&made.path(), false).unwrap();
        let listed = made.runtime.block_on(archive.list("segments/sensor=a"));
        let key = listed.unwrap()[0].location.to_string();
        let directory = made.runtime.block_on(archive.directory(&key, None));
        let path = PathBuf::from(made.path()).join(key);
        Segment {
            stored: fs::read(&path).unwrap(),
            directory: directory.unwrap(),
            made,
            path,
            packets,
        }
    }

    /// Searches after these bytes have replaced the segment. `intact`: the blocks that are found.
    fn finds(&self, bytes: &[u8], intact: usize, what: &str) {
        fs::write(&self.path, bytes).unwrap();
        let (found, plan, reading, reads) = self.made.found(&request(""));
        let count = |blocks: usize| -> usize {
            let blocks = &self.directory.blocks[..blocks];
            blocks.iter().map(|it| it.packets as usize).sum()
        };
        assert!(
            found == self.packets[..count(intact)],
            "{what}: {}",
            found.len()
        );
        let blocks = self.directory.blocks.len();
        assert_eq!(plan.blocks.len(), blocks);
        let [failed] = &*reading.failed else {
            panic!("{what}: {:?}", reading.failed);
        };
        assert_eq!(
            failed.lost as usize,
            self.packets.len() - count(intact),
            "{what}"
        );
        assert_eq!(failed.is_salvaged, intact > 0, "{what}");
        // The segment is read twice: for its blocks, and then for their packets. What is not the length of its directory may look like one.
        let max = 3 * bytes.len() as u64 + (1 << 17);
        assert!(reads.segments.bytes() <= max, "{what}: {reads:?}");
    }
}

fn is_found_in_each_state(segment: &Segment, is_packed: bool) {
    let blocks = &segment.directory.blocks;
    let ends: Vec<usize> = blocks
        .iter()
        .map(|it| (it.offset + it.length) as usize)
        .collect();
    let all = blocks.len();
    let len = segment.stored.len();
    let cuts = [0, 3, 60, ends[all - 1] + 1, ends[all - 1] + 9, len - 1];
    let cuts = cuts
        .into_iter()
        .chain(ends.iter().flat_map(|end| [end - 1, *end]));
    let middles = blocks.iter().map(|it| (it.offset + it.length / 2) as usize);
    for cut in cuts.chain(middles) {
        let intact = ends.partition_point(|end| *end <= cut);
        segment.finds(&segment.stored[..cut], intact, &format!("cut at {cut}"));
    }
    // A torn write: the length is there, and the bytes are not.
    let mut torn = segment.stored.clone();
    torn[ends[0] + 100..].fill(0);
    segment.finds(&torn, 1, "torn");
    for (number, block) in blocks.iter().enumerate() {
        let mut changed = segment.stored[..len - 1].to_vec();
        // In a plain segment, nothing but the lengths of records can be checked.
        let at = if is_packed { block.length / 2 } else { 4 };
        changed[(block.offset + at) as usize] ^= 0x55;
        segment.finds(&changed, number, &format!("changed in block {number}"));
    }
    let mut changed = segment.stored.clone();
    changed[len - 1] ^= 1;
    segment.finds(&changed, all, "changed directory");
}

#[test]
fn the_packets_of_the_intact_blocks_of_a_damaged_segment_are_found() {
    for is_packed in [true, false] {
        let segment = Segment::of(simulated(3, 1400, 6500), is_packed);
        assert!(segment.directory.blocks.len() >= 3);
        is_found_in_each_state(&segment, is_packed);
    }
}

/// Interfaces that are described in the second block, and a block in the middle that is damaged while the directory is intact.
#[test]
fn interfaces_between_blocks_are_known_and_an_intact_directory_is_used() {
    let packet = |number: u32, link| (LinkType(link), vec![number as u8; 1400], 1400);
    let packets: Vec<_> = (0..9500)
        .map(|it| packet(it, if it < 4000 || it % 2 == 0 { 1 } else { 101 }))
        .collect();
    let segment = Segment::of(capture(&packets, 5), true);
    let [first, second, third, ..] = *segment.directory.blocks else {
        panic!("{:?}", segment.directory);
    };
    let end = (third.offset + third.length) as usize;
    segment.finds(&segment.stored[..end + 5], 3, "cut");
    let mut changed = segment.stored.clone();
    // A single bit may be the distance to another copy of the same bytes.
    let middle = (second.offset + second.length / 2) as usize;
    changed[middle..middle + 100].fill(0x55);
    fs::write(&segment.path, changed).unwrap();
    let (found, _, reading, _) = segment.made.found(&request(""));
    let [begin, end] = [first.packets, first.packets + second.packets].map(|it| it as usize);
    let others = [&segment.packets[..begin], &segment.packets[end..]].concat();
    assert!(found == others);
    let failed = &reading.failed[0];
    assert_eq!((failed.lost, failed.is_salvaged), (second.packets, false));
}
