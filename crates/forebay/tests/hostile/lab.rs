//! Surroundings of the tests: a folder for a test and its children, time limits, and checks for leaked descriptors.

use forebay_testing::children::{self, FOLDER, Mortal};
use std::{
    env, fs,
    path::PathBuf,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// A hundredth of a second in which this process could run. Time in which the tests were stopped does not count.
const TICK: Duration = Duration::from_millis(10);
static TICKS: AtomicU64 = AtomicU64::new(0);

/// A limit far above what any call may take, even on a busy machine: 5 s.
const FAR_TOO_LONG: u64 = 500;

/// Runs one test at a time, since they count this process's descriptors, and limits its time.
pub struct Alone {
    _turn: MutexGuard<'static, ()>,
    _ends: mpsc::Sender<()>,
}

/// Waits for other tests. Aborts the process if this test outlasts `limit` by far, since then a call did not return.
pub fn alone(limit: Duration) -> Alone {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let far_too_long = limit + Duration::from_secs(120);
    let (ends, end) = mpsc::channel();
    thread::spawn(move || {
        for _ in 0..far_too_long.as_millis() / TICK.as_millis() {
            if end.recv_timeout(TICK) != Err(mpsc::RecvTimeoutError::Timeout) {
                return;
            }
            TICKS.fetch_add(1, Relaxed);
        }
        eprintln!("a call did not return within {far_too_long:?}");
        std::process::abort();
    });
    Alone {
        _turn: turn,
        _ends: ends,
    }
}

/// Makes a call that must return soon.
pub fn promptly<T>(call: impl FnOnce() -> T) -> T {
    let begun = TICKS.load(Relaxed);
    let answer = call();
    let ticks = TICKS.load(Relaxed) - begun;
    assert!(
        ticks < FAR_TOO_LONG,
        "a call took {:?}",
        TICK * ticks as u32
    );
    answer
}

/// A folder for a test and its children, removed at its end.
pub struct Lab {
    folder: PathBuf,
}

impl Lab {
    pub fn new(test: &str) -> Lab {
        let folder = env::temp_dir().join(format!("forebay-{test}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Lab { folder }
    }

    /// The lab that this child belongs to.
    pub fn of_child() -> Lab {
        let folder = env::var_os(FOLDER).unwrap().into();
        Lab { folder }
    }

    /// Starts this program again, as `role` number `number`.
    pub fn child(&self, role: &str, number: u64) -> Mortal {
        self.child_with(role, number, "FOREBAY_ROLE", role)
    }

    /// Like [`child`](Lab::child), with one more environment variable.
    pub fn child_with(&self, role: &str, number: u64, variable: &str, value: &str) -> Mortal {
        let child = children::role("child")
            .env(variable, value)
            .env("FOREBAY_ROLE", role)
            .env(FOLDER, &self.folder)
            .env("FOREBAY_NUMBER", number.to_string())
            .spawn();
        Mortal(child.unwrap())
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    /// Stores a number for the test.
    pub fn tell(&self, role: &str, number: u64, told: u64) {
        let file = self.folder.join(format!("{role}-{number}"));
        fs::write(file, told.to_string()).unwrap();
    }

    pub fn told_by(&self, role: &str, number: u64) -> u64 {
        let file = self.folder.join(format!("{role}-{number}"));
        fs::read_to_string(file).unwrap().parse().unwrap()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // Not in children, which store numbers there.
        if env::var_os(FOLDER).is_none() {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// The open descriptors of this process, and its mappings of lanes.
#[derive(Debug, PartialEq, Eq)]
pub struct Descriptors {
    descriptors: usize,
    maps: usize,
}

impl Descriptors {
    pub fn now() -> Descriptors {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        Descriptors {
            descriptors: fs::read_dir("/proc/self/fd").unwrap().count(),
            maps: maps.lines().filter(|line| line.contains("memfd:")).count(),
        }
    }

    /// Asserts that the numbers are the same as before. Descriptors that other threads close get some time.
    pub fn come_back(self) {
        let begun = Instant::now();
        while Descriptors::now() != self {
            let now = Descriptors::now();
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "{self:?}, now {now:?}"
            );
            thread::yield_now();
        }
    }
}
