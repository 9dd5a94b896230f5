//! A queue between processes that trust each other. It survives the death of any of them at any instruction.
//!
//! [`create`] makes one under a name and [`attach`] joins it. [`create_nameless`] and [`Shared::from_descriptor`] do the same
//! with a file descriptor, passed by `SCM_RIGHTS` or inheritance. The ends are the same [`Sender`] and [`Receiver`] as
//! between threads. The layout of the memory:
//!
//! ```text
//!  file:  │ magic, version, sizes, choices │ positions, counts, locks, events │ frames …                     │
//!         0                                128                                whole pages   + capacity = end, mapped twice
//!  each attached process locks a byte of the file, at the offset of its number
//! ```
//!
//! Processes that follow the protocol may be killed or stopped at any point. Then:
//!
//! | A message that, when a process died, | afterwards |
//! |---|---|
//! | was committed, and not taken | is delivered, in order (unless a full queue discards it: [`WhenFull::DropOldest`]) |
//! | its sender was still filling | is skipped, and counted ([`Stats::torn`](super::Stats::torn)) |
//! | the dead process had taken, and not released | depends on [`AfterDeath`]: it is delivered again, marked, possibly after later messages; or it is only counted |
//!
//! No call exceeds its time limit by more than 10 ms.
//!
//! **Delivery is at least once** by default ([`AfterDeath::Redeliver`]). A message is *taken* when a call of a receiver returns it, and
//! *released* when the [`Message`](super::Message) or [`Burst`](super::Burst) is dropped. If the receiver's process dies in between,
//! the message is delivered again, even if its work was finished. If work must not be done twice, the application has to check
//! for that, for example by the number of the message. [`Receiver::recv`] copies the message and releases it before it returns, so
//! this message is not delivered again if the process dies later. With [`AfterDeath::Abandon`], delivery is at most once.
//!
//! The messages of a dead process are found when another process attaches, when a receiver finds the queue empty, and when a sender
//! finds it full. If no other process is attached, they stay in the queue for the next one that attaches: in a named queue until
//! the name is [removed](remove), in a nameless one until the last descriptor is closed.
//!
//! A process that writes into the memory at random can stop the queue and corrupt messages. Every position and length is
//! checked, so it cannot make other processes access memory outside the queue; their calls return the error `Broken`. The length of a nameless
//! queue is sealed. **Do not truncate the file of a named queue** while it is in use: a process that touches the missing part
//! dies of `SIGBUS`. Only the file's owner can do that, since [`attach`] accepts no other user's file. The length is checked
//! when a process attaches.
//!
//! A [`Watch`](super::Watch) of a shared queue has a thread, which waits for the other processes.
//!
//! # Misuse
//!
//! The rules on the [queue's page](super#misuse) apply here, too, and these:
//!
//! - A forked child must not use or drop the ends, the messages or the [`Shared`] that it inherited. It may [`attach`] anew.
//! - A peer counts as dead when its process, and all children that it forked without `exec`, have detached or ended. Whatever a
//!   dead parent held stays held while such a child lives.
//! - A forgotten (`mem::forget`) message or reservation is found when the process ends or has dropped all ends.
//! - A forgotten end keeps the process attached until it ends.

use super::{
    Receiver, Sender, WhenFull, bytes::Bytes, control::Control, control_memory::ControlMemory,
    core::Core, handles::Handles, last_time::LastTime, peers::Peers, watchers::Watchers,
};
use crate::{
    Error, Result,
    error::Code,
    memory,
    sync::{Arc, Deadline},
    sys::{self, Advice, Mapping},
};
use std::{
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

/// The directory of the named queues: a file system in memory.
const FOLDER: &str = "/dev/shm";
const PREFIX: &str = "forebay.";
/// Processes that are counted.
const MAX_COUNTED: usize = 4096;
const MAGIC: [u8; 8] = *b"forebayQ";
const VERSION: u32 = 3;
/// Offset of the shared words in the file.
const CONTROL_AT: usize = 128;
/// Advice for a file that is not a queue, or no longer one.
const NO_QUEUE: &str = "Attach to a queue that this version of forebay has made, on this machine";

/// What happens to a message that a receiver held when it died.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterDeath {
    /// Another receiver gets it, marked by [`Message::is_redelivered`](super::Message::is_redelivered). It may thus be processed
    /// twice.
    ///
    /// It is delivered before all messages that were not taken yet when the death is found. That is at the latest when the
    /// next process attaches, a receiver finds the queue empty, or a sender finds it full. Until then, receivers that are
    /// already attached get later messages first.
    #[default]
    Redeliver,
    /// It is not delivered again, only counted: [`Stats::abandoned`](super::Stats::abandoned). It may thus be half processed.
    Abandon,
}

/// Settings of a queue between processes. A process that attaches uses the settings with which the queue was created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedQueueConfig {
    /// Bytes of memory for messages, rounded up to whole pages: at least 1; 1 MiB by default.
    pub capacity_bytes: usize,
    /// What senders do when the queue is full; they wait by default.
    pub when_full: WhenFull,
    /// What happens to a message that a receiver held when it died.
    pub after_death: AfterDeath,
}

impl Default for SharedQueueConfig {
    fn default() -> Self {
        SharedQueueConfig {
            capacity_bytes: 1 << 20,
            when_full: WhenFull::default(),
            after_death: AfterDeath::default(),
        }
    }
}

/// A queue that this process is attached to. Dropping it and all its ends detaches this process. The queue stays for the other
/// processes, and a named one until it is [removed](remove).
#[derive(Debug)]
pub struct Shared {
    handles: Arc<Handles>,
    /// An open file description without locks, to hand to other processes.
    file: File,
}

/// Makes a queue under `name`, readable and writable for this user only, and attaches to it.
///
/// A name has 1 to 100 ASCII letters, digits, dots, dashes and underscores; its file is `/dev/shm/forebay.NAME`.
///
/// # Errors
/// The name is taken or not valid, or there is not enough memory.
///
/// ```
/// use forebay::queue::shared::{self, SharedQueueConfig};
/// let name = format!("doc-{}", std::process::id());
/// let queue = shared::create(&name, &SharedQueueConfig::default())?;
/// queue.sender().send(b"from one process").unwrap();
/// let other = shared::attach(&name)?; // as another process does
/// assert_eq!(&*other.receiver().take().unwrap(), b"from one process");
/// shared::remove(&name)?;
/// # Ok::<(), forebay::Error>(())
/// ```
pub fn create(name: &str, config: &SharedQueueConfig) -> Result<Shared> {
    let path = path_of(name)?;
    let on = path.display().to_string();
    let failed = |error| Error::new(&on, "making a queue").because(error);
    let file = make(&on, config, |len| {
        sys::shared::file_without_name_yet(Path::new(FOLDER), len)
    })?;
    // The file gets its name last. Other processes thus never find it half made, and nothing stays if this one dies before.
    sys::shared::name(&file, &path).map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::AlreadyExists => "Attach to it, or remove it first",
            _ => "Check that /dev/shm is there and writable",
        };
        failed(error).advise(advice)
    })?;
    Shared::join(file, &on)
}

/// Makes a queue without a name, and attaches to it. Other processes attach by its [descriptor](Shared::descriptor).
///
/// # Errors
/// There is not enough memory.
pub fn create_nameless(config: &SharedQueueConfig) -> Result<Shared> {
    const ON: &str = "queue";
    Shared::join(make(ON, config, sys::sealed::nameless_file)?, ON)
}

/// Attaches to the queue with this name.
///
/// # Errors
/// - There is no such queue: [`Error::cause`] is then `NotFound`.
/// - The file is not a regular one, belongs to a user other than the effective one, or has permissions that let other users
///   open it. The error names the owner.
/// - The file is not a queue of this version and machine, or was truncated.
pub fn attach(name: &str) -> Result<Shared> {
    let path = path_of(name)?;
    let on = path.display().to_string();
    let failed = |error| Error::new(&on, "attaching to a queue").because(error);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(&path)
        .map_err(|error| {
            failed(error)
                .advise("Create it first, as this user; `ls -l /dev/shm` lists the existing ones")
        })?;
    let answer = sys::shared::is_private(&file).map_err(|error| failed(error).advise(NO_QUEUE))?;
    answer.map_err(|foreign| {
        Error::coded(
            Code::Permission,
            &on,
            format!("attaching to a queue: {foreign}"),
        )
        .advise("A queue is for its owner only: remove this file, or choose another name")
    })?;
    Shared::join(file, &on)
}

/// The names of this user's queues, in order.
///
/// ```
/// use forebay::queue::shared::{self, SharedQueueConfig};
/// let name = format!("doc-list-{}", std::process::id());
/// let queue = shared::create(&name, &SharedQueueConfig::default())?;
/// assert!(shared::list()?.contains(&name));
/// assert_eq!(queue.processes(), 1); // this one
/// shared::remove(&name)?;
/// assert!(!shared::list()?.contains(&name));
/// # Ok::<(), forebay::Error>(())
/// ```
///
/// # Errors
/// `/dev/shm` cannot be read.
pub fn list() -> Result<Vec<String>> {
    let failed = |error| Error::new(FOLDER, "listing the queues").because(error);
    let me = rustix::process::geteuid().as_raw();
    let mut names = Vec::new();
    for entry in fs::read_dir(FOLDER).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let is_ours = entry
            .metadata()
            .is_ok_and(|it| it.is_file() && it.uid() == me);
        let file = entry.file_name();
        let name = file.to_str().and_then(|it| it.strip_prefix(PREFIX));
        names.extend(
            name.filter(|name| is_ours && check_name(name).is_ok())
                .map(str::to_owned),
        );
    }
    names.sort_unstable();
    Ok(names)
}

/// Removes the name of a queue. Processes that are attached stay attached; the memory is freed with the last one.
///
/// # Errors
/// There is no such queue, or it belongs to another user.
pub fn remove(name: &str) -> Result<()> {
    let path = path_of(name)?;
    fs::remove_file(&path).map_err(|error| {
        Error::new(path.display().to_string(), "removing a queue")
            .because(error)
            .advise("Check the name with `ls -l /dev/shm`")
    })
}

/// Checks the name of a queue: 1 to 100 ASCII letters, digits, dots, dashes and underscores.
///
/// ```
/// use forebay::queue::shared;
/// assert!(shared::check_name("jobs.2026").is_ok());
/// assert!(shared::check_name("../jobs").is_err());
/// ```
///
/// # Errors
/// It is not a valid name.
pub fn check_name(name: &str) -> Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty() || name.len() > 100 || !name.chars().all(is_plain) {
        return Err(
            Error::invalid(name.escape_debug().to_string(), "naming a queue")
                .advise("Use 1 to 100 letters, digits, dots, dashes and underscores"),
        );
    }
    Ok(())
}

fn path_of(name: &str) -> Result<PathBuf> {
    check_name(name)?;
    Ok(Path::new(FOLDER).join(format!("{PREFIX}{name}")))
}

/// Bytes before the frames.
fn front() -> usize {
    (CONTROL_AT + size_of::<Control>()).next_multiple_of(sys::page_size())
}

/// The description of the queue at the start of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Preamble {
    capacity: u64,
    when_full: WhenFull,
    after_death: AfterDeath,
}

impl Preamble {
    const BYTES: usize = 40;

    fn encode(self) -> [u8; Preamble::BYTES] {
        let mut bytes = [0; Preamble::BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        let when_full = match self.when_full {
            WhenFull::Wait => 0,
            WhenFull::Refuse => 1,
            WhenFull::DropOldest => 2,
        };
        let after_death = match self.after_death {
            AfterDeath::Redeliver => 0,
            AfterDeath::Abandon => 1,
        };
        let words = [
            VERSION,
            size_of::<Control>() as u32,
            front() as u32,
            when_full,
            after_death,
        ];
        for (word, place) in words.iter().zip(bytes[8..28].chunks_exact_mut(4)) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes[32..].copy_from_slice(&self.capacity.to_ne_bytes());
        bytes
    }

    /// `None` if it is not a queue of this version and machine.
    fn decode(bytes: &[u8; Preamble::BYTES], file_len: u64) -> Option<Preamble> {
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap_or_default());
        let capacity = u64::from_ne_bytes(bytes[32..].try_into().unwrap_or_default());
        let preamble = Preamble {
            capacity,
            when_full: match word(20) {
                0 => WhenFull::Wait,
                1 => WhenFull::Refuse,
                2 => WhenFull::DropOldest,
                _ => return None,
            },
            after_death: match word(24) {
                0 => AfterDeath::Redeliver,
                1 => AfterDeath::Abandon,
                _ => return None,
            },
        };
        let page = sys::page_size() as u64;
        let fits = capacity > 0
            && capacity.is_multiple_of(page)
            && capacity.checked_add(front() as u64) == Some(file_len);
        (fits && preamble.encode() == *bytes).then_some(preamble)
    }
}

/// Makes the file of a queue. `file` makes one with the given number of bytes.
fn make(
    on: &str,
    config: &SharedQueueConfig,
    file: impl FnOnce(usize) -> io::Result<File>,
) -> Result<File> {
    memory::check_all(on, config.capacity_bytes)?;
    let capacity = config.capacity_bytes.next_multiple_of(sys::page_size());
    let failed = |error| {
        let failed = Error::new(on, format!("making a queue of {capacity} bytes")).because(error);
        failed.advise("Ask for less, or free space in /dev/shm")
    };
    let file = file(front() + capacity).map_err(failed)?;
    let preamble = Preamble {
        capacity: capacity as u64,
        when_full: config.when_full,
        after_death: config.after_death,
    };
    file.write_all_at(&preamble.encode(), 0).map_err(failed)?;
    Ok(file)
}

impl Shared {
    /// Attaches to a queue by a descriptor that another process got from [`descriptor`](Shared::descriptor).
    ///
    /// # Errors
    /// It is not a queue of this version.
    ///
    /// ```
    /// use forebay::queue::shared::{self, SharedQueueConfig, Shared};
    /// let queue = shared::create_nameless(&SharedQueueConfig::default())?;
    /// let descriptor = queue.descriptor().try_clone_to_owned().unwrap(); // as if sent to another process
    /// let other = Shared::from_descriptor(descriptor)?;
    /// other.sender().send(b"back").unwrap();
    /// assert_eq!(queue.receiver().take().unwrap().len(), 4);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn from_descriptor(descriptor: OwnedFd) -> Result<Shared> {
        Shared::join(descriptor.into(), "queue")
    }

    /// Attaches by `file`, which is kept to hand to other processes. This process locks its byte on a second description.
    fn join(file: File, on: &str) -> Result<Shared> {
        let failed = |error: io::Error| Error::new(on, "attaching to a queue").because(error);
        let no_queue = |error| failed(error).advise(NO_QUEUE);
        let len = file.metadata().map_err(no_queue)?.len();
        let mut preamble = [0; Preamble::BYTES];
        file.read_exact_at(&mut preamble, 0).map_err(no_queue)?;
        let preamble = Preamble::decode(&preamble, len).ok_or_else(|| {
            Error::coded(Code::Damaged, on, "attaching to a queue").advise(NO_QUEUE)
        })?;
        let capacity = preamble.capacity as usize;

        let mapped = |error| memory::refused(on, capacity, error);
        let front = Mapping::of_file(&file, front(), sys::READ_WRITE).map_err(mapped)?;
        let frames = Mapping::mirrored_file(&file, front.len(), capacity, sys::page_size())
            .map_err(mapped)?;
        for mapping in [&front, &frames] {
            let all = 0..mapping.len();
            mapping
                .advise(all.clone(), Advice::DontFork)
                .map_err(mapped)?;
            memory::populate(on, mapping, all)?;
        }
        let control = ControlMemory::mapped(front, CONTROL_AT);
        let mine = sys::shared::reopen(&file, rustix::fs::OFlags::RDWR).map_err(no_queue)?;
        let core = Core {
            peers: Peers::join(mine, &control.rare.joined, on)?,
            control,
            bytes: Bytes::shared(frames, capacity),
            redelivers: preamble.after_death == AfterDeath::Redeliver,
            last_recovery: LastTime::default(),
            arrived_watchers: Watchers::default(),
            room_watchers: Watchers::default(),
        };
        // Messages of the dead are delivered first. If a lock is not available, they are found later.
        let _ = core.recover(&Deadline::now());
        let handles = Arc::new(Handles::shared(core, preamble.when_full));
        Ok(Shared { handles, file })
    }

    /// Returns a sending end. Dropping it does not close the queue.
    pub fn sender(&self) -> Sender {
        self.handles.senders.join();
        Sender::new(self.handles.clone())
    }

    /// Returns a receiving end. Dropping it does not close the queue.
    pub fn receiver(&self) -> Receiver {
        self.handles.receivers.join();
        Receiver::new(self.handles.clone())
    }

    /// How many living processes are attached, this one included; at most 4096 are counted. A process that attaches several times counts
    /// as often.
    pub fn processes(&self) -> usize {
        sys::shared::count_locked_bytes(&self.file, MAX_COUNTED)
    }

    /// The protocol object, for tests.
    #[cfg(test)]
    pub(super) fn core(&self) -> &Core {
        &self.handles.core
    }

    /// The queue's file descriptor, to hand to another process.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
