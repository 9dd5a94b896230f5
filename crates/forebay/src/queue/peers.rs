//! Who else uses a queue, and whether they are alive.
//!
//! Threads of one process die together. Processes die alone, at any instruction. So each gets a number that nobody had
//! before, and holds a lock on the byte of the file with that number, which the kernel drops when it dies or leaves
//! (process numbers would not do: they differ between namespaces, and come again). A stopped process holds its byte: it
//! is alive. It imports `sync` and `sys`. Read `lock` next.
//!
//! ```text
//!   owner:      1    2    3     4    5         in every lock word and frame
//!   byte lock:  –    held held  –    held      none: dead, or gone
//! ```

use super::frame::Owner;
use crate::sys;
#[cfg(not(loom))]
use crate::{
    Error, Result,
    sync::{atomic::Ordering::Relaxed, mortal::AtomicU32},
};
use std::{fs::File, time::Duration};

/// Ourselves among the others.
#[derive(Debug)]
#[cfg_attr(loom, allow(dead_code))] // models are of one process
pub(super) enum Peers {
    /// All are threads of this process.
    Threads,
    /// We are one of several processes.
    Processes {
        me: Owner,
        /// A description of our own, with our byte locked.
        file: File,
    },
    /// The threads of a model are the processes, and what the kernel knows of them is this.
    #[cfg(loom)]
    Modelled(modelled::Deaths),
}

impl Peers {
    /// Joins the others; `file` is a description of our own, and `joined` counts all who ever joined.
    #[cfg(not(loom))]
    pub(super) fn join(file: File, joined: &AtomicU32, on: &str) -> Result<Peers> {
        // Relaxed: only the number matters, and nobody else gets it.
        let me = Owner::new(joined.fetch_add(1, Relaxed) + 1);
        let answer = sys::shared::lock_byte(&file, me.bits());
        let failed = || Error::new(on, "locking our byte of the queue's file");
        match answer {
            Ok(true) => Ok(Peers::Processes { me, file }),
            Ok(false) => Err(failed().advise("Try again: a very old peer has our number")),
            Err(error) => Err(failed().because(error).advise("Check `cat /proc/locks`")),
        }
    }

    #[inline(always)]
    pub(super) fn me(&self) -> Owner {
        match self {
            Peers::Threads => Owner::NOBODY,
            Peers::Processes { me, .. } => *me,
            #[cfg(loom)]
            Peers::Modelled(_) => modelled::me(),
        }
    }

    /// Whether peers may die alone.
    #[inline(always)]
    pub(super) fn may_die(&self) -> bool {
        !matches!(self, Peers::Threads)
    }

    /// Whether `owner` can do nothing any more.
    pub(super) fn is_dead(&self, owner: Owner) -> bool {
        match self {
            Peers::Threads => false,
            Peers::Processes { me, file } => {
                owner != *me && !sys::shared::is_byte_locked(file, owner.bits())
            }
            #[cfg(loom)]
            Peers::Modelled(deaths) => owner != modelled::me() && deaths.has(owner),
        }
    }

    /// How long to sleep: what is `left`, but not longer than `slice` where peers may die.
    pub(super) fn at_most(&self, slice: Duration, left: Option<Duration>) -> Option<Duration> {
        match (self.may_die(), left) {
            (false, left) => left,
            (true, None) => Some(slice),
            (true, Some(left)) => Some(left.min(slice)),
        }
    }
}

#[cfg(loom)]
pub(super) mod modelled {
    use super::Owner;
    use crate::sync::{
        atomic::{
            AtomicBool,
            Ordering::{Acquire, Relaxed, Release},
        },
        planted,
    };
    use std::cell::Cell;

    loom::thread_local! {
        static ME: Cell<u32> = Cell::new(1);
    }

    /// Makes this thread the `number`th process; else it is the first.
    pub(crate) fn be(number: u32) {
        ME.with(|me| me.set(number));
    }

    pub(super) fn me() -> Owner {
        Owner::new(ME.with(Cell::get))
    }

    /// Who has died, of four.
    #[derive(Debug, Default)]
    pub(crate) struct Deaths([AtomicBool; 4]);

    impl Deaths {
        /// The kernel learns that the `number`th is dead, behind all that it did.
        pub(crate) fn tell(&self, number: u32) {
            self.0[number as usize].store(true, Release); // INHERIT
        }

        pub(super) fn has(&self, owner: Owner) -> bool {
            let order = match planted("queue-inherit-relaxed") {
                true => Relaxed,
                false => Acquire,
            };
            self.0[owner.bits() as usize].load(order) // INHERIT
        }
    }
}
