//! Existing record files keep their content, whichever way they are opened.

use forebay::{
    Result,
    records::{self, Fault, Reader, Records, Recovered, recover},
    store::{FileConfig, FileSink, StoreConfig, SyncPolicy},
};
use forebay_testing::folder::Folder;
use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    os::unix::fs::FileExt,
    path::Path,
};

fn config() -> StoreConfig {
    StoreConfig {
        buffers: 3,
        buffer_bytes: 4096,
        sync: SyncPolicy::None,
        huge_pages: false,
        ..StoreConfig::default()
    }
}

fn open(path: &Path) -> Result<(Records<u64>, Recovered)> {
    Records::<u64>::open_append(path, &FileConfig::default(), &config())
}

/// Appends `numbers`, one block for each ten of them.
fn append(mut log: Records<u64>, numbers: std::ops::Range<u64>) {
    let count = numbers.end - numbers.start;
    for number in numbers {
        log.append(&number).unwrap();
        if number % 10 == 9 {
            log.flush().unwrap();
        }
    }
    let end = log.close().finish();
    assert_eq!((end.totals.accepted, end.totals.written), (count, count));
    assert!(end.error.is_none());
}

fn read(path: &Path) -> Vec<u64> {
    let mut reader = Reader::new(File::open(path).unwrap());
    let mut numbers = Vec::new();
    while let Some(block) = reader.next_block().unwrap() {
        assert_eq!(block.first(), numbers.len() as u64);
        let records = block.records();
        numbers.extend(records.map(|it| u64::from_ne_bytes(it.try_into().unwrap())));
    }
    assert_eq!(reader.finish().unwrap().cut, None);
    numbers
}

/// Returns the error that opening reports; the file must not change.
fn refused<T>(path: &Path, open: impl FnOnce() -> Result<T>) -> String {
    let before = fs::read(path).unwrap();
    let Err(error) = open() else {
        panic!("opening must be refused");
    };
    assert_eq!(fs::read(path).unwrap(), before);
    error.to_string()
}

#[test]
fn a_file_is_made_and_gone_on_with_in_order() {
    let folder = Folder::new();
    let file = &folder.join("records");
    for (run, end) in [100, 107, 5000, 5001].into_iter().enumerate() {
        let begin = [0, 100, 107, 5000][run];
        let (log, found) = open(file).unwrap();
        assert_eq!((found.records, found.cut), (begin, None));
        assert_eq!(log.output_bytes(), found.bytes);
        append(log, begin..end);
        assert_eq!(read(file), (0..end).collect::<Vec<_>>());
    }
}

#[test]
fn records_of_any_length_go_on_too() {
    let folder = Folder::new();
    let file = &folder.join("records");
    for run in 0..3u8 {
        let (mut log, found) =
            Records::<[u8]>::open_append(file, &FileConfig::default(), &config()).unwrap();
        assert_eq!(found.records, 2 * u64::from(run));
        log.append(&[run; 5]).unwrap();
        log.append(&[]).unwrap();
        drop(log);
    }
    let mut reader = Reader::new(File::open(file).unwrap());
    let mut records = Vec::new();
    while let Some(block) = reader.next_block().unwrap() {
        records.extend(block.records().map(<[u8]>::to_vec));
    }
    let expected: [&[u8]; 6] = [&[0; 5], &[], &[1; 5], &[], &[2; 5], &[]];
    assert_eq!(records, expected);
}

#[test]
fn create_does_not_empty_a_record_file_and_empties_any_other() {
    let folder = Folder::new();
    let file = &folder.join("records");
    append(open(file).unwrap().0, 0..100);
    let create = || FileSink::create(file, &FileConfig::default());
    let text = refused(file, create);
    assert!(text.contains("it holds records"), "{text}");
    assert!(text.contains("open_append"), "{text}");
    // Also a file whose only block is torn.
    OpenOptions::new()
        .write(true)
        .open(file)
        .unwrap()
        .set_len(100)
        .unwrap();
    refused(file, create);
    fs::write(file, "something else").unwrap();
    create().unwrap();
    assert_eq!(fs::read(file).unwrap(), b"");
}

#[test]
fn nobody_opens_or_cuts_a_file_that_is_being_written() {
    let folder = Folder::new();
    let file = &folder.join("records");
    let (mut log, _) = open(file).unwrap();
    for _ in 0..2 {
        let texts = [
            refused(file, || open(file)),
            refused(file, || recover(file)),
            refused(file, || FileSink::create(file, &FileConfig::default())),
        ];
        for text in texts {
            assert!(
                text.contains("another process writes this file (pid "),
                "{text}"
            );
        }
        // Reading needs no lock.
        records::check(file).unwrap();
        log.append(&0).unwrap();
        log.flush().unwrap();
        log.wait_for(forebay::store::Stage::Written, std::time::Duration::MAX)
            .unwrap();
    }
    drop(log);
    assert_eq!(recover(file).unwrap().records, 2);
}

#[test]
fn what_is_torn_is_cut_and_reported_also_in_the_first_block() {
    let folder = Folder::new();
    let file = &folder.join("records");
    append(open(file).unwrap().0, 0..20);
    let whole = fs::read(file).unwrap();
    let blocks = [0, 64 + 80, 2 * (64 + 80)];
    assert_eq!(whole.len(), blocks[2]);
    for len in [1, 7, 8, 63, 64, 100, 143, 144, 145, 200, 287, 288] {
        fs::write(file, &whole[..len]).unwrap();
        let (log, found) = open(file).unwrap();
        let kept = blocks.iter().filter(|&&end| end <= len).count() as u64 - 1;
        assert_eq!(found.records, kept * 10, "{len}");
        let torn = (len - blocks[kept as usize]) as u64;
        assert_eq!(found.cut.map_or(0, |cut| cut.bytes), torn);
        append(log, kept * 10..50);
        assert_eq!(read(file), (0..50).collect::<Vec<_>>());
    }
}

#[test]
fn what_appending_would_lose_or_mix_up_is_refused() {
    let folder = Folder::new();
    let file = &folder.join("records");
    fs::write(file, "a diary").unwrap();
    let text = refused(file, || open(file));
    assert!(text.contains("no block of records in it"), "{text}");
    fs::write(file, [0; 100]).unwrap();
    refused(file, || open(file));
    refused(Path::new("/dev/null"), || open("/dev/null".as_ref()));
    fs::remove_file(file).unwrap();
    append(open(file).unwrap().0, 0..30);
    let text = refused(file, || {
        Records::<u32>::open_append(file, &FileConfig::default(), &config())
    });
    assert!(text.contains("it holds records of 8 bytes"), "{text}");
    // The disk changed a byte of the first block: two whole blocks follow.
    let disk = OpenOptions::new().write(true).open(file).unwrap();
    disk.write_all_at(&[0xFF], 70).unwrap();
    let text = refused(file, || open(file));
    assert!(text.contains("2 blocks follow"), "{text}");
    assert_eq!(
        records::check(file).unwrap().cut.unwrap().fault,
        Fault::Damaged
    );
}

#[test]
fn a_link_is_followed_to_what_is_there_and_nothing_is_made_behind_one() {
    let folder = Folder::new();
    let (file, link) = (&folder.join("records"), &folder.join("link"));
    std::os::unix::fs::symlink(file, link).unwrap();
    assert!(open(link).is_err());
    assert!(!file.exists());
    File::create(file).unwrap().write_all(b"").unwrap();
    append(open(link).unwrap().0, 0..10);
    assert_eq!(read(file).len(), 10);
}
