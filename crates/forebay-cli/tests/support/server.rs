//! Servers that a test starts on loopback, to answer as no good server would, and what `forebay get` does with the answers.
//! Each server ends with the test program.

#![allow(dead_code)] // each test program uses a part

use super::support::Outcome;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer},
};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
};

/// A connection, plain or with TLS.
pub trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// A client that sent a request.
pub struct Client {
    /// The whole request.
    pub request: String,
    stream: Box<dyn Stream>,
    /// The socket beneath, for what TLS would not do.
    pub socket: TcpStream,
}

impl Client {
    fn new(mut stream: Box<dyn Stream>, socket: TcpStream) -> Option<Self> {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).ok()?;
            request.push(byte[0]);
        }
        let request = String::from_utf8(request).unwrap();
        Some(Client {
            request,
            stream,
            socket,
        })
    }

    pub fn path(&self) -> &str {
        self.request.split(' ').nth(1).unwrap()
    }

    /// Sends `bytes`; the client may leave before it has them.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes);
    }

    /// Sends `bytes`; false if the client has left.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        let sent = self.stream.write_all(bytes.as_ref());
        sent.and_then(|()| self.stream.flush()).is_ok()
    }

    /// Sends nothing, until the client leaves.
    pub fn wait(&mut self) {
        while matches!(self.stream.read(&mut [0; 100]), Ok(1..)) {}
    }

    /// Ends the connection without a word.
    pub fn cut(&mut self) {
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }
}

/// Starts a server that lets `answer` have each client, and says where it is.
pub fn serve(answer: impl Fn(&mut Client) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    serve_on(listener, answer)
}

pub fn serve_on(
    listener: TcpListener,
    answer: impl Fn(&mut Client) + Send + Sync + 'static,
) -> SocketAddr {
    let address = listener.local_addr().unwrap();
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for socket in listener.incoming() {
            let (socket, answer) = (socket.unwrap(), answer.clone());
            socket.set_nodelay(true).unwrap();
            thread::spawn(move || {
                let stream = Box::new(socket.try_clone().unwrap());
                if let Some(mut client) = Client::new(stream, socket) {
                    answer(&mut client);
                }
            });
        }
    });
    address
}

/// An answer with this body.
pub fn with_length(body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// Requires that a command succeeded and printed these bytes.
#[track_caller]
pub fn is_fine(ran: &std::process::Output, body: &[u8]) {
    let printed = &ran.succeeds().stdout;
    assert!(printed == body, "{} bytes came", printed.len());
}

/// A server that sends the same bytes to everybody, and keeps the connection.
pub fn serve_and_wait(bytes: impl Into<Vec<u8>>) -> SocketAddr {
    let bytes = bytes.into();
    serve(move |client| {
        client.send(&bytes);
        client.wait();
    })
}

/// A server that sends the same bytes to everybody, and ends the connection.
pub fn serve_bytes(bytes: impl Into<Vec<u8>>) -> SocketAddr {
    let bytes = bytes.into();
    serve(move |client| client.send(&bytes))
}

/// Starts a TLS server whose certificate is for `name`; returns its root in PEM too.
pub fn serve_tls(
    name: &str,
    answer: impl Fn(&mut Client) + Send + 'static,
) -> (SocketAddr, String) {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let root = params.self_signed(&key).unwrap();
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec![name.into()]).unwrap();
    let leaf = leaf.signed_by(&key, &issuer).unwrap();
    let address = serve_as(leaf.der().clone(), &key, answer);
    (address, root.pem())
}

/// Starts a TLS server whose certificate, for `name`, is signed by itself and that of an authority, as
/// `openssl req -x509` makes it; returns it in PEM too.
pub fn serve_self_signed(
    name: &str,
    change: impl FnOnce(&mut CertificateParams),
    answer: impl Fn(&mut Client) + Send + 'static,
) -> (SocketAddr, String) {
    let mut params = CertificateParams::new(vec![name.into()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    let own = params.self_signed(&key).unwrap();
    (serve_as(own.der().clone(), &key, answer), own.pem())
}

fn serve_as(
    certificate: CertificateDer<'static>,
    key: &KeyPair,
    answer: impl Fn(&mut Client) + Send + 'static,
) -> SocketAddr {
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate],
            PrivateKeyDer::Pkcs8(key.serialize_der().into()),
        )
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for socket in listener.incoming() {
            let socket = socket.unwrap();
            let session = ServerConnection::new(config.clone()).unwrap();
            let stream = Closing(StreamOwned::new(session, socket.try_clone().unwrap()));
            // A client that does not trust us is gone in the middle of the handshake.
            if let Some(mut client) = Client::new(Box::new(stream), socket) {
                answer(&mut client);
            }
        }
    });
    address
}

/// Says farewell as TLS wants it, when it is dropped.
struct Closing(StreamOwned<ServerConnection, TcpStream>);

impl Read for Closing {
    fn read(&mut self, target: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(target)
    }
}

impl Write for Closing {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.conn.send_close_notify();
        let _ = self.0.flush();
    }
}
