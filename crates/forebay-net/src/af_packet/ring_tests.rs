//! Hand-made block images: what the kernel writes, and what it never should.

use super::*;
use forebay_testing::dice::Dice;
use std::sync::atomic::Ordering::Release;

pub(in crate::af_packet) const BLOCKS: Blocks = Blocks {
    bytes: 4096,
    count: 8,
};
const FIRST: usize = 48;
/// The offset of an Ethernet frame after its header, with 4 bytes reserved.
const MAC: usize = 86;

/// A frame of an image; by default one that the kernel could have written.
#[derive(Clone)]
pub(in crate::af_packet) struct Sample {
    pub bytes: Vec<u8>,
    pub wire_len: u32,
    pub tag: Option<(u16, u16)>,
    pub kind: u8,
    pub sec: u32,
    pub nsec: u32,
    pub mac: u16,
}

impl Sample {
    pub(in crate::af_packet) fn new(bytes: &[u8]) -> Self {
        Sample {
            bytes: bytes.to_vec(),
            wire_len: bytes.len() as u32,
            tag: None,
            kind: 0,
            sec: 1,
            nsec: 2,
            mac: MAC as u16,
        }
    }

    fn tagged(tag: (u16, u16), bytes: &[u8]) -> Self {
        Sample {
            tag: Some(tag),
            ..Sample::new(bytes)
        }
    }
}

pub(in crate::af_packet) fn ring(snaplen: u32) -> Ring {
    ring_of(Hardware::Ethernet, snaplen)
}

fn ring_of(hardware: Hardware, snaplen: u32) -> Ring {
    let memory = Mapping::anonymous(BLOCKS.total_bytes()).unwrap();
    Ring::new(memory, BLOCKS, hardware, snaplen)
}

impl Ring {
    fn poke(&mut self, block: u32, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.blocks.bytes as usize);
        // SAFETY: within the block, as just checked.
        let place = unsafe { self.block(block).add(at) };
        // SAFETY: in bounds; the test acts as the kernel, and `&mut self` ensures that no slice is alive.
        unsafe {
            place
                .as_ptr()
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
        };
    }

    fn poke_u32(&mut self, block: u32, at: usize, value: u32) {
        self.poke(block, at, &value.to_ne_bytes());
    }

    /// Fills a block as the kernel does, closes it, and returns the offsets of its headers.
    pub(in crate::af_packet) fn fill(&mut self, block: u32, samples: &[Sample]) -> Vec<usize> {
        let mut at = FIRST;
        let mut offsets = Vec::new();
        for (place, sample) in samples.iter().enumerate() {
            let len = usize::from(sample.mac) + sample.bytes.len();
            let is_last = place + 1 == samples.len();
            let next = if is_last { 0 } else { len.next_multiple_of(8) };
            let valid = libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID;
            let status = sample.tag.map_or(0, |_| valid);
            let (tpid, tci) = sample.tag.unwrap_or_default();
            let words = [
                next as u32,
                sample.sec,
                sample.nsec,
                sample.bytes.len() as u32,
                sample.wire_len,
                status | 1,
            ];
            for (word, value) in words.into_iter().enumerate() {
                self.poke_u32(block, at + 4 * word, value);
            }
            self.poke(block, at + 24, &sample.mac.to_ne_bytes());
            self.poke_u32(block, at + 32, tci.into());
            self.poke(block, at + 36, &tpid.to_ne_bytes());
            self.poke(block, at + 58, &[sample.kind]);
            self.poke(block, at + usize::from(sample.mac), &sample.bytes);
            offsets.push(at);
            at += len.next_multiple_of(8);
        }
        self.poke_u32(block, STATUS + 4, samples.len() as u32);
        self.poke_u32(block, STATUS + 8, FIRST as u32);
        self.close(block, 0);
        offsets
    }

    pub(in crate::af_packet) fn close(&mut self, block: u32, flags: u32) {
        self.status_word(block)
            .store(libc::TP_STATUS_USER | flags, Release);
    }

    /// Shows block 0 to the reader, which may take this many frames.
    fn show(&mut self, frames: usize) {
        self.look();
        self.allow(frames);
    }

    fn rest(&mut self) -> Vec<(Vec<u8>, u32, u64)> {
        let mut frames = Vec::new();
        while let Some(frame) = self.next() {
            frames.push((frame.data.to_vec(), frame.wire_len, frame.dropped_before));
        }
        frames
    }
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len as u8).collect()
}

#[test]
fn frames_are_seen_in_order_with_their_time_length_and_direction() {
    let mut ring = ring(65_536);
    assert!(!ring.look() && ring.next().is_none());
    let cut = Sample {
        wire_len: 1514,
        ..Sample::new(&bytes(60))
    };
    let out = Sample {
        kind: libc::PACKET_OUTGOING,
        sec: u32::MAX,
        nsec: 999_999_999,
        ..Sample::new(&bytes(61))
    };
    ring.fill(0, &[cut, out]);
    assert!(ring.look() && ring.held());
    ring.allow(10);
    let first = ring.next().unwrap();
    assert_eq!(
        (first.data, first.wire_len, first.time_ns),
        (&bytes(60)[..], 1514, 1_000_000_002)
    );
    assert_eq!(first.direction, Direction::Inbound);
    let second = ring.next().unwrap();
    assert_eq!(
        (second.data, second.time_ns),
        (&bytes(61)[..], 4_294_967_295_999_999_999)
    );
    assert_eq!(second.direction, Direction::Outbound);
    assert!(ring.next().is_none());
    assert_eq!((ring.taken(), ring.left()), (2, 0));
    ring.release();
    assert_eq!((ring.status(0), ring.current()), (0, 1));
}

#[test]
fn a_budget_pauses_the_walk_and_a_frame_put_back_comes_again() {
    let mut ring = ring(65_536);
    ring.fill(0, &[60, 61, 62].map(|len| Sample::new(&bytes(len))));
    ring.add_gap(7);
    ring.show(2);
    assert_eq!(ring.next().unwrap().dropped_before, 7);
    ring.put_back();
    assert_eq!((ring.taken(), ring.gap()), (0, 7));
    let again = ring.next().unwrap();
    assert_eq!((again.data.len(), again.dropped_before), (60, 7));
    assert_eq!((ring.rest().len(), ring.taken(), ring.left()), (1, 2, 1));
    ring.allow(0);
    ring.put_back(); // nothing of this burst was handed out
    assert_eq!((ring.left(), ring.rest().len()), (1, 0));
    ring.allow(usize::MAX);
    assert_eq!(ring.rest(), [(bytes(62), 62, 0)]);
}

#[test]
fn a_vlan_tag_goes_back_between_addresses_and_type_exactly_once() {
    let mut ring = ring(65_536);
    let tagged = |tag| Sample::tagged(tag, &bytes(60));
    let plain = Sample::new(&bytes(60));
    ring.fill(0, &[tagged((0x8100, 0x2064)), tagged((0x88A8, 5)), plain]);
    ring.show(10);
    let whole = |tag: [u8; 4]| [&bytes(60)[..12], &tag[..], &bytes(60)[12..]].concat();
    for _ in 0..3 {
        let frame = ring.next().unwrap();
        assert_eq!(
            (frame.data, frame.wire_len),
            (&whole([0x81, 0, 0x20, 0x64])[..], 64)
        );
        ring.put_back();
    }
    let expected = [
        (whole([0x81, 0, 0x20, 0x64]), 64, 0),
        (whole([0x88, 0xA8, 0, 5]), 64, 0),
        (bytes(60), 60, 0),
    ];
    assert_eq!(ring.rest(), expected);
}

#[test]
fn a_description_of_offloads_moves_when_a_tag_goes_back() {
    let mut ring = ring(4096).reporting_unfinished(true);
    let sample = |tag| Sample {
        mac: MAC as u16 + 10,
        tag,
        ..Sample::new(&bytes(60))
    };
    let offsets = ring.fill(0, &[sample(Some((0x8100, 5))), sample(None)]);
    // The checksum from byte 34 is stored at byte 40.
    let mut header = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    header[6..8].copy_from_slice(&34_u16.to_ne_bytes());
    header[8..].copy_from_slice(&6_u16.to_ne_bytes());
    let tag = libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID;
    for (at, flags) in offsets.into_iter().zip([tag, 0]) {
        let status = libc::TP_STATUS_USER | libc::TP_STATUS_CSUMNOTREADY;
        ring.poke_u32(0, at + 20, status | flags);
        ring.poke(0, at + MAC, &header);
    }
    ring.show(2);
    let plain = Unfinished::from_header(header);
    for (tag, expected) in [(&[0x81, 0, 0, 5][..], plain.moved(4)), (&[], plain)] {
        for _ in 0..2 {
            let got = ring.next().unwrap();
            assert_eq!(got.data, [&bytes(60)[..12], tag, &bytes(60)[12..]].concat());
            assert_eq!(got.unfinished, expected);
            ring.put_back();
        }
        ring.next();
    }
}

#[test]
fn a_tag_without_a_known_protocol_is_802_1q() {
    let mut ring = ring(65_536);
    let offsets = ring.fill(0, &[Sample::tagged((0, 9), &bytes(20))]);
    ring.poke_u32(0, offsets[0] + 20, libc::TP_STATUS_VLAN_VALID | 1);
    ring.show(1);
    assert_eq!(ring.next().unwrap().data[12..16], [0x81, 0, 0, 9]);
}

#[test]
fn the_snaplen_cuts_after_the_tag_was_put_back() {
    for snaplen in [60, 16, 14, 13, 12, 11, 1] {
        let mut ring = ring(snaplen);
        // The kernel's filter has already truncated the frame, to `snaplen` bytes without the tag.
        let cut = bytes(60)[..snaplen as usize].to_vec();
        let sample = Sample {
            wire_len: 60,
            ..Sample::tagged((0x8100, 3), &cut)
        };
        ring.fill(0, &[sample]);
        ring.show(1);
        let whole = [&bytes(60)[..12], &[0x81, 0, 0, 3], &bytes(60)[12..]].concat();
        let frame = ring.next().unwrap();
        let expected = (&whole[..snaplen as usize], 64);
        assert_eq!((frame.data, frame.wire_len), expected, "snaplen {snaplen}");
    }
}

#[test]
fn without_room_or_addresses_a_tag_is_left_out() {
    let mut ring = ring(65_536);
    let without_room = Sample {
        mac: HEADER as u16,
        ..Sample::tagged((0x8100, 3), &bytes(60))
    };
    ring.fill(0, &[without_room]);
    ring.show(1);
    assert_eq!(ring.rest(), [(bytes(60), 60, 0)]);
    let mut raw = ring_of(Hardware::Raw, 100);
    raw.fill(0, &[Sample::tagged((0x8100, 3), &bytes(60))]);
    raw.show(1);
    assert_eq!(raw.rest(), [(bytes(60), 60, 0)]);
}

#[test]
fn hostile_numbers_end_the_walk_without_leaving_the_block() {
    let three = [60, 61, 62].map(|len| Sample::new(&bytes(len)));
    // (offset in the second header, value, number of frames still read)
    let next_offset = [1u32, 4, 44, 100, 4095, 4096, u32::MAX, u32::MAX - 3];
    let lengths = [4096u32, 3800, u32::MAX, u32::MAX - 200, 1 << 31];
    let next_offset = next_offset.map(|value| (0, value)).into_iter();
    for (field, value) in next_offset.chain(lengths.map(|value| (12, value))) {
        let mut ring = ring(u32::MAX);
        let offsets = ring.fill(0, &three);
        ring.poke_u32(0, offsets[1] + field, value);
        ring.show(10);
        let seen = ring.rest().len();
        let is_right = seen == 1 || (field == 0 && seen == 2);
        assert!(is_right, "field {field}, value {value}: {seen}");
        let damage = ring.take_damage().expect("damage is reported");
        assert_eq!((damage.block, damage.frames as usize), (0, 3 - seen));
        assert_eq!((ring.taken() as usize, ring.left()), (seen, 0));
        ring.release();
    }
}

#[test]
fn hostile_descriptors_and_frame_offsets_are_noticed() {
    for first in [0, 44, 47, 49, 50, 4029, 4096, 4097, u32::MAX] {
        let mut ring = ring(100);
        ring.fill(0, &[Sample::new(&bytes(60))]);
        ring.poke_u32(0, STATUS + 8, first);
        ring.show(10);
        let is_noticed = ring.next().is_none() && ring.take_damage().is_some();
        assert!(is_noticed, "first frame at {first}");
    }
    for mac in [0u16, 14, 67, 3990, 4095, u16::MAX] {
        let mut ring = ring(100);
        let offsets = ring.fill(0, &[Sample::new(&bytes(60))]);
        ring.poke(0, offsets[0] + 24, &mac.to_ne_bytes());
        ring.show(10);
        let is_noticed = ring.next().is_none() && ring.take_damage().is_some();
        assert!(is_noticed, "frame at {mac}");
    }
    let mut ring = ring(100);
    ring.fill(0, &[Sample::new(&bytes(60))]);
    ring.poke_u32(0, STATUS + 4, u32::MAX); // more packets than there are
    ring.show(usize::MAX);
    assert!(ring.rest().is_empty() && ring.take_damage().is_some());
}

#[test]
fn random_bytes_in_a_block_never_lead_out_of_it() {
    let mut dice = Dice(1);
    for _ in 0..5_000 {
        let mut ring = ring(u32::MAX);
        let samples = [60, 61, 62, 63].map(|len| Sample::tagged((1, 2), &bytes(len)));
        let offsets = ring.fill(0, &samples);
        for _ in 0..4 {
            let at = dice.one_of(&offsets) + dice.below(48);
            ring.poke(0, at, &[dice.byte()]);
        }
        ring.show(usize::MAX);
        let range = ring.block(0).as_ptr().addr()..ring.block(1).as_ptr().addr();
        while let Some(frame) = ring.next() {
            let from = frame.data.as_ptr().addr();
            assert!(from >= range.start + FIRST && from + frame.data.len() <= range.end);
        }
    }
}

#[test]
fn blocks_come_round_in_order() {
    let mut ring = ring(100);
    for round in 0..20u8 {
        let block = u32::from(round) % BLOCKS.count;
        ring.fill(block, &[Sample::new(&[round; 60])]);
        assert!(ring.look() && ring.current() == block);
        ring.allow(1);
        assert_eq!(ring.next().unwrap().data, [round; 60]);
        ring.release();
        assert!(!ring.look());
    }
}

/// The kernel of these tests: whether it could fill this block.
fn is_the_kernels(ring: &Ring, block: u32) -> bool {
    ring.status(block) & libc::TP_STATUS_USER == 0
}

#[test]
fn a_block_that_is_lent_is_neither_returned_nor_written_and_later_ones_wait_for_it() {
    let mut ring = ring(100);
    for block in 0..BLOCKS.count {
        // A tag that is put back writes into the block.
        ring.fill(
            block,
            &[Sample::tagged((0x8100, 7), &bytes(60 + block as usize))],
        );
    }
    let mut loans = Vec::new();
    for block in 0..BLOCKS.count {
        ring.show(10);
        assert!(ring.lend().is_none(), "a frame is left");
        let offset = {
            let frame = ring.next().unwrap().data.as_ptr().addr();
            frame - ring.memory().unwrap().as_ptr().addr()
        };
        if block != 1 {
            loans.push((offset, ring.lend().unwrap()));
        }
        ring.put_back();
        assert_eq!(
            ring.left(),
            u32::from(block == 1),
            "only what is not lent is put back"
        );
        if block == 1 {
            assert!(ring.next().is_some());
        }
        assert_eq!(ring.release(), 0);
    }
    assert_eq!((ring.kept(), ring.oldest()), (BLOCKS.count, 0));
    assert!(!ring.look(), "no block is read twice");
    let also = loans[0].1.clone();
    drop(loans.remove(0));
    assert_eq!(
        (ring.give_back(), ring.can_give_back()),
        (0, false),
        "a clone is left"
    );
    std::thread::spawn(move || drop(also)).join().unwrap();
    assert_eq!(
        ring.give_back(),
        2,
        "and the one after it, which is not lent"
    );
    assert!(is_the_kernels(&ring, 0) && is_the_kernels(&ring, 1) && !is_the_kernels(&ring, 2));
    assert!(!ring.look(), "the kernel has not filled it yet");
    ring.fill(0, &[Sample::new(&[9; 60])]);
    ring.show(10);
    assert_eq!(ring.next().unwrap().data, [9; 60]);
    drop(ring);
    for (loan, block) in loans.iter().zip(2..) {
        let (offset, bytes_of) = (loan.0, (*loan.1).as_ref());
        let untagged = bytes(60 + block);
        assert_eq!(bytes_of[offset..][..12], untagged[..12]);
        assert_eq!(bytes_of[offset + 12..][..4], [0x81, 0, 0, 7]);
        assert_eq!(bytes_of[offset + 16..][..48], untagged[12..60]);
    }
}
