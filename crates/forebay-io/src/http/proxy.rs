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
    /// For http; an address such as `http://proxy:3128`. If it is the text of an error, the requests that need the proxy fail with it.
    pub http: Option<std::result::Result<Url, String>>,
    /// For https: the proxy only passes on what TLS protects.
    pub https: Option<std::result::Result<Url, String>>,
    /// Hosts that are asked directly, in lower case: names, each also for all names that end in `.` and it; addresses; and networks
    /// such as `10.0.0.0/8`. `*` is every host.
    pub direct: Vec<String>,
}

impl Proxies {
    /// Reads the variables that curl reads: `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy`, first in lower case, then in upper
    /// case. A program that a web server started (`REQUEST_METHOD` is set) does not read `HTTP_PROXY`, which a client may have set.
    ///
    /// A variable without the address of an http proxy is an error only for the requests that need this proxy.
    pub fn from_environment() -> Self {
        let value = |name: &str| {
            let text = env::var(name).ok().filter(|it| !it.trim().is_empty());
            text.map(|text| (name.to_owned(), text))
        };
        let either = |name: &str| value(name).or_else(|| value(&name.to_ascii_uppercase()));
        let all = || either("all_proxy");
        let http = match env::var_os("REQUEST_METHOD") {
            Some(_) => value("http_proxy"),
            None => either("http_proxy"),
        };
        let (_, direct) = either("no_proxy").unwrap_or_default();
        let usable = |(name, text): (String, String)| {
            address(&text).map_err(|error| format!("the proxy of {name} cannot be used: {error}"))
        };
        Proxies {
            http: http.or_else(all).map(usable),
            https: either("https_proxy").or_else(all).map(usable),
            direct: direct
                .split([',', ' '])
                .filter(|it| !it.is_empty())
                .map(str::to_ascii_lowercase)
                .collect(),
        }
    }

    /// The proxy for this address.
    ///
    /// # Errors
    /// This proxy has no usable address.
    pub(super) fn of(&self, url: &Url) -> Result<Option<&Url>> {
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
        match proxy {
            Some(proxy) if !is_here && !self.direct.iter().any(|it| covers(it, host)) => proxy
                .as_ref()
                .map(Some)
                .map_err(|why| Error::invalid(url.to_string(), why)),
            _ => Ok(None),
        }
    }
}

/// Whether `entry` of `no_proxy` means `host`.
fn covers(entry: &str, host: &str) -> bool {
    if entry == "*" {
        return true;
    }
    let Ok(address) = host.parse::<IpAddr>() else {
        let name = entry.trim_matches('.');
        let rest = host.strip_suffix(name).filter(|_| !name.is_empty());
        return rest.is_some_and(|it| it.is_empty() || it.ends_with('.'));
    };
    let (network, bits) = match entry.split_once('/') {
        Some((network, bits)) => (network, bits.parse().ok()),
        None => (entry.trim_end_matches('.'), Some(128)),
    };
    let network = network.trim_start_matches('[').trim_end_matches(']');
    // The first `bits` bits are equal: there are no more than that if the entry is an address.
    let is_equal = |differing: u128, width: u32, bits: u32| {
        bits == 0 || differing >> width.saturating_sub(bits) == 0
    };
    match (address, network.parse(), bits) {
        (IpAddr::V4(host), Ok(IpAddr::V4(network)), Some(bits)) => {
            is_equal(u128::from(host.to_bits() ^ network.to_bits()), 32, bits)
        }
        (IpAddr::V6(host), Ok(IpAddr::V6(network)), Some(bits)) => {
            is_equal(host.to_bits() ^ network.to_bits(), 128, bits)
        }
        _ => false,
    }
}

fn address(text: &str) -> Result<Url> {
    let full = match text.contains("://") {
        true => text.to_owned(),
        false => format!("http://{text}"),
    };
    let url: Url = full.parse()?;
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
            http: Some(Ok("http://proxy:3128".parse().unwrap())),
            https: None,
            direct: "example.org .dots.example. 192.0.2.7 10.0.0.0/8 [2001:db8::7] fd00::/8 198.51.100.0/x"
                .split(' ')
                .map(str::to_owned)
                .collect(),
        };
        for (url, goes_through) in [
            ("http://example.com/", true),
            ("https://example.com/", false),
            ("http://example.org/", false),
            ("http://www.EXAMPLE.org:8080/", false),
            ("http://notexample.org/", true),
            ("http://192.0.2.7/", false),
            ("http://192.0.2.77/", true),
            ("http://www.dots.example/", false),
            ("http://dots.example./", false),
            ("http://10.255.0.1/", false),
            ("http://11.0.0.1/", true),
            ("http://10.example/", true),
            ("http://[2001:db8:0::7]/", false),
            ("http://[2001:db8::8]/", true),
            ("http://[fdff::1]/", false),
            ("http://[fe80::1]/", true),
            ("http://198.51.100.0/", true),
            ("http://localhost:80/", false),
            ("http://127.9.9.9/", false),
            ("http://[::1]/", false),
        ] {
            let proxy = proxies.of(&url.parse().unwrap()).unwrap();
            assert_eq!(proxy.is_some(), goes_through, "{url}");
        }
        let none = Proxies {
            direct: vec!["*".into()],
            ..proxies
        };
        let proxy = none.of(&"http://example.com/".parse().unwrap());
        assert_eq!(proxy.unwrap(), None);
        assert!(address("https://proxy").is_err() && address("socks5://proxy").is_err());
        assert_eq!(
            address("proxy:3128").unwrap().to_string(),
            "http://proxy:3128/"
        );
    }
}
