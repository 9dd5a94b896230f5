//! Finds the bloom filters of a Parquet file in its footer, without decoding the rest of it.
//!
//! The bloom filters exclude most of the files that a search for a host opens. Decoding a whole footer, with the schema and the
//! statistics of each column, takes many times as long as finding them.
//!
//! A footer is a structure in the compact protocol of Thrift: a list of fields, each with its number and its type. What this reader does
//! not understand is `None`; then the whole footer is decoded, which reports what is wrong.

use std::ops::Range;

/// Nested structures and lists, at most. A footer has 7.
const MAX_DEPTH: u32 = 16;

/// The types of fields and of the elements of lists.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;

/// A column, and where its bloom filter is in the file.
pub type Filter = (&'static str, Range<u64>);

/// The bloom filters of these columns, for each row group. `end`: the last bytes of the file.
pub fn bloom_filters(end: &[u8], columns: &[&'static str]) -> Option<Vec<Vec<Filter>>> {
    let (rest, magic) = end.split_last_chunk::<4>()?;
    let (rest, len) = rest.split_last_chunk::<4>()?;
    if magic != b"PAR1" {
        return None;
    }
    let begin = rest.len().checked_sub(u32::from_le_bytes(*len) as usize)?;
    let mut groups = Vec::new();
    let mut footer = Reader(&rest[begin..]);
    footer.fields(|footer, number, kind| match (number, kind) {
        // The row groups.
        (4, LIST) => footer.each(STRUCT, |group| {
            let mut filters = Vec::new();
            group.fields(|group, number, kind| match (number, kind) {
                // The columns.
                (1, LIST) => group.each(STRUCT, |column| {
                    column.fields(|column, number, kind| match (number, kind) {
                        // What is known about a column.
                        (3, STRUCT) => {
                            filters.extend(column.bloom_filter(columns)?);
                            Some(())
                        }
                        _ => column.skip(kind, 0),
                    })
                }),
                _ => group.skip(kind, 0),
            })?;
            groups.push(filters);
            Some(())
        }),
        _ => footer.skip(kind, 0),
    })?;
    Some(groups)
}

/// The rest of a structure.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// The bloom filter of a column if it is one of these.
    fn bloom_filter(&mut self, columns: &[&'static str]) -> Option<Option<Filter>> {
        let (mut name, mut parts, mut offset, mut length) = (None, 0, None, None);
        self.fields(|column, number, kind| {
            match (number, kind) {
                // Its path in the schema.
                (3, LIST) => column.each(BINARY, |path| {
                    let part = path.bytes()?;
                    name = columns.iter().find(|it| it.as_bytes() == part);
                    parts += 1;
                    Some(())
                })?,
                (14, I64) => offset = Some(column.signed()?),
                (15, I32) => length = Some(column.signed()?),
                _ => column.skip(kind, 0)?,
            }
            Some(())
        })?;
        // Columns of the index are not nested.
        let name = name.filter(|_| parts == 1);
        let (Some(name), Some(offset), Some(length)) = (name, offset, length) else {
            return Some(None);
        };
        let begin = u64::try_from(offset).ok()?;
        let end = begin.checked_add(u64::try_from(length).ok()?)?;
        Some(Some((name, begin..end)))
    }

    /// Reads the fields of a structure: `each` gets their numbers and types, and must read or skip their values.
    fn fields(&mut self, mut each: impl FnMut(&mut Self, i64, u8) -> Option<()>) -> Option<()> {
        let mut number = 0_i64;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Some(());
            }
            number = match head >> 4 {
                0 => self.signed()?,
                more => number.checked_add(more.into())?,
            };
            each(self, number, head & 15)?;
        }
    }

    /// Reads a list of elements of this type: `each` must read or skip one.
    fn each(&mut self, kind: u8, mut each: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        let (len, found) = self.list()?;
        if found != kind {
            return None;
        }
        (0..len).try_for_each(|_| each(self))
    }

    /// The length of a list, and the type of its elements.
    fn list(&mut self) -> Option<(u64, u8)> {
        let head = self.byte()?;
        let len = match head >> 4 {
            15 => self.number()?,
            len => len.into(),
        };
        Some((len, head & 15))
    }

    fn skip(&mut self, kind: u8, depth: u32) -> Option<()> {
        if depth == MAX_DEPTH {
            return None;
        }
        match kind {
            // The type of a field has its value.
            TRUE | FALSE => Some(()),
            BYTE => self.byte().map(|_| ()),
            I16 | I32 | I64 => self.number().map(|_| ()),
            DOUBLE => self.take(8).map(|_| ()),
            BINARY => self.bytes().map(|_| ()),
            LIST | SET => {
                let (len, kind) = self.list()?;
                (0..len).try_for_each(|_| self.skip_element(kind, depth + 1))
            }
            MAP => {
                let len = self.number()?;
                let kinds = if len > 0 { self.byte()? } else { 0 };
                (0..len).try_for_each(|_| {
                    self.skip_element(kinds >> 4, depth + 1)?;
                    self.skip_element(kinds & 15, depth + 1)
                })
            }
            STRUCT => self.fields(|inner, _, kind| inner.skip(kind, depth + 1)),
            _ => None,
        }
    }

    fn skip_element(&mut self, kind: u8, depth: u32) -> Option<()> {
        match kind {
            TRUE | FALSE => self.byte().map(|_| ()),
            _ => self.skip(kind, depth),
        }
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        self.take(len)
    }

    /// A number in groups of seven bits, the lowest first.
    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// A number whose lowest bit is its sign.
    fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        index::{self, Row},
        schema,
    };
    use forebay_testing::dice::Dice;
    use parquet::file::metadata::ParquetMetaDataReader;

    const COLUMNS: [&str; 4] = [schema::PORT_A, schema::KEY_A, schema::SENSOR, "missing"];

    /// A file of the index.
    fn file(rows: u64) -> Vec<u8> {
        let row = |number| Row {
            first_ns: number,
            last_ns: number,
            packets: 1,
            ..Row::default()
        };
        let key = format!(
            "segments/sensor=a/date=1970-01-01/hour=00/{:064x}.pcapng",
            1
        );
        let mut files = index::write((0..rows).map(row).collect(), "a", &key).unwrap();
        files.remove(0).bytes.to_vec()
    }

    #[test]
    fn the_filters_are_where_the_decoder_of_the_whole_footer_finds_them() {
        for rows in [1, 1000, 150_000] {
            let bytes = file(rows);
            let mut reader = ParquetMetaDataReader::new();
            reader
                .try_parse(&bytes::Bytes::from(bytes.clone()))
                .unwrap();
            let metadata = reader.finish().unwrap();
            let expected: Vec<Vec<Filter>> = metadata
                .row_groups()
                .iter()
                .map(|group| {
                    let columns = group.columns().iter();
                    let filters = columns.filter_map(|column| {
                        let path = column.column_path().string();
                        let name = COLUMNS.into_iter().find(|it| *it == path)?;
                        let begin = column.bloom_filter_offset()?.unsigned_abs();
                        let len = column.bloom_filter_length()?.unsigned_abs();
                        Some((name, begin..begin + u64::from(len)))
                    });
                    filters.collect()
                })
                .collect();
            assert!(expected.iter().all(|it| it.len() == 2), "{expected:?}");
            assert_eq!(bloom_filters(&bytes, &COLUMNS), Some(expected));
        }
    }

    #[test]
    fn a_damaged_footer_is_left_to_the_decoder_and_never_panics() {
        let bytes = file(10);
        for len in 0..bytes.len() {
            bloom_filters(&bytes[bytes.len() - len..], &COLUMNS);
            bloom_filters(&bytes[..len], &COLUMNS);
        }
        assert_eq!(bloom_filters(&bytes[bytes.len() - 100..], &COLUMNS), None);
        let mut dice = Dice(7);
        let tail = bytes.len() - 2000;
        for _ in 0..20_000 {
            let mut end = bytes[tail..].to_vec();
            for _ in 0..1 + dice.below(4_u32) {
                let at = dice.below(end.len() - 8);
                end[at] = dice.byte();
            }
            bloom_filters(&end, &COLUMNS);
        }
        // Nested without end, and a list that is longer than the file.
        for kind in [0x1c, 0x19] {
            let mut end = vec![kind; 5000];
            end.extend(5000_u32.to_le_bytes());
            end.extend(b"PAR1");
            assert_eq!(bloom_filters(&end, &COLUMNS), None);
        }
    }
}
