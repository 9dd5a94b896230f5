//! The objects that programs have, so that a pointer to one that is closed is an error instead of a use of freed memory.
//!
//! ```text
//!  pcap_open ── give ──▶ slots ◀── find, for the time of one call ── any function
//!                          └────── take ── pcap_close; the object ends with the last call that uses it
//! ```
//! `find` neither locks nor allocates, so that a signal handler may call it. A pointer that a newer object has again is taken for that object.

#![allow(unsafe_code)]

use crate::border::has_one_thread;
use std::{
    ptr::null_mut,
    sync::{
        Arc, OnceLock,
        atomic::{
            AtomicPtr, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
        },
    },
};

/// Slots that are allocated together. Few programs have more handles at a time.
const SLOTS: usize = 32;

/// What the program has, and the object; null in a free slot.
struct Slot<T> {
    given: AtomicPtr<T>,
    object: AtomicPtr<T>,
}

pub struct Registry<T> {
    slots: [Slot<T>; SLOTS],
    /// More slots, which stay for later objects.
    more: OnceLock<Box<Registry<T>>>,
}

/// What a program passes for an object of this type.
#[repr(transparent)]
pub struct Given<T>(pub *mut T);

/// A type whose objects programs have.
pub trait Registered: Sized + 'static {
    fn registry() -> &'static Registry<Self>;
}

impl<T: Registered> Given<T> {
    /// The object, unless it is null or closed.
    pub fn get(&self) -> Option<Arc<T>> {
        T::registry().find(self.0)
    }

    /// Uses the object for the time of `body`, unless it is null or closed. With one thread, only `body` could close it, so it must not: it
    /// runs nothing of the program but the functions of its streams.
    #[inline]
    pub fn with<R>(&self, body: impl FnOnce(&T) -> R) -> Option<R> {
        if !has_one_thread() {
            return self.get().map(|object| body(&object));
        }
        let object = T::registry().slot(self.0)?.object.load(Acquire);
        // SAFETY: null, or that of an `Arc`. The registry has a reference, which no other thread can take.
        let object = unsafe { object.as_ref() };
        object.map(body)
    }

    /// Takes the object back from the program.
    pub fn close(self) -> Option<Arc<T>> {
        T::registry().take(self.0)
    }
}

impl<T> Registry<T> {
    pub const fn new() -> Registry<T> {
        Registry {
            slots: [const {
                Slot {
                    given: AtomicPtr::new(null_mut()),
                    object: AtomicPtr::new(null_mut()),
                }
            }; SLOTS],
            more: OnceLock::new(),
        }
    }

    /// Gives an object to the program: a pointer to it.
    #[allow(clippy::arc_with_non_send_sync)] // Which threads use it is up to the program.
    pub fn give(&self, object: T) -> *mut T {
        let object = Arc::into_raw(Arc::new(object)).cast_mut();
        self.put(object, object)
    }

    /// Gives an object to the program, which knows it by another pointer.
    #[allow(clippy::arc_with_non_send_sync)] // As above.
    pub fn give_as(&self, given: *mut T, object: T) -> *mut T {
        // The program has freed what the pointer was before, without this library.
        while let Some(stale) = self.take(given) {
            std::mem::forget(stale);
        }
        self.put(given, Arc::into_raw(Arc::new(object)).cast_mut())
    }

    fn put(&self, given: *mut T, object: *mut T) -> *mut T {
        let mut registry = self;
        loop {
            let free = |slot: &&Slot<T>| {
                let taken = slot
                    .object
                    .compare_exchange(null_mut(), object, AcqRel, Relaxed);
                taken.is_ok()
            };
            if let Some(slot) = registry.slots.iter().find(free) {
                slot.given.store(given, Release);
                return given;
            }
            registry = registry.more.get_or_init(|| Box::new(Registry::new()));
        }
    }

    fn slot(&self, pointer: *mut T) -> Option<&Slot<T>> {
        if pointer.is_null() {
            return None;
        }
        let mut registry = self;
        loop {
            let its = |slot: &&Slot<T>| slot.given.load(Acquire) == pointer;
            if let Some(slot) = registry.slots.iter().find(its) {
                return Some(slot);
            }
            registry = registry.more.get()?;
        }
    }

    fn find(&self, pointer: *mut T) -> Option<Arc<T>> {
        let object = self.slot(pointer)?.object.load(Acquire);
        if object.is_null() {
            return None;
        }
        // SAFETY: the pointer is that of an `Arc`, and the registry has a reference. Only a program that closes the object in another
        // thread during this call could end it, which no library can see.
        unsafe { Arc::increment_strong_count(object) };
        // SAFETY: the reference was added for this.
        Some(unsafe { Arc::from_raw(object) })
    }

    fn take(&self, pointer: *mut T) -> Option<Arc<T>> {
        let slot = self.slot(pointer)?;
        let closed = slot
            .given
            .compare_exchange(pointer, null_mut(), AcqRel, Relaxed);
        closed.ok()?;
        let object = slot.object.swap(null_mut(), AcqRel);
        // SAFETY: the pointer is that of an `Arc`, and its reference in the registry was removed once.
        Some(unsafe { Arc::from_raw(object) })
    }
}
