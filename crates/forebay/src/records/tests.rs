//! What users rely on: whole records are read back whole, and everything else is reported for what it is.

use super::*;
use crate::store::{
    FileConfig,
    testing::{Recorder, config, of_seed},
};
use forebay_testing::{dice::Dice, folder::Folder};
use std::io::{self, IoSlice};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct Entry {
    key: [u32; 4],
    time: [u32; 2],
    len: u32,
}

impl Entry {
    fn new(number: u64) -> Self {
        let low = number as u32;
        Entry {
            key: [low; 4],
            time: [low, !low],
            len: low,
        }
    }
}

fn read(bytes: &[u8]) -> (Vec<Vec<u8>>, Recovered) {
    let mut reader = Reader::new(bytes);
    let mut records = Vec::new();
    while let Some(block) = reader.next_block().unwrap() {
        assert_eq!(block.len(), block.records().count());
        records.extend(block.records().map(<[u8]>::to_vec));
    }
    let found = reader.finish().unwrap();
    assert_eq!(found.records, records.len() as u64);
    let cut = found.cut.map_or(0, |cut| cut.bytes);
    assert_eq!(found.bytes + cut, bytes.len() as u64);
    (records, found)
}

/// A small file of three blocks, and the offsets of their ends.
fn three_blocks() -> (Vec<u8>, [usize; 4]) {
    let recorder = Recorder::default();
    let sink = Box::new(recorder.clone());
    let mut log = Records::<[u8]>::in_blocks(sink, &config(false)).unwrap();
    let mut ends = [0; 4];
    for block in 0..3 {
        for record in 0..=block {
            log.append(&vec![b'a' + record; 5 * block as usize])
                .unwrap();
        }
        log.flush().unwrap();
        ends[block as usize + 1] = recorder.tape().bytes.len();
    }
    let bytes = recorder.tape().bytes.clone();
    (bytes, ends)
}

#[test]
fn records_of_one_type_come_back_as_they_were() {
    for seed in 0..40 {
        let mut dice = Dice(seed);
        let recorder = Recorder::default();
        recorder.tape().is_direct = seed % 3 == 0;
        let sink = Box::new(recorder.clone());
        let mut log = Records::<Entry>::in_blocks(sink, &of_seed(seed)).unwrap();
        let mut number = 0;
        while number < 3000 {
            match dice.below(100) {
                0 => log.flush().unwrap(),
                1..5 => {
                    let many: Vec<_> = (number..number + 300).map(Entry::new).collect();
                    assert_eq!(log.append_all(&many).unwrap(), 300);
                    number += 300;
                }
                5..60 => {
                    log.append(&Entry::new(number)).unwrap();
                    number += 1;
                }
                _ => {
                    log.append_with(|slot| *slot = Entry::new(number)).unwrap();
                    number += 1;
                }
            }
        }
        log.close().finish();
        let (records, found) = read(&recorder.tape().bytes);
        assert_eq!((found.records, found.cut), (number, None));
        assert_eq!(found.shape, Some(Shape::Fixed(28)));
        for (number, record) in (0..).zip(&records) {
            assert_eq!(Entry::read_from_bytes(record).unwrap(), Entry::new(number));
        }
    }
}

#[test]
fn records_of_bytes_come_back_as_they_were() {
    for seed in 0..40 {
        let mut dice = Dice(seed);
        let recorder = Recorder::default();
        recorder.tape().is_direct = seed % 3 == 0;
        let sink = Box::new(recorder.clone());
        let mut log = Records::<[u8]>::in_blocks(sink, &of_seed(seed)).unwrap();
        let mut oracle = Vec::new();
        for number in 0..500 {
            let longest = if dice.below(50) == 0 { 9000 } else { 100 };
            let record = vec![number as u8; dice.below(longest + 1)];
            if dice.below(2) == 0 {
                log.append(&record).unwrap();
            } else {
                let (one, other) = record.split_at(dice.below(record.len() + 1));
                log.append_vectored(&[IoSlice::new(one), IoSlice::new(other)])
                    .unwrap();
            }
            oracle.push(record);
            if dice.below(60) == 0 {
                log.flush().unwrap();
            }
        }
        assert_eq!(log.close().finish().totals.written, 500);
        let (records, found) = read(&recorder.tape().bytes);
        assert_eq!((records, found.cut), (oracle, None));
        assert_eq!(found.shape, Some(Shape::Varying));
    }
}

#[test]
fn records_of_a_length_known_at_run_time_are_those_of_a_type_of_this_size() {
    let shape = Shape::Fixed(size_of::<Entry>() as u32);
    let all: Vec<_> = (0..1000).map(Entry::new).collect();
    let recorder = Recorder::default();
    let mut log =
        Records::<[u8]>::in_blocks_of(shape, Box::new(recorder.clone()), &config(false)).unwrap();
    assert_eq!(log.append_all(all[..600].as_bytes()).unwrap(), 600);
    for entry in &all[600..] {
        let mut room = log.claim(size_of::<Entry>()).unwrap().unwrap();
        room.copy_from_slice(entry.as_bytes());
        room.commit();
        // Abandoned: nothing is accepted.
        log.claim(size_of::<Entry>()).unwrap().unwrap().fill(0xff);
    }
    assert!(
        [0, 27, 29]
            .iter()
            .all(|&len| log.append(&vec![0; len]).is_err())
    );
    assert!(log.append_all(&[0; 29]).is_err());
    assert_eq!(
        (log.shape(), log.close().finish().totals.written),
        (shape, 1000)
    );
    let (records, found) = read(&recorder.tape().bytes);
    assert!(
        records
            .iter()
            .map(Vec::as_slice)
            .eq(all.iter().map(Entry::as_bytes))
    );
    assert_eq!((found.shape, found.cut), (Some(shape), None));

    // A file has its length, whatever wrote it, and whatever it is opened with.
    let (folder, files) = (Folder::new(), FileConfig::default());
    let path = folder.path("records");
    let (mut log, _) = Records::<Entry>::open_append(&path, &files, &config(false)).unwrap();
    log.append(&all[0]).unwrap();
    log.close().finish();
    let open = |shape| Records::<[u8]>::open_append_of(shape, &path, &files, &config(false));
    let (mut log, found) = open(None).unwrap();
    assert_eq!((log.shape(), found.records), (shape, 1));
    log.append(all[1].as_bytes()).unwrap();
    log.close().finish();
    assert!(open(Some(Shape::Fixed(12))).is_err() && open(Some(Shape::Varying)).is_err());
    assert_eq!(check(&path).unwrap().records, 2);
    let impossible = |len| {
        Records::<[u8]>::open_append_of(
            Some(Shape::Fixed(len)),
            folder.path("none"),
            &files,
            &config(false),
        )
    };
    assert!([0, 1 << 28].into_iter().all(|len| impossible(len).is_err()));
    assert!(!std::path::Path::new(&folder.path("none")).exists());
}

#[test]
fn a_plain_file_has_the_records_and_nothing_else() {
    let recorder = Recorder::default();
    let mut log = Records::<Entry>::plain(Box::new(recorder.clone()), &config(false)).unwrap();
    let all: Vec<_> = (0..1000).map(Entry::new).collect();
    for entry in &all {
        log.append_with(|slot| *slot = *entry).unwrap();
    }
    drop(log);
    assert_eq!(recorder.tape().bytes, all.as_bytes());
    let recorder = Recorder::default();
    let mut log = Records::<[u8]>::plain(Box::new(recorder.clone()), &config(false)).unwrap();
    log.append(b"one\n").unwrap();
    log.append(b"another\n").unwrap();
    drop(log);
    assert_eq!(recorder.tape().bytes, b"one\nanother\n");
}

#[test]
fn a_disk_that_fills_keeps_whole_records_of_a_plain_file() {
    let recorder = Recorder::default();
    recorder.tape().room = Some(10_000);
    let sink = Box::new(recorder.clone());
    let mut log = Records::<Entry>::plain(sink, &config(false)).unwrap();
    while log.append(&Entry::new(1)).is_ok() {}
    let end = log.close().finish();
    assert_eq!(end.totals.written, 10_000 / 28);
    assert_eq!(recorder.tape().bytes.len(), 10_000 / 28 * 28);
}

#[test]
fn a_file_cut_anywhere_gives_the_blocks_before_it() {
    let (bytes, ends) = three_blocks();
    for len in 0..bytes.len() {
        let (records, found) = read(&bytes[..len]);
        let blocks = ends.iter().filter(|&&end| end <= len).count() - 1;
        assert_eq!(found.blocks, blocks as u64, "{len} bytes");
        assert_eq!(records.len(), [0, 1, 3][blocks]);
        match ends.contains(&len) {
            true => assert_eq!(found.cut, None),
            false => {
                let cut = found.cut.unwrap();
                assert_eq!((cut.at, cut.fault), (ends[blocks] as u64, Fault::Torn));
                assert_eq!(cut.later, Later::default());
            }
        }
    }
}

#[test]
fn behind_an_input_that_failed_nothing_is_said_of_the_rest() {
    /// Fails once, as a disk may.
    struct Failing<'a>(&'a [u8], Option<&'a [u8]>);
    impl io::Read for Failing<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.read(buffer) {
                Ok(0) => match self.1.take() {
                    Some(rest) => {
                        self.0 = rest;
                        Err(io::Error::from_raw_os_error(libc::EIO))
                    }
                    None => Ok(0),
                },
                answer => answer,
            }
        }
    }
    let (bytes, ends) = three_blocks();
    let (before, rest) = bytes.split_at(ends[1] + 70);
    let mut reader = Reader::new(Failing(before, Some(rest)));
    assert_eq!(reader.next_block().unwrap().unwrap().len(), 1);
    for _ in 0..2 {
        let error = reader.next_block().unwrap_err();
        assert!(error.to_string().contains("reading records"), "{error}");
    }
    assert!(reader.finish().is_err());
}

#[test]
fn a_changed_bit_is_noticed_wherever_it_is() {
    let (bytes, ends) = three_blocks();
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let (_, found) = read(&changed);
        let blocks = ends.iter().filter(|&&end| end <= bit / 8).count() - 1;
        assert_eq!(found.blocks, blocks as u64, "bit {bit}");
        let cut = found.cut.expect("the damage is noticed");
        let is_head = bit / 8 - ends[blocks] < 64;
        let expected = if is_head {
            Fault::NoBlock
        } else {
            Fault::Damaged
        };
        assert_eq!(cut.fault, expected, "bit {bit}");
        assert_eq!(cut.later.blocks, 2 - blocks as u64);
        assert_eq!(cut.later.records, [5, 3, 0][blocks]);
    }
}

#[test]
fn zeros_missing_blocks_and_blocks_of_others_are_told_apart() {
    let (bytes, ends) = three_blocks();
    let fault = |bytes: &[u8]| read(bytes).1.cut.map(|cut| (cut.at, cut.fault));
    let behind = |more: &[u8]| [&bytes[..], more].concat();
    let len = bytes.len() as u64;
    assert_eq!(fault(&behind(&[0; 5000])), Some((len, Fault::Zeros)));
    // A few bytes are enough to identify the fault, except for bytes that begin like a block.
    assert_eq!(fault(&behind(&[0; 5])), Some((len, Fault::Zeros)));
    assert_eq!(fault(&behind(b"text\n")), Some((len, Fault::NoBlock)));
    assert_eq!(fault(&behind(&bytes[..5])), Some((len, Fault::Torn)));
    let (others, _) = three_blocks();
    assert_eq!(fault(&behind(&others)), Some((len, Fault::Foreign)));
    let missing = [&bytes[..ends[1]], &bytes[ends[2]..]].concat();
    let (expected, found) = (1, 3);
    let out_of_order = Fault::OutOfOrder { expected, found };
    assert_eq!(fault(&missing), Some((ends[1] as u64, out_of_order)));
    // A file need not begin with record 0: it may be the second of a series.
    let (records, second) = read(&bytes[ends[1]..]);
    assert_eq!(
        (records.len(), second.first, second.cut),
        (5, Some(1), None)
    );
}

#[test]
fn what_follows_a_next_output_is_a_file_of_its_own_whose_numbers_go_on() {
    struct Two(Vec<Recorder>);
    impl crate::store::Series for Two {
        fn open(&mut self, _: u64) -> Result<Box<dyn Sink>> {
            Ok(Box::new(self.0.remove(0)))
        }
    }
    let recorders = [Recorder::default(), Recorder::default()];
    let files = crate::store::Files::open(Two(recorders.to_vec())).unwrap();
    let mut log = Records::<u64>::in_blocks(Box::new(files), &config(true)).unwrap();
    log.append_all(&[1; 600]).unwrap();
    assert!(log.next_output().unwrap());
    log.append_all(&[2; 7]).unwrap();
    assert_eq!(log.close().finish().totals.written, 607);
    let [one, two] = recorders.map(|recorder| read(&recorder.tape().bytes).1);
    assert_eq!((one.first, one.records, one.cut), (Some(0), 600, None));
    assert_eq!((two.first, two.records, two.cut), (Some(600), 7, None));
}

#[test]
fn nothing_is_cut_of_a_file_that_is_none_of_ours() {
    let folder = Folder::new();
    let path = folder.file("not-ours", [7; 1000]);
    let refused = recover(&path).unwrap_err().to_string();
    assert!(refused.contains("no whole block"), "{refused}");
    assert_eq!(std::fs::read(&path).unwrap(), [7; 1000]);
    std::fs::remove_file(&path).unwrap();
    assert!(check(&path).unwrap_err().to_string().contains("opening"));
    let refused = recover("/dev/null").unwrap_err().to_string();
    assert!(refused.contains("no regular file"), "{refused}");
}

#[test]
fn records_that_no_buffer_could_hold_are_refused() {
    let config = StoreConfig {
        record_bytes: usize::MAX,
        ..config(false)
    };
    let refused = Records::<[u8]>::plain(Box::new(Recorder::default()), &config);
    assert!(refused.err().unwrap().to_string().contains("mapping"));
}

#[test]
fn blocks_beyond_what_their_head_can_say_are_refused() {
    let config = StoreConfig {
        buffer_bytes: 1 << 30,
        ..config(false)
    };
    let refused = Records::<u64>::in_blocks(Box::new(Recorder::default()), &config);
    assert!(refused.err().unwrap().to_string().contains("GiB"));
}

#[test]
fn no_block_leaves_before_it_has_a_record_however_early_it_may() {
    for early_bytes in [0, 1, 100, 5000] {
        let recorder = Recorder::default();
        let early = StoreConfig {
            early_bytes,
            ..config(true)
        };
        let mut log = Records::<[u8]>::in_blocks(Box::new(recorder.clone()), &early).unwrap();
        for number in 0..50 {
            log.append(&[number; 9]).unwrap();
        }
        assert_eq!(log.close().finish().totals.written, 50);
        let (records, found) = read(&recorder.tape().bytes);
        let numbers = records.iter().map(|record| record[0]);
        assert!(numbers.eq(0..50) && found.cut.is_none(), "{found:?}");
    }
}
