//! The objects that programs have, so that a pointer to one that is closed is an error instead of a use of freed memory.
//!
//! ```text
//!  pcap_open ── give ──▶ slots ◀── find, for the time of one call ── any function
//!                          └────── take ── pcap_close; the object ends with the last call that uses it
//! ```
//! `find` neither locks nor allocates, so that a signal handler may call it. A pointer that a newer object has again is taken for that object.

#![allow(unsafe_code)]

use std::{
    ptr::null_mut,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicPtr, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed},
    },
};

/// Slots that are allocated together. Few programs have more handles at a time.
const SLOTS: usize = 32;

pub struct Registry<T> {
    slots: [AtomicPtr<T>; SLOTS],
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

    /// Takes the object back from the program.
    pub fn close(self) -> Option<Arc<T>> {
        T::registry().take(self.0)
    }
}

impl<T> Registry<T> {
    pub const fn new() -> Registry<T> {
        Registry {
            slots: [const { AtomicPtr::new(null_mut()) }; SLOTS],
            more: OnceLock::new(),
        }
    }

    /// Gives an object to the program.
    #[allow(clippy::arc_with_non_send_sync)] // Which threads use it is up to the program.
    pub fn give(&self, object: T) -> *mut T {
        let pointer = Arc::into_raw(Arc::new(object)).cast_mut();
        let mut registry = self;
        loop {
            let put = |slot: &AtomicPtr<T>| {
                slot.compare_exchange(null_mut(), pointer, AcqRel, Relaxed)
                    .is_ok()
            };
            if registry.slots.iter().any(put) {
                return pointer;
            }
            registry = registry.more.get_or_init(|| Box::new(Registry::new()));
        }
    }

    fn slot(&self, pointer: *mut T) -> Option<&AtomicPtr<T>> {
        if pointer.is_null() {
            return None;
        }
        let mut registry = self;
        loop {
            let its = |slot: &&AtomicPtr<T>| slot.load(Acquire) == pointer;
            if let Some(slot) = registry.slots.iter().find(its) {
                return Some(slot);
            }
            registry = registry.more.get()?;
        }
    }

    fn find(&self, pointer: *mut T) -> Option<Arc<T>> {
        self.slot(pointer)?;
        // SAFETY: the pointer is that of an `Arc`, and the registry has a reference. Only a program that closes the object in another
        // thread during this call could end it, which no library can see.
        unsafe { Arc::increment_strong_count(pointer) };
        // SAFETY: the reference was added for this.
        Some(unsafe { Arc::from_raw(pointer) })
    }

    fn take(&self, pointer: *mut T) -> Option<Arc<T>> {
        let slot = self.slot(pointer)?;
        slot.compare_exchange(pointer, null_mut(), AcqRel, Relaxed)
            .ok()?;
        // SAFETY: the pointer is that of an `Arc`, and its reference in the registry was removed once.
        Some(unsafe { Arc::from_raw(pointer) })
    }
}
