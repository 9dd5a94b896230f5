//! The frames to send: files read one after another, or kept in memory, as often as wanted.

use super::config::ReplayConfig;
use crate::{
    file::File,
    filter::{Filter, Programs, bpf::Program},
    port::{Interface, LinkType, Port, Wake},
};
use forebay::{Error, Result};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// A frame to send.
pub(super) struct Input<'a> {
    pub data: &'a [u8],
    pub wire_len: u32,
    pub time_ns: u64,
    /// It is the first of its file that matches the filter.
    pub is_first: bool,
}

/// A frame in memory. Its bytes begin where those of the frame before it end.
struct Kept {
    time_ns: u64,
    wire_len: u32,
    is_first: bool,
    end: usize,
}

pub(super) struct ReplaySource {
    files: Vec<PathBuf>,
    filter: Option<Filter>,
    rounds: Option<u64>,
    /// The link type of the interface that sends, and its name.
    link: LinkType,
    interface: String,
    reader: Option<Reader>,
    /// The next one of `files`.
    next: usize,
    /// Whether any round had frames.
    has_frames: bool,
    kept: Option<(Vec<Kept>, Vec<u8>)>,
    /// The next frame in memory.
    at: usize,
    /// Why not all frames are in memory.
    failed: Option<Error>,
    /// Complete rounds.
    pub complete: u64,
    pub read: u64,
    pub filtered: u64,
}

/// An open file.
struct Reader {
    file: Box<dyn Port>,
    programs: Option<Programs>,
    /// What was found about each interface of the file whose frames were read.
    checked: Vec<Option<Checked>>,
    has_frames: bool,
}

/// An interface of a file.
#[derive(Clone)]
struct Checked {
    /// The program of the filter, if there is one.
    program: Option<Arc<Program>>,
    /// Its link type is that of the interface that sends.
    can_be_sent: bool,
}

impl ReplaySource {
    pub fn new(config: &ReplayConfig, link: LinkType, interface: &str) -> ReplaySource {
        ReplaySource {
            files: config.files.clone(),
            filter: config.filter.clone(),
            rounds: config.rounds,
            link,
            interface: interface.into(),
            reader: None,
            next: 0,
            has_frames: false,
            kept: None,
            at: 0,
            failed: None,
            complete: 0,
            read: 0,
            filtered: 0,
        }
    }

    /// Opens each regular file, and checks its first packet as [`next`](ReplaySource::next) does: so that nothing is sent if the second
    /// file is missing or cannot be sent.
    pub fn check_files(&self) -> Result<()> {
        for path in self
            .files
            .iter()
            .filter(|path| !path.exists() || path.is_file())
        {
            if path != Path::new("-") {
                let mut reader = Reader::open(path, self.filter.as_ref(), self.rounds)?;
                reader.check_first(self.link, &self.interface)?;
            }
        }
        Ok(())
    }

    /// Reads all files into memory, while `goes_on`. An error is returned after the last frame before it.
    pub fn preload(&mut self, goes_on: impl Fn() -> bool) {
        let (mut kept, mut bytes) = (Vec::new(), Vec::new());
        let mut keep = |input: Input<'_>| {
            bytes.extend_from_slice(input.data);
            kept.push(Kept {
                time_ns: input.time_ns,
                wire_len: input.wire_len,
                is_first: input.is_first,
                end: bytes.len(),
            });
        };
        while goes_on() {
            match self.read_next(&mut keep) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.failed = Some(error);
                    break;
                }
            }
        }
        // The others count when they are taken from memory.
        self.read = self.filtered;
        self.kept = Some((kept, bytes));
    }

    /// Hands the next frame to `each`; `false` after the last round.
    pub fn next(&mut self, each: &mut dyn FnMut(Input<'_>)) -> Result<bool> {
        loop {
            let is_there = match self.kept {
                Some(_) => self.remember_next(each),
                None => self.read_next(each)?,
            };
            if is_there {
                self.has_frames = true;
                return Ok(true);
            }
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            self.complete += 1;
            // A round without frames would be repeated forever.
            if !self.has_frames || self.rounds == Some(self.complete) {
                return Ok(false);
            }
            (self.next, self.at) = (0, 0);
        }
    }

    /// The next frame of this round, from memory; `false` at its end.
    fn remember_next(&mut self, each: &mut dyn FnMut(Input<'_>)) -> bool {
        let Some(input) = self.kept(self.at) else {
            return false;
        };
        each(input);
        self.at += 1;
        self.read += 1;
        true
    }

    /// The place in memory of the frame that [`next`](ReplaySource::next) has handed out last. It is for [`kept`](ReplaySource::kept).
    pub fn place(&self) -> usize {
        self.at.saturating_sub(1)
    }

    /// The frame at this place in memory.
    pub fn kept(&self, place: usize) -> Option<Input<'_>> {
        let (kept, bytes) = self.kept.as_ref()?;
        let frame = kept.get(place)?;
        let begin = place.checked_sub(1).map_or(0, |before| kept[before].end);
        Some(Input {
            data: &bytes[begin..frame.end],
            wire_len: frame.wire_len,
            time_ns: frame.time_ns,
            is_first: frame.is_first,
        })
    }

    /// The next frame of this round, from the files; `false` at its end.
    fn read_next(&mut self, each: &mut dyn FnMut(Input<'_>)) -> Result<bool> {
        loop {
            let reader = match &mut self.reader {
                Some(reader) => reader,
                none => match self.files.get(self.next) {
                    None => return Ok(false),
                    Some(path) => {
                        self.next += 1;
                        none.insert(Reader::open(path, self.filter.as_ref(), self.rounds)?)
                    }
                },
            };
            let mut burst = reader.file.receive(1)?;
            let Some(frame) = burst.next_frame() else {
                drop(burst);
                if matches!(reader.file.arm()?, Wake::End) {
                    let unreadable = reader.file.report().unreadable;
                    let error = unreadable.error(reader.file.name());
                    self.failed = self.failed.take().or(error);
                    self.reader = None;
                }
                continue;
            };
            self.read += 1;
            let checked = reader.checked.get(frame.interface as usize);
            if let Some(Some(checked)) = checked {
                let program = checked.program.as_ref();
                let matches = program.is_none_or(|it| it.run(frame.data, frame.wire_len) > 0);
                if matches && !checked.can_be_sent {
                    self.read -= 1;
                    let number = frame.interface as usize;
                    burst.put_back();
                    drop(burst);
                    return Err(reader.refusal(number, self.link, &self.interface));
                }
                if matches {
                    each(Input {
                        data: frame.data,
                        wire_len: frame.wire_len,
                        time_ns: frame.time_ns,
                        is_first: !std::mem::replace(&mut reader.has_frames, true),
                    });
                    return Ok(true);
                }
                self.filtered += 1;
                continue;
            }
            // The first frame of this interface: read it again after the check.
            let interface = frame.interface;
            self.read -= 1;
            burst.put_back();
            drop(burst);
            reader.check(interface, self.link)?;
        }
    }

    /// For regular files: the bytes that are read of the present file, and its length.
    pub fn reading(&self) -> Option<(u64, u64)> {
        self.reader.as_ref()?.file.report().reading
    }
}

impl Reader {
    fn open(path: &Path, filter: Option<&Filter>, rounds: Option<u64>) -> Result<Reader> {
        let mut file = match path == Path::new("-") {
            true => File::stdin()?,
            false => File::open(path)?,
        };
        if rounds != Some(1) {
            file.keep_cached(); // for the next round
        }
        Ok(Reader {
            file: Box::new(file),
            programs: filter.cloned().map(Programs::new),
            checked: Vec::new(),
            has_frames: false,
        })
    }

    /// Checks the interface of the first packet.
    fn check_first(&mut self, link: LinkType, name: &str) -> Result<()> {
        let mut burst = self.file.receive(1)?;
        let Some(number) = burst.next_frame().map(|it| it.interface) else {
            return Ok(());
        };
        burst.put_back();
        drop(burst);
        self.check(number, link)?;
        match self.checked.get(number as usize) {
            Some(Some(it)) if it.program.is_none() && !it.can_be_sent => {
                Err(self.refusal(number as usize, link, name))
            }
            _ => Ok(()),
        }
    }

    /// Compiles the filter for this interface of the file, and notes whether its frames can be sent.
    fn check(&mut self, number: u32, link: LinkType) -> Result<()> {
        let interfaces = self.file.interfaces();
        let found = interfaces.get(number as usize).map_or(link, |it| it.link);
        if let Some(programs) = &mut self.programs {
            // It has to match packets that can be sent. Others, for which it makes no sense, are rejected.
            let sendable = Interface {
                link,
                ..Interface::default()
            };
            let checked = programs.check(&[sendable]);
            checked.map_err(|error| error.refused_by(self.file.name()))?;
        }
        let at = number as usize;
        if self.checked.len() <= at {
            self.checked.resize(at + 1, None);
        }
        self.checked[at] = Some(Checked {
            program: self.programs.as_mut().map(|programs| programs.of(found)),
            can_be_sent: found == link,
        });
        Ok(())
    }

    /// Why frames of this interface of the file cannot be sent on `sender`.
    fn refusal(&self, number: usize, link: LinkType, sender: &str) -> Error {
        let found = self
            .file
            .interfaces()
            .get(number)
            .map_or(link, |it| it.link);
        let tried =
            format!("sending packets of the type {found} on {sender}, whose type is {link}");
        let convert = match (found, link) {
            (_, LinkType::ETHERNET) => ". tcprewrite --dlt=enet converts files of some types",
            (LinkType::ETHERNET, LinkType::RAW) => {
                ". editcap -L -C 14 -T rawip removes Ethernet headers without tags"
            }
            _ => "",
        };
        Error::invalid(self.file.name(), tried).advise(format!(
            "Only packets of the interface's own type can be sent: select them with -f{convert}"
        ))
    }
}
