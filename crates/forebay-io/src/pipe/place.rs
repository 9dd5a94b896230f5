//! Names of inputs and outputs, and how to open them.
//!
//! ```text
//!   -   ·   FILE   ·   tcp:HOST:PORT   ·   tcp-listen:[ADDRESS:]PORT
//! ```

use forebay::{Error, Result};
use std::{
    ffi::OsStr,
    fs::File,
    io,
    net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs},
    os::fd::OwnedFd,
    path::PathBuf,
};

/// A source or destination of bytes.
///
/// ```
/// use forebay_io::pipe::Place;
/// let place = |name: &str| Place::parse(name.as_ref()).unwrap();
/// assert_eq!(place("-"), Place::Standard);
/// assert_eq!(place("backup.tar"), Place::File("backup.tar".into()));
/// assert_eq!(place("tcp:[::1]:9000"), Place::Connect("[::1]:9000".into()));
/// assert_eq!(place("tcp-listen:9000"), Place::Listen { at: None, port: 9000, only: None });
/// assert!(Place::parse("tcp:somewhere".as_ref()).is_err()); // ./tcp:somewhere is a file
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Standard input or standard output.
    Standard,
    /// A file, FIFO or device.
    File(PathBuf),
    /// A TCP connection to `HOST:PORT`.
    Connect(String),
    /// The first incoming TCP connection.
    Listen {
        /// The address to listen on; `None`: all addresses of this machine.
        at: Option<String>,
        /// The port to listen on.
        port: u16,
        /// The only host that may connect; other connections are closed.
        only: Option<String>,
    },
}

impl Place {
    /// Parses a name as typed by a user.
    ///
    /// # Errors
    /// It begins with `tcp:` or `tcp-listen:`, but no valid address follows.
    pub fn parse(name: &OsStr) -> Result<Place> {
        let refuse = |advice: &str| {
            let name = name.to_string_lossy();
            let error = Error::new(name, "is not a valid address");
            Err(error.advise(format!("{advice}; for a file of that name use ./NAME")))
        };
        let Some(text) = name.to_str() else {
            return Ok(Place::File(name.into()));
        };
        if text == "-" {
            return Ok(Place::Standard);
        }
        if let Some(to) = text.strip_prefix("tcp:") {
            return match split_port(to) {
                Some((Some(_), 1..)) => Ok(Place::Connect(to.to_owned())),
                _ => refuse("Use tcp:HOST:PORT, such as tcp:backup:9000"),
            };
        }
        if let Some(on) = text.strip_prefix("tcp-listen:") {
            let Some((at, port)) = split_port(on) else {
                return refuse("Use tcp-listen:PORT or tcp-listen:ADDRESS:PORT");
            };
            let at = at.map(str::to_owned);
            return Ok(Place::Listen {
                at,
                port,
                only: None,
            });
        }
        Ok(Place::File(name.into()))
    }

    /// The name in messages.
    pub(super) fn name(&self, standard: &str) -> String {
        match self {
            Place::Standard => standard.into(),
            Place::File(path) => path.display().to_string(),
            Place::Connect(to) => format!("tcp:{to}"),
            Place::Listen { at, port, .. } => match at {
                Some(at) => format!("tcp-listen:{at}:{port}"),
                None => format!("tcp-listen:{port}"),
            },
        }
    }
}

/// `HOST:PORT` or `PORT`, with an IPv6 address in brackets.
///
/// ```
/// use forebay_io::pipe::split_port;
/// assert_eq!(split_port("backup:9000"), Some((Some("backup"), 9000)));
/// assert_eq!(split_port("9000"), Some((None, 9000)));
/// assert_eq!(split_port("::1:9000"), None); // [::1]:9000
/// ```
pub fn split_port(text: &str) -> Option<(Option<&str>, u16)> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (Some(host), port),
        None => (None, text),
    };
    let host_is_clear = |host: &str| {
        let is_bracketed = host.starts_with('[') && host.ends_with(']');
        !host.is_empty() && (is_bracketed || !host.contains(':'))
    };
    let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && host.is_none_or(host_is_clear)).then_some((host, port.parse().ok()?))
}

/// Connects to `HOST:PORT`.
pub(super) fn connect(to: &str) -> Result<File> {
    let stream = TcpStream::connect(to).map_err(|cause| {
        let advice = match cause.kind() {
            io::ErrorKind::ConnectionRefused => "Does the other end listen already?",
            _ => "",
        };
        Error::new(format!("tcp:{to}"), "connecting")
            .because(cause)
            .advise(advice)
    })?;
    Ok(File::from(OwnedFd::from(stream)))
}

/// Waits for the first connection from a permitted host. Passes the address it listens on to `listening`.
pub(super) fn accept(
    (at, port): (Option<&str>, u16),
    only: Option<&str>,
    name: &str,
    listening: &mut dyn FnMut(SocketAddr),
) -> Result<File> {
    let failed = |tried: &str, cause: io::Error| {
        let advice = match cause.kind() {
            io::ErrorKind::AddrInUse => "Another program listens there: choose another port",
            io::ErrorKind::PermissionDenied => "Ports below 1024 require root",
            io::ErrorKind::AddrNotAvailable => "Use an address of this machine",
            _ => "",
        };
        Error::new(name, tried).because(cause).advise(advice)
    };
    let allowed = match only {
        None => None,
        Some(host) => {
            Some(addresses(host).map_err(|cause| failed("looking up the permitted host", cause))?)
        }
    };
    let listener = match at {
        Some(at) => TcpListener::bind(format!("{at}:{port}")),
        // Without IPv6, all addresses are IPv4 addresses.
        None => TcpListener::bind(("::", port)).or_else(|_| TcpListener::bind(("0.0.0.0", port))),
    };
    let listener = listener.map_err(|cause| failed("listening", cause))?;
    let address = listener.local_addr();
    listening(address.map_err(|cause| failed("listening", cause))?);
    loop {
        let (stream, peer) = match listener.accept() {
            Ok(accepted) => accepted,
            // The client has already disconnected.
            Err(cause) if cause.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(cause) => return Err(failed("waiting for a connection", cause)),
        };
        let peer = peer.ip().to_canonical();
        if allowed
            .as_ref()
            .is_none_or(|allowed| allowed.contains(&peer))
        {
            return Ok(File::from(OwnedFd::from(stream)));
        }
    }
}

fn addresses(host: &str) -> io::Result<Vec<IpAddr>> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let found = (host, 0).to_socket_addrs()?;
    Ok(found.map(|address| address.ip().to_canonical()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_begin_like_addresses_must_be_addresses() {
        let place = |name: &str| Place::parse(name.as_ref());
        for name in [
            "tcp:",
            "tcp::9",
            "tcp:9000",
            "tcp:a:0",
            "tcp:a:65536",
            "tcp:a:+1",
            "tcp:::1:9000",
        ] {
            let error = place(name).unwrap_err().to_string();
            assert!(error.contains("tcp:HOST:PORT"), "{error}");
        }
        for name in ["tcp-listen:", "tcp-listen:a:b", "tcp-listen::1:9"] {
            let error = place(name).unwrap_err().to_string();
            assert!(error.contains("tcp-listen:PORT"), "{error}");
        }
        let named = Place::Listen {
            at: Some("127.0.0.1".into()),
            port: 0,
            only: None,
        };
        assert_eq!(place("tcp-listen:127.0.0.1:0").unwrap(), named);
        assert_eq!(named.name("-"), "tcp-listen:127.0.0.1:0");
        assert_eq!(place("./tcp:9").unwrap(), Place::File("./tcp:9".into()));
    }

    #[test]
    fn only_the_permitted_host_gets_a_connection() {
        let (tell, told) = std::sync::mpsc::channel();
        let accepting = std::thread::spawn(move || {
            let at = (Some("127.0.0.1"), 0);
            accept(at, Some("127.0.0.1"), "test", &mut |address| {
                tell.send(address).unwrap()
            })
        });
        let peer = TcpStream::connect(told.recv().unwrap()).unwrap();
        assert!(accepting.join().unwrap().is_ok());
        drop(peer);
    }
}
