//! Fetches one resource over HTTP/1.1, with or without TLS. [`get`] does this with one call.
//!
//! A thread reads the response into a [stream](forebay::stream). The caller's thread parses the response in the memory of this stream,
//! and writes the body from there to its destination.
//!
//! ```text
//!  thread "forebay-receive"                                     the caller's thread
//!  socket, TLS ─ read ─▶ reserve │ stream: the received bytes     │ peek ─▶ Reply: finds the parts
//!                         commit └────────────────────────────────┘           head    → redirect? error? report
//!                                                                  pop ◀────  framing → skip  (with `Shown::Raw`: write)
//!                                                                  pop ◀────  body    → write, without a copy
//! ```

mod chunked;
mod connection;
mod destination;
mod exchange;
mod fault;
mod field;
mod framing;
mod head;
mod incoming;
mod limits;
mod part;
mod proxy;
mod redirect;
mod reply;
mod stop;
mod tls;
mod tls_error;
mod url;
mod version;

#[cfg(test)]
mod tests;

pub use destination::Destination;
pub use exchange::{Answer, Event, get};
pub use fault::Fault;
pub use field::Field;
pub use head::Head;
pub use part::Parted;
pub use proxy::Proxies;
pub use reply::{Part, Reply};
pub use stop::Stop;
pub use url::Url;
pub use version::{Kept, Version};

use forebay::{Error, Result};
use std::{path::PathBuf, time::Duration};

/// Selects the bytes of the response to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shown {
    /// The body, without framing.
    #[default]
    Body,
    /// The head of the last response as received, then the body.
    HeadAndBody,
    /// The first response exactly as received: interim heads, head, chunk sizes and trailers. Redirects are not followed.
    Raw,
}

/// Settings of a fetch.
///
/// ```
/// let config = forebay_io::http::HttpConfig { max_redirects: 0, ..Default::default() };
/// assert!(config.validate().is_ok());
/// ```
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// Which bytes to write; default: the body.
    pub shown: Shown,
    /// Also write the body of a response with an error status (400 and above); default: no.
    pub failed_bodies: bool,
    /// Maximum number of redirects to follow; 10 by default.
    pub max_redirects: usize,
    /// Follow a redirect from https to http; default: no.
    pub allow_downgrade: bool,
    /// Maximum time to establish a connection, all addresses of the host together; 10 s by default.
    pub connect_limit: Duration,
    /// Maximum time without data from the server; 30 s by default.
    pub silence_limit: Duration,
    /// A PEM file with the only trusted certificates: roots, or the exact certificate of a server. By default the roots of
    /// Mozilla's programme, compiled in.
    pub roots: Option<PathBuf>,
    /// Proxies; none by default.
    pub proxies: Proxies,
    /// Fields to add to the request. Those with a secret (`Authorization`, `Cookie`) are not sent to another server after a redirect.
    pub fields: Vec<Field>,
    /// The beginning of the body, which is not fetched again if it has not changed; only with [`Shown::Body`].
    pub kept: Option<Kept>,
    /// Capacity of the stream: at least [`HttpConfig::LEAST_BUFFER_BYTES`]; 1 MiB by default.
    pub buffer_bytes: usize,
}

impl Default for HttpConfig {
    fn default() -> Self {
        HttpConfig {
            shown: Shown::Body,
            failed_bodies: false,
            max_redirects: 10,
            allow_downgrade: false,
            connect_limit: Duration::from_secs(10),
            silence_limit: Duration::from_secs(30),
            roots: None,
            proxies: Proxies::default(),
            fields: Vec::new(),
            kept: None,
            buffer_bytes: 1 << 20,
        }
    }
}

impl HttpConfig {
    /// The smallest stream: it must hold a whole head, with room to receive more after it.
    pub const LEAST_BUFFER_BYTES: usize = 2 * limits::HEAD_LIMIT_BYTES;

    /// Checks everything that can be checked without a server.
    ///
    /// # Errors
    /// A time limit of 0, or a stream too small for a head.
    pub fn validate(&self) -> Result<()> {
        if self.connect_limit.is_zero() || self.silence_limit.is_zero() {
            return Err(Error::invalid("http", "a time limit of 0").advise("Use more than 0"));
        }
        if self.buffer_bytes < Self::LEAST_BUFFER_BYTES {
            return Err(
                Error::invalid("http", format!("a buffer of {} bytes", self.buffer_bytes))
                    .advise(format!("Use at least {}", Self::LEAST_BUFFER_BYTES)),
            );
        }
        Ok(())
    }
}
