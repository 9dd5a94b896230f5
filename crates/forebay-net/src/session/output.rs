//! Where a session's packets go, and the composing of each one there.

use super::{Config, Control};
use crate::{
    format::{Format, Statistics},
    port::{Frame, Interface, LinkType},
};
use forebay::{
    Error, Result,
    store::{Appender, Closing, FileSink, StreamSink},
};
use std::{fs::File, path::PathBuf, time::Duration};

/// What becomes of the packets.
///
/// ```
/// use forebay_net::session::Output;
/// assert_eq!(Output::File("a.pcapng".into()).name(), "a.pcapng");
/// ```
#[derive(Debug)]
pub enum Output {
    /// They are counted, nothing is kept.
    Count,
    /// They go to this path, which is made or emptied; a name in `.pcap` chooses the classic format.
    File(PathBuf),
    /// They go to an open descriptor, under this name, as pcapng.
    Stream(File, String),
}

impl Output {
    /// How messages call it.
    pub fn name(&self) -> String {
        match self {
            Output::Count => String::new(),
            Output::File(path) => path.display().to_string(),
            Output::Stream(_, name) => name.clone(),
        }
    }

    /// The format that fits it.
    fn format(&self) -> Format {
        match self {
            Output::File(path) => Format::of_path(path),
            Output::Count | Output::Stream(..) => Format::Pcapng,
        }
    }
}

/// An output under way: a format and the store it is composed in.
pub(super) struct Writing {
    pub store: Appender,
    format: Format,
    snaplen: u32,
    pub accepted_bytes: u64,
}

impl Writing {
    /// Makes the output and composes its header; `None` where packets are only counted.
    pub fn open(output: Output, interfaces: &[Interface], config: &Config) -> Result<Option<Self>> {
        let format = output.format();
        let name = output.name();
        if format == Format::Pcap {
            refuse_mixed_links(&name, interfaces)?;
        }
        let sink = match output {
            Output::Count => return Ok(None),
            Output::File(path) => FileSink::create(&path, true)?,
            Output::Stream(file, _) => Box::new(StreamSink::new(file)),
        };
        let header = format.header(interfaces, config.snaplen, &config.application);
        let trailer = format.trailer(&vec![Statistics::full(); interfaces.len()]);
        // Either of our headers before a frame, options and padding included, is below 64 bytes.
        let longest_frame = config.snaplen as usize + 64;
        let mut store_config = config.store.clone();
        store_config.record_bytes = longest_frame.max(header.len()).max(trailer.len());
        let mut store = Appender::new(sink, format.framing(), &store_config)?;
        if let Some(mut slot) = store.reserve(header.len())? {
            slot.copy_from_slice(&header);
            slot.commit(0);
        }
        Ok(Some(Writing {
            store,
            format,
            snaplen: config.snaplen,
            accepted_bytes: header.len() as u64,
        }))
    }

    /// Composes `frame` in place; `false`: no buffer is empty, and nothing was taken.
    #[inline]
    pub fn put(&mut self, frame: &Frame<'_>, interface: u32) -> Result<bool> {
        let len = self.format.frame_len(frame, self.snaplen);
        let Some(mut slot) = self.store.reserve(len)? else {
            return Ok(false);
        };
        self.format
            .put_frame(&mut slot, frame, interface, self.snaplen);
        slot.commit(1);
        self.accepted_bytes += len as u64;
        Ok(true)
    }

    /// Whether the output has a place for gaps.
    pub fn marks_gaps(&self) -> bool {
        self.format == Format::Pcapng
    }

    /// Composes the trailer and closes; gives the write error that it met on the way. A store that
    /// `has_failed` gets no trailer: then the counts are told in the summary only.
    pub fn finish(
        mut self,
        statistics: &[Statistics],
        has_failed: bool,
        control: &Control,
    ) -> (Closing, Option<Error>) {
        let trailer = self.format.trailer(statistics);
        let mut error = None;
        while !trailer.is_empty() && !has_failed && !control.is_abandoned() {
            match self.store.reserve(trailer.len()) {
                Ok(Some(mut slot)) => {
                    slot.copy_from_slice(&trailer);
                    slot.commit(0);
                    break;
                }
                Ok(None) => {
                    self.store.wait_empty(Duration::from_millis(20));
                }
                Err(failed) => {
                    error = Some(failed);
                    break;
                }
            }
        }
        (self.store.close(), error)
    }
}

/// The classic format has one link type for all.
fn refuse_mixed_links(name: &str, interfaces: &[Interface]) -> Result<()> {
    let links: Vec<LinkType> = interfaces.iter().map(|i| i.link).collect();
    if links.windows(2).all(|pair| pair[0] == pair[1]) {
        return Ok(());
    }
    Err(Error::new(
        name,
        "a .pcap file cannot hold interfaces of different link types",
    )
    .advise("Name it .pcapng"))
}
