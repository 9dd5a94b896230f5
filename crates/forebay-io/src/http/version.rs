//! The version of a body, and the rest of one whose beginning is there: RFC 9110, sections 8.8 and 14. Pure.
//!
//! ```text
//!  200, ETag "x" ─▶ Version ─▶ Range: bytes=5- ┐   206, Content-Range: bytes 5-8/9  the rest
//!                              If-Range: "x"   ├─▶ 200                              the whole, which has changed
//!                                              ┘   416, Content-Range: bytes */5    there is no rest
//! ```

use super::{Head, Url, framing::number};
use std::{fmt, str::FromStr};

/// What identifies the content of a URL at a time.
///
/// ```
/// use forebay_io::http::{Head, Version};
/// let url = "http://host/a?b".parse()?;
/// let head = |fields: &str| Head::parse(format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n").as_bytes()).unwrap();
/// let version = Version::of(&url, &url, &head("ETag: \"1\""), Some(9)).unwrap();
/// assert_eq!(version.to_string().parse(), Ok(version));
/// assert_eq!(Version::of(&url, &url, &head("ETag: W/\"1\""), None), None);
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The address that was asked for.
    asked: String,
    /// The one that answered, without its query: after a redirect, that may be a key that differs each time.
    place: String,
    /// A strong ETag, or a date.
    validator: String,
    /// Bytes of the whole, if that is known.
    length: Option<u64>,
}

/// Before the first line of a version as text.
const TITLE: &str = "forebay part 1";

impl Version {
    /// The version in the head of a whole response from `url`, after `asked` was requested; `None` if nothing in it identifies the content to the byte: a weak ETag
    /// does not, and neither does a date within the same second as the response.
    pub fn of(asked: &Url, url: &Url, head: &Head, length: Option<u64>) -> Option<Version> {
        let one = |name| {
            let mut values = head.values(name);
            let value = values.next().filter(|_| values.next().is_none())?;
            let is_plain = value.iter().all(|it| matches!(it, b' '..=b'~'));
            std::str::from_utf8(value).ok().filter(|_| is_plain)
        };
        let validator = match one("ETag") {
            Some(tag) => {
                (tag.len() >= 2 && tag.starts_with('"') && tag.ends_with('"')).then_some(tag)
            }
            None => {
                let (changed, sent) = (one("Last-Modified")?, one("Date")?);
                (moment(changed)? < moment(sent)?).then_some(changed)
            }
        };
        Some(Version {
            asked: asked.to_string(),
            place: place(url),
            validator: validator?.to_owned(),
            length,
        })
    }
}

fn place(url: &Url) -> String {
    let url = url.to_string();
    url.split('?').next().unwrap_or_default().to_owned()
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`, in an order that is that of time.
fn moment(date: &str) -> Option<(&str, usize, &str, &str)> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let is_fixed = date.len() == 29 && date.is_ascii() && date.ends_with(" GMT");
    let date = Some(date).filter(|_| is_fixed)?;
    Some((
        &date[12..16],
        MONTHS.find(&date[8..11])?,
        &date[5..7],
        &date[17..25],
    ))
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = self.length.map_or("-".into(), |length| length.to_string());
        let Version {
            asked,
            place,
            validator,
            ..
        } = self;
        writeln!(f, "{TITLE}\n{asked}\n{place}\n{validator}\n{length}")
    }
}

impl FromStr for Version {
    type Err = ();

    /// Refuses a text that is not complete.
    fn from_str(text: &str) -> Result<Self, ()> {
        let whole = text.strip_suffix('\n').ok_or(())?;
        let lines: Vec<_> = whole.split('\n').collect();
        let [TITLE, asked, place, validator, length] = lines[..] else {
            return Err(());
        };
        let length = match length {
            "-" => None,
            digits => Some(digits.parse().map_err(|_| ())?),
        };
        let is_plain = |text: &str| text.bytes().all(|it| matches!(it, b' '..=b'~'));
        let texts = [asked, place, validator];
        let is_whole = texts.into_iter().all(is_plain);
        let [asked, place, validator] = texts.map(str::to_owned);
        let version = Version {
            asked,
            place,
            validator,
            length,
        };
        Some(version).filter(|_| is_whole).ok_or(())
    }
}

/// The beginning of a body, from an earlier fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its bytes: 1 or more.
    pub bytes: u64,
    /// What it is the beginning of.
    pub version: Version,
}

/// What a response means to the beginning that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// This many bytes follow, in this response.
    Follows(u64),
    /// Nothing follows: the beginning is the whole.
    None,
    /// The beginning is not one of this.
    Changed,
}

impl Kept {
    /// The fields of a request for the rest, if it goes where the beginning is from.
    pub(super) fn fields(&self, asked: &Url, url: &Url) -> Option<String> {
        let (bytes, validator) = (self.bytes, &self.version.validator);
        (asked.to_string() == self.version.asked && place(url) == self.version.place)
            .then(|| format!("Range: bytes={bytes}-\r\nIf-Range: {validator}\r\n"))
    }

    /// Judges a response to such a request.
    ///
    /// # Errors
    /// It contradicts itself or the request. The error is what is wrong.
    pub(super) fn rest(&self, head: &Head, body_length: Option<u64>) -> Result<Rest, String> {
        if !matches!(head.status, 206 | 416) {
            return Ok(Rest::Changed);
        }
        let name = match self.version.validator.starts_with('"') {
            true => "ETag",
            false => "Last-Modified",
        };
        let mut validators = head.values(name);
        if validators.any(|it| it != self.version.validator.as_bytes()) {
            return Ok(Rest::Changed);
        }
        // The range of a 416 may be absent: RFC 9110, section 15.5.17.
        if head.status == 416 && head.values("Content-Range").next().is_none() {
            return Ok(match self.version.length == Some(self.bytes) {
                true => Rest::None,
                false => Rest::Changed,
            });
        }
        let mut ranges = head.values("Content-Range");
        let range = ranges.next().filter(|_| ranges.next().is_none());
        let range = range
            .and_then(|it| std::str::from_utf8(it).ok())
            .unwrap_or_default();
        let refused = || {
            format!(
                "the server answers {} with the range '{}', to a request for all after byte {}",
                head.status,
                range.escape_default(),
                self.bytes
            )
        };
        let (part, whole) = range
            .strip_prefix("bytes ")
            .and_then(|it| it.split_once('/'))
            .ok_or_else(refused)?;
        let whole = number(whole.as_bytes()).ok_or_else(refused)?;
        if self.version.length.is_some_and(|length| length != whole) {
            return Ok(Rest::Changed);
        }
        if head.status == 416 {
            return Ok(match (part, whole == self.bytes) {
                ("*", true) => Rest::None,
                _ => Rest::Changed,
            });
        }
        let (first, last) = part.split_once('-').ok_or_else(refused)?;
        let ends = (number(first.as_bytes()), number(last.as_bytes()));
        match whole.checked_sub(self.bytes).filter(|&left| left > 0) {
            Some(left)
                if ends == (Some(self.bytes), Some(whole - 1))
                    && body_length.is_none_or(|length| length == left) =>
            {
                Ok(Rest::Follows(left))
            }
            _ => Err(refused()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(status: u16, fields: &str) -> Head {
        let text = format!(
            "HTTP/1.1 {status} X\r\n{}\r\n\r\n",
            fields.replace(" & ", "\r\n")
        );
        Head::parse(text.as_bytes()).unwrap()
    }

    fn kept(length: Option<u64>) -> Kept {
        let url = "http://host/a?key".parse().unwrap();
        let version = Version::of(&url, &url, &head(200, "ETag: \"x\""), length).unwrap();
        Kept { bytes: 5, version }
    }

    #[test]
    fn a_version_is_one_to_the_byte() {
        let url = "http://host/".parse().unwrap();
        let is_one = |fields: &str| Version::of(&url, &url, &head(200, fields), None).is_some();
        let changed = "Last-Modified: Fri, 31 Jan 2025 23:59:59 GMT";
        assert!(is_one("ETag: \"\""));
        assert!(is_one(&format!(
            "{changed} & Date: Sat, 01 Feb 2025 00:00:00 GMT"
        )));
        for fields in [
            "A: b",
            "ETag: x",
            "ETag: \"",
            "ETag: W/\"x\"",
            "ETag: \"x\" & ETag: \"y\"",
            changed,
            &format!("{changed} & Date: Fri, 31 Jan 2025 23:59:59 GMT"),
            &format!("{changed} & Date: Saturday, 01-Feb-25 00:00:00 GMT"),
            &format!("{changed} & Date: Sat, 01 Feb 2025 00:00:00 GMT & ETag: W/\"x\""),
        ] {
            assert!(!is_one(fields), "{fields}");
        }
    }

    #[test]
    fn a_version_that_was_not_written_to_its_end_is_none() {
        let text = kept(Some(9)).version.to_string();
        assert_eq!(
            text,
            "forebay part 1\nhttp://host/a?key\nhttp://host/a\n\"x\"\n9\n"
        );
        for length in 0..text.len() {
            assert_eq!(text[..length].parse::<Version>(), Err(()), "{length}");
        }
        assert!(
            "forebay part 1\nhttp://host/\nhttp://host/\n\"\r\"\n9\n"
                .parse::<Version>()
                .is_err()
        );
    }

    #[test]
    fn the_rest_is_asked_for_only_where_the_beginning_is_from() {
        let of = |asked: &str, url: &str| {
            kept(None).fields(&asked.parse().unwrap(), &url.parse().unwrap())
        };
        assert_eq!(of("http://host/a", "http://host/a"), None);
        let fields = |url: &str| of("http://host/a?key", url);
        let asked = "Range: bytes=5-\r\nIf-Range: \"x\"\r\n";
        assert_eq!(fields("http://host/a?other").as_deref(), Some(asked));
        for url in [
            "http://other/a",
            "https://host/a",
            "http://host:81/a",
            "http://host/",
        ] {
            assert_eq!(fields(url), None, "{url}");
        }
    }

    #[test]
    fn a_rest_that_does_not_fit_is_refused() {
        let rest = |status, fields: &str, length| kept(Some(9)).rest(&head(status, fields), length);
        assert_eq!(
            rest(206, "Content-Range: bytes 5-8/9", Some(4)),
            Ok(Rest::Follows(4))
        );
        assert_eq!(
            rest(206, "Content-Range: bytes 5-8/9 & ETag: \"x\"", None),
            Ok(Rest::Follows(4))
        );
        for (status, fields) in [
            (200, "A: b"),
            (404, "A: b"),
            (206, "Content-Range: bytes 5-8/9 & ETag: \"y\""),
            (206, "Content-Range: bytes 5-9/10"),
            (416, "Content-Range: bytes */4"),
            (416, "Content-Range: bytes */9"),
        ] {
            assert_eq!(rest(status, fields, None), Ok(Rest::Changed), "{fields}");
        }
        for (fields, length) in [
            ("A: b", None),
            ("Content-Range: bytes 5-8/9", Some(5)),
            ("Content-Range: bytes 4-8/9", None),
            ("Content-Range: bytes 6-8/9", None),
            ("Content-Range: bytes 5-7/9", None),
            ("Content-Range: bytes 5-9/9", None),
            ("Content-Range: bytes 5-8/*", None),
            ("Content-Range: bytes */9", None),
            ("Content-Range: bytes +5-8/9", None),
            ("Content-Range: bytes 5-8/18446744073709551616", None),
            ("Content-Range: lines 5-8/9", None),
            (
                "Content-Range: bytes 5-8/9 & Content-Range: bytes 5-8/9",
                None,
            ),
            ("Content-Type: multipart/byteranges; boundary=x", None),
        ] {
            assert!(rest(206, fields, length).is_err(), "{fields}");
        }
        let whole = kept(None).rest(&head(416, "Content-Range: bytes */5"), None);
        assert_eq!(whole, Ok(Rest::None));
        let past = kept(None).rest(&head(206, "Content-Range: bytes 5-4/5"), None);
        assert!(past.is_err());
    }
}
