//! Which standard streams the program was started without.
#![allow(unsafe_code)]

use std::{
    io,
    sync::atomic::{AtomicU8, Ordering},
};

/// The standard descriptors that were closed when the program began, one bit each. Written once, before `main`. Relaxed: no other
/// thread exists at that time.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Records them. The start-up code of the Rust runtime opens `/dev/null` in their place, after which they look open.
extern "C" fn note_closed() {
    for number in 0..3 {
        // SAFETY: passes no memory to the kernel; for a closed descriptor the call only returns an error.
        let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
        if flags < 0 {
            CLOSED.fetch_or(1 << number, Ordering::Relaxed);
        }
    }
}

// SAFETY: the section holds pointers to C functions that are called before `main`, with arguments that this one ignores. It
// uses one system call and one atomic, and nothing of the Rust runtime, which is not yet initialized.
#[unsafe(link_section = ".init_array")]
#[used]
static NOTE_CLOSED: extern "C" fn() = note_closed;

/// Whether descriptor `number`, 0 to 2, was closed when the program began.
pub(crate) fn was_closed(number: u8) -> bool {
    CLOSED.load(Ordering::Relaxed) >> number & 1 == 1
}

/// Marks every descriptor from 3 on to be closed when another program is executed.
pub(crate) fn close_others_on_exec() -> io::Result<()> {
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.parse().ok());
        if let Some(number @ 3..) = number {
            // SAFETY: passes no memory to the kernel, and closes nothing in this process.
            unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
    Ok(())
}
