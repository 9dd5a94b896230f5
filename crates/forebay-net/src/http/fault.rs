//! What can be wrong with an answer. Everything else (sockets, files) is a [`forebay::Error`]. It imports nothing.

use std::fmt;

/// An answer that is not HTTP, makes no sense, is too large to be meant well, or stopped in the middle.
///
/// ```
/// use forebay_net::http::{Fault, reply::Reply};
/// let fault = Reply::default().next(b"SSH-2.0-OpenSSH_9.2\r\n").unwrap_err();
/// assert_eq!(fault.to_string(), r#"this is no HTTP/1 answer: it begins with "SSH-2.0-OpenSSH_9.2""#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does not begin with `HTTP/1.`; how it begins instead, made printable.
    NotHttp(String),
    /// The heads before the body (interim ones included) exceed [`LIMIT_BYTES`](super::head::LIMIT_BYTES).
    HeadTooLong,
    /// The head has more than [`LIMIT_FIELDS`](super::head::LIMIT_FIELDS) fields.
    TooManyFields,
    /// The head breaks the grammar; how.
    BadHead(String),
    /// `Content-Length` is no number, or several different ones; what it said.
    BadLength(String),
    /// A `Transfer-Encoding` other than `chunked`, or one that may not be there; what it said.
    BadEncoding(String),
    /// Both `Content-Length` and `Transfer-Encoding`, of which one lies.
    TwoFramings,
    /// A chunk's size is no hexadecimal number below 2⁶⁴, or the line has something else on it.
    BadChunkSize,
    /// A chunk's size with its extensions exceeds [`LINE_LIMIT_BYTES`](super::chunked::LINE_LIMIT_BYTES).
    ChunkLineTooLong,
    /// Behind a chunk's data there is no end of line.
    BadChunkEnd,
    /// The trailers exceed [`TRAILERS_LIMIT_BYTES`](super::chunked::TRAILERS_LIMIT_BYTES).
    TrailersTooLong,
    /// A trailer is not ended by CR LF.
    BadTrailer,
    /// It switches protocols (101), which nobody asked for.
    Switched,
    /// It stopped before its head was complete, after so many bytes.
    CutHead(u64),
    /// It stopped in the body, after so many bytes of it, of so many where the answer told.
    CutBody {
        /// Bytes of the body that came.
        came: u64,
        /// Bytes that it has; `None`: it came in chunks, and the last one is missing.
        of: Option<u64>,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::NotHttp(begin) => {
                write!(f, "this is no HTTP/1 answer: it begins with \"{begin}\"")
            }
            Fault::HeadTooLong => write!(
                f,
                "the head of the answer does not end within {} bytes",
                super::head::LIMIT_BYTES
            ),
            Fault::TooManyFields => write!(
                f,
                "the head of the answer has more than {} fields",
                super::head::LIMIT_FIELDS
            ),
            Fault::BadHead(how) => write!(f, "the head of the answer is malformed ({how})"),
            Fault::BadLength(value) => {
                write!(f, "Content-Length is not one number: \"{value}\"")
            }
            Fault::BadEncoding(value) => {
                write!(f, "Transfer-Encoding is not what was asked for: \"{value}\"")
            }
            Fault::TwoFramings => f.write_str(
                "the answer has both Content-Length and Transfer-Encoding, and they contradict each other",
            ),
            Fault::BadChunkSize => f.write_str("the size of a chunk is malformed"),
            Fault::ChunkLineTooLong => write!(
                f,
                "the size of a chunk takes more than {} bytes",
                super::chunked::LINE_LIMIT_BYTES
            ),
            Fault::BadChunkEnd => f.write_str("a chunk does not end where its size says"),
            Fault::TrailersTooLong => write!(
                f,
                "the trailers do not end within {} bytes",
                super::chunked::TRAILERS_LIMIT_BYTES
            ),
            Fault::BadTrailer => f.write_str("a trailer is malformed"),
            Fault::Switched => f.write_str("the server switches protocols, unasked (status 101)"),
            Fault::CutHead(0) => f.write_str("the server ended the connection without an answer"),
            Fault::CutHead(came) => {
                write!(f, "the answer ended within its head, after {came} bytes")
            }
            Fault::CutBody { came, of: Some(of) } => {
                write!(f, "the answer ended early: {came} of {of} bytes came")
            }
            Fault::CutBody { came, of: None } => write!(
                f,
                "the answer ended early: {came} bytes came, and not the last chunk"
            ),
        }
    }
}

impl std::error::Error for Fault {}
