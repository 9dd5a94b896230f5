//! What the target checks: of any bytes a reader gives whole records, and says of every other byte that it is cut off; what
//! it gave is whole when it stands alone, and what is appended to it changes none of it. Where the first byte is odd, the check
//! sums are put right before, so that what heads say is believed.

use forebay::records::{Reader, Recovered};

const HEAD: usize = 64;

/// The records' bytes in all, and what was found.
fn read(bytes: &[u8]) -> (u64, Recovered) {
    let mut reader = Reader::new(bytes);
    let (mut next, mut total) = (None, 0);
    while let Some(block) = reader.next_block().expect("memory can be read") {
        assert!(!block.is_empty());
        assert!(next.is_none_or(|next| next == block.first()));
        assert_eq!(block.records().count(), block.len());
        total += block
            .records()
            .map(|record| record.len() as u64)
            .sum::<u64>();
        next = Some(block.first() + block.len() as u64);
    }
    let found = reader.finish().expect("memory can be read");
    assert_eq!(next, found.first.map(|first| first + found.records));
    if let Some(cut) = found.cut {
        assert!(cut.bytes > 0 && cut.at == found.bytes);
    }
    let cut = found.cut.map_or(0, |cut| cut.bytes);
    assert_eq!(found.bytes + cut, bytes.len() as u64);
    assert!(total <= found.bytes);
    (total, found)
}

/// Makes blocks of what is there, by the lengths that it says.
fn put_right(bytes: &mut [u8]) {
    let mut rest = bytes;
    while let Some((head, behind)) = rest.split_first_chunk_mut::<HEAD>() {
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
        let len = (word(40) as usize).saturating_add(word(44) as usize);
        let (body, behind) = behind.split_at_mut(len.min(behind.len()));
        head[..8].copy_from_slice(b"fbrecs\x01\xfb");
        head[12..16].copy_from_slice(&crc32c::crc32c(body).to_le_bytes());
        let check = crc32c::crc32c(&head[12..]);
        head[8..12].copy_from_slice(&check.to_le_bytes());
        rest = behind;
    }
}

pub fn check(bytes: &[u8]) {
    let Some((&first, file)) = bytes.split_first() else {
        return;
    };
    let mut file = file.to_vec();
    if first % 2 == 1 {
        put_right(&mut file);
    }
    let (total, found) = read(&file);
    let mut whole = found;
    whole.cut = None;
    assert_eq!(read(&file[..found.bytes as usize]), (total, whole));
    file.truncate(found.bytes as usize);
    file.push(first);
    assert_eq!(read(&file).0, total);
}
