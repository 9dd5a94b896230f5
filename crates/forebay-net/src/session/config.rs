//! Settings of a session.

use super::disk_space::KeepFree;
use crate::{
    filter::Filter,
    format::Format,
    port::{DEFAULT_SNAPLEN, MAX_SNAPLEN},
};
use forebay::{Error, Result, error::Code, store};
use std::time::Duration;

/// Settings of a session.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// Bytes kept of a frame, 1 to [`MAX_SNAPLEN`]. Default [`DEFAULT_SNAPLEN`].
    pub snaplen: u32,
    /// The filter. Sources that filter for themselves were opened with it ([`open::Options`](crate::open::Options)); for all
    /// others the session filters.
    pub filter: Option<Filter>,
    /// Stop after this many packets.
    pub count: Option<u64>,
    /// Stop after this time. Packets that the sources have received by then are written. If all sources are files, stop before the
    /// packet that is later than the first one by this time.
    pub stop_after: Option<Duration>,
    /// Stop when a single output has this many bytes. A series uses [`Rotation::bytes`](super::Rotation::bytes) instead.
    pub file_bytes: Option<u64>,
    /// Free space to keep on the disk of the output. The oldest files of a series are removed for it, those of earlier captures
    /// included. If none is left, and for a single file, the capture ends. The space is checked before each write of up to one
    /// buffer of the store.
    pub keep_free: Option<KeepFree>,
    /// The format of the output; `None`: the one that its name selects, or pcapng. If it is set, times in the classic format are
    /// in nanoseconds; otherwise in microseconds if the sources have no finer ones.
    pub format: Option<Format>,
    /// Write times in microseconds, for programs that read nothing finer.
    pub microseconds: bool,
    /// Maximum number of packets taken from one port per poll.
    pub budget: usize,
    /// The buffers between taking and writing. `record_bytes` is ignored; the session sets it. If the output is in memory and
    /// files that are read ahead lend their data to it, the session also sets `thread`, `early_bytes` and `huge_pages`.
    pub store: store::StoreConfig,
    /// The interval of [`Event::Progress`](super::Event::Progress).
    pub progress_every: Duration,
    /// The application named in the file's header.
    pub application: String,
    /// Copy the metadata of files that are read: comments and other options, decryption secrets, names, custom blocks, and the
    /// machine and program that captured them. Metadata that the output cannot hold is counted in [`Summary::left`](super::Summary::left).
    pub metadata: bool,
}

impl Default for SessionConfig {
    fn default() -> Self {
        SessionConfig {
            snaplen: DEFAULT_SNAPLEN,
            filter: None,
            count: None,
            stop_after: None,
            file_bytes: None,
            keep_free: None,
            format: None,
            microseconds: false,
            budget: 256,
            store: store::StoreConfig::default(),
            progress_every: Duration::from_millis(250),
            application: concat!("forebay ", env!("CARGO_PKG_VERSION")).into(),
            metadata: true,
        }
    }
}

impl SessionConfig {
    /// Checks the ranges that the fields document.
    ///
    /// # Errors
    /// A field is out of range.
    pub fn validate(&self) -> Result<()> {
        let bad = |what: &str, advice: &str| {
            Err(Error::coded(Code::Invalid, "capture", what).advise(advice))
        };
        if !(1..=MAX_SNAPLEN).contains(&self.snaplen) {
            return bad(
                "the snapshot length is out of range",
                "Use 1 to 1000000 bytes",
            );
        }
        if self.count == Some(0) {
            return bad("a count of 0 captures nothing", "Use 1 or more");
        }
        if self.stop_after == Some(Duration::ZERO) || self.file_bytes == Some(0) {
            return bad("a limit of 0 captures nothing", "Use 1 or more");
        }
        if let Some(KeepFree::Percent(0 | 100..)) = self.keep_free {
            return bad("the share to keep free is out of range", "Use 1 to 99 %");
        }
        self.store.validate()
    }
}
