//! Determines where the body of a response ends: RFC 9112, section 6.3, for a client that sent GET.
//!
//! Pure. Every ambiguous framing is rejected.

use super::{Fault, Head, chunked::Chunked};

/// How the end of a body is determined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is no body, regardless of the fields: 204 and 304.
    Empty,
    /// This many bytes, according to `Content-Length`.
    Length(u64),
    /// Chunked transfer coding.
    Chunked(Chunked),
    /// The body lasts until the connection closes.
    UntilClose,
}

impl Framing {
    /// Determines the framing from `head`.
    ///
    /// # Errors
    /// A length that is not one number, or an encoding other than `chunked`, in an HTTP/1.0 response, or together with a length.
    pub fn of(head: &Head) -> Result<Self, Fault> {
        if head.is_interim() || matches!(head.status, 204 | 304) {
            return Ok(Framing::Empty);
        }
        let encodings: Vec<_> = head.values("Transfer-Encoding").collect();
        let lengths: Vec<_> = head.values("Content-Length").collect();
        if !encodings.is_empty() {
            // RFC 9112: with HTTP/1.0 the framing is faulty (6.1); a length beside it "ought to be handled as an error" (6.3).
            return match encodings[..] {
                _ if !lengths.is_empty() => Err(Fault::TwoFramings),
                [one] if one.eq_ignore_ascii_case(b"chunked") && head.minor > 0 => {
                    Ok(Framing::Chunked(Chunked::default()))
                }
                _ => Err(Fault::BadEncoding(shown(&encodings))),
            };
        }
        // Repeating the same length is allowed: `5, 5`, or two fields.
        let mut numbers = lengths.iter().flat_map(|value| value.split(|&b| b == b','));
        let Some(first) = numbers.next() else {
            return Ok(Framing::UntilClose);
        };
        let refused = || Fault::BadLength(shown(&lengths));
        let length = number(first).ok_or_else(refused)?;
        if numbers.all(|other| number(other) == Some(length)) {
            Ok(Framing::Length(length))
        } else {
            Err(refused())
        }
    }
}

/// Digits only: `parse` would accept a `+`.
pub(super) fn number(value: &[u8]) -> Option<u64> {
    let value = value.trim_ascii();
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(value).ok().filter(|_| digits)?;
    text.parse().ok()
}

fn shown(values: &[&[u8]]) -> String {
    let text = values.join(&b", "[..]);
    text[..text.len().min(80)].escape_ascii().to_string()
}
