//! Splits a response into heads, framing and body, piece by piece. Pure.
//!
//! It owns no bytes and never waits. The caller passes the content of the stream, learns what the first of those bytes are, and
//! passes the rest when it is done with them. However the input is cut, the pieces add up to the same response. `exchange` drives
//! it.
//!
//! ```text
//!   next(bytes) ─▶ Interim(n) … ─▶ Head(n, head) ─▶ Framing(n) · Body(n) … ─▶ End
//!        └──▶ More: these bytes are not enough; show more of them, or finish()
//! ```

use super::{Fault, Head, framing::Framing, head::EndFinder, limits::HEAD_LIMIT_BYTES};

/// Classifies the first bytes of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Too few bytes: none were consumed. Pass all of them again, with more after them.
    More,
    /// This many bytes are an interim head (100 Continue, 103 Early Hints).
    Interim(usize),
    /// This many bytes are the head.
    Head(usize, Head),
    /// This many bytes are framing: chunk sizes and trailers.
    Framing(usize),
    /// This many bytes are body.
    Body(usize),
    /// The response is complete; the input is not part of it.
    End,
}

#[derive(Clone, Debug)]
enum Stage {
    Head(EndFinder),
    Body(Framing),
}

/// A response that is being received.
///
/// ```
/// use forebay_io::http::{Part, Reply};
/// let mut reply = Reply::default();
/// let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
/// assert_eq!(reply.next(&bytes[..20])?, Part::More);
/// assert!(matches!(reply.next(bytes)?, Part::Head(38, _)));
/// assert_eq!(reply.next(b"hel")?, Part::Body(3));
/// assert_eq!(reply.next(b"lo")?, Part::Body(2));
/// assert_eq!(reply.next(b"")?, Part::End);
/// # Ok::<(), forebay_io::http::Fault>(())
/// ```
#[derive(Clone, Debug)]
pub struct Reply {
    stage: Stage,
    /// Total bytes of all heads.
    head_bytes: usize,
    body_bytes: u64,
}

impl Default for Reply {
    fn default() -> Self {
        Reply {
            stage: Stage::Head(EndFinder::default()),
            head_bytes: 0,
            body_bytes: 0,
        }
    }
}

impl Reply {
    /// Classifies the first bytes of `input`. They count as consumed, except for [`Part::More`]: the next call must pass the
    /// bytes after them.
    ///
    /// # Errors
    /// The response is invalid, or exceeds a limit. It cannot be continued.
    pub fn next(&mut self, input: &[u8]) -> Result<Part, Fault> {
        match &mut self.stage {
            Stage::Head(finder) => {
                let Some(len) = finder.find(input, HEAD_LIMIT_BYTES - self.head_bytes)? else {
                    return Ok(Part::More);
                };
                let head = Head::parse(&input[..len])?;
                self.head_bytes += len;
                if head.status == 101 {
                    return Err(Fault::Switched);
                }
                if head.is_interim() {
                    self.stage = Stage::Head(EndFinder::default());
                    return Ok(Part::Interim(len));
                }
                self.stage = Stage::Body(Framing::of(&head)?);
                Ok(Part::Head(len, head))
            }
            Stage::Body(framing) => {
                let part = next_of_body(framing, input)?;
                if let Part::Body(n) = part {
                    self.body_bytes += n as u64;
                }
                Ok(part)
            }
        }
    }

    /// Checks whether the response is complete, after the last bytes were too few and no more will come. `unread` is the number
    /// of these bytes.
    ///
    /// # Errors
    /// The response is truncated.
    pub fn finish(&self, unread: usize) -> Result<(), Fault> {
        match &self.stage {
            Stage::Head(_) => Err(Fault::CutHead((self.head_bytes + unread) as u64)),
            Stage::Body(Framing::UntilClose | Framing::Empty | Framing::Length(0)) => Ok(()),
            Stage::Body(Framing::Chunked(chunked)) if chunked.is_done() => Ok(()),
            Stage::Body(_) => Err(Fault::CutBody {
                came: self.body_bytes,
                of: self.body_length(),
            }),
        }
    }

    /// Bytes of the body so far.
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Length of the whole body, if the head declares it.
    pub fn body_length(&self) -> Option<u64> {
        match self.stage {
            Stage::Body(Framing::Length(left)) => Some(self.body_bytes + left),
            Stage::Body(Framing::Empty) => Some(0),
            _ => None,
        }
    }
}

fn next_of_body(framing: &mut Framing, input: &[u8]) -> Result<Part, Fault> {
    Ok(match framing {
        Framing::Empty | Framing::Length(0) => Part::End,
        Framing::Chunked(chunked) if chunked.is_done() => Part::End,
        _ if input.is_empty() => Part::More,
        Framing::UntilClose => Part::Body(input.len()),
        Framing::Length(left) => {
            let n = at_most(*left, input);
            *left -= n as u64;
            Part::Body(n)
        }
        Framing::Chunked(chunked) if chunked.left() > 0 => {
            let n = at_most(chunked.left(), input);
            chunked.took(n as u64);
            Part::Body(n)
        }
        Framing::Chunked(chunked) => Part::Framing(chunked.framing(input)?),
    })
}

/// The smaller one of `left` and the input's length.
fn at_most(left: u64, input: &[u8]) -> usize {
    usize::try_from(left).map_or(input.len(), |left| left.min(input.len()))
}
