//! Errors in an expression: what is wrong, what to do, and the word at fault.

use forebay::error::Code;
use std::{
    fmt,
    io::{self, ErrorKind},
    ops::Range,
};

/// An expression that cannot be parsed, or not compiled for this link type. It points at the word at fault.
///
/// `Display` prints one line with the error and the advice, then the line of the expression, then `^^^^` under the word. If the
/// whole expression is at fault, it prints the first line only.
///
/// ```
/// let error = "tcp prot 80".parse::<forebay_net::filter::Filter>().unwrap_err();
/// assert_eq!(error.span(), 4..8);
/// assert_eq!(
///     error.to_string(),
///     "filter: 'prot' is not a keyword or a host name here (did you mean 'proto'?)\n  \
///        tcp prot 80\n      ^^^^",
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    what: String,
    text: String,
    span: Range<usize>,
    pub(super) matches_nothing: bool,
}

/// The maximum number of characters of a line that are printed on either side of the word.
const CONTEXT: usize = 60;

/// A result whose error does not have its place in the expression yet.
pub(super) type Said<T> = Result<T, String>;

/// An error at a place of an expression, without the text of the expression.
#[derive(Debug)]
pub(super) struct Wrong {
    pub what: String,
    pub span: Range<usize>,
    /// The expression makes sense, but no packet can match it.
    pub matches_nothing: bool,
}

impl Wrong {
    pub fn new(span: Range<usize>, what: impl Into<String>) -> Self {
        Wrong {
            what: what.into(),
            span,
            matches_nothing: false,
        }
    }

    /// Adds the text of the expression.
    pub fn in_text(self, text: &str) -> Error {
        Error {
            what: self.what,
            text: text.to_owned(),
            span: self.span,
            matches_nothing: self.matches_nothing,
        }
    }
}

impl Error {
    /// The whole expression is at fault.
    #[cfg(feature = "live")]
    pub(crate) fn of_all(what: String) -> Error {
        Wrong::new(0..0, what).in_text("")
    }

    /// As the error of a port, a file or an interface, named `on`, that cannot use the expression. [`of`](Error::of) finds it again.
    ///
    /// ```
    /// use forebay_net::filter::{Error, Filter};
    /// let wrong = "tcp prot 80".parse::<Filter>().unwrap_err();
    /// let error = wrong.clone().refused_by("eth0");
    /// assert_eq!(error.to_string(), format!("eth0: {wrong}"));
    /// assert_eq!(Error::of(&error), Some(&wrong));
    /// fn parsed(text: &str) -> forebay::Result<Filter> {
    ///     Ok(text.parse::<Filter>()?)
    /// }
    /// let error = parsed("tcp prot 80").unwrap_err();
    /// assert_eq!((Error::of(&error), error.code()), (Some(&wrong), forebay::error::Code::Invalid));
    /// ```
    pub fn refused_by(self, on: impl Into<String>) -> forebay::Error {
        let cause = io::Error::new(ErrorKind::InvalidInput, self);
        forebay::Error::invalid(on, "").because(cause)
    }

    /// The error in the expression that `error` is about, if there is one.
    pub fn of(error: &forebay::Error) -> Option<&Error> {
        error.cause()?.get_ref()?.downcast_ref()
    }

    /// The error and what to do about it, in one line.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Its number, as that of every error: [`Code::Invalid`].
    pub fn code(&self) -> Code {
        Code::Invalid
    }

    /// Whether the expression makes sense, but no packet can match it, such as `ip and ip6`.
    pub fn matches_nothing(&self) -> bool {
        self.matches_nothing
    }

    /// The bytes of the expression that are at fault. If something is missing at the end, that is the end; if the whole expression
    /// is at fault, it is empty at 0.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// The line with the word, shortened if it is long, and the columns of the word in it.
    fn excerpt(&self) -> (String, Range<usize>) {
        let start = self.text[..self.span.start]
            .rfind('\n')
            .map_or(0, |at| at + 1);
        let line = self.text[start..].split('\n').next().unwrap_or("");
        let (before, rest) = line.split_at(self.span.start - start);
        let (word, after) = rest.split_at(self.span.len().min(rest.len()));
        let too_many = before.chars().count().saturating_sub(CONTEXT);
        let mut shown: String = before.chars().skip(too_many).collect();
        if too_many > 0 {
            shown.insert(0, '…');
        }
        let column = shown.chars().count();
        let columns = column..column + word.chars().take(CONTEXT).count().max(1);
        shown.extend(word.chars().take(CONTEXT));
        shown.extend(after.chars().take(CONTEXT));
        // A control character could move the terminal's cursor, and the marks would not match the word.
        let plain = shown.chars().map(|c| if c.is_control() { ' ' } else { c });
        (plain.collect::<String>().trim_end().to_owned(), columns)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "filter: {}", self.what)?;
        if self.span == (0..0) {
            return Ok(());
        }
        let (line, columns) = self.excerpt();
        let (indent, marks) = (" ".repeat(columns.start), "^".repeat(columns.len()));
        write!(f, "\n  {line}\n  {indent}{marks}")
    }
}

impl std::error::Error for Error {}

/// [`of`](Error::of) finds it again.
impl From<Error> for forebay::Error {
    fn from(error: Error) -> forebay::Error {
        error.refused_by("")
    }
}
