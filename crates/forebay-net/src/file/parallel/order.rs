//! Who is where in the file: windows are claimed one after another, and in that order the baton is
//! taken and passed on.
//!
//! ```text
//!  claim 5 ─▶ pread ─▶ take(5): sleep until window 4 has passed it on ─▶ … ─▶ pass(6)
//! ```
//! A worker claims what nobody has, instead of every second window, so that one which has to wait
//! for a processor keeps the others from nothing but the window it holds the baton at. Whoever
//! claims has an empty batch already: the front never waits for the port. Read `port` next.

use super::decoder_state::Baton;
use std::{
    hint::spin_loop,
    sync::{
        Condvar, Mutex, PoisonError,
        atomic::{
            AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};

/// Looks before the first sleep: to skim a window takes about so long.
const LOOKS: u32 = 200;

pub(super) struct Order {
    /// The next window that nobody has. Written by every worker; it publishes nothing but itself.
    claims: AtomicU64,
    /// The window the baton is at, as in `state`: only a hint for whoever looks before it sleeps.
    at: AtomicU64,
    state: Mutex<State>,
    passed: Condvar,
}

struct State {
    window: u64,
    /// On its way; `None` while a worker has it.
    baton: Option<Box<Baton>>,
    asleep: usize,
    is_closed: bool,
}

impl Order {
    pub fn new(baton: Box<Baton>) -> Self {
        Order {
            claims: AtomicU64::new(0),
            at: AtomicU64::new(0),
            state: Mutex::new(State {
                window: 0,
                baton: Some(baton),
                asleep: 0,
                is_closed: false,
            }),
            passed: Condvar::new(),
        }
    }

    pub fn claim(&self) -> u64 {
        self.claims.fetch_add(1, Relaxed)
    }

    /// Waits for the baton to come to `window`; `None`: it never will.
    pub fn take(&self, window: u64) -> Option<Box<Baton>> {
        for _ in 0..LOOKS {
            if self.at.load(Acquire) >= window {
                break;
            }
            spin_loop();
        }
        let mut state = self.state.lock().ok()?;
        loop {
            if state.is_closed {
                return None;
            }
            if state.window == window {
                return state.baton.take();
            }
            state.asleep += 1;
            state = self.passed.wait(state).ok()?;
            state.asleep -= 1;
        }
    }

    /// Hands the baton to `window`.
    pub fn pass(&self, window: u64, baton: Box<Baton>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.window = window;
        state.baton = Some(baton);
        self.at.store(window, Release);
        if state.asleep > 0 {
            self.passed.notify_all();
        }
    }

    /// Nobody takes it any more: the file has ended, or a worker or the port is gone.
    pub fn close(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_closed = true;
        self.at.store(u64::MAX, Release);
        self.passed.notify_all();
    }
}
