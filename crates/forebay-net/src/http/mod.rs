//! One resource fetched over HTTP/1.1, every byte of the answer through a [stream](forebay::stream).
//!
//! [`get`] is the whole of it as one call. It imports no other room. The pure files know the protocol and no socket:
//! [`url`] (what may be asked for), [`head`], [`framing`] and [`chunked`] (what an answer is made of), [`reply`] (those put
//! together) and `redirect`. The others know sockets and no protocol: `connection` and `tls` (how bytes come), `incoming`
//! (the thread that receives them), `output` (where they go), `stop`. `exchange` lets the two meet. Read `reply` next, then
//! `exchange`.
//!
//! ```text
//!  thread "forebay-receive"                                     the caller's thread
//!  socket, TLS ─ read ─▶ reserve │ stream: the bytes as they came │ peek ─▶ Reply: which of them are what?
//!                         commit └────────────────────────────────┘           head    → redirect? error? tell
//!                                                                  pop ◀────  framing → skip  (with `Shown::Raw`: write)
//!                                                                  pop ◀────  body    → write, from where it lies
//! ```

pub mod chunked;
mod connection;
mod exchange;
pub mod fault;
pub mod framing;
pub mod head;
mod incoming;
mod output;
mod redirect;
pub mod reply;
mod stop;
mod tls;
mod tls_error;
pub mod url;

#[cfg(test)]
mod tests;

pub use exchange::{Answer, Event, get};
pub use fault::Fault;
pub use head::Head;
pub use output::Output;
pub use stop::Stop;
pub use url::Url;

use forebay::{Error, Result};
use std::{path::PathBuf, time::Duration};

/// Which bytes of the answer are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shown {
    /// The body, unframed.
    #[default]
    Body,
    /// The head of the last answer as it came, then the body.
    HeadAndBody,
    /// The first answer exactly as it came: interim heads, head, chunk sizes and trailers. Redirects are not followed.
    Raw,
}

/// What a fetch is to be like.
///
/// ```
/// let config = forebay_net::http::Config { max_redirects: 0, ..Default::default() };
/// assert!(config.validate().is_ok());
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// Which bytes are written; the body by default.
    pub shown: Shown,
    /// Also write the body of an answer that says it failed (status 400 and above); not by default.
    pub failed_bodies: bool,
    /// Most redirects to follow; 10 by default.
    pub max_redirects: usize,
    /// Follow a redirect from https to http; not by default.
    pub allow_downgrade: bool,
    /// Longest time to wait for a connection, all addresses of the host together; 10 s by default.
    pub connect_limit: Duration,
    /// Longest time without a byte from the server while one is waited for; 30 s by default.
    pub silence_limit: Duration,
    /// A PEM file with the only certificates that are trusted: roots, or exactly a server's own. By default the roots of
    /// Mozilla's programme, compiled in.
    pub roots: Option<PathBuf>,
    /// Capacity of the stream: [`Config::LEAST_BUFFER_BYTES`] or more; 1 MiB by default.
    pub buffer_bytes: usize,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            shown: Shown::Body,
            failed_bodies: false,
            max_redirects: 10,
            allow_downgrade: false,
            connect_limit: Duration::from_secs(10),
            silence_limit: Duration::from_secs(30),
            roots: None,
            buffer_bytes: 1 << 20,
        }
    }
}

impl Config {
    /// The smallest stream: a whole head has to lie in it, with room to receive behind it.
    pub const LEAST_BUFFER_BYTES: usize = 2 * head::LIMIT_BYTES;

    /// Checks what can be checked without a server.
    ///
    /// # Errors
    /// A time limit of 0, or a stream that a head would not fit in.
    pub fn validate(&self) -> Result<()> {
        if self.connect_limit.is_zero() || self.silence_limit.is_zero() {
            return Err(Error::new("http", "a time limit of 0").advise("Give the server some time"));
        }
        if self.buffer_bytes < Self::LEAST_BUFFER_BYTES {
            return Err(
                Error::new("http", format!("a stream of {} bytes", self.buffer_bytes))
                    .advise(format!("Use at least {}", Self::LEAST_BUFFER_BYTES)),
            );
        }
        Ok(())
    }
}
