//! The processes that use a queue, and whether they are alive.
//!
//! Threads of one process die together. A process can die alone, at any instruction. Each process therefore gets a number
//! that was never used before, and locks the byte of the file with that number. The kernel drops this lock when the process
//! dies or detaches. A stopped process keeps its lock: it is alive. Process ids would not do, since they differ between
//! namespaces and are reused.
//!
//! ```text
//!   owner:      1    2    3     4    5         in every lock word and frame
//!   byte lock:  –    held held  –    held      none: dead, or gone
//! ```

use super::frame::Owner;
use process::Process;
use std::time::Duration;

/// The users of a queue.
#[derive(Debug)]
pub(super) enum Peers {
    /// All peers are threads of this process.
    Threads,
    /// This process is one of several.
    #[cfg_attr(not(any(feature = "shared", loom)), allow(dead_code))]
    Processes(Process),
}

impl Peers {
    #[inline(always)]
    pub(super) fn me(&self) -> Owner {
        match self {
            Peers::Threads => Owner::NOBODY,
            Peers::Processes(process) => process.me(),
        }
    }

    /// Whether peers may die alone.
    #[inline(always)]
    pub(super) fn may_die(&self) -> bool {
        matches!(self, Peers::Processes(_))
    }

    /// Whether `owner` is dead, so that it will not touch the queue again.
    pub(super) fn is_dead(&self, owner: Owner) -> bool {
        match self {
            Peers::Threads => false,
            Peers::Processes(process) => owner != process.me() && process.finds_dead(owner),
        }
    }

    /// How long to sleep: the time `left`, but no longer than `slice` if peers may die.
    pub(super) fn at_most(&self, slice: Duration, left: Option<Duration>) -> Option<Duration> {
        match (self.may_die(), left) {
            (false, left) => left,
            (true, None) => Some(slice),
            (true, Some(left)) => Some(left.min(slice)),
        }
    }
}

#[cfg(all(feature = "shared", not(loom)))]
mod process {
    use crate::queue::{frame::Owner, peers::Peers};
    use crate::{
        Error, Result,
        error::Code,
        sync::{atomic::Ordering::Relaxed, mortal::AtomicU32},
        sys,
    };
    use std::fs::File;

    /// This process among the peers.
    #[derive(Debug)]
    pub(in super::super) struct Process {
        me: Owner,
        /// This process's own open file description, with its byte locked.
        file: File,
    }

    impl Process {
        pub(super) fn me(&self) -> Owner {
            self.me
        }

        pub(super) fn finds_dead(&self, owner: Owner) -> bool {
            !sys::shared::is_byte_locked(&self.file, owner.bits())
        }
    }

    impl Peers {
        /// Joins the other processes. `file` is an open file description of this process only, and `joined` counts all
        /// processes that ever joined.
        pub(in super::super) fn join(file: File, joined: &AtomicU32, on: &str) -> Result<Peers> {
            // Relaxed: only the number matters, and no other process gets the same one.
            let next = || Owner::new(joined.fetch_add(1, Relaxed).wrapping_add(1));
            // Numbers repeat, and damaged memory may hold any: the one that stands for nobody is skipped.
            let mut me = next();
            if me == Owner::NOBODY {
                me = next();
            }
            if me == Owner::NOBODY {
                return Err(Error::coded(
                    Code::Damaged,
                    on,
                    "joining it: the count of its processes is damaged",
                ));
            }
            let answer = sys::shared::lock_byte(&file, me.bits());
            let failed = || Error::new(on, "locking this process's byte of the queue's file");
            match answer {
                Ok(true) => Ok(Peers::Processes(Process { me, file })),
                Ok(false) => Err(failed()
                    .of_kind(Code::Busy.kind())
                    .advise("Try again: a very old peer has the same number")),
                Err(error) => Err(failed().because(error).advise("Check `cat /proc/locks`")),
            }
        }
    }
}

/// Without the feature `shared`, no queue has other processes.
#[cfg(not(any(feature = "shared", loom)))]
mod process {
    use crate::queue::frame::Owner;

    #[derive(Debug)]
    pub(in super::super) enum Process {}

    impl Process {
        pub(super) fn me(&self) -> Owner {
            match *self {}
        }

        pub(super) fn finds_dead(&self, _: Owner) -> bool {
            match *self {}
        }
    }
}

/// The processes of a model are threads, and this stands for the kernel's knowledge of them.
#[cfg(loom)]
pub(super) mod process {
    use crate::queue::frame::Owner;
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

    /// Makes this thread the `number`th process; without a call, it is the first.
    pub(crate) fn be(number: u32) {
        ME.with(|me| me.set(number));
    }

    /// Which of four processes have died.
    #[derive(Debug, Default)]
    pub(crate) struct Process([AtomicBool; 4]);

    impl Process {
        /// Records the death of the `number`th process, ordered after everything that it did.
        pub(crate) fn record_death(&self, number: u32) {
            self.0[number as usize].store(true, Release); // INHERIT
        }

        pub(super) fn me(&self) -> Owner {
            Owner::new(ME.with(Cell::get))
        }

        pub(super) fn finds_dead(&self, owner: Owner) -> bool {
            let order = match planted("queue-inherit-relaxed") {
                true => Relaxed,
                false => Acquire,
            };
            self.0[owner.bits() as usize].load(order) // INHERIT
        }
    }
}
