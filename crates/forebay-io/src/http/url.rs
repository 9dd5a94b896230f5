//! The address of a request: http or https, a host, a port, a path. Pure; the parser is the crate `url`.

use forebay::{Error, Result};
use std::{fmt, str::FromStr};

/// An http or https address without fragment, user name or password.
///
/// ```
/// use forebay_io::http::Url;
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
    /// The text is not such an address. The error names the problem and a remedy.
    fn from_str(text: &str) -> Result<Self> {
        let parsed = ::url::Url::parse(text);
        Url::of(text, parsed)
    }
}

impl Url {
    /// Resolves `location`, received in a response from this address.
    ///
    /// # Errors
    /// As for parsing.
    pub fn join(&self, location: &str) -> Result<Self> {
        Url::of(location, self.0.join(location))
    }

    fn of(text: &str, parsed: std::result::Result<::url::Url, ::url::ParseError>) -> Result<Self> {
        // Never show a password, whatever else is wrong: the message may go to a log.
        let shown = text.rsplit_once('@').map_or(text, |(_, host)| host);
        let shown: String = shown.escape_default().take(200).collect();
        let refuse = |what: String, advice: &str| Err(Error::new(shown, what).advise(advice));
        let mut url = match parsed {
            Ok(url) => url,
            Err(error) => {
                return refuse(
                    format!("is not a URL ({error})"),
                    "Write the full URL, such as http://host/path",
                );
            }
        };
        if !matches!(url.scheme(), "http" | "https") {
            return refuse(
                format!("has the unsupported scheme '{}'", url.scheme()),
                "Use http:// or https://",
            );
        }
        if !url.username().is_empty() || url.password().is_some() {
            return refuse(
                "the URL contains a user name or password".into(),
                "Remove them: forebay does not log in",
            );
        }
        url.set_fragment(None);
        Ok(Url(url))
    }

    /// Whether TLS protects it.
    pub fn is_secure(&self) -> bool {
        self.0.scheme() == "https"
    }

    /// Path and query, as in the request line.
    pub fn target(&self) -> &str {
        &self.0[::url::Position::BeforePath..]
    }

    /// Host, and port if it is not the default, as in the field `Host`.
    pub fn host_field(&self) -> String {
        let host = self.0.host_str().unwrap_or_default();
        match self.0.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }

    /// The parsed URL, for connecting.
    pub(super) fn parts(&self) -> &::url::Url {
        &self.0
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
