//! The error type of set-up and I/O. It holds the operation, its object, the system's error, and advice.
//!
//! That a buffer is full or empty is not an [`Error`], but an ordinary result of the call (`PushError::Full`, `None` or a count). The text of
//! an [`Error`] is for people; programs use [`Error::kind`], or [`Error::code`]: every error type of this crate has a numbered [`Code`].
//! The smaller types become an [`Error`] by `?`.

mod code;
pub use code::Code;

use std::{
    fmt,
    io::{self, ErrorKind},
};

/// A failure with its full context, printed as `on: tried: cause. advice`.
///
/// ```
/// use forebay::Error;
/// let error = Error::new("eth9", "opening a packet socket")
///     .because(std::io::Error::from_raw_os_error(1))
///     .advise("Run as root");
/// assert_eq!(error.to_string(), "eth9: opening a packet socket: operation not permitted (os error 1). Run as root");
/// assert_eq!(error.raw_os_error(), Some(1));
/// assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
/// let error: std::io::Error = error.into(); // for functions that return std's error
/// assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
/// ```
#[derive(Debug)]
pub struct Error {
    on: String,
    tried: String,
    cause: Option<io::Error>,
    /// Used if there is no cause.
    kind: ErrorKind,
    /// Used instead of that of the kind.
    code: Option<Code>,
    advice: String,
}

/// A result whose failure is an [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error about `on` (a path, an interface, "ring"; may be empty) while doing `tried` (may be empty if there is a cause).
    pub fn new(on: impl Into<String>, tried: impl Into<String>) -> Self {
        Error {
            on: on.into(),
            tried: tried.into(),
            cause: None,
            kind: ErrorKind::Other,
            code: None,
            advice: String::new(),
        }
    }

    /// As [`new`](Error::new), for a request that cannot be met as it was made: a value out of its range, an impossible
    /// combination. Its kind is [`ErrorKind::InvalidInput`].
    pub fn invalid(on: impl Into<String>, tried: impl Into<String>) -> Self {
        Error {
            kind: ErrorKind::InvalidInput,
            ..Error::new(on, tried)
        }
    }

    /// Sets the kind, for a failure that no error of the operating system caused.
    pub fn of_kind(mut self, kind: ErrorKind) -> Self {
        self.kind = kind;
        self
    }

    /// An error with this code, about `on`; `what` happened.
    pub fn coded(code: Code, on: impl Into<String>, what: impl Into<String>) -> Self {
        Error {
            kind: code.kind(),
            code: Some(code),
            ..Error::new(on, what)
        }
    }

    /// Sets the object, if it is not set yet: for code that failed without knowing it.
    pub fn about(mut self, on: impl Into<String>) -> Self {
        if self.on.is_empty() {
            self.on = on.into();
        }
        self
    }

    /// Adds the error of the operating system.
    pub fn because(mut self, cause: impl Into<io::Error>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// Adds what the user can do about it: a sentence without its final full stop.
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = advice.into();
        self
    }

    /// The error of the operating system, if there was one.
    pub fn cause(&self) -> Option<&io::Error> {
        self.cause.as_ref()
    }

    /// What kind of failure it is: that of the operating system's error; or the one that was [set](Error::of_kind);
    /// [`ErrorKind::InvalidInput`] for a request that cannot be met as it was made; otherwise [`ErrorKind::Other`].
    ///
    /// ```
    /// use forebay::ring::spsc;
    /// let error = spsc::ring::<u64>(0).unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    /// ```
    pub fn kind(&self) -> ErrorKind {
        self.cause.as_ref().map_or(self.kind, io::Error::kind)
    }

    /// Its number, the same in C, C++ and Python: the one that it was [made with](Error::coded), or that of its [kind](Error::kind).
    ///
    /// ```
    /// use forebay::{error::Code, queue::shared};
    /// assert_eq!(shared::check_name("../jobs").unwrap_err().code(), Code::Invalid);
    /// assert_eq!(shared::attach("no-such-queue").unwrap_err().code(), Code::NotFound);
    /// ```
    ///
    /// If the system answered that an argument of a system call is wrong or too long (`EINVAL`, `EFBIG`, `E2BIG`), that is
    /// [`Code::Io`]: the caller's argument need not be.
    pub fn code(&self) -> Code {
        let of_system = match self.raw_os_error() {
            Some(libc::EINVAL | libc::EFBIG | libc::E2BIG) => Code::Io,
            _ => Code::of(self.kind()),
        };
        self.code.unwrap_or(of_system)
    }

    /// The `errno` of the cause, if it has one.
    pub fn raw_os_error(&self) -> Option<i32> {
        self.cause.as_ref().and_then(io::Error::raw_os_error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = self.cause.as_ref().map(|cause| {
            let text = cause.to_string();
            let mut letters = text.chars();
            let first = letters.next().map(|c| c.to_lowercase().to_string());
            first.unwrap_or_default() + letters.as_str()
        });
        let parts = [&self.on, &self.tried, &cause.unwrap_or_default()];
        let parts = parts.map(String::as_str).into_iter();
        let parts: Vec<_> = parts.filter(|it| !it.is_empty()).collect();
        f.write_str(&parts.join(": "))?;
        if !self.advice.is_empty() {
            write!(f, ". {}", self.advice)?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    /// That of the [cause](Error::cause), whose own text is part of this error's.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().and_then(std::error::Error::source)
    }
}

impl From<io::Error> for Error {
    /// With the error as its [cause](Error::cause). An `Error` that was turned into an [`io::Error`] comes back as it was.
    fn from(error: io::Error) -> Error {
        match error.downcast() {
            Ok(error) => error,
            Err(error) => Error::new("", "").because(error),
        }
    }
}

impl From<Error> for io::Error {
    /// Keeps the kind and the whole text. The `Error` is the inner error ([`io::Error::into_inner`]), unless it is nothing but its
    /// cause.
    fn from(error: Error) -> io::Error {
        let kind = error.kind();
        let is_bare = error.on.is_empty() && error.tried.is_empty() && error.advice.is_empty();
        match error.cause {
            Some(cause) if is_bare => cause,
            cause => io::Error::new(kind, Error { cause, ..error }),
        }
    }
}

impl From<Code> for Error {
    fn from(code: Code) -> Error {
        Error::coded(code, "", code.to_string())
    }
}

/// Makes an error of a type, about the object `$on`: each form that it has, with its code and its text. The parts of a form may stand in
/// the text. Also for the crates above this one.
#[doc(hidden)]
#[macro_export]
macro_rules! coded {
    ([$($generics:tt)*] $type:ty, $on:literal, { $($form:pat => $code:expr, $text:literal $(, $part:expr)*;)* }) => {
        #[allow(unused_variables)] // which parts a code or a text needs differs
        impl<$($generics)*> $type {
            /// Its number, as that of every error.
            pub fn code(&self) -> $crate::error::Code {
                use $crate::error::Code;
                match self {
                    $($form => $code,)*
                }
            }
        }

        #[allow(unused_variables)] // as above
        impl<$($generics)*> std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $($form => write!(f, $text $(, $part)*),)*
                }
            }
        }

        impl<$($generics)*> std::error::Error for $type {}

        impl<$($generics)*> From<$type> for $crate::Error {
            fn from(error: $type) -> $crate::Error {
                $crate::Error::coded(error.code(), $on, error.to_string())
            }
        }
    };
}
pub(crate) use coded;

/// A cause that is not a number of the operating system is copied as its kind and its text.
impl Clone for Error {
    fn clone(&self) -> Error {
        let copy = |cause: &io::Error| match cause.raw_os_error() {
            Some(number) => io::Error::from_raw_os_error(number),
            None => io::Error::new(cause.kind(), cause.to_string()),
        };
        Error {
            on: self.on.clone(),
            tried: self.tried.clone(),
            cause: self.cause.as_ref().map(copy),
            kind: self.kind,
            code: self.code,
            advice: self.advice.clone(),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn a_report_of_an_error_and_its_sources_prints_each_text_once() {
        let inner = io::Error::other(Error::new("disk", "turning"));
        let error = Error::new("file", "writing").because(inner);
        let mut report = error.to_string();
        let mut source = error.source();
        while let Some(one) = source {
            report += &format!(": {one}");
            source = one.source();
        }
        assert_eq!(report, "file: writing: disk: turning");
    }

    #[test]
    fn an_error_survives_the_way_through_std() {
        fn fails() -> Result<()> {
            let error = Error::coded(Code::Damaged, "file", "reading").advise("Copy it again");
            Err(io::Error::from(error))?;
            Ok(())
        }
        let error = fails().unwrap_err();
        assert_eq!(error.to_string(), "file: reading. Copy it again");
        assert_eq!(
            (error.code(), error.kind()),
            (Code::Damaged, ErrorKind::InvalidData)
        );
        let too_large = io::Error::from_raw_os_error(libc::EFBIG);
        let error = Error::new("file", "writing").because(too_large);
        assert_eq!(
            (error.code(), error.kind()),
            (Code::Io, ErrorKind::FileTooLarge)
        );
        let system = Error::from(io::Error::from_raw_os_error(libc::ENOENT));
        assert_eq!(
            (system.code(), system.raw_os_error()),
            (Code::NotFound, Some(libc::ENOENT))
        );
    }

    #[test]
    fn failures_have_the_codes_of_their_causes() {
        use crate::{
            packet::{Pool, PoolConfig},
            queue::{self, QueueConfig, WhenFull},
            ring::spsc,
        };
        let config = QueueConfig {
            when_full: WhenFull::DropOldest,
            ..QueueConfig::default()
        };
        let pool = PoolConfig {
            slots: 0,
            ..PoolConfig::default()
        };
        let codes = [
            spsc::ring::<u64>(0).unwrap_err(),
            spsc::ring::<u64>(usize::MAX / 8).unwrap_err(),
            spsc::ring::<u64>(usize::MAX).unwrap_err(),
            queue::queue(0).unwrap_err(),
            Pool::new(&pool).unwrap_err(),
            queue::spsc::queue_with(&config).unwrap_err(),
        ]
        .map(|error| error.code());
        let [others @ .., unsupported] = codes;
        assert_eq!(others, [Code::Invalid; 5]);
        assert_eq!(unsupported, Code::Unsupported);
    }

    #[test]
    fn what_a_call_refuses_becomes_an_error_with_its_code() {
        fn pushes() -> Result<()> {
            let (mut producer, _consumer) = crate::ring::spsc::ring(1)?;
            producer.try_push(1)?;
            producer.try_push(2)?;
            Ok(())
        }
        fn receives() -> Result<()> {
            let (_sender, receiver) = crate::queue::queue(1)?;
            receiver.try_take()?;
            Ok(())
        }
        let codes = [pushes(), receives()].map(|answer| answer.unwrap_err().code());
        assert_eq!(codes, [Code::Full, Code::Empty]);
    }
}
