//! TLS on a connected socket: rustls with ring's cryptography. Only servers that the roots certify are trusted.

use super::{
    Url,
    tls_error::{in_words, is_authority},
};
use forebay::{Error, Result};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
    StreamOwned,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::ring,
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
    server::ParsedCertificate,
};
use std::{io, net::TcpStream, path::Path, sync::Arc};

/// The TLS configuration that all connections of a fetch share.
pub(super) struct Tls(Arc<ClientConfig>);

pub(super) type Secured = StreamOwned<ClientConnection, TcpStream>;

impl Tls {
    /// Trusts the certificates in `file`, or Mozilla's roots without one.
    ///
    /// # Errors
    /// The file cannot be read, or contains no certificate.
    pub fn new(file: Option<&Path>) -> Result<Self> {
        let failed =
            |e: rustls::Error| Error::new("TLS", "setting it up").because(io::Error::other(e));
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(failed)?;
        let config = match file {
            None => {
                let roots = webpki_roots::TLS_SERVER_ROOTS.iter().cloned();
                config.with_root_certificates(roots.collect::<RootCertStore>())
            }
            Some(file) => {
                let (roots, exact) = certificates_in(file)?;
                let usual = WebPkiServerVerifier::builder_with_provider(roots.into(), provider)
                    .build()
                    .map_err(|e| failed(rustls::Error::General(e.to_string())))?;
                let verifier = Arc::new(RootOrExact { usual, exact });
                config
                    .dangerous()
                    .with_custom_certificate_verifier(verifier)
            }
        };
        let mut config = config.with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Tls(Arc::new(config)))
    }

    /// Performs the handshake with the server of `url`.
    ///
    /// # Errors
    /// The server does not speak TLS, presents a certificate that is not valid for that name, or ends the handshake early.
    pub fn secure(&self, url: &Url, mut socket: TcpStream) -> io::Result<Secured> {
        let name = ServerName::try_from(url.host().to_owned()).map_err(io::Error::other)?;
        let mut session = ClientConnection::new(self.0.clone(), name).map_err(io::Error::other)?;
        while session.is_handshaking() {
            session.complete_io(&mut socket).map_err(in_words)?;
        }
        Ok(StreamOwned::new(session, socket))
    }
}

/// Trusts certificates signed by the roots. Like OpenSSL and curl, it also trusts a server that presents exactly a certificate
/// that the user has given. Such a certificate, made with `openssl req -x509`, is one of an authority, which webpki rejects for
/// servers.
///
/// All other checks are those of any certificate: webpki has checked the dates before it rejects the kind, the name is checked
/// here, and the handshake proves that the server has the key.
#[derive(Debug)]
struct RootOrExact {
    usual: Arc<WebPkiServerVerifier>,
    exact: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for RootOrExact {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        match self
            .usual
            .verify_server_cert(shown, others, name, ocsp, now)
        {
            Err(rustls::Error::InvalidCertificate(why))
                if is_authority(&why) && self.exact.iter().any(|it| it == shown) =>
            {
                verify_server_name(&ParsedCertificate::try_from(shown)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.usual.verify_tls12_signature(message, shown, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.usual.verify_tls13_signature(message, shown, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

/// The certificates in `file`, as roots and in their original form.
fn certificates_in(file: &Path) -> Result<(RootCertStore, Vec<CertificateDer<'static>>)> {
    let refuse = |what: &str| Error::new(file.display().to_string(), what);
    let unreadable = |error| {
        refuse("reading root certificates")
            .because(io::Error::other(error))
            .advise("It must be in PEM format: -----BEGIN CERTIFICATE-----")
    };
    // Read the file first: if it is missing, the system's error is more precise than the parser's.
    let pem = std::fs::read(file).map_err(|e| refuse("reading root certificates").because(e))?;
    let (mut roots, mut exact) = (RootCertStore::empty(), Vec::new());
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(unreadable)?;
        exact.push(certificate.clone());
        roots
            .add(certificate)
            .map_err(|e| refuse("using a root certificate").because(io::Error::other(e)))?;
    }
    if roots.is_empty() {
        return Err(refuse("contains no certificate")
            .advise("It must be in PEM format: -----BEGIN CERTIFICATE-----"));
    }
    Ok((roots, exact))
}
