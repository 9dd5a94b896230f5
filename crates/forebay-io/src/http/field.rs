//! A field that the user adds to the request.

use super::Url;
use forebay::{Error, Result};
use std::str::FromStr;

/// Fields that this crate sets, and those that would change where the request or the response ends.
const OWN: &str = "accept accept-encoding connection content-length expect host http2-settings if-range keep-alive proxy-authorization \
                   proxy-connection range te trailer transfer-encoding upgrade user-agent";

/// `Name: value`. Its `Debug` hides the value, which may be a password.
///
/// ```
/// use forebay_io::http::Field;
/// assert!("X-Key: a b".parse::<Field>().is_ok());
/// assert!("Host: other".parse::<Field>().is_err());
/// assert!("X-Key: a\r\nHost: other".parse::<Field>().is_err());
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Field {
    name: String,
    value: String,
}

impl FromStr for Field {
    type Err = Error;

    /// # Errors
    /// The text is not a field, or one that is not for the user to set. The message has no value, which may be a password.
    fn from_str(text: &str) -> Result<Self> {
        let refuse = |what: String, advice| Err(Error::invalid("field", what).advise(advice));
        let Some((name, value)) = text.split_once(':') else {
            return refuse("has no colon".into(), "Write it as 'Name: value'");
        };
        let is_letter =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_letter) {
            let what = format!("'{}' is not a name", name.escape_default());
            return refuse(
                what,
                "Write it as 'Name: value', with letters, digits and hyphens in the name",
            );
        }
        if value
            .bytes()
            .any(|byte| byte.is_ascii_control() && byte != b'\t')
        {
            return refuse(
                format!("the value of {name} has a control character"),
                "Remove it",
            );
        }
        if OWN
            .split_whitespace()
            .any(|own| own.eq_ignore_ascii_case(name))
        {
            return refuse(format!("{name} is set by forebay"), "Leave it out");
        }
        Ok(Field {
            name: name.into(),
            value: value.trim().into(),
        })
    }
}

impl Field {
    /// The line of the request to `url`; `None` if the field would give a secret for `first` to another server.
    pub(super) fn line(&self, first: &Url, url: &Url) -> Option<String> {
        let secret = ["authorization", "cookie"];
        let is_secret = secret.iter().any(|it| self.name.eq_ignore_ascii_case(it));
        let is_same =
            first.is_secure() == url.is_secure() && first.host_field() == url.host_field();
        (is_same || !is_secret).then(|| format!("{}: {}\r\n", self.name, self.value))
    }
}

impl std::fmt::Debug for Field {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Field")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_change_the_request_is_refused_without_showing_the_value() {
        for text in [
            "secret",
            ": secret",
            "a b: secret",
            "X\r\nY: secret",
            "X: secret\n",
            "X: sec\0ret",
            "hOsT: secret",
            "Range: secret",
            "X\u{e9}: secret",
        ] {
            let error = text.parse::<Field>().unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
        let field: Field = "X-Key:\tsecret ".parse().unwrap();
        assert!(!format!("{field:?}").contains("secret"));
    }

    #[test]
    fn a_secret_stays_with_its_server() {
        let line = |field: &str, to: &str| {
            let field: Field = field.parse().unwrap();
            field.line(&"https://host/a".parse().unwrap(), &to.parse().unwrap())
        };
        assert_eq!(
            line("Cookie:a=b", "https://host/b").as_deref(),
            Some("Cookie: a=b\r\n")
        );
        assert_eq!(line("X: y", "http://other/").as_deref(), Some("X: y\r\n"));
        for to in [
            "https://other/",
            "http://host/",
            "https://host:444/",
            "https://a.host/",
        ] {
            assert_eq!(line("cookie: a", to), None, "{to}");
            assert_eq!(line("Authorization: a", to), None, "{to}");
        }
    }
}
