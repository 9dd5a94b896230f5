//! A laboratory for tests on live interfaces: a separate network namespace with a veth pair. No real interface is touched.
//!
//! ```text
//!  one thread, one anonymous namespace          lo   va ◀──── veth ────▶ vb
//!  (it ends with the thread and its children)          senders            the port under test
//! ```
#![allow(unsafe_code, missing_docs)]

use crate::dice::in_ci;
use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Condvar, Mutex, mpsc};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// Set in a child process that was started in a user namespace, where it may create network namespaces.
const INSIDE: &str = "FOREBAY_TEST_INSIDE";
/// At most this many laboratories at a time: most of their tests wait.
const LABORATORIES: usize = 6;
static FREE: Mutex<usize> = Mutex::new(LABORATORIES);
static FREED: Condvar = Condvar::new();

/// The right to have one or all of the laboratories, until it is dropped.
struct Permit(usize);

impl Permit {
    fn wait(count: usize) -> Self {
        let free = FREE.lock().expect("nothing panics with the lock");
        let mut free = FREED
            .wait_while(free, |free| *free < count)
            .expect("nothing panics with the lock");
        *free -= count;
        Permit(count)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        *FREE.lock().expect("nothing panics with the lock") += self.0;
        FREED.notify_all();
    }
}

/// [`lab`] for tests of what is gone after a port was closed, such as its queue: only one at a time. A child that another test starts
/// has copies of all descriptors until it runs its program, and a port that is closed meanwhile would stay open.
pub fn lab_alone(tools: &[&str], body: impl FnOnce() + Send) {
    with_permit(Permit::wait(LABORATORIES), tools, body);
}

/// Runs `body` in a separate namespace, with `va` and `vb` up; or reports why it cannot.
/// Other laboratories of this program may be open at the same time.
pub fn lab(tools: &[&str], body: impl FnOnce() + Send) {
    with_permit(Permit::wait(1), tools, body);
}

fn with_permit(_permit: Permit, tools: &[&str], body: impl FnOnce() + Send) {
    if let Some(tool) = ["ip"].iter().chain(tools).find(|tool| !have(tool)) {
        return skip(&format!("the tool `{tool}`"));
    }
    let entered = thread::scope(|scope| {
        let named = thread::Builder::new().name(this_test());
        let inside = named.spawn_scoped(scope, || {
            own_network()?;
            ip("link add va type veth peer name vb");
            ip("link set lo up");
            up(&["va", "vb"]);
            body();
            Ok(())
        });
        let inside = inside.expect("a thread");
        inside.join().unwrap_or_else(|panic| resume_unwind(panic))
    });
    match entered {
        Ok(()) => {}
        Err(error) if std::env::var_os(INSIDE).is_some() => {
            skip(&format!("network namespaces: {error}"))
        }
        Err(error) => again_as_namespace_root(&error),
    }
}

/// Sets all interfaces up, and then waits for their carriers: one may be the other side of another.
pub fn up(links: &[&str]) {
    for link in links {
        ip(&format!("link set {link} up"));
    }
    links.iter().copied().for_each(carries);
}

/// Waits for an interface's carrier: the kernel notices with a delay that the other side is up.
pub fn carries(link: &str) {
    let begun = Instant::now();
    while !ip(&format!("link show {link}")).contains("state UP") {
        assert!(begun.elapsed() < Duration::from_secs(60), "no carrier");
    }
}

/// The full name of the running test, including modules. The harness gives it to the test's thread, and [`lab`] to the thread in
/// the namespace.
fn this_test() -> String {
    let name = thread::current().name().map(str::to_owned);
    let name = name.expect("tests run in threads with their names");
    assert_ne!(name, "main", "no test has this name");
    name
}

/// Reports that a test did not run. In CI, where all tests must run, this is a failure.
pub fn skip(needs: &str) {
    let text = format!("{}: skipped: needs {needs}", this_test());
    assert!(!in_ci(), "{text}");
    eprintln!("\n*** {text} ***");
}

/// Moves this thread to a new network namespace without automatic IPv6 traffic.
fn own_network() -> io::Result<()> {
    // SAFETY: changes the network namespace of this thread; accesses no memory.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // Interfaces created from now on do not announce themselves. Without IPv6 there is nothing to do.
    let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
    Ok(())
}

/// Runs `body` on a thread in another network namespace, to which these interfaces are moved. Call it inside of [`lab`].
pub fn elsewhere<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    links: &[&str],
    body: impl FnOnce() -> T + Send + 'scope,
) -> ScopedJoinHandle<'scope, T> {
    let (entered, thread) = mpsc::channel();
    let (moved, go_on) = mpsc::channel();
    let handle = scope.spawn(move || {
        own_network().expect("a namespace");
        // SAFETY: accesses no memory.
        entered.send(unsafe { libc::gettid() }).expect("a receiver");
        go_on.recv().expect("interfaces");
        body()
    });
    let thread = thread.recv().expect("a namespace");
    for link in links {
        ip(&format!("link set {link} netns {thread}"));
    }
    moved.send(()).expect("a thread");
    handle
}

/// An unprivileged user is root in a user namespace, but only a single-threaded process can enter one.
fn again_as_namespace_root(why: &io::Error) {
    let unshare = |args: &[&str]| {
        let mut command = Command::new("unshare");
        command
            .args(["--user", "--map-root-user", "--net"])
            .args(args);
        command
    };
    if !unshare(&["true"])
        .status()
        .is_ok_and(|status| status.success())
    {
        return skip(&format!("root or a user namespace ({why})"));
    }
    let me = std::env::current_exe().expect("this test has a path");
    let me = me.to_str().expect("which is text");
    let test = this_test();
    let status = unshare(&[me, "--exact", &test, "--nocapture", "--include-ignored"])
        .env(INSIDE, "1")
        .status();
    assert!(
        status.expect("unshare ran before").success(),
        "{test} failed inside a user namespace"
    );
}

/// The folders of programs, root's included.
fn path() -> String {
    std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin"
}

fn found(tool: &str) -> Option<PathBuf> {
    path()
        .split(':')
        .map(|folder| Path::new(folder).join(tool))
        .find(|file| file.is_file())
}

/// Whether a tool is installed, also in root's directories.
pub fn have(tool: &str) -> bool {
    found(tool).is_some()
}

/// A command for this namespace, also found in root's directories. It is named by its path: to look it up in a `PATH` that is not ours,
/// the library would fork this process, and copying the tables of its memory takes longer than many a tool.
pub fn tool(name: &str) -> Command {
    let mut command = Command::new(found(name).unwrap_or(name.into()));
    command.env("PATH", path());
    command
}

/// Runs `ip` with these words and returns its output. It must succeed.
pub fn ip(words: &str) -> String {
    let output = tool("ip").args(words.split(' ')).output().expect("ip runs");
    assert!(
        output.status.success(),
        "ip {words}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}

/// A classic capture file of these frames, as input of the sending tools.
pub fn classic(frames: &[Vec<u8>]) -> Vec<u8> {
    let words = [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 262_144, 1_u32];
    let mut file: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    for frame in frames {
        let len = frame.len() as u32;
        for word in [0, 0, len, len] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}
