//! Support for the store's tests: records with recognisable numbers, scripted sinks, a series of outputs, and a disk that can
//! lose power.

use super::*;
use crate::{Error, Result, sync::held};
use forebay_testing::dice::Dice;
use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Mutex, MutexGuard, TryLockError},
    time::Duration,
};

/// Records are `length (u16) │ bytes`; a length with the top bit set is padding.
pub struct Lengths;

impl Framing for Lengths {
    fn last_whole(&self, bytes: &[u8]) -> Whole {
        let mut whole = Whole::default();
        while let Some(head) = bytes.get(whole.bytes..whole.bytes + 2) {
            let len = u16::from_le_bytes([head[0], head[1]]);
            let end = whole.bytes + 2 + (len & 0x7fff) as usize;
            if end > bytes.len() {
                break;
            }
            whole.bytes = end;
            whole.records += (len < 0x8000) as u64;
        }
        whole
    }
    fn takes_loans(&self) -> bool {
        true
    }
    fn least_padding(&self) -> Option<usize> {
        Some(12)
    }
    fn pad(&self, gap: &mut [u8]) {
        let len = gap.len() as u16 - 2;
        gap.fill(0);
        gap[..2].copy_from_slice(&(len | 0x8000).to_le_bytes());
    }
}

/// What a sink does with the next write.
#[derive(Clone, Copy)]
pub enum Act {
    Take(usize),
    Fail(i32),
    Block,
}

/// The state and the script of a [`Recorder`].
#[derive(Default)]
pub struct Tape {
    pub bytes: Vec<u8>,
    pub script: VecDeque<Act>,
    /// Bytes after which the disk is full.
    pub room: Option<usize>,
    pub is_direct: bool,
    pub writes: Vec<(u64, usize)>,
    pub syncs: u32,
}

/// A sink that keeps what is written, and follows its script.
#[derive(Clone, Default)]
pub struct Recorder(Arc<Mutex<Tape>>);

impl Recorder {
    /// A sink that at first takes nothing or a part, decided by the dice.
    pub fn fickle(dice: &mut Dice) -> Self {
        let act = |_| match dice.below(3) {
            0 => Act::Block,
            _ => Act::Take(1 + dice.below(5000)),
        };
        let recorder = Recorder::default();
        recorder.tape().script.extend((0..200).map(act));
        recorder
    }

    pub fn tape(&self) -> MutexGuard<'_, Tape> {
        held(&self.0)
    }
}

impl Sink for Recorder {
    fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<usize> {
        let mut tape = self.tape();
        assert_eq!(at, tape.bytes.len() as u64, "writes are contiguous");
        let room = tape.room.map_or(usize::MAX, |room| room - tape.bytes.len());
        let taken = match tape.script.pop_front() {
            Some(Act::Fail(errno)) => return Err(io::Error::from_raw_os_error(errno)),
            Some(Act::Block) => return Err(io::ErrorKind::WouldBlock.into()),
            Some(Act::Take(n)) => n.min(bytes.len()),
            None => bytes.len(),
        };
        let taken = taken.min(room);
        if taken == 0 {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        tape.bytes.extend(&bytes[..taken]);
        tape.writes.push((at, taken));
        Ok(taken)
    }
    fn is_direct(&self) -> bool {
        self.tape().is_direct
    }
    fn cut(&mut self, len: u64) -> io::Result<bool> {
        self.tape().bytes.truncate(len as usize);
        Ok(true)
    }
    fn sync(&mut self) -> io::Result<bool> {
        self.tape().syncs += 1;
        Ok(true)
    }
}

/// Three small buffers.
pub fn config(thread: bool) -> StoreConfig {
    StoreConfig {
        buffers: 3,
        limit: Limit::Fixed,
        buffer_bytes: 4096,
        record_bytes: 9000,
        thread,
        huge_pages: false,
        ..StoreConfig::default()
    }
}

/// As [`config`], for runs with many seeds: with and without a thread, and with a thread that often takes a piece of a buffer.
pub fn of_seed(seed: u64) -> StoreConfig {
    StoreConfig {
        flush_every: match seed % 4 {
            0 | 1 => Duration::ZERO,
            _ => Duration::from_secs(1),
        },
        ..config(seed.is_multiple_of(2))
    }
}

/// A store that writes to this sink.
pub fn open(sink: impl Sink + 'static, config: &StoreConfig) -> Appender {
    Appender::new(Box::new(sink), Arc::new(Lengths), config).unwrap()
}

/// Makes a record of a whole reservation, and commits it.
pub fn put(mut slot: ReservedRecord<'_>, number: u64) {
    let len = slot.len() as u16 - 2;
    slot[..2].copy_from_slice(&len.to_le_bytes());
    slot[2..].fill(number as u8);
    slot.commit(1);
}

/// Appends a record with `len` bytes of payload; waits when no buffer is empty.
pub fn append(store: &mut Appender, len: usize, number: u64) -> Result<()> {
    loop {
        if let Some(slot) = store.reserve(len + 2)? {
            put(slot, number);
            return Ok(());
        }
        store.wait_empty(Duration::from_millis(1));
    }
}

/// The numbers (mod 256) of the records on a tape, without padding. Panics on a torn record.
pub fn records(bytes: &[u8]) -> Vec<(usize, u8)> {
    assert_eq!(Lengths.last_whole(bytes).bytes, bytes.len(), "torn");
    let mut rest = bytes;
    let mut found = Vec::new();
    while !rest.is_empty() {
        let len = u16::from_le_bytes([rest[0], rest[1]]);
        let (record, behind) = rest.split_at(2 + (len & 0x7fff) as usize);
        if len < 0x8000 {
            let number = record[2];
            assert!(record[2..].iter().all(|&byte| byte == number));
            found.push((record.len() - 2, number));
        }
        rest = behind;
    }
    found
}

/// Requires that a full disk was reported, earlier or at the end, and that it kept the first records, each whole. The final
/// counts must show exactly these as written, of all accepted records.
#[track_caller]
pub fn kept_what_fits(
    recorder: &Recorder,
    told: Option<Error>,
    accepted: u64,
    end: Finished,
    seed: u64,
) {
    let error = told.or(end.error).expect("the error is reported");
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    assert_eq!(end.totals.accepted, accepted);
    let tape = recorder.tape();
    let kept = records(&tape.bytes);
    assert_eq!(kept.len() as u64, end.totals.written, "seed {seed}");
    let order: Vec<_> = kept.iter().map(|&(_, number)| number).collect();
    assert_eq!(order, (0..kept.len()).map(|n| n as u8).collect::<Vec<_>>());
    assert_eq!(end.totals.written_bytes, tape.bytes.len() as u64);
}

/// A disk that takes as many writes as it is allowed, and remembers which of them were hurried.
#[derive(Clone, Default)]
pub struct Gate(pub Tried<Writes>);

/// The state of a [`Gate`].
#[derive(Default)]
pub struct Writes {
    pub allowed: usize,
    pub is_direct: bool,
    bytes: Vec<u8>,
    is_hurried: bool,
    /// For each write, whether the store had a backlog.
    hurried: Vec<bool>,
}

impl Gate {
    pub fn allow(&self, writes: usize) {
        let mut state = self.0.lock();
        state.allowed = state.allowed.saturating_add(writes);
    }

    pub fn is_behind(&self) -> Vec<bool> {
        self.0.lock().hurried.clone()
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().bytes.clone()
    }
}

impl Sink for Gate {
    fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<usize> {
        let mut state = self.0.lock_when(|it| it.allowed > 0);
        state.allowed -= 1;
        assert_eq!(at, state.bytes.len() as u64, "writes are contiguous");
        state.bytes.extend(bytes);
        let is_hurried = state.is_hurried;
        state.hurried.push(is_hurried);
        Ok(bytes.len())
    }
    fn is_direct(&self) -> bool {
        self.0.lock().is_direct
    }
    fn hurry(&mut self, is_behind: bool) {
        self.0.lock().is_hurried = is_behind;
    }
}

/// A sink that never takes a byte, like a pipe whose reader has stopped reading.
pub struct Stuck;

impl Sink for Stuck {
    fn write(&mut self, _: &[u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}

/// The outputs of [`Shelves`], and how often each operation fails.
#[derive(Default)]
pub struct Shelf {
    pub outputs: Vec<Vec<u8>>,
    /// What happened to the outputs, in order.
    pub events: Vec<String>,
    pub failing_opens: usize,
    pub failing_ends: usize,
    pub failing_writes: usize,
}

/// A series of outputs. The last one is being written.
#[derive(Clone, Default)]
pub struct Shelves(Arc<Mutex<Shelf>>);

impl Shelves {
    pub fn shelf(&self) -> MutexGuard<'_, Shelf> {
        held(&self.0)
    }
}

/// One output of [`Shelves`].
struct Book {
    shelves: Shelves,
    number: usize,
}

/// Whether the operation has to fail once more.
fn fails(times: &mut usize) -> bool {
    let fails = *times > 0;
    *times -= usize::from(fails);
    fails
}

impl Series for Shelves {
    fn open(&mut self, number: u64) -> Result<Box<dyn Sink>> {
        let mut shelf = self.shelf();
        if fails(&mut shelf.failing_opens) {
            return Err(
                Error::new("shelf", "opening").because(io::Error::from_raw_os_error(libc::EMFILE))
            );
        }
        assert_eq!(number, shelf.outputs.len() as u64);
        shelf.outputs.push(Vec::new());
        shelf.events.push(format!("open {number}"));
        Ok(Box::new(Book {
            shelves: self.clone(),
            number: number as usize,
        }))
    }
    fn complete(&mut self, number: u64) -> Result<()> {
        let mut shelf = self.shelf();
        if fails(&mut shelf.failing_ends) {
            return Err(Error::new("shelf", "renaming"));
        }
        shelf.events.push(format!("complete {number}"));
        Ok(())
    }
}

impl Sink for Book {
    fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<usize> {
        let mut shelf = self.shelves.shelf();
        assert_eq!(
            self.number + 1,
            shelf.outputs.len(),
            "the others are complete"
        );
        if fails(&mut shelf.failing_writes) {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        let output = &mut shelf.outputs[self.number];
        assert_eq!(at, output.len() as u64);
        let taken = bytes.len().min(1500);
        output.extend(&bytes[..taken]);
        Ok(taken)
    }
    fn sync(&mut self) -> io::Result<bool> {
        let event = format!("sync {}", self.number);
        self.shelves.shelf().events.push(event);
        Ok(true)
    }
}

/// A file on a disk. A power cut loses what was not synced, and a failed sync loses it for good.
#[derive(Default)]
pub struct Platter {
    /// The contents of the page cache and of the disk.
    pub seen: Vec<u8>,
    pub kept: Vec<u8>,
    pub dirty: Vec<bool>,
    pub syncs: u32,
    pub failing_syncs: u32,
    pub failing_writes: u32,
    /// The most bytes that one write takes; 0 for no limit.
    pub most: usize,
    pub written: u64,
}

/// A sink that can lose power.
#[derive(Clone, Default)]
pub struct Disk(Arc<Mutex<Platter>>);

impl Disk {
    pub fn platter(&self) -> MutexGuard<'_, Platter> {
        held(&self.0)
    }

    /// The file after a power cut: any of the sectors that were not synced may be missing.
    pub fn after_power_cut(&self, dice: &mut Dice) -> Vec<u8> {
        let platter = self.platter();
        let (kept, seen) = (&platter.kept, &platter.seen);
        let len = kept.len() + dice.below(seen.len() - kept.len() + 1);
        let mut found = seen[..len].to_vec();
        for (sector, bytes) in found.chunks_mut(512).enumerate() {
            let has_arrived = dice.below(3) > 0;
            for (byte, at) in bytes.iter_mut().zip(sector * 512..) {
                if platter.dirty[at] && !has_arrived {
                    *byte = kept.get(at).copied().unwrap_or(0);
                }
            }
        }
        found
    }
}

impl Sink for Disk {
    fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<usize> {
        let mut platter = self.platter();
        if platter.failing_writes > 0 {
            platter.failing_writes -= 1;
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        let most = match platter.most {
            0 => bytes.len(),
            most => most.min(bytes.len()),
        };
        let (at, end) = (at as usize, at as usize + most);
        let len = platter.seen.len().max(end);
        platter.seen.resize(len, 0);
        platter.dirty.resize(len, false);
        platter.seen[at..end].copy_from_slice(&bytes[..most]);
        platter.dirty[at..end].fill(true);
        platter.written += most as u64;
        Ok(most)
    }
    fn cut(&mut self, len: u64) -> io::Result<bool> {
        let mut platter = self.platter();
        platter.seen.truncate(len as usize);
        platter.dirty.truncate(len as usize);
        Ok(true)
    }
    fn sync(&mut self) -> io::Result<bool> {
        let mut platter = self.platter();
        platter.syncs += 1;
        let fails = platter.failing_syncs > 0;
        let Platter {
            seen, kept, dirty, ..
        } = &mut *platter;
        kept.resize(seen.len(), 0);
        for (at, is_dirty) in dirty.iter_mut().enumerate() {
            // Either way the kernel treats the page as clean from now on.
            if std::mem::take(is_dirty) && !fails {
                kept[at] = seen[at];
            }
        }
        if fails {
            platter.failing_syncs -= 1;
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        Ok(true)
    }
}

/// A value that threads share. ThreadSanitizer does not see what a waiting lock or a condition variable orders, since that
/// happens inside the standard library. So the lock is only tried, again and again.
#[derive(Default)]
pub struct Tried<T>(Arc<Mutex<T>>);

impl<T> Clone for Tried<T> {
    fn clone(&self) -> Self {
        Tried(self.0.clone())
    }
}

impl<T> Tried<T> {
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.lock_when(|_| true)
    }

    /// Waits until the condition is true.
    pub fn lock_when(&self, is_so: impl Fn(&T) -> bool) -> MutexGuard<'_, T> {
        loop {
            match self.0.try_lock() {
                Ok(value) if is_so(&value) => return value,
                // Not held while this thread sleeps.
                Ok(value) => drop(value),
                Err(TryLockError::Poisoned(_)) => panic!("a thread panicked with the lock"),
                Err(TryLockError::WouldBlock) => {}
            }
            // Threads that only yield can keep the one that they wait for from running.
            std::thread::sleep(std::time::Duration::from_micros(20));
        }
    }
}
