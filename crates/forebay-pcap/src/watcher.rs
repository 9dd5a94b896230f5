//! A thread that waits for the packets of a device without a descriptor that reports exactly those that the program gets.
//!
//! ```text
//!  program's call ends, no packet waits ── resume ──▶ thread: waits for the port, fills Intake::ahead ── flag ──▶ the program's poll
//! ```
//! A device whose kernel socket filters needs none. The thread works on the port only between `resume` and the packet that it finds.
//!
//! `fork` does not copy threads. It waits while one works, so that the child finds the port whole. In the child, the flag of each device is
//! set: the program's next call, which this causes, starts a new thread.

use crate::{
    border::{at_fork, without_signals},
    intake::Intake,
    selectable::{Flag, timespec},
};
use forebay_net::port::Wake;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    cell::RefCell,
    io, mem,
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc, Mutex, MutexGuard, Once, PoisonError, TryLockError, Weak,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// All watchers. Locked while one of them works, and by a thread that forks.
static WATCHERS: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());
/// Forks that led to this process.
static FORKS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// What a thread that forks holds meanwhile.
    static FORKING: RefCell<Option<MutexGuard<'static, Vec<Weak<Shared>>>>> = const { RefCell::new(None) };
}

/// How long to leave a call of the program alone.
const BUSY: Timespec = timespec(1_000_000);
/// How long to wait where descriptors cannot be waited for: because there are too many already, or a limit was lowered.
const RETRY: Duration = Duration::from_millis(10);

pub struct Watcher {
    shared: Arc<Shared>,
    /// `None` once the thread is awaited.
    thread: Option<JoinHandle<()>>,
    forks: u64,
}

struct Shared {
    intake: Arc<Mutex<Intake>>,
    /// Set when a packet waits.
    found: Arc<Flag>,
    /// Set to have the thread look at the other two.
    changed: Flag,
    is_asked: AtomicBool,
    is_over: AtomicBool,
}

/// What the thread waits for beside a change.
enum Waiting {
    Change,
    For(Timespec),
    Fd(OwnedFd),
}

/// The content, also after a panic of another thread, which leaves no packet half done.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Number of processes between this one and the one that loaded the library, from the first call on.
pub fn forks() -> u64 {
    static HANDLERS: Once = Once::new();
    HANDLERS.call_once(|| at_fork(before_fork, after_fork, in_child));
    FORKS.load(Relaxed)
}

impl Watcher {
    pub fn start(intake: &Arc<Mutex<Intake>>, found: &Arc<Flag>) -> io::Result<Watcher> {
        let forks = forks();
        let shared = Arc::new(Shared {
            intake: intake.clone(),
            found: found.clone(),
            changed: Flag::new()?,
            is_asked: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        });
        let its = shared.clone();
        // Signals are for the program's threads.
        let thread = without_signals(|| {
            let named = thread::Builder::new().name("forebay-pcap".into());
            named.spawn(move || its.work())
        })?;
        locked(&WATCHERS).push(Arc::downgrade(&shared));
        Ok(Watcher {
            shared,
            thread: Some(thread),
            forks,
        })
    }

    /// Whether this process has its thread.
    pub fn is_here(&self) -> bool {
        self.forks == forks()
    }

    /// Has the thread wait for a packet. Nothing else may hold the intake any more.
    pub fn resume(&self) {
        self.shared.is_asked.store(true, Release);
        self.shared.changed.set();
    }

    /// Has the thread wait for nothing. The intake must be held.
    pub fn pause(&self) {
        self.shared.is_asked.store(false, Relaxed);
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let thread = self.thread.take();
        if self.is_here() {
            self.shared.is_over.store(true, Relaxed);
            self.shared.changed.set();
            thread.map(JoinHandle::join);
        } else {
            // It belongs to the parent.
            mem::forget(thread);
        }
        let ours = Arc::as_ptr(&self.shared);
        locked(&WATCHERS).retain(|watcher| watcher.as_ptr() != ours);
    }
}

impl Shared {
    /// Waits for changes, and for packets if the program waits for them, to the end.
    fn work(&self) {
        let mut waiting = Waiting::Change;
        loop {
            self.wait(&waiting);
            self.changed.clear();
            let _no_fork = locked(&WATCHERS);
            if self.is_over.load(Relaxed) {
                return;
            }
            waiting = match self.intake.try_lock() {
                Ok(mut intake) => self.look(&mut intake),
                Err(TryLockError::Poisoned(intake)) => self.look(&mut intake.into_inner()),
                // A call of the program is working. It may end without `resume`.
                Err(TryLockError::WouldBlock) => Waiting::For(BUSY),
            };
        }
    }

    /// Sets the flag if a packet waits, and otherwise returns what to wait for.
    fn look(&self, intake: &mut Intake) -> Waiting {
        if !self.is_asked.load(Acquire) {
            return Waiting::Change;
        }
        let clock = intake.clock.clone();
        let now = Waiting::For(Timespec::default());
        match intake.watch() {
            None => {
                self.is_asked.store(false, Relaxed);
                self.found.set();
                Waiting::Change
            }
            Some(Wake::Fd(fd)) => {
                let retry = Waiting::For(timespec(RETRY.as_nanos() as u64));
                fd.try_clone_to_owned().map_or(retry, Waiting::Fd)
            }
            Some(Wake::At(then)) if clock.is_virtual() => {
                clock.sleep_until(then);
                now
            }
            Some(Wake::At(then)) => Waiting::For(timespec(then.saturating_sub(clock.now()))),
            Some(_) => now,
        }
    }

    fn wait(&self, waiting: &Waiting) {
        let mut fds = vec![PollFd::new(&self.changed, PollFlags::IN)];
        let limit = match waiting {
            Waiting::Change => None,
            Waiting::For(time) => Some(time),
            Waiting::Fd(fd) => {
                fds.push(PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN));
                None
            }
        };
        // It is also called again if this fails, but not at once.
        if poll(&mut fds, limit).is_err() {
            thread::sleep(RETRY);
        }
    }
}

extern "C" fn before_fork() {
    FORKING.with_borrow_mut(|held| *held = Some(locked(&WATCHERS)));
}

extern "C" fn after_fork() {
    FORKING.with_borrow_mut(|held| *held = None);
}

extern "C" fn in_child() {
    FORKS.fetch_add(1, Relaxed);
    FORKING.with_borrow_mut(|held| {
        let watchers = held.take();
        for watcher in watchers.iter().flat_map(|all| all.iter()) {
            if let Some(shared) = watcher.upgrade() {
                shared.found.set();
            }
        }
    });
}
