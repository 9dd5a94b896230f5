//! The head of an answer: where it ends, and what it says. Pure; the grammar is httparse's.
//!
//! ```text
//!   HTTP/1.1 200 OK\r\n  Content-Length: 5\r\n  \r\n │ body
//!                                             find_end ─┘
//! ```
//! Read `framing` next, which works out of the fields where the body ends.

use super::Fault;

/// Most bytes of all heads before a body, interim ones included.
pub const LIMIT_BYTES: usize = 64 << 10;

/// Most fields of a head.
pub const LIMIT_FIELDS: usize = 128;

/// What every answer we understand begins with.
const BEGIN: &[u8] = b"HTTP/1.";

/// The head of an answer: status line and fields.
///
/// ```
/// use forebay_net::http::Head;
/// let head = Head::parse(b"HTTP/1.1 200 OK\r\nServer: x\r\nserver: y\r\n\r\n")?;
/// assert_eq!((head.status, head.reason.as_str()), (200, "OK"));
/// assert_eq!(head.values("Server").collect::<Vec<_>>(), [b"x", b"y"]);
/// # Ok::<(), forebay_net::http::Fault>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The minor version: 0 for HTTP/1.0, else 1.
    pub minor: u8,
    /// 100 to 999.
    pub status: u16,
    /// The server's words for the status; empty where it has none, or they are not ASCII.
    pub reason: String,
    /// Names as they came, and values without the blanks around them.
    fields: Vec<(String, Vec<u8>)>,
}

impl Head {
    /// Understands a whole head, its empty line included and nothing behind it.
    ///
    /// # Errors
    /// It breaks the grammar, is not complete, or has more than [`LIMIT_FIELDS`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Fault> {
        let mut fields = [httparse::EMPTY_HEADER; LIMIT_FIELDS];
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

    /// The values of all fields called `name`, in their order; case does not matter.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        let fields = self.fields.iter();
        fields
            .filter(move |(own, _)| own.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_slice())
    }

    /// Whether another head follows this one before the answer proper.
    pub fn is_interim(&self) -> bool {
        self.status < 200
    }

    /// Whether the server says that it did not do what was asked for.
    pub fn is_failure(&self) -> bool {
        self.status >= 400
    }
}

/// Looks for the end of a head in bytes that grow, each byte about once.
#[derive(Clone, Debug, Default)]
pub(super) struct EndFinder {
    /// No end begins in front of here.
    searched: usize,
}

impl EndFinder {
    /// How long the head at the start of `bytes` is, once its empty line is there; `bytes` is what the last call had and
    /// more. An end behind `limit` is none.
    ///
    /// # Errors
    /// These bytes begin no answer, or go on to `limit` without an end.
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
                // The line that begins here may still become the empty one: begin with its front end again.
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

/// The first line, or as much of it as is good to show.
fn printable(bytes: &[u8]) -> String {
    let line = bytes.split(|&b| b == b'\r' || b == b'\n').next();
    let line = line.unwrap_or_default();
    line[..line.len().min(40)].escape_ascii().to_string()
}
