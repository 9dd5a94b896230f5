//! A connection to the server of a URL, plain or over TLS, with time limits. It sends the request; `incoming` receives.

use super::{
    HttpConfig, Url, proxy,
    tls::{Secured, Tls},
    tls_error::in_words,
};
use forebay::{Error, Result};
use std::{
    io::{self, ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

/// Opens connections according to a [`HttpConfig`].
pub(super) struct Dialer<'a> {
    config: &'a HttpConfig,
    /// Created for the first https address; created at once if the roots come from a file, which may be unreadable.
    tls: Option<Tls>,
}

/// Bytes to and from a server.
pub(super) enum Connection {
    Plain(TcpStream),
    Secure(Box<Secured>),
}

impl<'a> Dialer<'a> {
    pub fn new(config: &'a HttpConfig) -> Result<Self> {
        let roots = config.roots.as_deref();
        let tls = roots.map(|_| Tls::new(roots)).transpose()?;
        Ok(Dialer { config, tls })
    }

    /// What to ask for: a proxy that does not see into a tunnel needs the whole address.
    pub fn target(&self, url: &Url) -> String {
        match self.config.proxies.of(url) {
            Ok(Some(_)) if !url.is_secure() => url.to_string(),
            _ => url.target().to_owned(),
        }
    }

    /// Connects to the server of `url`, or to its proxy. Passes the socket to `opened` before any data is sent.
    ///
    /// # Errors
    /// The proxy for `url` has no usable address, the host is unknown, none of its addresses responds in time, or TLS fails.
    pub fn dial(&mut self, url: &Url, opened: impl FnOnce(&TcpStream)) -> Result<Connection> {
        let proxy = self.config.proxies.of(url)?;
        let mut socket = connect(proxy.unwrap_or(url), self.config.connect_limit)?;
        let limit = Some(self.config.silence_limit);
        socket
            .set_read_timeout(limit)
            .and_then(|()| socket.set_write_timeout(limit))
            .map_err(|e| Error::new(url.to_string(), "setting time limits").because(e))?;
        opened(&socket);
        if !url.is_secure() {
            return Ok(Connection::Plain(socket));
        }
        if let Some(proxy) = proxy {
            proxy::tunnel(&mut socket, url).map_err(|error| {
                let what = format!("connecting through the proxy {proxy}");
                broken(url, &what, error, self.config.silence_limit)
            })?;
        }
        let tls = match self.tls.take() {
            Some(tls) => tls,
            None => Tls::new(None)?,
        };
        let secured = self.tls.insert(tls).secure(url, socket);
        secured
            .map(|secured| Connection::Secure(Box::new(secured)))
            .map_err(|error| {
                let what = "negotiating TLS with the server";
                broken(url, what, error, self.config.silence_limit)
            })
    }
}

/// Connects to the first address of the host that responds, all within `limit`.
fn connect(url: &Url, limit: Duration) -> Result<TcpStream> {
    let failed = |what: &str, cause| Error::new(url.to_string(), what).because(cause);
    // This handles IPv6 addresses, host names and default ports.
    let addresses = url
        .addresses()
        .map_err(|e| failed("looking up its host", e))?;
    let until = Instant::now() + limit;
    let mut last = None;
    for address in &addresses {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            last = last.or(Some((*address, ErrorKind::TimedOut.into())));
            break;
        }
        match TcpStream::connect_timeout(address, left) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = Some((*address, error)),
        }
    }
    let (address, cause): (SocketAddr, io::Error) = match last {
        Some(last) => last,
        None => {
            let what = "looking up its host";
            return Err(Error::new(url.to_string(), what).advise("The host has no address"));
        }
    };
    let error = failed(&format!("connecting to {address}"), cause);
    Err(match addresses.len() {
        1 => error,
        several => error.advise(format!("The other {} addresses failed too", several - 1)),
    })
}

/// The error for a connection to `url` that failed during `tried`.
pub(super) fn broken(url: &Url, tried: &str, cause: io::Error, silence: Duration) -> Error {
    let cause = match cause.kind() {
        // A socket reports its time limit this way.
        ErrorKind::WouldBlock | ErrorKind::TimedOut => io::Error::other(format!(
            "no data was transferred for {} s, the limit of --silence",
            silence.as_secs_f64()
        )),
        _ => cause,
    };
    Error::new(url.to_string(), tried).because(cause)
}

impl Connection {
    pub fn socket(&self) -> &TcpStream {
        match self {
            Connection::Plain(socket) => socket,
            Connection::Secure(secured) => &secured.sock,
        }
    }

    pub fn ask(&mut self, url: &Url, target: &str, fields: &str) -> io::Result<()> {
        let request = request(url, target, fields);
        match self {
            Connection::Plain(socket) => socket.write_all(request.as_bytes()),
            Connection::Secure(secured) => secured
                .write_all(request.as_bytes())
                .and_then(|()| secured.flush())
                .map_err(in_words),
        }
    }
}

impl Read for Connection {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        match self {
            Connection::Plain(socket) => socket.read(target),
            Connection::Secure(secured) => secured.read(target).map_err(in_words),
        }
    }
}

/// One request per connection: a response may then end with the connection, and no other data follows it.
fn request(url: &Url, target: &str, fields: &str) -> String {
    format!(
        "GET {target} HTTP/1.1\r\nHost: {}\r\nUser-Agent: forebay/{}\r\nAccept: */*\r\n\
         Accept-Encoding: identity\r\nConnection: close\r\n{fields}\r\n",
        url.host_field(),
        env!("CARGO_PKG_VERSION"),
    )
}
