//! The output of a session: composes packets into the store.

use super::{
    classic::Classic,
    compress::{CompressedSink, Compression},
    config::SessionConfig,
    disk_space::{SpaceLimit, SpaceSink, SpaceWatch},
    metadata::{OutputMetadata, split_secrets},
    output_index::OutputIndex,
    output_reader::OutputReader,
    reports::Reports,
    rotation::{self, Compressor, Finisher, Rotation, SeriesState, SeriesStep},
    summary::Event,
};
use crate::{
    control::Control,
    format::{Described, Format, copied::left_of_packet},
    port::{Block, BlockKind, Direction, EncodedRun, Frame, Interface, Left, Marks, Statistics},
};
use forebay::{
    Error, Result,
    store::{self, Appender, Closing, FileConfig, FileSink, Live, Loan, Sink, StreamSink},
    time::Clock,
};
use std::{
    fs::File,
    path::{Path, PathBuf},
    time::Duration,
};

/// The destination of the packets.
///
/// ```
/// use forebay_net::session::Output;
/// assert_eq!(Output::File("a.pcapng".into()).name(), "a.pcapng");
/// ```
#[derive(Debug)]
pub enum Output {
    /// Packets are only counted.
    Count,
    /// Write to this path, which is created or truncated. The extension `.pcap` selects the classic format
    /// ([`SessionConfig::format`] overrides it); `.gz` or `.zst`, also after another extension, compression.
    File(PathBuf),
    /// Write to a series of files.
    Series(Rotation),
    /// Write to an open descriptor, with this name, as pcapng or in [`SessionConfig::format`].
    Stream(File, String),
}

impl Output {
    /// The name in messages.
    pub fn name(&self) -> String {
        match self {
            Output::Count => String::new(),
            Output::File(path) => path.display().to_string(),
            Output::Series(rotation) => rotation.path.display().to_string(),
            Output::Stream(_, name) => name.clone(),
        }
    }

    /// The format in which it is written.
    pub(super) fn format(&self, config: &SessionConfig) -> Format {
        config.format.unwrap_or(Format::of_path(self.path()))
    }

    /// The path whose ending selects format and compression.
    fn path(&self) -> &Path {
        match self {
            Output::File(path) => path,
            Output::Series(rotation) => &rotation.path,
            Output::Count | Output::Stream(..) => Path::new(""),
        }
    }
}

/// An open output: a format and the store in which it is composed.
pub(super) struct Writing {
    pub store: Appender,
    pub format: Format,
    /// Plain frames that are shorter are composed without a call.
    quick_below: usize,
    snaplen: u32,
    /// The one link type of a classic file; unused for pcapng.
    classic: Classic,
    /// Number of interfaces written.
    known: u32,
    pub accepted_bytes: u64,
    /// The maximum bytes that the store composes at once.
    longest: usize,
    pub metadata: OutputMetadata,
    /// The times in the file.
    pub index: OutputIndex,
    limits: Limits,
    /// The output is compressed while it is written.
    compresses: bool,
    /// Times are written in microseconds at most.
    microseconds: bool,
    /// The state of a series of files, if there is one.
    pub series: Option<SeriesState>,
    /// The files so far: the only one, or the complete ones of a series.
    pub reports: Reports,
    /// The compressor of finished files, until the end.
    pub compressor: Option<Compressor>,
    /// The thread that finishes files of killed captures, until the end.
    pub finisher: Option<Finisher>,
    /// The free space to keep, if there is such a limit.
    pub space: Option<SpaceLimit>,
    /// The thread that checks the free space while nothing is written.
    pub space_watch: Option<SpaceWatch>,
    /// The only file, until its end.
    pub single: Option<PathBuf>,
    /// The other side of a pipe or socket.
    pub reader: Option<OutputReader>,
}

/// The limits of a file. Without limits no packet pays for the checks.
#[derive(Default)]
struct Limits {
    is_limited: bool,
    bytes: u64,
    packets: u64,
    /// Packets in the file so far.
    packets_in_file: u64,
}

impl Limits {
    fn new(bytes: Option<u64>, packets: Option<u64>) -> Self {
        Limits {
            is_limited: bytes.is_some() || packets.is_some(),
            bytes: bytes.unwrap_or(u64::MAX),
            packets: packets.unwrap_or(u64::MAX),
            packets_in_file: 0,
        }
    }
}

impl Writing {
    /// Creates the output and composes its header; `None` if packets are only counted. `interfaces` are those known so far.
    /// A series begins at `begins_ns`, or else now. If other threads read ahead and a write is only another memory copy, this thread writes itself: a writer thread would cost a
    /// wake-up, and would fetch the data from another processor's cache.
    pub fn open(
        output: Output,
        interfaces: &[&Interface],
        config: &SessionConfig,
        clock: &Clock,
        (only_reads, reads_ahead, begins_ns): (bool, bool, Option<u64>),
        live: Option<Live>,
    ) -> Result<Option<Self>> {
        let format = output.format(config);
        let compresses = Compression::of_path(output.path()).is_some();
        let name = output.name();
        let is_pcapng = format == Format::Pcapng && !matches!(output, Output::Count);
        let is_file = matches!(output, Output::File(_) | Output::Series(_));
        if live.is_some() && (only_reads || !is_pcapng) {
            let what =
                "only packets of a live source in a pcapng file can be shared in its buffers";
            return Err(
                Error::invalid(name, what).advise("Make the publisher with `Publisher::new`")
            );
        }
        let mut store_config = config.store.clone();
        store_config.record_bytes = format.max_record_bytes(config.snaplen, only_reads);
        // The memory of a live store was checked before it was allocated.
        if !matches!(output, Output::Count) && live.is_none() {
            store_config.check()?;
        }
        let mut limits = Limits::new(config.file_bytes, None);
        let reports = Reports::default();
        let (mut series, mut compressor, mut single) = (None, None, None);
        let (mut finisher, mut space, mut reader) = (None, None, None);
        if config.keep_free.is_some() && !is_file {
            let error = Error::invalid(name, "no file is written, so no free space can be kept");
            return Err(error.advise("Leave keep_free out, or write to a file"));
        }
        let sink: Box<dyn Sink> = match output {
            Output::Count => return Ok(None),
            Output::File(path) => {
                let open = |keep| SpaceLimit::open(keep, &path, None);
                space = config.keep_free.map(open).transpose()?;
                let sink = FileSink::create(&path, &FileConfig::default())?;
                reader = sink.stream().and_then(|it| OutputReader::of(it, &name));
                reports.finished(&path);
                let sink = SpaceSink::over(sink, space.as_ref());
                let sink = CompressedSink::over(sink, &path, &reports)?;
                single = Some(path);
                sink
            }
            Output::Stream(file, name) => {
                reader = OutputReader::of(&file, &name);
                Box::new(StreamSink::named(file, name))
            }
            Output::Series(rotation) => {
                limits = Limits::new(rotation.bytes, rotation.packets);
                let now = clock.now();
                let wall = begins_ns.unwrap_or(clock.wall_now());
                series = Some(SeriesState::new(&rotation, reports.clone(), now, wall)?);
                let (reports, sync) = (reports.clone(), config.store.sync);
                let opened = rotation::open(&rotation, reports, sync, config.keep_free)?;
                (compressor, finisher, space) = (opened.compressor, opened.finisher, opened.space);
                Box::new(store::Files::open(opened.files)?)
            }
        };
        if reads_ahead && sink.is_in_memory() && !compresses && live.is_none() {
            store_config.thread = false;
            store_config.early_bytes = store_config.early_bytes.min(WARM);
            // Because little of it is used, clearing huge pages would take longer than they could save.
            store_config.huge_pages = false;
        }
        let longest = store_config.record_bytes;
        let store = match live {
            Some(live) => Appender::with_live(sink, format.framing(), &store_config, live),
            None => Appender::checked(sink, format.framing(), &store_config),
        }?;
        let is_direct = store.info().direct;
        let mut writing = Writing {
            store,
            format,
            quick_below: match format {
                Format::Pcapng if is_direct => LONG,
                Format::Pcapng => usize::MAX,
                Format::Pcap => 0,
            },
            snaplen: config.snaplen,
            classic: Classic::new(config.format.is_some() && !config.microseconds),
            known: 0,
            accepted_bytes: 0,
            longest,
            metadata: OutputMetadata::new(config.metadata, format, interfaces),
            // Offsets have to be those in the file.
            index: OutputIndex::new(is_pcapng && is_file && !compresses && reader.is_none()),
            limits,
            compresses,
            microseconds: config.microseconds,
            series,
            reports,
            compressor,
            finisher,
            space,
            space_watch: None,
            single,
            reader,
        };
        let header = match only_reads && format == Format::Pcapng {
            true => writing.metadata.header(&config.application, interfaces),
            false => format.header(&config.application),
        };
        writing.begin(&header)?;
        Ok(Some(writing))
    }

    /// Appends bytes that are not a packet; `false`: no buffer is empty.
    fn append(&mut self, bytes: &[u8]) -> Result<bool> {
        if bytes.is_empty() {
            return Ok(true);
        }
        let Some(mut slot) = self.store.reserve(bytes.len())? else {
            return Ok(false);
        };
        slot.copy_from_slice(bytes);
        slot.commit(0);
        self.accepted_bytes += bytes.len() as u64;
        Ok(true)
    }

    /// Appends bytes that every file begins with; `false`: no buffer is empty.
    fn begin(&mut self, bytes: &[u8]) -> Result<bool> {
        self.index_other();
        let is_appended = self.append(bytes)?;
        if is_appended && let Some(series) = &mut self.series {
            series.begins_with(bytes);
        }
        Ok(is_appended)
    }

    /// Writes the description of an interface, before its first packet; `None`: no buffer is empty. In a classic file, the
    /// first packet determines what the header describes.
    ///
    /// # Errors
    /// The store failed.
    pub fn introduce(&mut self, interface: &Interface) -> Result<Option<Described>> {
        let described = self.describe(interface, self.known);
        let (copied, left) = self.metadata.of_interface(interface, interface);
        match self.format {
            Format::Pcapng => {
                let block = self.format.interface(&copied, &described, self.snaplen);
                if !self.begin(&block)? {
                    return Ok(None);
                }
            }
            Format::Pcap => self.classic.introduce(interface),
        }
        self.metadata.introduced(interface, left);
        self.known += 1;
        Ok(Some(described))
    }

    fn describe(&self, interface: &Interface, number: u32) -> Described {
        let described = self.format.describe(interface, number);
        match self.microseconds {
            true => described.in_microseconds(),
            false => described,
        }
    }

    /// Writes the header of a classic file now if it cannot depend on the first packet; `false`: no buffer is empty.
    ///
    /// # Errors
    /// The store failed.
    pub fn begin_classic(&mut self) -> Result<bool> {
        match self.format == Format::Pcap && self.classic.is_uniform() {
            true => self.admit(0),
            false => Ok(true),
        }
    }

    /// Checks that a classic file holds packets of this interface, and writes its header before the first packet; `false`: no
    /// buffer is empty.
    ///
    /// # Errors
    /// The interface differs in link type or resolution from those in the file; or the store failed.
    #[cold]
    fn admit(&mut self, number: u32) -> Result<bool> {
        if self.classic.described().is_none() {
            let (first, decides) = self.classic.decide(number);
            let described = self.describe(&decides, 0);
            let (copied, _) = self.metadata.of_interface(&decides, &first);
            let header = self.format.interface(&copied, &described, self.snaplen);
            if !self.begin(&header)? {
                return Ok(false);
            }
            self.classic.begin(decides, described);
        }
        self.classic.admit(number, self.microseconds)?;
        Ok(true)
    }

    /// Counts the options of a packet that are not written.
    #[cold]
    pub fn count_left(&mut self, frame: &Frame<'_>) {
        self.metadata.left += left_of_packet(frame, self.metadata.is_kept);
    }

    /// Writes these blocks of files, and those that found no room before; `false`: some have to wait.
    #[inline]
    pub fn put_blocks(&mut self, blocks: Vec<Block>) -> Result<bool> {
        match blocks.is_empty() && self.metadata.blocks.is_empty() {
            true => Ok(true),
            false => self.put_more_blocks(blocks),
        }
    }

    #[cold]
    fn put_more_blocks(&mut self, blocks: Vec<Block>) -> Result<bool> {
        self.metadata.blocks.extend(blocks);
        while let Some(block) = self.metadata.blocks.pop_front() {
            if !self.metadata.is_kept || block.bytes.is_empty() {
                self.metadata.left.block(block.kind);
            } else if !self.put_block(&block)? {
                self.metadata.blocks.push_front(block);
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn put_block(&mut self, block: &Block) -> Result<bool> {
        // Every file of a series needs these blocks.
        let is_shared = matches!(
            block.kind,
            BlockKind::NameResolution | BlockKind::DecryptionSecrets
        );
        if block.bytes.len() > self.longest {
            match split_secrets(block, self.longest) {
                Some(parts) => parts
                    .into_iter()
                    .rev()
                    .for_each(|part| self.metadata.blocks.push_front(part)),
                None => self.metadata.left.block(block.kind),
            }
            return Ok(true);
        }
        match is_shared && self.metadata.has_room_for(block) {
            true => self.begin(&block.bytes),
            false => {
                self.index_other();
                self.append(&block.bytes)
            }
        }
    }

    /// Notes that the next block is not a packet.
    fn index_other(&mut self) {
        self.index.add_other(self.store.output_bytes());
    }

    /// Writes the index of the file, if it needs one; `false`: no buffer is empty.
    fn append_index(&mut self) -> Result<bool> {
        let len = self.index.append(&mut self.store)?;
        self.accepted_bytes += len.unwrap_or(0) as u64;
        Ok(len.is_some())
    }

    /// What a copy lacks so far.
    pub fn left(&self) -> Left {
        Left {
            interfaces: self.classic.left_out(),
            ..self.metadata.left
        }
    }

    /// Whether a file has any limit.
    pub fn is_limited(&self) -> bool {
        self.limits.is_limited
    }

    /// Whether the file is full. As in tcpdump, the packet that exceeds the limit is still written, so each file has at least one
    /// packet.
    #[inline]
    pub fn is_full(&self) -> bool {
        let limits = &self.limits;
        limits.packets_in_file >= limits.packets
            || limits.packets_in_file > 0 && self.store.output_bytes() >= limits.bytes
    }

    /// Counts a packet written to the file.
    #[inline]
    pub fn count_in_file(&mut self) {
        self.limits.packets_in_file += 1;
    }

    /// Composes `frame` in place, and keeps it if `accept` agrees; `false`: no buffer is empty or `accept` disagreed, and nothing
    /// was written.
    pub fn put(
        &mut self,
        frame: &Frame<'_>,
        described: &Described,
        accept: impl FnOnce() -> bool,
    ) -> Result<bool> {
        match self.format {
            Format::Pcapng => self.compose::<true>(Format::Pcapng, frame, described, accept),
            Format::Pcap => self.put_classic(frame, described, accept),
        }
    }

    /// Composes a frame without options, marks or preceding losses; `false` as for [`put`](Self::put).
    #[inline(always)]
    pub fn put_plain(
        &mut self,
        frame: &Frame<'_>,
        described: &Described,
        accept: impl FnOnce() -> bool,
    ) -> Result<bool> {
        if frame.data.len() >= self.quick_below {
            return self.put_long(frame, described, accept);
        }
        self.compose_plain::<false>(frame, described, accept)
    }

    /// The same for the other frames. A separate function, so that short ones do not pay for it.
    #[inline(never)]
    fn put_long(
        &mut self,
        frame: &Frame<'_>,
        described: &Described,
        accept: impl FnOnce() -> bool,
    ) -> Result<bool> {
        match self.format {
            Format::Pcapng => self.compose_plain::<true>(frame, described, accept),
            Format::Pcap => self.put_classic(frame, described, accept),
        }
    }

    /// Constants for the absent fields, so that the compiler removes their checks. With and without a direction, the block has
    /// options of a constant length, too.
    #[inline(always)]
    fn compose_plain<const IS_LONG: bool>(
        &mut self,
        frame: &Frame<'_>,
        described: &Described,
        accept: impl FnOnce() -> bool,
    ) -> Result<bool> {
        let plain = Frame {
            dropped_before: 0,
            options: &[],
            marks: Marks::default(),
            ..*frame
        };
        match frame.direction {
            Direction::Unknown => {
                let plain = Frame {
                    direction: Direction::Unknown,
                    ..plain
                };
                self.compose::<IS_LONG>(Format::Pcapng, &plain, described, accept)
            }
            _ => self.compose::<IS_LONG>(Format::Pcapng, &plain, described, accept),
        }
    }

    /// Whether the output may be written from the memory to which packets were read.
    pub fn takes_loans(&self) -> bool {
        // A frame of each loan would be too small to compress well.
        self.store.takes_loans() && !self.compresses
    }

    /// Whether a run is written exactly as it was read.
    pub fn fits_as_read(&self, run: &EncodedRun<'_>) -> bool {
        self.format == Format::Pcapng && run.longest <= self.snaplen
    }

    /// Writes `frames` packets directly from the memory that `loan` returns; `false`: no buffer is empty and `loan` was not
    /// called, or it returned nothing.
    pub fn lend(&mut self, frames: u64, loan: impl FnOnce() -> Option<Loan>) -> Result<bool> {
        let Some(carrier) = self.store.carrier()? else {
            return Ok(false);
        };
        let loan = loan();
        if let Some(loan) = &loan {
            self.accepted_bytes += loan.bytes().len() as u64;
        }
        let lent = loan.is_some();
        if let Some(loan) = loan {
            carrier.carry(loan, frames);
        }
        Ok(lent)
    }

    /// Copies a run unchanged; `false`: no buffer is empty, and nothing was written. `None`: it has to be composed.
    #[inline(never)]
    pub fn put_run(&mut self, run: &EncodedRun<'_>) -> Option<Result<bool>> {
        if !self.fits_as_read(run) {
            return None;
        }
        let mut slot = match self.store.reserve(run.bytes.len()) {
            Ok(Some(slot)) => slot,
            Ok(None) => return Some(Ok(false)),
            Err(error) => return Some(Err(error)),
        };
        slot.copy_from_slice(run.bytes);
        slot.commit(run.frames as u64);
        self.accepted_bytes += run.bytes.len() as u64;
        Some(Ok(true))
    }

    #[inline(always)]
    fn put_classic(
        &mut self,
        frame: &Frame<'_>,
        described: &Described,
        accept: impl FnOnce() -> bool,
    ) -> Result<bool> {
        if frame.time_ns > LAST_OF_PCAP_NS {
            let error = Error::invalid("", "a .pcap file cannot hold times after February 2106");
            return Err(error.advise("Name it .pcapng"));
        }
        if !self.classic.admits(described.number()) && !self.admit(described.number())? {
            return Ok(false);
        }
        let described = self.classic.described().unwrap_or(*described);
        self.compose::<true>(Format::Pcap, frame, &described, accept)
    }

    /// A separate function with a constant format, so that the compiler removes the checks of the format. `IS_LONG`: the data may be
    /// copied past the caches.
    #[inline(always)]
    fn compose<const IS_LONG: bool>(
        &mut self,
        format: Format,
        frame: &Frame<'_>,
        described: &Described,
        accept: impl FnOnce() -> bool,
    ) -> Result<bool> {
        let snaplen = self.snaplen;
        let len = format.frame_len(frame, snaplen);
        let Some(mut slot) = self.store.reserve(len)? else {
            return Ok(false);
        };
        if IS_LONG {
            let (at, data) = format.put_around(&mut slot, frame, described, snaplen);
            if !accept() {
                return Ok(false);
            }
            slot.commit_with(at, data, 1);
        } else {
            format.put_frame(&mut slot, frame, described, snaplen);
            if !accept() {
                return Ok(false);
            }
            slot.commit(1);
        }
        self.accepted_bytes += len as u64;
        Ok(true)
    }

    /// Whether the output is between two files.
    #[inline]
    pub fn is_between_files(&self) -> bool {
        self.series
            .as_ref()
            .is_some_and(SeriesState::is_between_files)
    }

    /// Whether a file of a series lasts at a packet of this time, which is read from a file.
    #[inline]
    pub fn lasts_at(&self, time_ns: u64) -> bool {
        let series = self.series.as_ref();
        series.is_none_or(|series| series.lasts_at(time_ns))
    }

    /// Whether another file can follow. A classic file without a header continues.
    pub fn allows_another(&self) -> bool {
        let can_end = self.classic.described().is_some() || self.format == Format::Pcapng;
        can_end
            && self
                .series
                .as_ref()
                .is_some_and(SeriesState::allows_another)
    }

    /// Ends this file with `statistics` and registers the next one; [`settle`](Self::settle) performs the steps.
    ///
    /// # Errors
    /// The next file's name cannot be formed.
    pub fn next_file(
        &mut self,
        statistics: &[(Described, Statistics)],
        (now, wall): (u64, u64),
        by_time: bool,
    ) -> Result<()> {
        let blocks = statistics.iter();
        let end = blocks.map(|(described, counts)| self.format.statistics(counts, described));
        let end = end.collect();
        if let Some(series) = &mut self.series {
            series.next_file(end, now, wall, by_time)?;
            self.limits.packets_in_file = 0;
        }
        Ok(())
    }

    /// Performs the steps between two files; `false`: there is no room for all of them.
    ///
    /// # Errors
    /// The store failed.
    pub fn settle(&mut self) -> Result<bool> {
        let Some(mut series) = self.series.take() else {
            return Ok(true);
        };
        let mut done = Ok(true);
        while let (Ok(true), Some(step)) = (&done, series.step()) {
            done = match step {
                SeriesStep::Append(bytes) => self.append(bytes),
                SeriesStep::Index => self.append_index(),
                SeriesStep::NextOutput => self.store.next_output(),
            };
            if let Ok(true) = done {
                if matches!(step, SeriesStep::NextOutput) {
                    self.index.next_file();
                }
                series.did();
            }
        }
        self.series = Some(series);
        done
    }

    /// Starts what runs beside the capture.
    ///
    /// # Errors
    /// No thread is available.
    pub fn begin_capture(&mut self) -> Result<()> {
        self.finisher = self.finisher.take().map(Finisher::start).transpose()?;
        self.space_watch = self.space.as_ref().map(SpaceLimit::watch).transpose()?;
        Ok(())
    }

    /// Composes the end of the file and closes it. Returns the first error. If the store `has_failed`, no end is written, and the
    /// counts appear only in the summary.
    pub fn finish(
        mut self,
        statistics: &[(Described, Statistics)],
        has_failed: bool,
        control: &Control,
        observe: &mut dyn FnMut(Event<'_>),
    ) -> (Closing, Option<Error>) {
        let ended = if has_failed {
            Ok(())
        } else {
            self.put_end(statistics, control, observe)
        };
        (self.store.close(), ended.err())
    }

    fn put_end(
        &mut self,
        statistics: &[(Described, Statistics)],
        control: &Control,
        observe: &mut dyn FnMut(Event<'_>),
    ) -> Result<()> {
        self.patiently(control, observe, Self::settle)?;
        self.patiently(control, observe, |writing| writing.put_blocks(Vec::new()))?;
        if self.format == Format::Pcap && self.classic.described().is_none() {
            // Even an empty capture needs a header.
            self.patiently(control, observe, |writing| writing.admit(0))?;
        }
        for (described, counts) in statistics {
            let block = self.format.statistics(counts, described);
            self.patiently(control, observe, |writing| writing.append(&block))?;
        }
        self.patiently(control, observe, Self::append_index)
    }

    /// Repeats the operation until there is room for it, or the drain is given up.
    fn patiently(
        &mut self,
        control: &Control,
        observe: &mut dyn FnMut(Event<'_>),
        mut attempt: impl FnMut(&mut Self) -> Result<bool>,
    ) -> Result<()> {
        while !control.is_abandoned() && !attempt(self)? {
            self.wait_empty(observe);
        }
        Ok(())
    }

    /// Waits briefly for the writer to return a buffer, and reports how much is left to write.
    pub fn wait_empty(&mut self, observe: &mut dyn FnMut(Event<'_>)) {
        if !self.store.wait_empty(Duration::from_millis(20)) {
            observe(Event::Finishing(&self.store.totals()));
        }
    }
}

/// From this length on, `commit_with` copies past the caches if the store writes directly. Shorter frames do without its checks.
const LONG: usize = 512;

/// Composed data of this size is still in a second-level cache when it is written.
const WARM: usize = 256 << 10;

/// The classic format stores seconds in 32 bits.
const LAST_OF_PCAP_NS: u64 = (1 << 32) * 1_000_000_000 - 1;
