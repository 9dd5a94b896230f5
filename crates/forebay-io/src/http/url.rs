//! The address of a request: http or https, a host, a port, a path. Pure.
//!
//! Addresses are read as browsers read them, by the rules of <https://url.spec.whatwg.org>: `\` separates like `/`, what an address cannot
//! hold is percent-encoded in the path and in the query, dot segments are resolved, and spaces around an address are ignored. An
//! exception: a host with letters beyond ASCII is refused, because its ASCII form depends on Unicode's tables.

mod host;

use forebay::{Error, Result};
use std::{
    fmt, io,
    net::{SocketAddr, ToSocketAddrs},
    str::FromStr,
};

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
pub struct Url {
    is_secure: bool,
    /// In lower case; an IPv6 address has its brackets.
    host: String,
    /// If it is not the default.
    port: Option<u16>,
    /// Path and query.
    target: String,
}

/// Why a text is not an address: what is wrong with it, and what to do.
struct Refusal(String, &'static str);

const NOT_FULL: &str = "Write the full URL, such as http://host/path";

impl Refusal {
    fn not_a_url(why: &str) -> Self {
        Refusal(format!("is not a URL ({why})"), NOT_FULL)
    }
}

impl FromStr for Url {
    type Err = Error;

    /// # Errors
    /// The text is not such an address. The error names the problem and a remedy.
    fn from_str(text: &str) -> Result<Self> {
        Url::read(text, None).map_err(|refusal| refused(text, refusal))
    }
}

impl Url {
    /// Resolves `location`, received in a response from this address.
    ///
    /// # Errors
    /// As for parsing.
    pub fn join(&self, location: &str) -> Result<Self> {
        Url::read(location, Some(self)).map_err(|refusal| refused(location, refusal))
    }

    fn read(text: &str, base: Option<&Url>) -> std::result::Result<Self, Refusal> {
        let text = text.trim_matches(|c| c <= ' ');
        let text: String = text
            .chars()
            .filter(|c| !matches!(c, '\t' | '\n' | '\r'))
            .collect();
        let text = text.split_once('#').map_or(&*text, |(text, _)| text);
        let (is_secure, rest) = match scheme(text) {
            Some((scheme, rest)) => (is_secure(&scheme)?, rest),
            None => match base {
                Some(base) => (base.is_secure, text),
                None => return Err(Refusal::not_a_url("relative URL without a base")),
            },
        };
        let after = rest.trim_start_matches(['/', '\\']);
        match base.filter(|base| base.is_secure == is_secure && rest.len() - after.len() < 2) {
            Some(base) => Ok(Url {
                target: target(rest, base.target()),
                ..base.clone()
            }),
            None => Url::absolute(is_secure, after),
        }
    }

    /// `text` begins with the host, or with a user name.
    fn absolute(is_secure: bool, text: &str) -> std::result::Result<Self, Refusal> {
        let end = text.find(['/', '\\', '?']).unwrap_or(text.len());
        let (authority, rest) = text.split_at(end);
        let (login, place) = authority.rsplit_once('@').unwrap_or(("", authority));
        // The colon of a port follows the bracket of an IPv6 address.
        let bracket = place.rfind(']').unwrap_or(0);
        let (name, port) = match place[bracket..].find(':') {
            Some(colon) => (&place[..bracket + colon], &place[bracket + colon + 1..]),
            None => (place, ""),
        };
        let host = host::read(name).map_err(|why| match why {
            host::Fault::NotAscii => Refusal(
                "has a host with letters that are not ASCII".into(),
                "Write the ASCII form of the host, which begins with xn--",
            ),
            host::Fault::Invalid(why) => Refusal::not_a_url(why),
        })?;
        let number = match port {
            "" => None,
            port if port.bytes().all(|byte| byte.is_ascii_digit()) => Some(port),
            _ => return Err(Refusal::not_a_url("invalid port number")),
        };
        let number = number
            .map(str::parse)
            .transpose()
            .map_err(|_| Refusal::not_a_url("invalid port number"))?;
        if !matches!(login, "" | ":") {
            return Err(Refusal(
                "the URL contains a user name or password".into(),
                "Remove them: forebay does not log in",
            ));
        }
        Ok(Url {
            is_secure,
            host,
            port: number.filter(|&port| port != default_port(is_secure)),
            target: target(rest, "/"),
        })
    }

    /// Whether TLS protects it.
    pub fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// Path and query, as in the request line.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Host, and port if it is not the default, as in the field `Host`.
    pub fn host_field(&self) -> String {
        match self.port {
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.clone(),
        }
    }

    /// Host and port, as in a request for a tunnel.
    pub(super) fn place(&self) -> String {
        let port = self.port.unwrap_or(default_port(self.is_secure));
        format!("{}:{port}", self.host)
    }

    /// The host, as in a certificate: an IPv6 address has no brackets.
    pub(super) fn host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    /// The addresses to connect to, from the system's resolver.
    pub(super) fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let port = self.port.unwrap_or(default_port(self.is_secure));
        Ok((self.host(), port).to_socket_addrs()?.collect())
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = if self.is_secure { "s" } else { "" };
        write!(f, "http{s}://{}{}", self.host_field(), self.target)
    }
}

fn refused(text: &str, Refusal(what, advice): Refusal) -> Error {
    // Never show a password, whatever else is wrong: the message may go to a log.
    let shown = text.rsplit_once('@').map_or(text, |(_, host)| host);
    let shown: String = shown.escape_default().take(200).collect();
    Error::new(shown, what).advise(advice)
}

/// The scheme, in lower case, and what follows its colon.
fn scheme(text: &str) -> Option<(String, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    is_scheme.then(|| (scheme.to_ascii_lowercase(), rest))
}

fn is_secure(scheme: &str) -> std::result::Result<bool, Refusal> {
    match scheme {
        "http" => Ok(false),
        "https" => Ok(true),
        _ => Err(Refusal(
            format!("has the unsupported scheme '{scheme}'"),
            "Use http:// or https://",
        )),
    }
}

fn default_port(is_secure: bool) -> u16 {
    if is_secure { 443 } else { 80 }
}

/// The path and query that `reference`, which has no host, stands for on a page whose path and query are `base`.
fn target(reference: &str, base: &str) -> String {
    let (path, query) = match reference.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (reference, None),
    };
    let base_path = base.split_once('?').map_or(base, |(path, _)| path);
    let mut target = match path {
        "" if query.is_none() => return base.to_owned(),
        "" => base_path.to_owned(),
        path if path.starts_with(['/', '\\']) => resolved(path),
        path => {
            let folder = &base_path[..base_path.rfind('/').map_or(0, |slash| slash + 1)];
            resolved(&format!("{folder}{path}"))
        }
    };
    if let Some(query) = query {
        target.push('?');
        encode(query, b"\"#'<>", &mut target);
    }
    target
}

/// `path`, which begins with a slash, without dot segments, and percent-encoded.
fn resolved(path: &str) -> String {
    let mut kept = vec![];
    let mut segments = path[1..].split(['/', '\\']).peekable();
    while let Some(segment) = segments.next() {
        let dots = segment.to_ascii_lowercase().replace("%2e", ".");
        if dots == ".." {
            kept.pop();
        }
        if !matches!(&*dots, "." | "..") {
            kept.push(segment);
        } else if segments.peek().is_none() {
            kept.push("");
        }
    }
    let mut path = String::new();
    for segment in kept {
        path.push('/');
        encode(segment, b"\"#<>?`{}", &mut path);
    }
    path
}

/// Appends `text`; control characters, spaces, what is not ASCII, and the bytes in `also` are percent-encoded.
fn encode(text: &str, also: &[u8], onto: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_graphic() && !also.contains(&byte) {
            onto.push(char::from(byte));
        } else {
            onto.push_str(&format!("%{byte:02X}"));
        }
    }
}
