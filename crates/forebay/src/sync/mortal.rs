//! Atomics that can kill a thread of a model between any two stores, as a process may die between any two instructions.
//!
//! On the machine they are plain atomics. In a model, a thread that runs in `dies` unwinds before the first store beyond its
//! limit. All later stores of that thread, such as the release of a lock while it unwinds, have no effect.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64};

#[cfg(loom)]
pub(crate) use modelled::{AtomicU32, AtomicU64, dies};

#[cfg(loom)]
mod modelled {
    use loom::{
        sync::atomic::{self, Ordering},
        thread::{self, ThreadId},
    };
    use std::{
        cell::Cell,
        panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    };

    std::thread_local! {
        /// The mortal thread of the current execution, which loom runs on one thread of the system; and how many stores it
        /// has left: `None` if it is dead.
        static MORTAL: Cell<Option<(ThreadId, Option<u32>)>> = const { Cell::new(None) };
    }

    /// The payload that a dying thread unwinds with.
    struct Died;

    /// Runs `life` as a thread that dies after `stores` stores; returns whether it died.
    pub(crate) fn dies(stores: u32, life: impl FnOnce()) -> bool {
        MORTAL.set(Some((thread::current().id(), Some(stores))));
        let lived = catch_unwind(AssertUnwindSafe(life));
        MORTAL.set(None);
        match lived {
            Ok(()) => false,
            Err(cause) if cause.is::<Died>() => true,
            Err(cause) => resume_unwind(cause),
        }
    }

    /// Whether this thread may store. It dies here if it has no stores left.
    fn may_store() -> bool {
        let Some((mortal, left)) = MORTAL.get() else {
            return true;
        };
        if mortal != thread::current().id() {
            return true;
        }
        match left {
            None => false,
            Some(0) => {
                MORTAL.set(Some((mortal, None)));
                resume_unwind(Box::new(Died))
            }
            Some(left) => {
                MORTAL.set(Some((mortal, Some(left - 1))));
                true
            }
        }
    }

    macro_rules! words {
        ($($name:ident: $of:ty)*) => {$(
            /// An atomic that dead threads no longer change.
            #[derive(Debug, Default)]
            pub(crate) struct $name(atomic::$name);

            #[allow(dead_code)] // not every width uses all methods
            impl $name {
                pub(crate) fn load(&self, order: Ordering) -> $of {
                    self.0.load(order)
                }

                pub(crate) fn store(&self, value: $of, order: Ordering) {
                    if may_store() {
                        self.0.store(value, order);
                    }
                }

                pub(crate) fn swap(&self, value: $of, order: Ordering) -> $of {
                    if may_store() { self.0.swap(value, order) } else { 0 }
                }

                pub(crate) fn fetch_add(&self, value: $of, order: Ordering) -> $of {
                    if may_store() { self.0.fetch_add(value, order) } else { 0 }
                }

                pub(crate) fn fetch_sub(&self, value: $of, order: Ordering) -> $of {
                    if may_store() { self.0.fetch_sub(value, order) } else { 0 }
                }

                pub(crate) fn compare_exchange(
                    &self,
                    current: $of,
                    new: $of,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$of, $of> {
                    if may_store() {
                        self.0.compare_exchange(current, new, success, failure)
                    } else {
                        Err(0)
                    }
                }
            }
        )*};
    }

    words! { AtomicU32: u32  AtomicU64: u64 }
}
