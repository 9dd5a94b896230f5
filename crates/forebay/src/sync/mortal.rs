//! Words between whose stores a thread of a model may die, as a process may between any two instructions.
//!
//! On the machine they are the plain atomics. In a model a thread that runs in `dies` is gone before a store of its
//! that is one too many: it unwinds, and whatever it would still do on the way out, such as giving a lock back, does not
//! happen. It imports nothing of the crate. Read `queue::recovery_models` next.

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
        /// The mortal thread of the execution that runs, which loom keeps on one thread of the system; and how many
        /// stores it has left: `None` when it is dead.
        static MORTAL: Cell<Option<(ThreadId, Option<u32>)>> = const { Cell::new(None) };
    }

    /// What a dying thread unwinds with.
    struct Died;

    /// Runs `life` as a thread that dies after so many stores; says whether it did.
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

    /// Whether this thread may still store something. It dies here if it has used up what it had.
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
            /// An atomic that the dead no longer change.
            #[derive(Debug, Default)]
            pub(crate) struct $name(atomic::$name);

            #[allow(dead_code)] // not every width is used in every way
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
