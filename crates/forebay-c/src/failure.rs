//! Numbered errors, and the last one of each thread.

use crate::gate::Shut;
use forebay::{
    Error,
    error::Code,
    packet,
    queue::{self, lanes},
    ring::{broadcast, spsc::WaitError},
};
use std::{
    borrow::Cow,
    cell::RefCell,
    ffi::{CStr, CString, c_int},
    io,
};

/// Each code with its sentence.
const SENTENCES: [(Code, &CStr); Code::ALL.len()] = [
    (Code::Full, c"there is no room now"),
    (Code::Empty, c"there is nothing now"),
    (Code::TimedOut, c"the time limit was reached"),
    (
        Code::Closed,
        c"the other end is gone or closed, or the stream has ended",
    ),
    (Code::Invalid, c"an argument is out of its range"),
    (Code::TooLong, c"it never fits"),
    (Code::NotFound, c"there is no such object"),
    (Code::Exists, c"the object exists already"),
    (Code::Permission, c"permission denied"),
    (Code::Unsupported, c"not supported here"),
    (Code::Interrupted, c"stopped by another thread or a signal"),
    (Code::NoMemory, c"not enough memory"),
    (
        Code::Damaged,
        c"the bytes of a file or of another process make no sense",
    ),
    (
        Code::Busy,
        c"another thread uses this end, or it has a second reader",
    ),
    (Code::Io, c"the operating system returned an error"),
    (
        Code::Misuse,
        c"the handle is closed, of another kind, or from before a fork",
    ),
    (Code::Panic, c"a defect of forebay"),
    (
        Code::Overrun,
        c"messages were overwritten before they were received",
    ),
];

pub fn sentence(code: c_int) -> &'static CStr {
    let known = SENTENCES.iter().find(|(known, _)| *known as c_int == code);
    match (code, known) {
        (0, _) => c"no error",
        (_, Some((_, sentence))) => sentence,
        _ => c"unknown error",
    }
}

/// Why a function could not do its work.
#[derive(Debug)]
pub struct Failure {
    pub code: Code,
    /// Empty: the sentence of the code.
    text: Cow<'static, str>,
    errno: c_int,
}

pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub fn new(code: Code, text: impl Into<Cow<'static, str>>) -> Failure {
        Failure {
            code,
            text: text.into(),
            errno: 0,
        }
    }

    pub fn invalid(text: impl Into<Cow<'static, str>>) -> Failure {
        Failure::new(Code::Invalid, text)
    }
}

impl From<Code> for Failure {
    fn from(code: Code) -> Failure {
        Failure::new(code, "")
    }
}

impl From<Shut> for Failure {
    fn from(shut: Shut) -> Failure {
        match shut {
            Shut::Closed => Code::Misuse.into(),
            Shut::Busy => Code::Busy.into(),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure {
            code: error.code(),
            text: error.to_string().into(),
            errno: error.raw_os_error().unwrap_or(0),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Error::from(error).into()
    }
}

macro_rules! failures {
    ($($error:ty),* $(,)?) => {$(impl From<$error> for Failure {
        fn from(error: $error) -> Failure {
            match error.code() {
                // These are expected, and cost no text.
                code @ (Code::Full | Code::Empty | Code::TimedOut | Code::Closed) => code.into(),
                code => Failure::new(code, error.to_string()),
            }
        }
    })*};
}
failures!(
    WaitError,
    queue::SendError,
    queue::RecvError,
    queue::StatsError,
    packet::Refused,
    broadcast::TooLong,
    broadcast::RecvError,
    lanes::SendError,
    lanes::RecvError,
);

#[derive(Default)]
struct Last {
    code: c_int,
    /// `None`: the sentence of the code. Expected answers, such as `FULL`, so allocate nothing.
    text: Option<CString>,
    errno: c_int,
}

thread_local! {
    static LAST: RefCell<Last> = RefCell::default();
}

/// Keeps the failure for [`last`].
pub fn remember(failure: Failure) {
    let text = Some(&failure.text).filter(|text| !text.is_empty());
    let text = text.and_then(|text| CString::new(text.replace('\0', "")).ok());
    // A thread that ends has none.
    let _ = LAST.try_with(|last| {
        *last.borrow_mut() = Last {
            code: failure.code as c_int,
            text,
            errno: failure.errno,
        };
    });
}

/// The text of this thread's last error, as a pointer that stays valid until its next one, and the number of the system's error.
pub fn last() -> (*const std::ffi::c_char, c_int) {
    let last = LAST.try_with(|last| {
        let last = last.borrow();
        let text = last.text.as_deref().unwrap_or(sentence(last.code));
        (text.as_ptr(), last.errno)
    });
    last.unwrap_or((sentence(0).as_ptr(), 0))
}
