//! Messages for TLS errors, with advice.

use rustls::{AlertDescription, CertificateError, Error, pki_types::ServerName};
use std::io::{self, ErrorKind};

/// Replaces the text of an error of a TLS connection. Errors of the system are unchanged.
pub(super) fn in_words(error: io::Error) -> io::Error {
    let inner = error.get_ref().and_then(|it| it.downcast_ref::<Error>());
    let words = match inner {
        Some(inner) => words(inner),
        // rustls's own message is a link to its documentation.
        None if error.kind() == ErrorKind::UnexpectedEof => {
            "the server closed the connection without ending TLS properly".into()
        }
        None => return error,
    };
    io::Error::new(error.kind(), words)
}

fn words(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(why) => format!("the server's certificate {}", certificate(why)),
        Error::InvalidMessage(_) => {
            "the server does not speak TLS. Does it expect http:// instead of https://?".into()
        }
        Error::AlertReceived(alert) => format!("the server {}", refusal(*alert)),
        Error::PeerIncompatible(why) => {
            format!("the server supports no TLS version or cipher that is secure enough ({why:?})")
        }
        Error::PeerMisbehaved(why) => format!("the server violates the TLS protocol ({why:?})"),
        Error::NoCertificatesPresented => "the server presented no certificate".into(),
        Error::NoApplicationProtocol => "the server does not offer http/1.1".into(),
        other => format!("TLS failed ({other})"),
    }
}

fn certificate(why: &CertificateError) -> String {
    use CertificateError as E;
    match why {
        E::UnknownIssuer => {
            "is not signed by a trusted authority. If you trust it, give it or its root with --cacert"
                .into()
        }
        E::Expired | E::ExpiredContext { .. } => {
            "has expired. If it has not, set the clock of this machine".into()
        }
        E::NotValidYet | E::NotValidYetContext { .. } => {
            "is not valid yet. If it should be, set the clock of this machine".into()
        }
        E::NotValidForNameContext {
            expected,
            presented,
        } => match presented.as_slice() {
            [] => format!(
                "is not for {}: it names no host. It needs a subjectAltName; a common name alone does not count",
                host(expected)
            ),
            names => format!(
                "is not for {}, only for {}",
                host(expected),
                names.join(", ").escape_debug()
            ),
        },
        E::NotValidForName => "is not for that host".into(),
        E::BadEncoding => "is malformed".into(),
        E::Revoked => "was revoked".into(),
        E::BadSignature => "has an invalid signature".into(),
        E::InvalidPurpose | E::InvalidPurposeContext { .. } => "is not valid for servers".into(),
        E::UnhandledCriticalExtension => "has a critical extension that is not supported".into(),
        E::UnsupportedSignatureAlgorithmContext { .. }
        | E::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "has an unsupported signature algorithm".into()
        }
        E::Other(_) if is_authority(why) => {
            "is that of a certificate authority, not of a server. If you trust exactly this certificate, give it with --cacert"
                .into()
        }
        other => format!("is not acceptable ({other:?})"),
    }
}

/// Whether the only problem is that a certificate of an authority is used as a server's, as created by `openssl req -x509`.
/// webpki checks the dates first.
pub(super) fn is_authority(why: &CertificateError) -> bool {
    // webpki's error type is not accessible here.
    matches!(why, CertificateError::Other(other) if format!("{:?}", other.0) == "CaUsedAsEndEntity")
}

fn host(name: &ServerName<'_>) -> String {
    name.to_str().into_owned()
}

fn refusal(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::HandshakeFailure
        | AlertDescription::ProtocolVersion
        | AlertDescription::InsufficientSecurity => {
            format!("found no TLS version or cipher in common with forebay ({alert:?})")
        }
        AlertDescription::UnrecognisedName => "does not know the host by that name".into(),
        AlertDescription::CertificateRequired => {
            "requires a client certificate, which forebay does not support".into()
        }
        other => format!("ended TLS with the alert {other:?}"),
    }
}
