//! A lock that a call does not wait for if it is the one that the call itself has interrupted, in a signal handler.
//!
//! It is taken and released for every packet. Most programs have one thread, which then needs no atomic exchange for it: only a signal handler
//! can use the handle meanwhile, and it ends before the interrupted call goes on.

#![allow(unsafe_code)]

use crate::{
    border::{has_one_thread, this_thread},
    failure::Failure,
};
use std::{
    cell::UnsafeCell,
    marker::PhantomData,
    ops::{Deref, DerefMut},
    sync::atomic::{
        AtomicUsize,
        Ordering::{Acquire, Relaxed, Release, SeqCst},
        compiler_fence,
    },
    thread,
    time::{Duration, Instant},
};

/// How long a call waits for one of another thread. Only opening a device, and reading a pipe, take longer than some microseconds.
const PATIENCE: Duration = Duration::from_secs(1);

pub struct Lock<T> {
    /// The thread that holds it; 0: none. Written by the thread that takes it, and by the one that releases it.
    holder: AtomicUsize,
    content: UnsafeCell<T>,
}

// SAFETY: the content is only accessed through a `Held`, and there is one at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

/// The content, for the time of a part of a call. Stays in its thread, as the holder's number is that of the thread.
pub struct Held<'a, T>(&'a Lock<T>, PhantomData<*const ()>);

impl<T> Lock<T> {
    pub const fn new(content: T) -> Lock<T> {
        Lock {
            holder: AtomicUsize::new(0),
            content: UnsafeCell::new(content),
        }
    }

    /// The content, once no call of another thread has it.
    ///
    /// # Errors
    /// A call of this thread has it, which a signal handler interrupted; or one of another thread, for long.
    #[inline(always)]
    pub fn hold(&self) -> Result<Held<'_, T>, Failure> {
        match self.is_taken_now() {
            true => Ok(Held(self, PhantomData)),
            false => self.hold_later(),
        }
    }

    /// Takes it, if it is free.
    #[inline]
    fn is_taken_now(&self) -> bool {
        let me = this_thread();
        if !has_one_thread() {
            // Acquires what the last holder released.
            return (self.holder)
                .compare_exchange(0, me, Acquire, Relaxed)
                .is_ok();
        }
        // A signal handler that takes it between the two has released it, too. Threads that begin later see what was stored before.
        let is_free = self.holder.load(Relaxed) == 0;
        if is_free {
            self.holder.store(me, Relaxed);
        }
        // Nor may the compiler move an access of the content before it.
        compiler_fence(SeqCst);
        is_free
    }

    #[cold]
    fn hold_later(&self) -> Result<Held<'_, T>, Failure> {
        let begun = Instant::now();
        while self.holder.load(Relaxed) != this_thread() && begun.elapsed() < PATIENCE {
            if self.is_taken_now() {
                return Ok(Held(self, PhantomData));
            }
            thread::yield_now();
        }
        Err("the handle is in use by another call".into())
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this is the only `Held`, which `is_taken_now` has made sure of; `&self` excludes `deref_mut`.
        unsafe { &*self.0.content.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; `&mut self` excludes every other access.
        unsafe { &mut *self.0.content.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.holder.store(0, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{iter, sync::Arc};

    #[test]
    fn one_call_at_a_time_has_the_content() {
        let lock = Arc::new(Lock::new(0_u64));
        let count = |lock: &Lock<u64>| {
            for _ in 0..10_000 {
                // On a busy machine, a holder may not run for longer than the patience of others.
                let held = iter::repeat_with(|| lock.hold().ok()).flatten().next();
                *held.unwrap() += 1;
            }
        };
        let threads = [0; 3].map(|_| lock.clone());
        let threads = threads.map(|lock| thread::spawn(move || count(&lock)));
        count(&lock);
        for thread in threads {
            thread.join().unwrap();
        }
        let held = lock.hold().unwrap();
        assert_eq!(*held, 40_000);
        // As a signal handler would that interrupts this call.
        assert!(lock.hold().is_err());
        drop(held);
        assert!(lock.hold().is_ok());
    }
}
