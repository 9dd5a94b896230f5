//! Records in files that survive a crash: an appender, and a reader of its files.

#![allow(unsafe_code)] // The names are this library's.
#![allow(non_camel_case_types)] // These, too.

use super::sender::forebay_bytes;
use crate::{
    border::{self, Place, Versioned, answer, check_size, done, items, limit, put_versioned},
    ends::{destroy, give_one, take_back},
    failure::{Failure, Result},
    handles::{exclusive, handles},
};
use forebay::{
    error::Code,
    records::{Reader, Records, Shape},
    store::{FileConfig, Stage, StoreConfig, SyncPolicy, Totals, WhenFull},
};
use std::{
    ffi::{c_char, c_int, c_void},
    fs::File,
    io::BufReader,
    time::Duration,
};

/// Appends records to a file. One thread at a time may use it.
pub struct forebay_appender(());

/// Reads the records of a file. One thread at a time may use it.
pub struct forebay_record_reader(());

handles!(forebay_appender => Appending);

/// The appender, and the address and length of the room that is lent.
pub struct Appending {
    records: Records<[u8]>,
    lent: Option<(usize, usize)>,
}

handles!(forebay_record_reader => RecordReader);

/// A reader, and a copy of the records of its current block.
pub struct RecordReader {
    /// `None` at the end of the file.
    reader: Option<Reader<BufReader<File>>>,
    block: Vec<u8>,
    /// The length of each record in `block`, if they have any; those of one length have none here.
    lens: Vec<u32>,
    /// The records of the block that were returned, and their bytes.
    returned: usize,
    returned_bytes: usize,
    /// Why the file ends before its last byte.
    cut: Option<String>,
    /// Known from the first block.
    shape: Option<Shape>,
}

/// Settings of an appender. Zeros are the defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct forebay_appender_options {
    /// `sizeof(struct forebay_appender_options)`.
    pub size: usize,
    /// Number of buffers at the beginning; 0 is 16.
    pub buffers: usize,
    /// Bytes of a buffer, a multiple of 4096; 0 is 4 MiB.
    pub buffer_bytes: usize,
    /// Bytes of the longest record, if they may have any length; 0 is 64 KiB.
    pub record_bytes: usize,
    /// Records are written after this time at the latest; 0 is a second.
    pub flush_every_ns: u64,
    /// Written records are made durable after this time; 0: at the end of the file.
    pub sync_every_ns: u64,
    /// Not 0: a record is dropped and counted while no buffer is empty, instead of waiting.
    pub drop_when_full: u32,
    /// Zero.
    pub reserved: u32,
}

// SAFETY: `repr(C)`, a size first, and numbers.
unsafe impl Versioned for forebay_appender_options {
    const SIZES: &'static [usize] = &[56];

    fn reserved(&self) -> u32 {
        self.reserved
    }
}

/// The counts of an appender.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct forebay_appender_totals {
    /// `sizeof(struct forebay_appender_totals)`.
    pub size: usize,
    /// Records accepted.
    pub accepted: u64,
    /// Those that survive the end of this process.
    pub written: u64,
    /// Those that survive a power cut.
    pub durable: u64,
    /// Records dropped because no buffer was empty. They do not count as accepted.
    pub dropped: u64,
    pub written_bytes: u64,
    pub durable_bytes: u64,
}

// SAFETY: `repr(C)`, a size first, and numbers.
unsafe impl Versioned for forebay_appender_totals {
    const SIZES: &'static [usize] = &[56];
}

fn appender<R>(
    handle: *const forebay_appender,
    body: impl FnOnce(&mut Records<[u8]>) -> Result<R>,
) -> Result<R> {
    exclusive(handle, |it| {
        it.lent = None;
        body(&mut it.records)
    })?
}

fn put_totals(totals: Totals, place: *mut forebay_appender_totals) -> Result<()> {
    let known = forebay_appender_totals {
        size: size_of::<forebay_appender_totals>(),
        accepted: totals.accepted,
        written: totals.written,
        durable: totals.durable,
        dropped: totals.dropped,
        written_bytes: totals.written_bytes,
        durable_bytes: totals.durable_bytes,
    };
    put_versioned(place, known, "totals")
}

/// Opens a file for records of any length, or makes it. What a crash left at its end is cut off. `options` may be null.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_appender_open(
    path: *const c_char,
    options: *const forebay_appender_options,
    appender: *mut *mut forebay_appender,
) -> c_int {
    open(Some(Shape::Varying), path, options, appender)
}

/// The same for records that all have `record_size` bytes; `record_bytes` of the options has no effect. 0: records as those that the file
/// has; in a file without records they have any length, so `record_bytes` must be possible. `FOREBAY_INVALID`: the file has records of
/// another size.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_appender_open_sized(
    path: *const c_char,
    record_size: u32,
    options: *const forebay_appender_options,
    appender: *mut *mut forebay_appender,
) -> c_int {
    let shape = (record_size > 0).then_some(Shape::Fixed(record_size));
    open(shape, path, options, appender)
}

fn open(
    shape: Option<Shape>,
    path: *const c_char,
    options: *const forebay_appender_options,
    appender: *mut *mut forebay_appender,
) -> c_int {
    done(|| {
        let place = Place::new(appender, "appender")?;
        let path = border::path(path, "path")?;
        let options = border::options(options)?;
        let default = StoreConfig::default();
        let or = |number: usize, default: usize| if number == 0 { default } else { number };
        let config = StoreConfig {
            buffers: or(options.buffers, default.buffers),
            buffer_bytes: or(options.buffer_bytes, default.buffer_bytes),
            record_bytes: or(options.record_bytes, default.record_bytes),
            flush_every: match options.flush_every_ns {
                0 => default.flush_every,
                some => Duration::from_nanos(some),
            },
            sync: match options.sync_every_ns {
                0 => default.sync,
                some => SyncPolicy::Interval(Duration::from_nanos(some)),
            },
            when_full: match options.drop_when_full {
                0 => WhenFull::Wait,
                _ => WhenFull::DropNewest,
            },
            ..default
        };
        let (records, _) = Records::open_append_of(shape, path, &FileConfig::default(), &config)?;
        let lent = None;
        give_one(Appending { records, lent }, &place)
    })
}

/// The size of every record in bytes; 0: they have any length.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_appender_record_size(handle: *mut forebay_appender) -> i64 {
    answer(|| appender(handle, |it| Ok(size(it.shape()))))
}

fn size(shape: Shape) -> i64 {
    match shape {
        Shape::Fixed(size) => size.into(),
        Shape::Varying => 0,
    }
}

/// Appends a copy of a record. `FOREBAY_FULL`: it was dropped and counted. `FOREBAY_INVALID`: records have another size.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_appender_append(
    handle: *mut forebay_appender,
    record: *const c_void,
    len: usize,
) -> c_int {
    done(|| {
        let record: &[u8] = items(record.cast(), len, "record")?;
        appender(handle, |it| match it.append(record)? {
            true => Ok(()),
            false => Err(Code::Full.into()),
        })
    })
}

/// Appends copies of `count` records of `forebay_appender_record_size` bytes, and returns how many were accepted; others were dropped and
/// counted.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_appender_append_burst(
    handle: *mut forebay_appender,
    records: *const c_void,
    count: usize,
) -> isize {
    answer(|| {
        appender(handle, |it| {
            let Shape::Fixed(size) = it.shape() else {
                return Err(Failure::invalid("the records have no common size"));
            };
            let len = count.checked_mul(size as usize).ok_or(Code::TooLong)?;
            let records: &[u8] = items(records.cast(), len, "records")?;
            Ok(it.append_all(records)? as isize)
        })
    })
}

/// Lends the room of the next record, of `len` bytes, to be filled in place: it has bytes of earlier records, or zeros. It is valid until the
/// next call with this appender. `forebay_appender_commit` appends the record, and any other call abandons it. `FOREBAY_FULL`: a record was
/// dropped and counted.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_appender_reserve(
    handle: *mut forebay_appender,
    len: usize,
    record: *mut *mut c_void,
) -> c_int {
    done(|| {
        let place = Place::new(record, "record")?;
        exclusive(handle, |it| {
            it.lent = None;
            let mut room = it.records.claim(len)?.ok_or(Code::Full)?;
            let at = room.as_mut_ptr();
            it.lent = Some((at.addr(), len));
            place.put(at.cast());
            Ok(())
        })?
    })
}

/// Appends the record that `forebay_appender_reserve` lent. `FOREBAY_INVALID`: none is lent.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_appender_commit(handle: *mut forebay_appender) -> c_int {
    done(|| {
        exclusive(handle, |it| {
            let (at, len) = it
                .lent
                .take()
                .ok_or(Failure::invalid("no record is lent"))?;
            // Nothing was appended meanwhile, so the room is where it was.
            let room = it.records.claim(len)?.ok_or(Code::Full)?;
            if room.as_ptr().addr() != at {
                return Err(Failure::new(
                    Code::Panic,
                    "the room of the record has moved",
                ));
            }
            room.commit();
            Ok(())
        })?
    })
}

/// Has the accepted records written now.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_appender_flush(handle: *mut forebay_appender) -> c_int {
    done(|| appender(handle, |it| Ok(it.flush()?)))
}

/// Waits until all accepted records are durable. `FOREBAY_TIMED_OUT`: they are not yet.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_appender_wait_durable(
    handle: *mut forebay_appender,
    timeout_ns: i64,
) -> c_int {
    done(|| {
        let limit = limit(timeout_ns).unwrap_or(Duration::MAX);
        appender(handle, |it| match it.wait_for(Stage::Durable, limit)? {
            Stage::Durable => Ok(()),
            _ => Err(Code::TimedOut.into()),
        })
    })
}

/// Stores the counts.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_appender_count(
    handle: *mut forebay_appender,
    totals: *mut forebay_appender_totals,
) -> c_int {
    done(|| put_totals(appender(handle, |it| Ok(it.totals()))?, totals))
}

/// Writes what is left, ends the appender, and stores the final counts. `totals` may be null. An error is that of the file: the counts say
/// what was written. `FOREBAY_BUSY`, another call uses it, and `FOREBAY_INVALID`, the `size` is wrong: it stays open.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_appender_close(
    handle: *mut forebay_appender,
    totals: *mut forebay_appender_totals,
) -> c_int {
    done(|| {
        check_size(totals)?;
        let finished = take_back(handle)?.records.close().finish();
        if !totals.is_null() {
            put_totals(finished.totals, totals)?;
        }
        match finished.error {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    })
}

/// Opens a file of records, of any length or of one.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_record_reader_open(
    path: *const c_char,
    reader: *mut *mut forebay_record_reader,
) -> c_int {
    done(|| {
        let place = Place::new(reader, "reader")?;
        let path = border::path(path, "path")?;
        let failed =
            |error| forebay::Error::new(path.to_string_lossy(), "opening records").because(error);
        let file = File::open(path).map_err(failed)?;
        let object = RecordReader {
            reader: Some(Reader::new(BufReader::new(file))),
            block: Vec::new(),
            lens: Vec::new(),
            returned: 0,
            returned_bytes: 0,
            cut: None,
            shape: None,
        };
        give_one(object, &place)
    })
}

/// Lends the next record. It is valid until the next call with this reader. `FOREBAY_CLOSED`: the file has ended. `FOREBAY_DAMAGED`: a
/// block is damaged or incomplete, and the records before it were returned; the last error says where.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_record_reader_next(
    handle: *mut forebay_record_reader,
    record: *mut forebay_bytes,
) -> c_int {
    done(|| {
        let place = Place::new(record, "record")?;
        exclusive(handle, |it| {
            let record = it.next()?;
            place.put(forebay_bytes {
                data: record.as_ptr().cast(),
                len: record.len(),
            });
            Ok(())
        })?
    })
}

/// The size of every record of the file in bytes; 0: they have any length. `FOREBAY_CLOSED` and `FOREBAY_DAMAGED`: the file has no record.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_record_reader_record_size(handle: *mut forebay_record_reader) -> i64 {
    answer(|| {
        exclusive(handle, |it| {
            if it.shape.is_none() {
                it.fill()?;
            }
            Ok(size(it.shape.ok_or(Code::Closed)?))
        })?
    })
}

/// Ends the reader.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_record_reader_destroy(handle: *mut forebay_record_reader) -> c_int {
    done(|| destroy(handle))
}

impl RecordReader {
    fn next(&mut self) -> Result<&[u8]> {
        self.fill()?;
        let len = match self.shape {
            Some(Shape::Fixed(len)) => len,
            _ => self.lens[self.returned],
        };
        let from = self.returned_bytes;
        self.returned += 1;
        self.returned_bytes += len as usize;
        Ok(&self.block[from..self.returned_bytes])
    }

    fn has_more(&self) -> bool {
        match self.shape {
            Some(Shape::Fixed(_)) => self.returned_bytes < self.block.len(),
            _ => self.returned < self.lens.len(),
        }
    }

    /// Has a record that was not returned yet.
    fn fill(&mut self) -> Result<()> {
        while !self.has_more() {
            let ended = || match &self.cut {
                Some(cut) => Failure::new(Code::Damaged, cut.clone()),
                None => Code::Closed.into(),
            };
            let Some(block) = self.reader.as_mut().ok_or_else(ended)?.next_block()? else {
                let found = self.reader.take().map(Reader::finish).transpose()?;
                let cut = found.and_then(|found| found.cut);
                self.cut = cut.map(|cut| format!("at byte {}: {}", cut.at, cut.fault));
                continue;
            };
            let is_varying = block.shape() == Shape::Varying;
            self.shape = Some(block.shape());
            self.block.clear();
            self.lens.clear();
            (self.returned, self.returned_bytes) = (0, 0);
            for record in block.records() {
                self.block.extend_from_slice(record);
                if is_varying {
                    self.lens.push(record.len() as u32); // as the block has it
                }
            }
        }
        Ok(())
    }
}
