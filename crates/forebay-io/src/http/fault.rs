//! Errors in a response. All other errors (sockets, files) are a [`forebay::Error`].

use super::limits;
use std::fmt;

/// A response that is not HTTP, is invalid, exceeds a limit, or ended early.
///
/// ```
/// use forebay_io::http::{Fault, Reply};
/// let fault = Reply::default().next(b"SSH-2.0-OpenSSH_9.2\r\n").unwrap_err();
/// assert_eq!(fault.to_string(), r#"this is not an HTTP/1 response: it begins with "SSH-2.0-OpenSSH_9.2""#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does not begin with `HTTP/1.`. Contains its beginning, made printable.
    NotHttp(String),
    /// The heads before the body (interim ones included) exceed 64 KiB.
    HeadTooLong,
    /// The head has more than 128 fields.
    TooManyFields,
    /// The head is malformed. Contains the reason.
    BadHead(String),
    /// `Content-Length` is not a number, or there are several different values. Contains the value.
    BadLength(String),
    /// A `Transfer-Encoding` other than `chunked`, or one that is not allowed there. Contains the value.
    BadEncoding(String),
    /// Both `Content-Length` and `Transfer-Encoding`, which contradict each other.
    TwoFramings,
    /// A chunk's size is not a hexadecimal number below 2⁶⁴, or other data follows it on the line.
    BadChunkSize,
    /// A chunk's size with its extensions exceeds 4 KiB.
    ChunkLineTooLong,
    /// No end of line follows a chunk's data.
    BadChunkEnd,
    /// The trailers exceed 64 KiB.
    TrailersTooLong,
    /// A trailer does not end with CR LF.
    BadTrailer,
    /// It switches protocols (101), which was not requested.
    Switched,
    /// It ended before its head was complete, after this many bytes.
    CutHead(u64),
    /// It ended within the body.
    CutBody {
        /// Bytes of the body that arrived.
        came: u64,
        /// Length of the body; `None`: it came in chunks, and the last one is missing.
        of: Option<u64>,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::NotHttp(begin) => {
                write!(f, "this is not an HTTP/1 response: it begins with \"{begin}\"")
            }
            Fault::HeadTooLong => write!(
                f,
                "the head of the response does not end within {} bytes",
                limits::HEAD_LIMIT_BYTES
            ),
            Fault::TooManyFields => write!(
                f,
                "the head of the response has more than {} fields",
                limits::HEAD_LIMIT_FIELDS
            ),
            Fault::BadHead(how) => write!(f, "the head of the response is malformed ({how})"),
            Fault::BadLength(value) => {
                write!(f, "Content-Length is not one number: \"{value}\"")
            }
            Fault::BadEncoding(value) => {
                write!(f, "Transfer-Encoding is not supported here: \"{value}\"")
            }
            Fault::TwoFramings => f.write_str(
                "the response has both Content-Length and Transfer-Encoding, which contradict each other",
            ),
            Fault::BadChunkSize => f.write_str("the size of a chunk is malformed"),
            Fault::ChunkLineTooLong => write!(
                f,
                "the size of a chunk takes more than {} bytes",
                limits::LINE_LIMIT_BYTES
            ),
            Fault::BadChunkEnd => f.write_str("a chunk does not end where its size says"),
            Fault::TrailersTooLong => write!(
                f,
                "the trailers do not end within {} bytes",
                limits::TRAILERS_LIMIT_BYTES
            ),
            Fault::BadTrailer => f.write_str("a trailer is malformed"),
            Fault::Switched => f.write_str("the server switches protocols without a request (status 101)"),
            Fault::CutHead(0) => f.write_str("the server closed the connection without a response"),
            Fault::CutHead(came) => {
                write!(f, "the response ended within its head, after {came} bytes")
            }
            Fault::CutBody { came, of: Some(of) } => {
                write!(f, "the response ended early: {came} of {of} bytes arrived")
            }
            Fault::CutBody { came, of: None } => write!(
                f,
                "the response ended early: {came} bytes arrived, but not the last chunk"
            ),
        }
    }
}

impl std::error::Error for Fault {}
