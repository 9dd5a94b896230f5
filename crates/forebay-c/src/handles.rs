//! The objects that programs have. A handle is a number in the form of a pointer, and is never dereferenced: one that is closed, of
//! another kind, from before a fork, or made up is an error, whatever became of the object.
//!
//! ```text
//!  handle:  epoch of the process │ generation of the slot │ number of the slot, from 1 │ 0000
//!  bits     63 … 52                51 … 28                  27 … 4
//!
//!  create ── give ──▶ slot ◀── shared or exclusive, for the time of one call ── any function
//!                      └────── close ── destroy; the object ends with the last call that uses it
//! ```
//! A forked child begins with an empty table. The objects of its parent stay where they are, and are never dropped there: they share
//! memory with the parent's, and their threads do not exist.
//!
//! Descriptors of packets are no handles: they are known by their value ([`note`], [`redeem`]).

#![allow(unsafe_code)]

use crate::gate::{Entry, Gate, Shut};
use std::{
    any::Any,
    cell::UnsafeCell,
    collections::BTreeMap,
    ptr::{null_mut, without_provenance_mut},
    sync::{
        Mutex, Once, OnceLock, PoisonError,
        atomic::{
            AtomicPtr, AtomicUsize,
            Ordering::{AcqRel, Acquire, Relaxed},
        },
    },
};

/// Slots of the first chunk. Each further chunk has twice as many.
const FIRST: usize = 64;
const CHUNKS: usize = 18;
const MAX_SLOTS: usize = FIRST * ((1 << CHUNKS) - 1);

struct Slot {
    gate: Gate,
    object: UnsafeCell<Option<Box<dyn Any + Send>>>,
}

// SAFETY: the gate lets one call in that changes the object, or calls that share one which is `Sync` (`shared` asks for it).
unsafe impl Sync for Slot {}

struct Table {
    chunks: [OnceLock<Box<[Slot]>>; CHUNKS],
    free: Mutex<Free>,
    noted: Mutex<BTreeMap<[u64; 2], u32>>,
}

#[derive(Default)]
struct Free {
    /// Slots that were used before.
    slots: Vec<usize>,
    /// All slots from this number on were never used.
    first_new: usize,
}

impl Free {
    // Not inlined: tests name both to ThreadSanitizer, which does not see the mutex around them.
    #[inline(never)]
    fn take(&mut self) -> Option<usize> {
        self.slots.pop().or_else(|| {
            let is_new = self.first_new < MAX_SLOTS;
            self.first_new += usize::from(is_new);
            is_new.then(|| self.first_new - 1)
        })
    }

    #[inline(never)]
    fn put(&mut self, slot: usize) {
        self.slots.push(slot);
    }
}

/// This process's table; null before its first object.
static TABLE: AtomicPtr<Table> = AtomicPtr::new(null_mut());
/// Changes in each forked child.
static EPOCH: AtomicUsize = AtomicUsize::new(0);

/// A type that programs have pointers to: the kind of a handle.
pub trait Handle {
    type Object: Send + 'static;
}

/// Names the object of each kind of handle.
macro_rules! handles {
    ($($kind:ident => $object:ty),*) => {$(impl $crate::handles::Handle for $kind {
        type Object = $object;
    })*};
}
pub(crate) use handles;

extern "C" fn begin_anew() {
    // Relaxed: a forked child has one thread.
    TABLE.store(null_mut(), Relaxed);
    EPOCH.store(EPOCH.load(Relaxed).wrapping_add(1) & 0xfff, Relaxed);
}

impl Table {
    fn current() -> Option<&'static Table> {
        // SAFETY: null, or a table that `make` leaked.
        unsafe { TABLE.load(Acquire).as_ref() }
    }

    fn make() -> &'static Table {
        static AT_FORK: Once = Once::new();
        if let Some(table) = Table::current() {
            return table;
        }
        AT_FORK.call_once(|| {
            // SAFETY: the function only stores two numbers, and exists as long as this library, which is never unloaded while
            // objects exist.
            unsafe { libc::pthread_atfork(None, None, Some(begin_anew)) };
        });
        let made = Box::into_raw(Box::new(Table {
            chunks: [const { OnceLock::new() }; CHUNKS],
            free: Mutex::default(),
            noted: Mutex::default(),
        }));
        match TABLE.compare_exchange(null_mut(), made, AcqRel, Acquire) {
            // SAFETY: it was leaked above.
            Ok(_) => unsafe { &*made },
            Err(other) => {
                // SAFETY: it was made above, and nothing else has it.
                drop(unsafe { Box::from_raw(made) });
                // SAFETY: another thread leaked it.
                unsafe { &*other }
            }
        }
    }

    fn free(&self) -> std::sync::MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn noted(&self) -> std::sync::MutexGuard<'_, BTreeMap<[u64; 2], u32>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The chunk of this slot, and its number there.
    fn place(index: usize) -> (usize, usize) {
        let chunk = (index / FIRST + 1).ilog2() as usize;
        (chunk, index - FIRST * ((1 << chunk) - 1))
    }

    fn slot(&self, index: usize) -> Option<&Slot> {
        let (chunk, at) = Table::place(index);
        self.chunks.get(chunk)?.get()?.get(at)
    }

    fn give(&self, object: Box<dyn Any + Send>) -> Option<(usize, u32)> {
        let index = self.free().take()?;
        let (chunk, at) = Table::place(index);
        let make = || Slot {
            gate: Gate::new(),
            object: UnsafeCell::new(None),
        };
        let slots =
            self.chunks[chunk].get_or_init(|| (0..FIRST << chunk).map(|_| make()).collect());
        let slot = &slots[at];
        let generation = slot.gate.generation();
        // SAFETY: the free list gave the slot to this call alone, and its gate is closed.
        unsafe { *slot.object.get() = Some(object) };
        slot.gate.open();
        Some((index, generation))
    }

    fn end(&self, index: usize, slot: &Slot) {
        // SAFETY: only this call got the answer that it must end the object.
        let object = unsafe { (*slot.object.get()).take() };
        drop(object);
        if slot.gate.renew() {
            self.free().put(index);
        }
    }
}

/// Gives an object to the program. `None`: it has 16 million already.
pub fn give<H: Handle>(object: H::Object) -> Option<*mut H> {
    let (index, generation) = Table::make().give(Box::new(object))?;
    let bits = EPOCH.load(Relaxed) << 52 | (generation as usize) << 28 | (index + 1) << 4;
    Some(without_provenance_mut(bits))
}

/// The slot that a handle names, and the generation.
fn find<H>(handle: *const H) -> Result<(&'static Table, usize, &'static Slot, u32), Shut> {
    let bits = handle.addr();
    let is_ours = bits & 0xf == 0 && bits >> 52 == EPOCH.load(Relaxed);
    let table = Table::current().filter(|_| is_ours).ok_or(Shut::Closed)?;
    let index = (bits >> 4 & 0x00ff_ffff).checked_sub(1);
    let index = index.ok_or(Shut::Closed)?;
    let slot = table.slot(index).ok_or(Shut::Closed)?;
    Ok((table, index, slot, (bits >> 28 & 0x00ff_ffff) as u32))
}

/// Leaves the gate, also when the call panics.
struct Inside {
    table: &'static Table,
    index: usize,
    slot: &'static Slot,
    generation: u32,
    entry: Entry,
}

impl Drop for Inside {
    fn drop(&mut self) {
        if self.slot.gate.leave(self.entry) {
            self.table.end(self.index, self.slot);
        }
    }
}

fn enter<H>(handle: *const H, entry: Entry) -> Result<Inside, Shut> {
    let (table, index, slot, generation) = find(handle)?;
    slot.gate.enter(generation, entry)?;
    Ok(Inside {
        table,
        index,
        slot,
        generation,
        entry,
    })
}

/// Calls `body` with an object that other threads may use at the same time.
pub fn shared<H: Handle, R>(handle: *const H, body: impl FnOnce(&H::Object) -> R) -> Result<R, Shut>
where
    H::Object: Sync,
{
    let inside = enter(handle, Entry::Shared)?;
    // SAFETY: only shared calls are inside, and the object ends after them.
    let object = unsafe { &*inside.slot.object.get() };
    let object = object.as_ref().and_then(|object| object.downcast_ref());
    Ok(body(object.ok_or(Shut::Closed)?))
}

/// Calls `body` with an object that no other call uses meanwhile.
pub fn exclusive<H: Handle, R>(
    handle: *const H,
    body: impl FnOnce(&mut H::Object) -> R,
) -> Result<R, Shut> {
    let inside = enter(handle, Entry::Exclusive)?;
    // SAFETY: this call alone is inside, and the object ends after it.
    let object = unsafe { &mut *inside.slot.object.get() };
    let object = object.as_mut().and_then(|object| object.downcast_mut());
    Ok(body(object.ok_or(Shut::Closed)?))
}

/// Moves the object out for `body`, and closes the handle; no other call is inside meanwhile. What `body` gives back stays, and so does the
/// handle.
pub fn take<H: Handle, R, E>(
    handle: *const H,
    body: impl FnOnce(H::Object) -> Result<R, (H::Object, E)>,
) -> Result<Result<R, E>, Shut> {
    let inside = enter(handle, Entry::Exclusive)?;
    // SAFETY: this call alone is inside, and the object ends after it.
    let place = unsafe { &mut *inside.slot.object.get() };
    let object = match place.take().map(|object| object.downcast()) {
        Some(Ok(object)) => *object,
        other => {
            *place = other.and_then(Result::err);
            return Err(Shut::Closed);
        }
    };
    match body(object) {
        Ok(result) => {
            inside.slot.gate.close(inside.generation)?; // Only calls that are inside close it: this one.
            Ok(Ok(result))
        }
        Err((object, error)) => {
            *place = Some(Box::new(object));
            Ok(Err(error))
        }
    }
}

/// Takes the object back from the program. It ends now, or with the last call that uses it; a call that has it alone keeps it open.
pub fn close<H: Handle>(handle: *const H) -> Result<(), Shut> {
    let inside = enter(handle, Entry::Shared)?;
    // SAFETY: only shared calls are inside, and only the type of the object is read.
    let object = unsafe { &*inside.slot.object.get() };
    if !object
        .as_ref()
        .is_some_and(|object| object.is::<H::Object>())
    {
        return Err(Shut::Closed);
    }
    inside.slot.gate.close(inside.generation).map(|_| ()) // This call is inside, so it does not end the object before it leaves.
}

/// Notes that the program holds something in its own memory by this value, once more.
pub fn note(value: [u64; 2]) {
    *Table::make().noted().entry(value).or_default() += 1;
}

/// Takes a value back that was noted. `Closed`: the program does not hold it, or its parent does.
pub fn redeem(value: [u64; 2]) -> Result<(), Shut> {
    let mut noted = Table::current().ok_or(Shut::Closed)?.noted();
    let times = noted.get_mut(&value).ok_or(Shut::Closed)?;
    *times -= 1;
    if *times == 0 {
        noted.remove(&value);
    }
    Ok(())
}
