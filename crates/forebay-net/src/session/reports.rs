//! File names and results that the session and the writer exchange.

use forebay::Error;
use std::{
    collections::VecDeque,
    ops::AddAssign,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Number of file names in the summary.
const LAST: usize = 16;

/// The files of a capture.
///
/// ```
/// let files = forebay_net::session::Files::default(); // packets were only counted, or went into a pipe
/// assert!(files.written == 0 && files.last.is_empty());
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// Completed files. A file without a single byte is removed and not counted.
    pub written: u64,
    /// Files removed for newer ones, those of earlier captures included.
    pub removed: u64,
    /// Files removed for free space ([`SessionConfig::keep_free`](crate::session::SessionConfig::keep_free)), those of earlier captures
    /// included.
    pub removed_for_space: u64,
    /// Files of killed captures that were finished. They are not in `written`.
    pub recovered: u64,
    /// The newest remaining files, in order, at most 16.
    pub last: VecDeque<PathBuf>,
    /// Results of compression.
    pub compressed: Compressed,
}

/// Adds the files of another session. Their names follow ours.
impl AddAssign for Files {
    fn add_assign(&mut self, other: Files) {
        let Files {
            written,
            removed,
            removed_for_space,
            recovered,
            last,
            compressed,
        } = other;
        self.written += written;
        self.removed += removed;
        self.removed_for_space += removed_for_space;
        self.recovered += recovered;
        self.last.extend(last);
        self.compressed += compressed;
    }
}

/// The compression of files, while they are written or once they are finished.
///
/// ```
/// let none = forebay_net::session::Compressed::default(); // nobody asked for it
/// assert!(none.files == 0 && none.left == 0 && none.error.is_none());
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, Default)]
pub struct Compressed {
    /// Files that were compressed.
    pub files: u64,
    /// Their bytes before compression.
    pub bytes_before: u64,
    /// Their bytes after compression.
    pub bytes: u64,
    /// Files left uncompressed, because too many were waiting or the user stopped the compression.
    pub left: u64,
    /// Files left uncompressed, because compression failed.
    pub failed: u64,
    /// The full text of the first such failure.
    pub error: Option<String>,
}

/// Keeps the first error.
impl AddAssign for Compressed {
    fn add_assign(&mut self, other: Compressed) {
        let Compressed {
            files,
            bytes_before,
            bytes,
            left,
            failed,
            error,
        } = other;
        self.files += files;
        self.bytes_before += bytes_before;
        self.bytes += bytes;
        self.left += left;
        self.failed += failed;
        self.error = self.error.take().or(error);
    }
}

impl Compressed {
    /// Adds a file that had `before` bytes and has `bytes`.
    fn add(&mut self, before: u64, bytes: u64) {
        self.files += 1;
        self.bytes_before += before;
        self.bytes += bytes;
    }
}

/// A file that a killed capture left, and what became of it.
///
/// ```
/// use forebay_net::{open, session::{Control, Event, Names, Output, Rotation, Session, SessionConfig}};
/// use std::fs;
///
/// let folder = std::env::temp_dir().join(format!("forebay-doc-recovered-{}", std::process::id()));
/// fs::create_dir_all(&folder).unwrap();
/// let capture = |observe: &mut dyn FnMut(Event<'_>)| {
///     let names = ["sim:clock=virtual,count=10".parse()?];
///     let clock = open::clock(&names)?;
///     let ports = open::ports(&names, &Default::default(), &clock)?;
///     let series = Rotation { packets: Some(100), ..Rotation::of(folder.join("a.pcapng"), Names::Dumpcap) };
///     let output = Output::Series(series);
///     let session = Session::open(ports, output, SessionConfig::default(), clock, Control::new()?)?;
///     Ok::<_, forebay::Error>(session.run(observe))
/// };
/// // What a capture leaves that is killed in the middle of its fourth packet.
/// let name = capture(&mut |_| {})?.files.last[0].clone();
/// let mut bytes = fs::read(&name).unwrap();
/// bytes.truncate(bytes.len() - 600);
/// fs::remove_file(&name).unwrap();
/// let name = name.to_str().unwrap().replace("_00001_", "_00007_");
/// fs::write(format!("{name}.part"), bytes).unwrap();
///
/// let mut seen = Vec::new();
/// let summary = capture(&mut |event| if let Event::Recovered(it) = event { seen.push(it.clone()) })?;
/// assert_eq!(summary.files.recovered, 1);
/// assert!(seen[0].error.is_none() && seen[0].packets < 10 && seen[0].cut_bytes > 0);
/// assert_eq!(seen[0].path.to_str(), Some(name.as_str()));
/// # fs::remove_dir_all(&folder).unwrap();
/// # Ok::<(), forebay::Error>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Recovered {
    /// Its final name; its temporary name if it could not be finished.
    pub path: PathBuf,
    /// The packets in it.
    pub packets: u64,
    /// Its length.
    pub bytes: u64,
    /// Bytes that were cut off after the last whole packet.
    pub cut_bytes: u64,
    /// Where these bytes are, if they were more than the beginning of one packet, or zeros.
    pub rest: Option<PathBuf>,
    /// Why it could not be finished. It then keeps its temporary name.
    pub error: Option<String>,
    /// Why it is unknown whether a power cut would take its final name back.
    pub unsynced: Option<String>,
}

/// Names for the writer, and the resulting files. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Reports(Arc<Mutex<Reported>>);

#[derive(Default)]
struct Reported {
    /// Files registered but not opened yet: never more than the store has buffers.
    ordered: VecDeque<PathBuf>,
    /// Another name for the file that is written.
    renamed: Option<PathBuf>,
    /// Finished files that the session has not reported yet.
    announced: Vec<PathBuf>,
    /// Files of killed captures that the session has not reported yet.
    recovered: Vec<Recovered>,
    files: Files,
}

impl Reports {
    fn inner(&self) -> MutexGuard<'_, Reported> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a file to which nothing more is done.
    pub fn announce(&self, path: &Path) {
        self.inner().announced.push(path.into());
    }

    /// The files that were announced since the last call.
    pub fn take_announced(&self) -> Vec<PathBuf> {
        std::mem::take(&mut self.inner().announced)
    }

    /// Records what became of a file of a killed capture.
    pub fn recovered(&self, recovered: Recovered) {
        let mut inner = self.inner();
        inner.files.recovered += u64::from(recovered.error.is_none());
        inner.recovered.push(recovered);
    }

    /// Those recorded since the last call.
    pub fn take_recovered(&self) -> Vec<Recovered> {
        std::mem::take(&mut self.inner().recovered)
    }

    /// Registers the name of the next file.
    pub fn order(&self, name: PathBuf) {
        self.inner().ordered.push_back(name);
    }

    /// Gives another name to the file that is written, which gets it when it is complete.
    pub fn rename(&self, name: PathBuf) {
        self.inner().renamed = Some(name);
    }

    /// That name, once.
    pub fn take_renamed(&self) -> Option<PathBuf> {
        self.inner().renamed.take()
    }

    /// The name for the next file to open.
    pub fn ordered(&self) -> PathBuf {
        self.inner().ordered.front().cloned().unwrap_or_default()
    }

    /// Records that this file is open.
    pub fn opened(&self) {
        self.inner().ordered.pop_front();
    }

    /// Records a complete file under its final name.
    pub fn finished(&self, path: &Path) {
        let mut inner = self.inner();
        inner.files.written += 1;
        if inner.files.last.len() == LAST {
            inner.files.last.pop_front();
        }
        inner.files.last.push_back(path.into());
    }

    /// Records that a file was removed: for free space, or for a newer one.
    pub fn removed(&self, path: &Path, for_space: bool) {
        let files = &mut self.inner().files;
        files.removed += u64::from(!for_space);
        files.removed_for_space += u64::from(for_space);
        files.last.retain(|last| last != path);
    }

    /// Records that the file `path` of `before` bytes was replaced with another one of `bytes`.
    pub fn compressed(&self, path: &Path, by: &Path, before: u64, bytes: u64) {
        let files = &mut self.inner().files;
        files.compressed.add(before, bytes);
        if let Some(last) = files.last.iter_mut().find(|last| **last == path) {
            *last = by.into();
        }
    }

    /// Records a complete file that was compressed from `before` to `bytes` bytes while it was written.
    pub fn packed(&self, before: u64, bytes: u64) {
        self.inner().files.compressed.add(before, bytes);
    }

    /// Records that this many files will not be compressed.
    pub fn left(&self, files: u64) {
        self.inner().files.compressed.left += files;
    }

    /// Records that a file could not be compressed.
    pub fn not_compressed(&self, error: &Error) {
        let compressed = &mut self.inner().files.compressed;
        compressed.failed += 1;
        compressed.error.get_or_insert_with(|| error.to_string());
    }

    /// The numbers of complete files, of files removed for newer ones, and of those removed for free space.
    pub fn counts(&self) -> [u64; 3] {
        let files = &self.inner().files;
        [files.written, files.removed, files.removed_for_space]
    }

    pub fn files(&self) -> Files {
        self.inner().files.clone()
    }
}
