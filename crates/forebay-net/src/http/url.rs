//! What may be asked for: http and https, a host, a port, a path. Pure; the grammar is that of the crate `url`.
//!
//! Read `redirect` next, which makes one of these out of another and a `Location`.

use forebay::{Error, Result};
use std::{fmt, str::FromStr};

/// An http or https address without a fragment, and without a user name or password.
///
/// ```
/// use forebay_net::http::Url;
/// let url: Url = "http://[::1]:8080/a b?c#d".parse()?;
/// assert_eq!(url.to_string(), "http://[::1]:8080/a%20b?c");
/// assert_eq!((url.host_field().as_str(), url.target()), ("[::1]:8080", "/a%20b?c"));
/// assert!("ftp://host/".parse::<Url>().is_err());
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url(::url::Url);

impl FromStr for Url {
    type Err = Error;

    /// # Errors
    /// It is no such address; says what is in the way, and what to do.
    fn from_str(text: &str) -> Result<Self> {
        let parsed = ::url::Url::parse(text);
        Url::of(text, parsed)
    }
}

impl Url {
    /// What `location` means in an answer from here.
    ///
    /// # Errors
    /// As of parsing.
    pub fn join(&self, location: &str) -> Result<Self> {
        Url::of(location, self.0.join(location))
    }

    fn of(text: &str, parsed: std::result::Result<::url::Url, ::url::ParseError>) -> Result<Self> {
        // Without a password, whatever else is wrong: the message may go to a log.
        let shown = text.rsplit_once('@').map_or(text, |(_, host)| host);
        let shown: String = shown.escape_default().take(200).collect();
        let refuse = |what: String, advice: &str| Err(Error::new(shown, what).advise(advice));
        let mut url = match parsed {
            Ok(url) => url,
            Err(error) => {
                return refuse(
                    format!("is no URL ({error})"),
                    "Write it whole, such as http://host/path",
                );
            }
        };
        if !matches!(url.scheme(), "http" | "https") {
            return refuse(
                format!("cannot fetch by '{}'", url.scheme()),
                "Begin it with http:// or https://",
            );
        }
        if !url.username().is_empty() || url.password().is_some() {
            return refuse(
                "the URL has a user name or password in it".into(),
                "Leave them out: this command does not log in",
            );
        }
        url.set_fragment(None);
        Ok(Url(url))
    }

    /// Whether TLS protects it.
    pub fn is_secure(&self) -> bool {
        self.0.scheme() == "https"
    }

    /// Path and query, as a request names them.
    pub fn target(&self) -> &str {
        &self.0[::url::Position::BeforePath..]
    }

    /// Host, and port where it is not the usual one, as the field `Host` has them.
    pub fn host_field(&self) -> String {
        let host = self.0.host_str().unwrap_or_default();
        match self.0.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }

    /// Its parts, for those who connect.
    pub(super) fn parts(&self) -> &::url::Url {
        &self.0
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
