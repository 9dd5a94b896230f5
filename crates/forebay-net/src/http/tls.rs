//! TLS on a connected socket: rustls with ring's cryptography, and nobody trusted who is not among the roots.
//!
//! Read `connection` next, which is plain or this.

use super::Url;
use forebay::{Error, Result};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use std::{io, net::TcpStream, path::Path, sync::Arc};

/// What all connections of a fetch share.
pub(super) struct Tls(Arc<ClientConfig>);

/// A socket behind TLS.
pub(super) type Secured = StreamOwned<ClientConnection, TcpStream>;

impl Tls {
    /// Trusts the roots in `file`, or Mozilla's where there is none.
    ///
    /// # Errors
    /// The file cannot be read, or has no certificate in it.
    pub fn new(file: Option<&Path>) -> Result<Self> {
        let roots = match file {
            None => webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect(),
            Some(file) => roots_in(file)?,
        };
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| Error::new("TLS", "choosing its versions").because(io::Error::other(e)))?;
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Tls(Arc::new(config)))
    }

    /// Shakes hands with the server of `url`.
    ///
    /// # Errors
    /// It speaks no TLS, shows a certificate that is not good for that name, or stops in the middle.
    pub fn secure(&self, url: &Url, mut socket: TcpStream) -> io::Result<Secured> {
        let host = url.parts().host_str().unwrap_or_default();
        // An IPv6 address has brackets in a URL, and none in a certificate.
        let name = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        let mut session = ClientConnection::new(self.0.clone(), name).map_err(io::Error::other)?;
        while session.is_handshaking() {
            session.complete_io(&mut socket)?;
        }
        Ok(StreamOwned::new(session, socket))
    }
}

fn roots_in(file: &Path) -> Result<RootCertStore> {
    let refuse = |what: &str| Error::new(file.display().to_string(), what);
    let unreadable = |error| {
        refuse("reading root certificates")
            .because(io::Error::other(error))
            .advise("It has to be in PEM: -----BEGIN CERTIFICATE-----")
    };
    // Read first: a file that is not there has an error of the system, which says more than one of the parser.
    let pem = std::fs::read(file).map_err(|e| refuse("reading root certificates").because(e))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(unreadable)?;
        roots
            .add(certificate)
            .map_err(|e| refuse("using a root certificate").because(io::Error::other(e)))?;
    }
    if roots.is_empty() {
        return Err(refuse("has no certificate in it")
            .advise("It has to be in PEM: -----BEGIN CERTIFICATE-----"));
    }
    Ok(roots)
}
