//! Proxies: which requests go through one, and the tunnel of `CONNECT` through which TLS passes.

use super::{Head, Url, head::EndFinder, limits::HEAD_LIMIT_BYTES};
use forebay::{Error, Result};
use std::{
    env,
    io::{self, ErrorKind, Read, Write},
    net::{IpAddr, TcpStream},
};

/// The proxies of a fetch. None by default.
///
/// Hosts of this machine (`localhost`, `127.0.0.0/8`, `::1`) are always asked directly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies {
    /// For http; an address such as `http://proxy:3128`.
    pub http: Option<Url>,
    /// For https: the proxy only passes on what TLS protects.
    pub https: Option<Url>,
    /// Hosts that are asked directly: names and addresses, each also for all names that end in `.` and it. `*` is every host.
    pub direct: Vec<String>,
}

impl Proxies {
    /// Reads the variables that curl reads: `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy`, first in lower case, then in upper
    /// case. A program that a web server started (`REQUEST_METHOD` is set) does not read `HTTP_PROXY`, which a client may have set.
    ///
    /// # Errors
    /// A variable has no address of an http proxy.
    pub fn from_environment() -> Result<Self> {
        let value = |name: &str| env::var(name).ok().filter(|it| !it.trim().is_empty());
        let either = |name: &str| value(name).or_else(|| value(&name.to_ascii_uppercase()));
        let all = || either("all_proxy");
        let http = match env::var_os("REQUEST_METHOD") {
            Some(_) => value("http_proxy"),
            None => either("http_proxy"),
        };
        let direct = either("no_proxy").unwrap_or_default();
        let direct = direct
            .split([',', ' '])
            .map(|it| it.trim_start_matches('.'));
        Ok(Proxies {
            http: http.or_else(all).map(|it| address(&it)).transpose()?,
            https: either("https_proxy")
                .or_else(all)
                .map(|it| address(&it))
                .transpose()?,
            direct: direct
                .filter(|it| !it.is_empty())
                .map(str::to_ascii_lowercase)
                .collect(),
        })
    }

    /// The proxy for this address.
    pub(super) fn of(&self, url: &Url) -> Option<&Url> {
        let proxy = if url.is_secure() {
            &self.https
        } else {
            &self.http
        };
        let host = url.host().trim_end_matches('.');
        let is_here = match host.parse::<IpAddr>() {
            Ok(address) => address.is_loopback(),
            Err(_) => host == "localhost",
        };
        let is_direct = |name: &String| {
            let rest = host.strip_suffix(name.as_str());
            name == "*" || rest.is_some_and(|it| it.is_empty() || it.ends_with('.'))
        };
        let proxy = proxy.as_ref();
        proxy.filter(|_| !is_here && !self.direct.iter().any(is_direct))
    }
}

fn address(text: &str) -> Result<Url> {
    let full = match text.contains("://") {
        true => text.to_owned(),
        false => format!("http://{text}"),
    };
    let url: Url = full
        .parse()
        .map_err(|error: Error| Error::invalid("the proxy", error.to_string()))?;
    match url.is_secure() {
        true => Err(
            Error::invalid(url.to_string(), "a proxy that is asked over TLS")
                .advise("Name an http proxy: it passes on https, too"),
        ),
        false => Ok(url),
    }
}

/// Lets the proxy at the other end of `socket` connect to the server of `url`.
pub(super) fn tunnel(socket: &mut TcpStream, url: &Url) -> io::Result<()> {
    let place = url.place();
    let agent = env!("CARGO_PKG_VERSION");
    socket.write_all(
        format!("CONNECT {place} HTTP/1.1\r\nHost: {place}\r\nUser-Agent: forebay/{agent}\r\n\r\n")
            .as_bytes(),
    )?;
    let (mut bytes, mut end) = (Vec::new(), EndFinder::default());
    let other = |what: String| io::Error::other(what);
    loop {
        let found = end.find(&bytes, HEAD_LIMIT_BYTES);
        if let Some(len) = found.map_err(|fault| other(fault.to_string()))? {
            let head = Head::parse(&bytes[..len]).map_err(|fault| other(fault.to_string()))?;
            return match head.status {
                200..=299 if bytes.len() == len => Ok(()),
                200..=299 => Err(other("it sends more than an answer into the tunnel".into())),
                407 => Err(other(
                    "it wants a login (status 407), and forebay does not log in".into(),
                )),
                status => Err(other(format!(
                    "it refuses (status {status} {})",
                    head.reason
                ))),
            };
        }
        let mut more = [0; 1024];
        match socket.read(&mut more)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            n => bytes.extend(&more[..n]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_this_machine_and_those_of_no_proxy_are_asked_directly() {
        let proxies = Proxies {
            http: Some("http://proxy:3128".parse().unwrap()),
            https: None,
            direct: vec!["example.org".into(), "192.0.2.7".into()],
        };
        for (url, goes_through) in [
            ("http://example.com/", true),
            ("https://example.com/", false),
            ("http://example.org/", false),
            ("http://www.EXAMPLE.org:8080/", false),
            ("http://notexample.org/", true),
            ("http://192.0.2.7/", false),
            ("http://192.0.2.77/", true),
            ("http://localhost:80/", false),
            ("http://127.9.9.9/", false),
            ("http://[::1]/", false),
        ] {
            let proxy = proxies.of(&url.parse().unwrap());
            assert_eq!(proxy.is_some(), goes_through, "{url}");
        }
        let none = Proxies {
            direct: vec!["*".into()],
            ..proxies
        };
        assert_eq!(none.of(&"http://example.com/".parse().unwrap()), None);
        assert!(address("https://proxy").is_err() && address("socks5://proxy").is_err());
        assert_eq!(
            address("proxy:3128").unwrap().to_string(),
            "http://proxy:3128/"
        );
    }
}
