//! A bell that a sleeper hangs up and another thread rings: the one protocol by which this crate sleeps.
//!
//! It sleeps on a futex word through `sys`. Read `wait` next, which uses it.
//!
//! ```text
//!   sleeper:  arm ─▶ (fence) ─▶ look again ─▶ sleep while armed        the bell: 0 quiet, 1 armed
//!   ringer:   publish ─▶ (fence) ─▶ armed? ─▶ quiet it, wake
//! ```
//!
//! | Edge | One side | Other side | What it gives |
//! |---|---|---|---|
//! | WAKE | `arm`: store 1, SeqCst fence, then the second look | `ring`: after the publishing store, SeqCst fence, load | One of the two sees the other: the ringer sees 1 and wakes, or the second look sees what was published. Never neither |

use super::atomic::{
    AtomicU32,
    Ordering::{Relaxed, SeqCst},
    fence,
};
use super::planted;
use std::time::Duration;

const QUIET: u32 = 0;
const ARMED: u32 = 1;

/// One sleeper, any number of ringers.
///
/// The sleeper arms, **looks once more at what it waits for**, and only then sleeps; whatever is published after
/// that look rings. Without the second look the wake-up that came between look and arming would be lost.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    /// Written by the sleeper (0 or 1) and by ringers (0), read by both and by the kernel: 0 or 1.
    word: AtomicU32,
    #[cfg(loom)]
    pillow: Pillow,
}

impl Bell {
    /// Hangs the bell up; the caller looks again before it sleeps.
    pub(crate) fn arm(&self) {
        // Relaxed: the fence orders it, and the word publishes nothing but itself.
        self.word.store(ARMED, Relaxed);
        if !planted("bell-arm-without-fence") {
            fence(SeqCst); // WAKE, the sleeper's side
        }
    }

    /// Takes the bell down: the second look found something, or the time is up.
    pub(crate) fn disarm(&self) {
        // Relaxed: a ringer that still sees 1 wakes nobody, which harms nobody.
        self.word.store(QUIET, Relaxed);
    }

    /// Sleeps until the bell rings or `limit` is over; true unless the time was up. It may return early: look again.
    pub(crate) fn sleep(&self, limit: Option<Duration>) -> bool {
        #[cfg(not(loom))]
        return crate::sys::futex_wait(&self.word, ARMED, limit);
        #[cfg(loom)]
        return self.pillow.wait(&self.word, limit);
    }

    /// Wakes the sleeper if there is one; call it after what was published.
    #[inline(always)]
    pub(crate) fn ring(&self) {
        if !planted("bell-ring-without-fence") {
            fence(SeqCst); // WAKE, the ringer's side
        }
        // Relaxed: ordered by the fence above.
        if self.word.load(Relaxed) == ARMED {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        // Relaxed: the sleeper looks at what was published, with that value's own Acquire; of two ringers one wakes.
        if self.word.swap(QUIET, Relaxed) == ARMED {
            #[cfg(not(loom))]
            crate::sys::futex_wake(&self.word);
            #[cfg(loom)]
            self.pillow.wake();
        }
    }
}

/// What the kernel does for a futex word, in terms that loom knows: compare and sleep is one step under a lock.
#[cfg(loom)]
#[derive(Debug)]
struct Pillow {
    lock: loom::sync::Mutex<()>,
    bed: loom::sync::Condvar,
}

#[cfg(loom)]
impl Default for Pillow {
    fn default() -> Self {
        Pillow {
            lock: loom::sync::Mutex::new(()),
            bed: loom::sync::Condvar::new(),
        }
    }
}

#[cfg(loom)]
impl Pillow {
    fn wait(&self, word: &AtomicU32, limit: Option<Duration>) -> bool {
        if limit.is_some() {
            return false; // a model has no clock: every limit is over at once
        }
        let lock = self.lock.lock().unwrap();
        if word.load(Relaxed) == ARMED {
            drop(self.bed.wait(lock).unwrap());
        }
        true
    }

    fn wake(&self) {
        let _lock = self.lock.lock().unwrap();
        self.bed.notify_one();
    }
}
