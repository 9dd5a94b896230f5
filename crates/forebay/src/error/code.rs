//! The numbers of errors: the same in Rust, C, C++ and Python, and never renumbered.

use std::{fmt, io::ErrorKind};

/// What kind of failure it is, as a number. Success is 0, so it is none of these.
///
/// ```
/// use forebay::{error::Code, ring::spsc};
/// let (mut producer, consumer) = spsc::ring(1)?;
/// producer.try_push(1)?;
/// let refused = producer.try_push(2).unwrap_err();
/// assert_eq!((refused.code(), refused.code().number()), (Code::Full, -1));
/// assert_eq!(Code::from_number(-1), Some(Code::Full));
/// # drop(consumer);
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(i32)]
pub enum Code {
    /// There is no room now.
    Full = -1,
    /// There is nothing now.
    Empty = -2,
    /// It did not happen within the time limit.
    TimedOut = -3,
    /// The other end is gone or closed, or the stream has ended.
    Closed = -4,
    /// An argument is out of its range.
    Invalid = -5,
    /// It is longer than what holds it could ever be, or than the buffer for it.
    TooLong = -6,
    /// There is nothing of that name.
    NotFound = -7,
    /// The name is taken.
    Exists = -8,
    /// The system does not allow it.
    Permission = -9,
    /// This kind of object, this build or this system cannot do it.
    Unsupported = -10,
    /// Another thread or a signal stopped it.
    Interrupted = -11,
    /// There is not enough memory.
    NoMemory = -12,
    /// The bytes of a file or of another process do not make sense.
    Damaged = -13,
    /// Another reader, thread or process uses it.
    Busy = -14,
    /// Any other answer of the system: see [`Error::raw_os_error`](super::Error::raw_os_error).
    Io = -15,
    /// A handle that is closed, of another kind, or inherited by a forked child. Only for the bindings to other languages.
    Misuse = -16,
    /// A defect of this library. Only for the bindings to other languages.
    Panic = -17,
    /// Messages were overwritten before they were received. The next call continues after them.
    Overrun = -18,
}

impl Code {
    /// All of them, in the order of their numbers: -1, -2 and so on.
    pub const ALL: [Code; 18] = [
        Code::Full,
        Code::Empty,
        Code::TimedOut,
        Code::Closed,
        Code::Invalid,
        Code::TooLong,
        Code::NotFound,
        Code::Exists,
        Code::Permission,
        Code::Unsupported,
        Code::Interrupted,
        Code::NoMemory,
        Code::Damaged,
        Code::Busy,
        Code::Io,
        Code::Misuse,
        Code::Panic,
        Code::Overrun,
    ];

    /// Its number, below 0.
    pub fn number(self) -> i32 {
        self as i32
    }

    /// The code with this number, if there is one.
    pub fn from_number(number: i32) -> Option<Code> {
        Code::ALL.into_iter().find(|code| code.number() == number)
    }

    /// The code of an error of std with this kind.
    pub fn of(kind: ErrorKind) -> Code {
        match kind {
            ErrorKind::TimedOut => Code::TimedOut,
            ErrorKind::BrokenPipe
            | ErrorKind::UnexpectedEof
            | ErrorKind::NotConnected
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted => Code::Closed,
            ErrorKind::InvalidInput => Code::Invalid,
            ErrorKind::FileTooLarge | ErrorKind::ArgumentListTooLong => Code::TooLong,
            ErrorKind::NotFound => Code::NotFound,
            ErrorKind::AlreadyExists => Code::Exists,
            ErrorKind::PermissionDenied => Code::Permission,
            ErrorKind::Unsupported => Code::Unsupported,
            ErrorKind::Interrupted => Code::Interrupted,
            ErrorKind::OutOfMemory => Code::NoMemory,
            ErrorKind::InvalidData => Code::Damaged,
            ErrorKind::ResourceBusy | ErrorKind::WouldBlock => Code::Busy,
            _ => Code::Io,
        }
    }

    /// The kind of std that is closest to it.
    pub fn kind(self) -> ErrorKind {
        match self {
            Code::Full | Code::Empty => ErrorKind::WouldBlock,
            Code::TimedOut => ErrorKind::TimedOut,
            Code::Closed => ErrorKind::BrokenPipe,
            Code::Invalid | Code::Misuse => ErrorKind::InvalidInput,
            Code::TooLong => ErrorKind::FileTooLarge,
            Code::NotFound => ErrorKind::NotFound,
            Code::Exists => ErrorKind::AlreadyExists,
            Code::Permission => ErrorKind::PermissionDenied,
            Code::Unsupported => ErrorKind::Unsupported,
            Code::Interrupted => ErrorKind::Interrupted,
            Code::NoMemory => ErrorKind::OutOfMemory,
            Code::Damaged => ErrorKind::InvalidData,
            Code::Busy => ErrorKind::ResourceBusy,
            Code::Io | Code::Panic | Code::Overrun => ErrorKind::Other,
        }
    }
}

/// A sentence without its full stop.
impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Code::Full => "there is no room now",
            Code::Empty => "there is nothing now",
            Code::TimedOut => "the time limit has passed",
            Code::Closed => "the other end is closed or gone",
            Code::Invalid => "an argument is out of its range",
            Code::TooLong => "it is too long",
            Code::NotFound => "it was not found",
            Code::Exists => "the name is taken",
            Code::Permission => "permission denied",
            Code::Unsupported => "it is not supported",
            Code::Interrupted => "it was interrupted",
            Code::NoMemory => "there is not enough memory",
            Code::Damaged => "the data is damaged",
            Code::Busy => "it is in use elsewhere",
            Code::Io => "the system reported an error",
            Code::Misuse => "the handle cannot be used",
            Code::Panic => "the library has a defect",
            Code::Overrun => "messages were overwritten",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_numbered_from_minus_one_on_and_never_change() {
        let numbers = Code::ALL.map(Code::number);
        assert!(numbers.into_iter().eq((1..=18).map(|number: i32| -number)));
        let known = [(Code::Closed, -4), (Code::Damaged, -13), (Code::Panic, -17)];
        for (code, number) in known {
            assert_eq!(
                (code.number(), Code::from_number(number)),
                (number, Some(code))
            );
        }
        assert_eq!(Code::from_number(0), None);
    }

    #[test]
    fn a_code_survives_std_unless_std_has_no_such_kind() {
        use Code::{Busy, Empty, Full, Invalid, Io, Misuse, Overrun, Panic};
        for code in Code::ALL {
            let expected = match code {
                Full | Empty => Busy,
                Misuse => Invalid,
                Panic | Overrun => Io,
                other => other,
            };
            assert_eq!(Code::of(code.kind()), expected, "{code}");
        }
    }
}
