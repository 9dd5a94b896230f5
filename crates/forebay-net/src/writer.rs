//! Writes capture files, pcapng and pcap, packet by packet. This is the shortest way out of the crate.
//!
//! ```
//! use forebay_net::{format::Format, port::{Frame, Interface}, writer::Writer};
//! let mut file = Writer::new(Vec::new(), "memory", Format::Pcapng);
//! let eth0 = file.interface(&Interface { name: "eth0".into(), ..Interface::default() })?;
//! file.write(&Frame { interface: eth0, time_ns: 7, ..Frame::whole(&[0xab; 60]) })?;
//! file.finish()?;
//! assert_eq!((file.counts().packets, file.counts().written), (1, 1));
//! # Ok::<(), forebay::Error>(())
//! ```
//! Packets are encoded into memory, which is written once it holds 256 KiB, by [`flush`](Writer::flush), and at the end. A
//! [`Session`](crate::session::Session) writes on another thread, compresses, rotates files, and syncs them.

use crate::{
    format::{Described, Format},
    port::{Frame, Interface, MAX_SNAPLEN, Statistics},
    session::Compression,
};
use forebay::{Error, Result, error::Code};
use std::{collections::BTreeSet, fmt, fs::File, io::Write, path::Path};

/// Bytes that are collected before they are written.
const BUFFER_BYTES: usize = 256 << 10;

/// A capture file being written. If it is dropped, it writes what is left; [`finish`](Writer::finish) also reports what fails.
pub struct Writer<W: Write = File> {
    output: W,
    name: String,
    format: Format,
    snaplen: u32,
    buffer: Vec<u8>,
    /// The bytes of the header at the beginning of the buffer; 0 once they are written.
    header_bytes: usize,
    /// A write failed or panicked: the file may end within a block, which nothing may follow.
    is_torn: bool,
    interfaces: Vec<(Interface, Described)>,
    /// From `statistics_from`: the source, the number of the interface in the file, and its counts.
    counted: Vec<(u64, u32, Statistics)>,
    counts: WriterCounts,
}

/// What a [`Writer`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriterCounts {
    /// Packets accepted.
    pub packets: u64,
    /// Of these, handed to the operating system: they survive the end of this process.
    pub written: u64,
    /// Bytes handed to the operating system.
    pub written_bytes: u64,
}

impl Writer {
    /// Makes a file, or truncates it. Without a `format`, the end of its name [selects](Format::of_path) one.
    ///
    /// ```
    /// # let path = std::env::temp_dir().join(format!("writer-{}.pcap", std::process::id()));
    /// use forebay_net::{Capture, port::Frame, writer::Writer};
    /// let mut file = Writer::create(&path, None)?;
    /// file.write(&Frame::whole(&[0; 60]))?; // Ethernet, since no interface was described
    /// file.finish()?;
    /// assert_eq!(Capture::read(&path)?.each(|_| {})?.counted, 1);
    /// # std::fs::remove_file(path).unwrap();
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// The file cannot be made, or its name ends as that of a compressed one.
    pub fn create(path: impl AsRef<Path>, format: Option<Format>) -> Result<Writer> {
        let path = path.as_ref();
        let name = path.display().to_string();
        if Compression::of_path(path).is_some() {
            let what = "compressed files are not written; compress the finished one";
            return Err(Error::coded(Code::Unsupported, name, what));
        }
        let format = format.unwrap_or_else(|| Format::of_path(path));
        let made = File::create(path);
        let file = made.map_err(|cause| Error::new(&name, "making it").because(cause))?;
        Ok(Writer::new(file, name, format))
    }
}

impl<W: Write> Writer<W> {
    /// Writes to `output`, which messages call `name`.
    pub fn new(output: W, name: impl Into<String>, format: Format) -> Writer<W> {
        let header = format.header(concat!("forebay ", env!("CARGO_PKG_VERSION")));
        Writer {
            output,
            name: name.into(),
            format,
            snaplen: MAX_SNAPLEN,
            header_bytes: header.len(),
            buffer: header,
            is_torn: false,
            interfaces: Vec::new(),
            counted: Vec::new(),
            counts: WriterCounts::default(),
        }
    }

    /// Names the program in the file, if its format has that. It has no effect once something was [flushed](Writer::flush).
    #[must_use]
    pub fn application(mut self, application: &str) -> Self {
        if self.header_bytes > 0 {
            let header = self.format.header(application);
            let before = std::mem::replace(&mut self.header_bytes, header.len());
            self.buffer.splice(..before, header);
        }
        self
    }

    /// Keeps only this many bytes of each packet.
    #[must_use]
    pub fn snaplen(mut self, snaplen: u32) -> Self {
        self.snaplen = snaplen.min(MAX_SNAPLEN);
        self
    }

    /// The number in the file of this interface, which is described there if it is new.
    ///
    /// # Errors
    /// A file in the classic format has one link type, and this one is another. Or a write failed before.
    pub fn interface(&mut self, interface: &Interface) -> Result<u32> {
        self.check()?;
        let known = |(known, _): &(Interface, Described)| known == interface;
        if let Some(number) = self.interfaces.iter().position(known) {
            return Ok(number as u32);
        }
        if self.format == Format::Pcap
            && let Some((first, _)) = self.interfaces.first()
        {
            let text = || {
                let links = (first.link, interface.link);
                format!(
                    "a file in the classic format has one link type: {}, not {}",
                    links.0, links.1
                )
            };
            let is_same = first.link == interface.link;
            return is_same
                .then_some(0)
                .ok_or_else(|| Error::invalid(&self.name, text()));
        }
        let number = self.interfaces.len() as u32;
        let described = self.format.describe(interface, number);
        self.buffer
            .extend(self.format.interface(interface, &described, self.snaplen));
        self.interfaces.push((interface.clone(), described));
        Ok(number)
    }

    fn described(&mut self, number: u32) -> Result<Described> {
        if self.interfaces.is_empty() && number == 0 {
            self.interface(&Interface::default())?;
        }
        let found = self.interfaces.get(number as usize);
        let unknown = || Error::invalid(&self.name, format!("it has no interface {number}"));
        found.map(|(_, described)| *described).ok_or_else(unknown)
    }

    /// Writes a packet. [`Frame::interface`] is a number from [`interface`](Writer::interface); the first packet may be one of interface
    /// 0, which then is the default one: Ethernet.
    ///
    /// # Errors
    /// The packet is longer than [`MAX_SNAPLEN`], or has an unknown interface. The file cannot be written, now or before: its last packet
    /// may be incomplete, and nothing follows it.
    pub fn write(&mut self, frame: &Frame<'_>) -> Result<()> {
        self.check()?;
        if frame.data.len() > MAX_SNAPLEN as usize {
            let what = format!(
                "a packet of {} bytes: at most {MAX_SNAPLEN}",
                frame.data.len()
            );
            return Err(Error::coded(Code::TooLong, &self.name, what));
        }
        let described = self.described(frame.interface)?;
        let frame = Frame {
            wire_len: frame.wire_len.max(frame.data.len() as u32),
            ..*frame
        };
        let begin = self.buffer.len();
        let len = self.format.frame_len(&frame, self.snaplen);
        self.buffer.resize(begin + len, 0);
        let slot = &mut self.buffer[begin..];
        self.format
            .put_frame(slot, &frame, &described, self.snaplen);
        self.counts.packets += 1;
        self.flush_from(BUFFER_BYTES)
    }

    /// Writes packets of a source with these interfaces. Each packet gets the number that its interface has in this file, where it is
    /// described if it is new. So packets of several sources can go into one file.
    ///
    /// ```
    /// use forebay_net::{Capture, Next, format::Format, writer::Writer};
    /// let mut file = Writer::new(Vec::new(), "memory", Format::Pcapng);
    /// let mut capture = Capture::open("sim:count=1000,clock=virtual")?;
    /// while let Next::Ready(batch) = capture.take_batch(std::time::Duration::MAX)? {
    ///     file.write_from(capture.interfaces(), batch.frames())?;
    /// }
    /// assert_eq!(file.counts().packets, 1000);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`write`](Writer::write) and [`interface`](Writer::interface). Packets before the one that is refused are written.
    pub fn write_from<'a>(
        &mut self,
        interfaces: &[Interface],
        frames: impl IntoIterator<Item = Frame<'a>>,
    ) -> Result<()> {
        let mut last = None;
        for frame in frames {
            let number = match last {
                Some((of, number)) if of == frame.interface => number,
                _ => {
                    let found = interfaces.get(frame.interface as usize);
                    let unknown = || {
                        let what = format!("its source has no interface {}", frame.interface);
                        Error::invalid(&self.name, what)
                    };
                    let number = self.interface(found.ok_or_else(unknown)?)?;
                    last = Some((frame.interface, number));
                    number
                }
            };
            self.write(&Frame {
                interface: number,
                ..frame
            })?;
        }
        Ok(())
    }

    /// Writes the counts of a source's interfaces. Interfaces that are alike, also those of several sources, are one in the file, which gets
    /// the sum of their counts. `source` is a number of the program's choice: counts of the same source replace its earlier ones.
    ///
    /// # Errors
    /// As [`write`](Writer::write) and [`interface`](Writer::interface).
    pub fn statistics_from(
        &mut self,
        source: u64,
        known: impl IntoIterator<Item = (Interface, Statistics)>,
    ) -> Result<()> {
        self.counted.retain(|&(of, ..)| of != source);
        let before = self.counted.len();
        for (interface, counts) in known {
            let number = self.interface(&interface)?;
            self.counted.push((source, number, counts));
        }
        let numbers = self.counted[before..].iter().map(|&(_, number, _)| number);
        for number in numbers.collect::<BTreeSet<_>>() {
            let alike = self.counted.iter().filter(|&&(_, of, _)| of == number);
            let sum = alike.map(|&(.., counts)| counts);
            if let Some(sum) = sum.reduce(|sum, counts| sum.plus(&counts)) {
                self.statistics(number, &sum)?;
            }
        }
        Ok(())
    }

    /// Writes the counts of an interface, usually at the end. They replace earlier ones. The classic format has none.
    ///
    /// # Errors
    /// As [`write`](Writer::write).
    pub fn statistics(&mut self, interface: u32, counts: &Statistics) -> Result<()> {
        self.check()?;
        let described = self.described(interface)?;
        self.buffer
            .extend(self.format.statistics(counts, &described));
        self.flush_from(BUFFER_BYTES)
    }

    /// The counts so far.
    pub fn counts(&self) -> WriterCounts {
        self.counts
    }

    /// Hands everything to the operating system, so that it survives the end of this process.
    ///
    /// # Errors
    /// The file cannot be written, now or before.
    pub fn flush(&mut self) -> Result<()> {
        self.flush_from(0)
    }

    /// Ends the file: as [`flush`](Writer::flush), and one in the classic format has a header then, even without a packet.
    ///
    /// # Errors
    /// As [`flush`](Writer::flush).
    pub fn finish(&mut self) -> Result<()> {
        if self.format == Format::Pcap {
            self.described(0)?;
        }
        self.flush()
    }

    fn check(&self) -> Result<()> {
        match self.is_torn {
            false => Ok(()),
            true => Err(Error::new(
                &self.name,
                "a write failed before: the file is incomplete",
            )),
        }
    }

    /// Writes the buffer once it has this number of bytes.
    fn flush_from(&mut self, bytes: usize) -> Result<()> {
        self.check()?;
        if self.buffer.len() < bytes {
            return Ok(());
        }
        self.is_torn = true; // Until it is known to be whole: `write_all` may also panic.
        let written = self
            .output
            .write_all(&self.buffer)
            .and_then(|()| self.output.flush());
        written.map_err(|cause| Error::new(&self.name, "writing").because(cause))?;
        self.is_torn = false;
        self.header_bytes = 0;
        self.counts.written = self.counts.packets;
        self.counts.written_bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

impl<W: Write> Drop for Writer<W> {
    fn drop(&mut self) {
        let _ = self.flush();
    }
}

impl<W: Write> fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Writer");
        shown
            .field("name", &self.name)
            .field("counts", &self.counts);
        shown.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Capture, Next, port::LinkType};
    use std::{cell::RefCell, io, rc::Rc, time::Duration};

    /// Takes some bytes, and then fails.
    #[derive(Clone)]
    struct Full(Rc<RefCell<Vec<u8>>>, usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut taken = self.0.borrow_mut();
            let room = self.1.saturating_sub(taken.len()).min(bytes.len());
            taken.extend(&bytes[..room]);
            match room {
                0 => Err(io::ErrorKind::StorageFull.into()),
                _ => Ok(room),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn nothing_follows_a_packet_that_was_written_in_part() {
        let taken = Full(Rc::default(), 300_000);
        let mut file = Writer::new(taken.clone(), "disk", Format::Pcapng);
        let frame = Frame::whole(&[7; 1000]);
        let failed = (0..1000).find_map(|_| file.write(&frame).err()).unwrap();
        assert_eq!(failed.kind(), io::ErrorKind::StorageFull);
        let counts = file.counts();
        assert!(counts.packets > counts.written && counts.written_bytes <= 300_000);
        assert!(file.write(&frame).is_err() && file.flush().is_err() && file.finish().is_err());
        assert!(
            file.interface(&Interface::default()).is_err(),
            "known ones, too"
        );
        drop(file);
        assert_eq!(taken.0.borrow().len(), 300_000);
    }

    #[test]
    fn an_output_that_panics_gets_no_packet_twice() {
        struct Panics(Rc<RefCell<usize>>);
        impl Write for Panics {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                *self.0.borrow_mut() += 1;
                panic!("a defect of the output");
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let calls = Rc::default();
        let mut file = Writer::new(Panics(Rc::clone(&calls)), "output", Format::Pcapng);
        file.write(&Frame::whole(&[7])).unwrap();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| file.flush()));
        assert!(panicked.is_err() && file.flush().is_err());
        drop(file);
        assert_eq!(*calls.borrow(), 1);
    }

    #[test]
    fn the_name_of_the_program_replaces_nothing_but_the_header() {
        let taken = Full(Rc::default(), usize::MAX);
        let written = |name: &str| {
            taken.0.borrow_mut().clear();
            let mut file = Writer::new(taken.clone(), "memory", Format::Pcapng);
            file.write(&Frame::whole(&[7; 60])).unwrap();
            let mut file = file.application(name);
            file.flush().unwrap();
            let whole = taken.0.borrow().len();
            drop(file.application("too late"));
            assert_eq!(taken.0.borrow().len(), whole);
            let folder = forebay_testing::folder::Folder::new();
            std::fs::write(folder.path("a.pcapng"), &*taken.0.borrow()).unwrap();
            let read = Capture::read(folder.path("a.pcapng")).unwrap();
            (read.each(|_| {}).unwrap().counted, whole)
        };
        let (short, long) = (written("a"), written("a program with a long name"));
        assert_eq!((short.0, long.0), (1, 1));
        assert!(short.1 < long.1);
    }

    #[test]
    fn packets_of_several_sources_keep_their_interfaces_in_one_file() {
        let named = |name: &str| Interface {
            name: name.into(),
            ..Interface::default()
        };
        let folder = forebay_testing::folder::Folder::new();
        let path = folder.path("a.pcapng");
        let mut file = Writer::create(&path, None).unwrap();
        // The second source has two interfaces that are alike, and the numbers of the first one mean others.
        let sources = [
            vec![named("a"), named("b")],
            vec![named("c"), named("b"), named("b")],
        ];
        for (source, interfaces) in sources.iter().enumerate() {
            let frames = (0..interfaces.len() as u32).map(|interface| Frame {
                interface,
                time_ns: 10 * source as u64 + u64::from(interface),
                ..Frame::whole(&[1; 60])
            });
            file.write_from(interfaces, frames).unwrap();
        }
        let wrong = Frame {
            interface: 2,
            ..Frame::whole(&[1])
        };
        let refused = file.write_from(&sources[0], [wrong]).unwrap_err();
        assert_eq!(refused.code(), Code::Invalid);
        file.finish().unwrap();
        let mut read = Capture::read(&path).unwrap();
        let mut found = Vec::new();
        while let Next::Ready(batch) = read.take_batch(Duration::MAX).unwrap() {
            let name = |frame: &Frame<'_>| read.interfaces()[frame.interface as usize].name.clone();
            found.extend(batch.frames().map(|it| (it.time_ns, name(&it))));
        }
        let found: Vec<_> = found
            .iter()
            .map(|(time, name)| (*time, &name[..]))
            .collect();
        assert_eq!(found, [(0, "a"), (1, "b"), (10, "c"), (11, "b"), (12, "b")]);
    }

    #[test]
    fn a_file_of_every_format_has_the_packets_their_interfaces_and_what_was_lost() {
        for (name, format) in [("a.pcapng", Format::Pcapng), ("a.pcap", Format::Pcap)] {
            let folder = forebay_testing::folder::Folder::new();
            let path = folder.path(name);
            let mut file = Writer::create(&path, None).unwrap().snaplen(50);
            let raw = Interface {
                link: LinkType(101),
                ..Interface::default()
            };
            let numbers = [0, 0].map(|_| file.interface(&raw).unwrap());
            assert_eq!(numbers, [0, 0]);
            let ethernet = file.interface(&Interface::default());
            assert_eq!(ethernet.is_ok(), format == Format::Pcapng);
            for lost in [0, 3] {
                let frame = Frame {
                    time_ns: 1_000_000_007,
                    dropped_before: lost,
                    ..Frame::whole(&[1; 60])
                };
                file.write(&frame).unwrap();
            }
            assert!(
                file.write(&Frame {
                    interface: 9,
                    ..Frame::whole(&[1])
                })
                .is_err()
            );
            file.finish().unwrap();
            let mut read = Capture::read(&path).unwrap();
            let Next::Ready(batch) = read.next_batch(Duration::MAX).unwrap() else {
                panic!()
            };
            let frames: Vec<_> = batch
                .frames()
                .map(|it| (it.data.len(), it.wire_len, it.time_ns))
                .collect();
            assert_eq!(frames, [(50, 60, 1_000_000_007); 2]);
            let lost: u64 = batch.frames().map(|it| it.dropped_before).sum();
            assert_eq!(lost, if format == Format::Pcapng { 3 } else { 0 });
            assert_eq!(read.interfaces()[0].link, LinkType(101));
        }
        assert!(
            Writer::create("/nowhere/a.pcap.gz", None)
                .is_err_and(|it| it.code() == Code::Unsupported)
        );
    }

    #[test]
    fn a_file_without_packets_is_one_that_can_be_read() {
        for format in Format::ALL {
            let folder = forebay_testing::folder::Folder::new();
            let path = folder.path("empty");
            Writer::create(&path, Some(format))
                .unwrap()
                .finish()
                .unwrap();
            assert_eq!(
                Capture::read(&path).unwrap().each(|_| {}).unwrap().received,
                0
            );
        }
    }
}
