//! What belongs to this process: values that a forked child must not touch, and waits that Ctrl-C and the interpreter's exit end.

use crate::error::{Code, Failure};
use forebay::{Error, sync::Signal};
use pyo3::prelude::*;
use std::{
    os::fd::{AsFd, OwnedFd},
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError, TryLockError,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

/// Ctrl-C, the exit of the interpreter and a close by another thread are noticed after this time.
const SLICE: Duration = Duration::from_millis(50);
/// The interpreter does not wait longer than this for threads that do not come back.
const MAX_EXIT: Duration = Duration::from_secs(2);

/// How long a close waits for the call of another thread.
const MAX_CLOSE: Duration = Duration::from_secs(5);

/// Counts the forks from the first process to this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);
static IS_ENDING: AtomicBool = AtomicBool::new(false);
/// Threads that wait without the interpreter.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Called in a forked child: it inherits no thread, and no value.
#[pyfunction]
pub fn _forked() {
    GENERATION.fetch_add(1, SeqCst);
    WAITING.store(0, SeqCst);
}

/// Called at the exit of the interpreter: ends every wait. A thread that came back later would be ended inside of a call.
#[pyfunction]
pub fn _ending(py: Python<'_>) {
    IS_ENDING.store(true, SeqCst);
    let begun = Instant::now();
    while WAITING.load(SeqCst) > 0 && begun.elapsed() < MAX_EXIT {
        py.detach(|| std::thread::sleep(Duration::from_millis(5)));
    }
}

/// The process in which something was made.
#[derive(Clone, Copy)]
pub struct Born(u32);

impl Born {
    pub fn now() -> Born {
        Born(GENERATION.load(SeqCst))
    }

    fn is_here(self) -> bool {
        self.0 == GENERATION.load(SeqCst)
    }

    /// The failure `Code::Misuse` in a forked child; it calls the thing `name`.
    pub fn check(self, name: &str) -> Result<(), Failure> {
        match self.is_here() {
            true => Ok(()),
            false => {
                let what = "was made before a fork: the child cannot use it";
                Err(Failure::new(Code::Misuse, format!("{name} {what}")))
            }
        }
    }
}

/// A value that one thread at a time uses, until it is closed, and that a forked child neither uses nor drops.
pub struct Own<T> {
    value: Mutex<Option<T>>,
    /// A call waits to take the value: all others find it closed.
    is_closing: AtomicBool,
    /// Raised once it is closed. The first task that waits makes it.
    ended: OnceLock<Signal>,
    born: Born,
    name: &'static str,
}

impl<T> Own<T> {
    /// Messages call it `name`.
    pub fn new(name: &'static str, value: T) -> Own<T> {
        Own {
            value: Mutex::new(Some(value)),
            is_closing: AtomicBool::new(false),
            ended: OnceLock::new(),
            born: Born::now(),
            name,
        }
    }

    /// Whether this process made it.
    pub fn check(&self) -> Result<(), Failure> {
        self.born.check(self.name)
    }

    fn closed(&self) -> Failure {
        Failure::new(Code::Misuse, format!("{} is closed", self.name))
    }

    /// A clone of the value, such as an `Arc`, for calls that many threads may make at the same time.
    pub fn share(&self) -> Result<T, Failure>
    where
        T: Clone,
    {
        self.check()?;
        // Never held for long: such a value is not used with `with`.
        let value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        value.clone().ok_or_else(|| self.closed())
    }

    fn lock(&self) -> Result<MutexGuard<'_, Option<T>>, Failure> {
        self.check()?;
        match self.value.try_lock() {
            Ok(value) => Ok(value),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {
                let text = format!("another thread uses {}", self.name);
                Err(Failure::new(Code::Busy, text))
            }
        }
    }

    /// Runs `act` on the value. Another thread that tries the same meanwhile gets the failure `Code::Busy`.
    pub fn with<R>(&self, act: impl FnOnce(&mut T) -> Result<R, Failure>) -> Result<R, Failure> {
        // While another thread takes it out for good, it is closed, and not busy.
        let closing = |failure| match self.check().is_ok() && self.is_closing.load(SeqCst) {
            true => self.closed(),
            false => failure,
        };
        match self.lock().map_err(closing)?.as_mut() {
            Some(value) if !self.is_closing.load(SeqCst) => act(value),
            _ => Err(self.closed()),
        }
    }

    /// A descriptor that is readable once [`take_wait`](Own::take_wait) has taken the value.
    pub fn ended(&self) -> Result<OwnedFd, Failure> {
        let signal = match self.ended.get() {
            Some(signal) => signal,
            None => {
                let made = Signal::new()?;
                self.ended.get_or_init(|| made)
            }
        };
        // Two tasks of an event loop cannot wait for one number.
        let own = signal.as_fd().try_clone_to_owned();
        Ok(own.map_err(|error| Error::new(self.name, "watching it").because(error))?)
    }

    /// Takes the value out for good. `None`: this was done before.
    pub fn take(&self) -> Result<Option<T>, Failure> {
        Ok(self.lock()?.take())
    }

    /// As [`take`](Own::take), and ends the waits of other threads and tasks: their next step finds it closed.
    pub fn take_wait(&self, py: Python<'_>) -> Result<Option<T>, Failure> {
        self.check()?; // a forked child inherited the signal
        self.is_closing.store(true, SeqCst);
        let begun = Instant::now();
        let taken = loop {
            match self.take() {
                Err(failure)
                    if failure.code() == Some(Code::Busy) && begun.elapsed() < MAX_CLOSE =>
                {
                    py.detach(|| std::thread::sleep(Duration::from_millis(1)));
                }
                taken => break taken,
            }
        };
        match (&taken, self.ended.get()) {
            (Err(_), _) => self.is_closing.store(false, SeqCst),
            (Ok(_), Some(ended)) => drop(ended.raise()),
            (Ok(_), None) => {}
        }
        taken
    }
}

impl<T> Drop for Own<T> {
    fn drop(&mut self) {
        if !self.born.is_here() {
            let value = self.value.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(value.take());
        }
    }
}

/// Seconds from Python as a time limit; `None`: no limit.
pub fn limit(seconds: Option<f64>) -> Result<Option<Duration>, Failure> {
    let Some(seconds) = seconds else {
        return Ok(None);
    };
    match Duration::try_from_secs_f64(seconds) {
        Ok(limit) => Ok(Some(limit)),
        Err(_) if seconds == f64::INFINITY => Ok(None),
        Err(_) => {
            let text = format!("timeout: {seconds} is not a number of seconds from 0 up");
            Err(Failure::new(Code::Invalid, text))
        }
    }
}

/// Calls `step` without the interpreter, each time with the time that it may wait, until it returns something. `None`: the time limit.
pub fn wait<T: Send>(
    py: Python<'_>,
    limit: Option<Duration>,
    mut step: impl FnMut(Duration) -> Result<Option<T>, Failure> + Send,
) -> Result<Option<T>, Failure> {
    let begun = Instant::now();
    loop {
        // First the count, then the flag: `_ending` does the reverse, so that one of the two sees the other.
        WAITING.fetch_add(1, SeqCst);
        let found = match IS_ENDING.load(SeqCst) {
            true => Err(Failure::new(Code::Interrupted, "the interpreter exits")),
            false => {
                let left = limit.map_or(SLICE, |limit| limit.saturating_sub(begun.elapsed()));
                py.detach(|| step(left.min(SLICE)))
            }
        };
        WAITING.fetch_sub(1, SeqCst);
        if let Some(found) = found? {
            return Ok(Some(found));
        }
        py.check_signals()?;
        if limit.is_some_and(|limit| begun.elapsed() >= limit) {
            return Ok(None);
        }
    }
}

/// What a call raises that found nothing to take within its time limit.
pub fn nothing(limit: Option<Duration>) -> Failure {
    match limit {
        Some(Duration::ZERO) => Failure::new(Code::Empty, "there is nothing now"),
        _ => Failure::new(Code::TimedOut, "nothing came within the time limit"),
    }
}

/// What a call raises that found no room within its time limit.
pub fn full(limit: Option<Duration>) -> Failure {
    match limit {
        Some(Duration::ZERO) => Failure::new(Code::Full, "there is no room now"),
        _ => Failure::new(Code::TimedOut, "there was no room within the time limit"),
    }
}

/// Receives what is there `now`. If that is nothing, `later` waits for it without the interpreter, for up to the time that it is called
/// with, and `object` makes Python's object of what it found.
///
/// Each of the two finds and takes in one step: another thread may take after it.
pub fn receive<T: Send, O>(
    py: Python<'_>,
    seconds: Option<f64>,
    now: impl FnOnce() -> Result<Option<O>, Failure>,
    later: impl FnMut(Duration) -> Result<Option<T>, Failure> + Send,
    object: impl FnOnce(T) -> PyResult<O>,
) -> Result<O, Failure> {
    let limit = limit(seconds)?;
    if let Some(found) = now()? {
        return Ok(found);
    }
    let found = match limit {
        Some(Duration::ZERO) => None,
        _ => wait(py, limit, later)?,
    };
    Ok(object(found.ok_or_else(|| nothing(limit))?)?)
}

/// The next of an iteration that ends where the other end was closed.
pub fn or_end<T>(received: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match received {
        Ok(message) => Ok(Some(message)),
        Err(failure) if failure.code() == Some(Code::Closed) => Ok(None),
        Err(failure) => Err(failure),
    }
}
