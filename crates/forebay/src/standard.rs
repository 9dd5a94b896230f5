//! Standard input, output and error as files, or an error if the program was started without them.
//!
//! If a program is started with standard output closed (`>&-` in a shell), Rust's runtime opens `/dev/null` in its place before
//! `main`, and everything written is lost without an error. So this module records, before Rust's runtime starts, which of them
//! were closed. A program that was started with `>/dev/null` gets no error.

use crate::{Error, Result, error::Code, sys::stdio::was_closed};
use std::{fs::File, io, os::fd::AsFd};

/// Standard input, as a descriptor of our own.
///
/// # Errors
/// The program was started without it, or no descriptor is left.
pub fn input() -> Result<File> {
    open(
        0,
        "standard input",
        &io::stdin(),
        "Give it a file, a pipe or </dev/null",
    )
}

/// Standard output, likewise. What is written goes past the buffer of [`std::io::Stdout`].
///
/// ```
/// use std::io::Write;
/// forebay::standard::output()?.write_all(b"").unwrap();
/// # Ok::<(), forebay::Error>(())
/// ```
///
/// # Errors
/// As [`input`].
pub fn output() -> Result<File> {
    open(
        1,
        "standard output",
        &io::stdout(),
        "Give it a file, a pipe or >/dev/null",
    )
}

/// Standard error, likewise.
///
/// ```
/// use std::io::Write;
/// forebay::standard::error()?.write_all(b"").unwrap();
/// # Ok::<(), forebay::Error>(())
/// ```
///
/// # Errors
/// As [`input`].
pub fn error() -> Result<File> {
    open(
        2,
        "standard error",
        &io::stderr(),
        "Give it a file, a pipe or 2>/dev/null",
    )
}

/// Closes every other descriptor that is open now in programs that this one starts: a shell that started this one may have left
/// some open.
///
/// ```
/// forebay::standard::close_others_on_exec().unwrap();
/// ```
///
/// # Errors
/// The descriptors cannot be listed.
pub fn close_others_on_exec() -> io::Result<()> {
    crate::sys::stdio::close_others_on_exec()
}

fn open(number: u8, name: &str, stream: &impl AsFd, advice: &str) -> Result<File> {
    if was_closed(number) {
        return Err(Error::coded(Code::Closed, name, "it is closed").advise(advice));
    }
    let own = stream.as_fd().try_clone_to_owned();
    own.map(File::from)
        .map_err(|cause| Error::new(name, "opening it").because(cause))
}
