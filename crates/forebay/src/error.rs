//! The error type of set-up and I/O. It holds the operation, its object, the system's error, and advice.
//!
//! That a buffer is full or empty is not an [`Error`], but an ordinary result of the call (`PushError::Full`, `None` or a count). The text of
//! an [`Error`] is for people; programs use [`Error::kind`].

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
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|cause| cause as _)
    }
}

impl From<Error> for io::Error {
    /// Keeps the kind and the whole text. The `Error` is the inner error ([`io::Error::into_inner`]).
    fn from(error: Error) -> io::Error {
        io::Error::new(error.kind(), error)
    }
}
