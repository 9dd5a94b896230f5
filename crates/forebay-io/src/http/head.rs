//! The head of a response: where it ends, and its fields. Pure; the parser is httparse.
//!
//! ```text
//!   HTTP/1.1 200 OK\r\n  Content-Length: 5\r\n  \r\n │ body
//!                                             find_end ─┘
//! ```
//! `framing` determines from the fields where the body ends.

use super::{Fault, limits::HEAD_LIMIT_FIELDS};

/// The beginning of every supported response.
const BEGIN: &[u8] = b"HTTP/1.";

/// The head of a response: status line and fields.
///
/// ```
/// use forebay_io::http::Head;
/// let head = Head::parse(b"HTTP/1.1 200 OK\r\nServer: x\r\nserver: y\r\n\r\n")?;
/// assert_eq!((head.status, head.reason.as_str()), (200, "OK"));
/// assert_eq!(head.values("Server").collect::<Vec<_>>(), [b"x", b"y"]);
/// # Ok::<(), forebay_io::http::Fault>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The minor version: 0 for HTTP/1.0, else 1.
    pub minor: u8,
    /// 100 to 999.
    pub status: u16,
    /// The reason phrase; empty if it is missing or not ASCII.
    pub reason: String,
    /// Names as received, and values without surrounding blanks.
    fields: Vec<(String, Vec<u8>)>,
}

impl Head {
    /// Parses a whole head. `bytes` must end with its empty line.
    ///
    /// # Errors
    /// The head is malformed or incomplete, or has more than 128 fields.
    pub fn parse(bytes: &[u8]) -> Result<Self, Fault> {
        let mut fields = [httparse::EMPTY_HEADER; HEAD_LIMIT_FIELDS];
        let mut response = httparse::Response::new(&mut fields);
        let parsed = response.parse(bytes).map_err(|error| match error {
            httparse::Error::TooManyHeaders => Fault::TooManyFields,
            other => Fault::BadHead(other.to_string()),
        })?;
        match (parsed, response.version, response.code) {
            (httparse::Status::Complete(len), Some(minor), Some(status @ 100..))
                if len == bytes.len() =>
            {
                let own = |field: &httparse::Header<'_>| {
                    (field.name.to_owned(), field.value.trim_ascii().to_vec())
                };
                Ok(Head {
                    minor,
                    status,
                    reason: response.reason.unwrap_or_default().to_owned(),
                    fields: response.headers.iter().map(own).collect(),
                })
            }
            (_, _, Some(status @ ..100)) => Err(Fault::BadHead(format!("status {status}"))),
            _ => Err(Fault::BadHead("an empty line within it".into())),
        }
    }

    /// The values of all fields with this name, in order; case does not matter.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        let fields = self.fields.iter();
        fields
            .filter(move |(own, _)| own.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_slice())
    }

    /// Whether another head follows this one before the final response.
    pub fn is_interim(&self) -> bool {
        self.status < 200
    }

    /// Whether the status is an error.
    pub fn is_failure(&self) -> bool {
        self.status >= 400
    }
}

/// Finds the end of a head in growing input, reading each byte about once.
#[derive(Clone, Debug, Default)]
pub(super) struct EndFinder {
    /// The end does not begin before this offset.
    searched: usize,
}

impl EndFinder {
    /// Returns the length of the head at the start of `bytes`, or `None` while its empty line is missing. `bytes` must begin with
    /// the bytes of the previous call. An end beyond `limit` is not found.
    ///
    /// # Errors
    /// These bytes do not begin a response, or reach `limit` without an end.
    pub fn find(&mut self, bytes: &[u8], limit: usize) -> Result<Option<usize>, Fault> {
        let begin = bytes.len().min(BEGIN.len());
        if bytes[..begin] != BEGIN[..begin] {
            return Err(Fault::NotHttp(printable(bytes)));
        }
        let within = &bytes[..bytes.len().min(limit)];
        loop {
            let mut unsearched = within[self.searched..].iter();
            let Some(at) = unsearched.position(|&byte| byte == b'\n') else {
                self.searched = within.len();
                break;
            };
            let behind = self.searched + at + 1;
            match &within[behind..] {
                [b'\n', ..] => return Ok(Some(behind + 1)),
                [b'\r', b'\n', ..] => return Ok(Some(behind + 2)),
                // The line that begins here may still become the empty one: continue from the preceding line end.
                [] | [b'\r'] => {
                    self.searched = behind - 1;
                    break;
                }
                _ => self.searched = behind,
            }
        }
        if bytes.len() >= limit {
            return Err(Fault::HeadTooLong);
        }
        Ok(None)
    }
}

/// The first line, or as much of it as is useful in a message.
fn printable(bytes: &[u8]) -> String {
    let line = bytes.split(|&b| b == b'\r' || b == b'\n').next();
    let line = line.unwrap_or_default();
    line[..line.len().min(40)].escape_ascii().to_string()
}
