//! A new pcapng file with the packets of one flow.

use crate::flow::Flow;
use forebay::{
    Result,
    store::{Appender, Closing, FileConfig, FileSink, Limit, Sink, StoreConfig},
};
use forebay_net::{
    format::{Described, Format},
    port::{DEFAULT_SNAPLEN, Frame, Interface},
    session::SessionConfig,
};
use std::{
    fs::OpenOptions,
    io::ErrorKind,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

const FORMAT: Format = Format::Pcapng;
/// Names that are tried for a flow.
const MAX_NAMES: u32 = 10_000;

/// What a file holds so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub packets: u64,
    /// Their length on the wire.
    pub bytes: u64,
    /// Packets for which there was no room, because the disk is too slow.
    pub lost: u64,
}

pub struct FlowFile {
    flow: Flow,
    pub path: PathBuf,
    pub written: Written,
    /// Why it ended early.
    pub error: Option<String>,
    store: Appender,
    /// The numbers of frames are those of their source, and there may be several.
    interfaces: Vec<(Interface, Described)>,
    /// Packets that are missing before the next one.
    owed: u64,
}

impl FlowFile {
    /// Creates a file in `folder`, with a name that does not exist yet.
    ///
    /// # Errors
    /// It cannot be created, or there is too little memory.
    pub fn create(folder: &Path, flow: Flow) -> Result<Self> {
        let config = StoreConfig {
            // What a slow disk cannot hold of a file that is read waits there; of an interface it is lost, and counted.
            limit: Limit::Fixed,
            record_bytes: FORMAT.max_record_bytes(DEFAULT_SNAPLEN, true),
            ..StoreConfig::default()
        };
        config.check()?;
        let (path, sink) = new_file(folder, &flow)?;
        let mut store = Appender::checked(sink, FORMAT.framing(), &config)?;
        append(
            &mut store,
            &FORMAT.header(&SessionConfig::default().application),
        )?;
        Ok(FlowFile {
            flow,
            path,
            written: Written::default(),
            error: None,
            store,
            interfaces: Vec::new(),
            owed: 0,
        })
    }

    /// Writes a packet of this capture, if it belongs to the flow. `false`: there is no room for it now, and nothing happened.
    pub fn offer(&mut self, flow: Flow, frame: &Frame<'_>, interface: &Interface) -> bool {
        if flow != self.flow || self.error.is_some() {
            self.owed = self.owed.saturating_add(frame.dropped_before);
            return true;
        }
        match self.put(frame, interface) {
            Ok(is_put) => is_put,
            Err(error) => {
                self.error = Some(error.to_string());
                true
            }
        }
    }

    /// The same for a packet that cannot wait.
    pub fn offer_live(&mut self, flow: Flow, frame: &Frame<'_>, interface: &Interface) {
        if !self.offer(flow, frame, interface) {
            self.written.lost += 1;
            self.owed = self
                .owed
                .saturating_add(frame.dropped_before)
                .saturating_add(1);
        }
    }

    fn put(&mut self, frame: &Frame<'_>, interface: &Interface) -> Result<bool> {
        let number = self.interfaces.len() as u32;
        let known = self.interfaces.iter().find(|it| it.0 == *interface);
        let described = match known {
            Some((_, described)) => *described,
            None => {
                let described = FORMAT.describe(interface, number);
                let block = FORMAT.interface(interface, &described, DEFAULT_SNAPLEN);
                if !append(&mut self.store, &block)? {
                    return Ok(false);
                }
                self.interfaces.push((interface.clone(), described));
                described
            }
        };
        let frame = Frame {
            dropped_before: self.owed.saturating_add(frame.dropped_before),
            ..*frame
        };
        let Some(mut slot) = (self.store).reserve(FORMAT.frame_len(&frame, DEFAULT_SNAPLEN))?
        else {
            return Ok(false);
        };
        FORMAT.put_frame(&mut slot, &frame, &described, DEFAULT_SNAPLEN);
        slot.commit(1);
        self.owed = 0;
        self.written.packets += 1;
        self.written.bytes += u64::from(frame.wire_len);
        Ok(true)
    }

    /// Ends the file. What is not written yet follows.
    pub fn close(self) -> Closing {
        self.store.close()
    }
}

/// Appends bytes that are not a packet; `false`: there is no room.
fn append(store: &mut Appender, bytes: &[u8]) -> Result<bool> {
    let Some(mut slot) = store.reserve(bytes.len())? else {
        return Ok(false);
    };
    slot.copy_from_slice(bytes);
    slot.commit(0);
    Ok(true)
}

/// Creates an empty file, so that no other program can take its name.
fn new_file(folder: &Path, flow: &Flow) -> Result<(PathBuf, Box<dyn Sink>)> {
    let stem = stem(flow);
    for number in 1..=MAX_NAMES {
        let name = match number {
            1 => format!("{stem}.pcapng"),
            _ => format!("{stem}-{number}.pcapng"),
        };
        // No `./` before it.
        let path = match folder == Path::new(".") {
            true => name.into(),
            false => folder.join(name),
        };
        // The sandbox lets nobody read what is made there, which `FileSink::create_new` would.
        let mut options = OpenOptions::new();
        match options.write(true).create_new(true).mode(0o600).open(&path) {
            Ok(_) => {
                let sink = FileSink::create(&path, &FileConfig::default())?;
                return Ok((path, sink));
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => {
                let name = path.display().to_string();
                return Err(forebay::Error::new(name, "creating the file").because(error));
            }
        }
    }
    let what = format!("there are {MAX_NAMES} files of {stem}");
    Err(forebay::Error::new(folder.display().to_string(), what))
}

/// `tcp-10.0.0.7-50000-10.0.0.1-80`.
fn stem(flow: &Flow) -> String {
    let text = match flow.hosts() {
        Some(_) => format!("{} {flow}", flow.protocol),
        None => flow.to_string(),
    };
    let text = text.replace(" - ", " ");
    let letters = text.chars().filter(|letter| !matches!(letter, '[' | ']'));
    let plain = letters.map(|letter| match letter {
        '.' => '.',
        letter if letter.is_ascii_alphanumeric() => letter,
        _ => '-',
    });
    plain.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Packet;
    use forebay::time::Clock;
    use forebay_net::open::{self, Name, Options};
    use forebay_testing::{folder::Folder, sender};
    use std::time::Duration;

    #[test]
    fn packets_of_several_sources_have_their_own_interfaces() {
        let folder = Folder::new();
        let named = |name: &str| Interface {
            name: name.into(),
            ..Interface::default()
        };
        let names = ["a", "b", "a"];
        let bytes = sender::frame(1, 60);
        // In its source, each interface is the first one.
        let frame = Frame::whole(&bytes);
        let flow = Packet::of(Interface::default().link, &bytes).flow;
        let mut file = FlowFile::create(Path::new(&folder.path("")), flow).unwrap();
        for name in names {
            assert!(file.offer(flow, &frame, &named(name)));
        }
        let path = file.path.display().to_string();
        assert!(file.close().wait(Duration::MAX).is_ok());

        let clock = Clock::real();
        let file = [Name::File(path.into())];
        let mut port = open::ports(&file, &Options::default(), &clock).unwrap();
        let mut found = Vec::new();
        for _ in 0..100 {
            let mut burst = port[0].receive(1).unwrap();
            found.extend(burst.next_frame().map(|frame| frame.interface));
        }
        let interfaces = port[0].interfaces().iter();
        let interfaces: Vec<_> = interfaces.map(|it| it.name.as_str()).collect();
        assert_eq!((found, interfaces), (vec![0, 1, 0], vec!["a", "b"]));
    }
}
