//! The order of windows: workers claim them one after another, and pass the token on in the same order.
//!
//! ```text
//!  claim 5 ─▶ pread ─▶ take(5): sleep until window 4 has passed it on ─▶ … ─▶ pass(6)
//! ```
//! Windows are not assigned in advance. Thus a worker that waits for a processor delays the others only at the window for which
//! it holds the token. A worker claims a window only when it has an empty batch, so this order never waits for the port.

use super::decoder_state::Token;
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

/// Checks before the first sleep, about as long as walking a window takes.
const SPINS: u32 = 200;

pub(super) struct Order {
    /// The next unclaimed window. Written by every worker. Relaxed: it publishes only itself.
    claims: AtomicU64,
    /// The window that has the token, as in `state`: only a hint for a worker that checks before it sleeps.
    at: AtomicU64,
    state: Mutex<State>,
    passed: Condvar,
}

struct State {
    window: u64,
    /// `None` while a worker holds it.
    token: Option<Box<Token>>,
    asleep: usize,
    is_closed: bool,
}

impl Order {
    pub fn new(token: Box<Token>) -> Self {
        Order {
            claims: AtomicU64::new(0),
            at: AtomicU64::new(0),
            state: Mutex::new(State {
                window: 0,
                token: Some(token),
                asleep: 0,
                is_closed: false,
            }),
            passed: Condvar::new(),
        }
    }

    pub fn claim(&self) -> u64 {
        self.claims.fetch_add(1, Relaxed)
    }

    /// Waits until the token is at `window`; `None`: it never will be.
    pub fn take(&self, window: u64) -> Option<Box<Token>> {
        for _ in 0..SPINS {
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
                return state.token.take();
            }
            state.asleep += 1;
            state = self.passed.wait(state).ok()?;
            state.asleep -= 1;
        }
    }

    /// Passes the token to `window`.
    pub fn pass(&self, window: u64, token: Box<Token>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.window = window;
        state.token = Some(token);
        self.at.store(window, Release);
        if state.asleep > 0 {
            self.passed.notify_all();
        }
    }

    /// The token is not passed on any more: the file has ended, or a worker or the port is gone.
    pub fn close(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_closed = true;
        self.at.store(u64::MAX, Release);
        self.passed.notify_all();
    }
}
