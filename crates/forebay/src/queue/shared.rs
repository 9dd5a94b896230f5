//! A queue between processes that trust each other: it survives the death of any of them at any instruction.
//!
//! [`create`] makes one under a name and [`attach`] joins it; [`create_nameless`] and [`Shared::from_descriptor`] do so
//! by a file descriptor that travels by `SCM_RIGHTS` or inheritance. The ends are the same [`Sender`] and [`Receiver`] as
//! between threads. This file knows how the memory is laid out; it imports `memory`, `sync` and `sys`. Read `peers`
//! next, then `recover`.
//!
//! ```text
//!  file:  │ magic, version, sizes, choices │ positions, counts, locks, events │ frames …                     │
//!         0                                128                                whole pages   + capacity = end, mapped twice
//!  bytes of the file that are locked: one for each process that is attached, by its number
//! ```
//!
//! Peers that keep to the protocol may be killed or stopped at any point. Among them:
//!
//! - Every message that was committed is delivered, in order, but for those that are delivered again.
//! - A message that was being filled is passed over and counted ([`Stats::torn`](super::Stats::torn)).
//! - A message that a dead receiver held is given to another receiver and marked, or counted, as chosen ([`AfterDeath`]).
//! - No call outlasts its time limit by more than 10 ms.
//!
//! **Delivery is at least once, without an acknowledgement.** A message counts as received when a receiver takes it, and it is
//! done when the [`Message`](super::Message) or [`Burst`](super::Burst) is dropped. A receiver that dies in between has it
//! delivered again, even if its work was finished; work that must not be done twice needs a check of its own, such as the
//! message's number. [`Receiver::recv`] copies the message and drops it before it returns: what dies with the receiver after
//! that is not delivered again. With [`AfterDeath::Abandon`] delivery is at most once.
//!
//! What the dead held is found when a process attaches, when a receiver finds the queue empty, and when a sender finds it
//! full. If no other process was attached at that time, it waits for the next one that attaches: under a name until that is
//! [removed](remove), without a name until the last descriptor is closed.
//!
//! A process that writes into the memory at random can stop the queue and spoil messages. Every position and length is checked,
//! so that it cannot make others touch memory outside the queue; they get `Broken`. The length of a nameless queue is sealed.
//! **The file of a named queue must not be cut** while it is in use: a process that touches what is gone dies of `SIGBUS`. Only
//! its owner can do that, since [`attach`] accepts no other file. The length is checked when a process attaches.
//!
//! The ends cannot be [watched](super::Watch) by poll loops: a descriptor would have to reach every process that ever attaches.
//!
//! # Misuse
//!
//! What the [queue's page](super#misuse) says holds here, too, and:
//!
//! - A forked child must not use or drop the ends, the messages or the [`Shared`] that it inherited. It may [`attach`] anew.
//! - A peer counts as dead when its process and all children that it forked without `exec` have left or ended. A forked child
//!   that lives on keeps what its dead parent held.
//! - A forgotten (`mem::forget`) message or reservation is found when the process ends or has dropped all ends.
//! - A forgotten end keeps the process attached until it ends.

use super::{
    Receiver, Sender, WhenFull,
    bytes::Bytes,
    control::Control,
    core::Core,
    handles::Handles,
    home::Home,
    limit::{LastTime, Limit},
    peers::Peers,
    watch::Watchers,
};
use crate::{
    Error, Result, memory,
    sync::Arc,
    sys::{self, Advice, Mapping},
};
use std::{
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::{FileExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    time::Duration,
};

/// Where names are: a file system in memory.
const FOLDER: &str = "/dev/shm";
const MAGIC: [u8; 8] = *b"forebayQ";
const VERSION: u32 = 2;
/// Where the shared words begin.
const CONTROL_AT: usize = 128;
/// A file that is not, or no longer, what it should be.
const NO_QUEUE: &str = "Attach to a queue that this version of forebay has made, on this machine";

/// What becomes of a message that a receiver held when it died.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterDeath {
    /// Another receiver gets it, marked by [`Message::is_redelivered`](super::Message::is_redelivered). So it may be worked on
    /// twice.
    ///
    /// It is delivered before all messages that nobody has taken yet when the death is found. That is at the latest when the
    /// next process attaches, a receiver finds the queue empty, or a sender finds it full. Until then, receivers that are
    /// attached already get later messages first.
    #[default]
    Redeliver,
    /// Nobody gets it; it is counted: [`Stats::abandoned`](super::Stats::abandoned). So it may be half processed.
    Abandon,
}

/// What a queue between processes is to be like. Who attaches finds it as it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Bytes of memory for messages, rounded up to whole pages: at least 1; 1 MiB by default.
    pub capacity_bytes: usize,
    /// What senders do that find the queue full; they wait by default.
    pub when_full: WhenFull,
    /// What becomes of a message that a receiver held when it died.
    pub after_death: AfterDeath,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            capacity_bytes: 1 << 20,
            when_full: WhenFull::default(),
            after_death: AfterDeath::default(),
        }
    }
}

/// A queue that this process is attached to. Dropping it and all its ends detaches; the queue stays for the others, and a
/// named one until it is [removed](remove).
#[derive(Debug)]
pub struct Shared {
    handles: Arc<Handles>,
    /// A description without locks, to hand over.
    file: File,
}

/// Makes a queue under `name`, readable and writable for this user only, and attaches to it.
///
/// A name has 1 to 100 letters, digits, dots, dashes and underscores; its file is `/dev/shm/forebay.NAME`.
///
/// # Errors
/// There is one of that name, or the name is none, or there is no memory for it.
///
/// ```
/// use forebay::queue::shared::{self, Config};
/// let name = format!("doc-{}", std::process::id());
/// let queue = shared::create(&name, &Config::default())?;
/// queue.sender().send(b"from one process", None).unwrap();
/// let other = shared::attach(&name)?; // as another process does
/// assert_eq!(&*other.receiver().take(None).unwrap(), b"from one process");
/// shared::remove(&name)?;
/// # Ok::<(), forebay::Error>(())
/// ```
pub fn create(name: &str, config: &Config) -> Result<Shared> {
    let path = path_of(name)?;
    let on = path.display().to_string();
    let failed = |error| Error::new(&on, "making a queue").because(error);
    let file = make(&on, config, |len| {
        sys::shared::file_without_name_yet(Path::new(FOLDER), len)
    })?;
    // Named only now, so that nobody finds half of it, and nothing stays if we are killed before.
    sys::shared::name(&file, &path).map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::AlreadyExists => "Attach to it, or remove it first",
            _ => "Check that /dev/shm is there and writable",
        };
        failed(error).advise(advice)
    })?;
    Shared::join(file, &on)
}

/// Makes a queue without a name, and attaches to it; others do by its [descriptor](Shared::descriptor).
///
/// # Errors
/// There is no memory for it.
pub fn create_nameless(config: &Config) -> Result<Shared> {
    const ON: &str = "queue";
    Shared::join(make(ON, config, sys::shared::nameless_file)?, ON)
}

/// Attaches to the queue of that name.
///
/// # Errors
/// - There is none: [`Error::cause`] is then `NotFound`.
/// - It is not a regular file, it belongs to another user than the effective one, or its permissions let others open it. The
///   error says whose it is.
/// - It is not a queue of this version and machine, or the file was cut.
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
                .advise("Create it first, as this user; `ls -l /dev/shm` shows those there are")
        })?;
    let answer = sys::shared::is_private(&file).map_err(|error| failed(error).advise(NO_QUEUE))?;
    answer.map_err(|foreign| {
        Error::new(&on, format!("attaching to a queue: {foreign}"))
            .advise("A queue is for its owner only: remove this file, or choose another name")
    })?;
    Shared::join(file, &on)
}

/// Takes the name away from a queue. Those who are attached stay so; its memory goes with the last one.
///
/// # Errors
/// There is none of that name, or it is another user's.
pub fn remove(name: &str) -> Result<()> {
    let path = path_of(name)?;
    fs::remove_file(&path).map_err(|error| {
        Error::new(path.display().to_string(), "removing a queue")
            .because(error)
            .advise("Check the name with `ls -l /dev/shm`")
    })
}

/// Whether a queue can be called so: 1 to 100 ASCII letters, digits, dots, dashes and underscores.
///
/// ```
/// use forebay::queue::shared;
/// assert!(shared::check_name("jobs.2026").is_ok());
/// assert!(shared::check_name("../jobs").is_err());
/// ```
///
/// # Errors
/// It cannot.
pub fn check_name(name: &str) -> Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty() || name.len() > 100 || !name.chars().all(is_plain) {
        return Err(
            Error::new(name.escape_debug().to_string(), "naming a queue")
                .advise("Use 1 to 100 letters, digits, dots, dashes and underscores"),
        );
    }
    Ok(())
}

fn path_of(name: &str) -> Result<PathBuf> {
    check_name(name)?;
    Ok(Path::new(FOLDER).join(format!("forebay.{name}")))
}

/// Bytes in front of the frames.
fn front() -> usize {
    (CONTROL_AT + size_of::<Control>()).next_multiple_of(sys::page_size())
}

/// What the file says of itself, at its start.
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

    /// `None` where it is none of this version and machine.
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

/// Makes the file of a queue, by `file` of so many bytes.
fn make(on: &str, config: &Config, file: impl FnOnce(usize) -> io::Result<File>) -> Result<File> {
    memory::check_all(on, config.capacity_bytes)?;
    let capacity = config.capacity_bytes.next_multiple_of(sys::page_size());
    let failed = |error| {
        let failed = Error::new(on, format!("making a queue of {capacity} bytes")).because(error);
        failed.advise("Ask for less, or make room in /dev/shm")
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
    /// Attaches to a queue by its descriptor, which another process got from [`descriptor`](Shared::descriptor).
    ///
    /// # Errors
    /// It is no queue of this version.
    ///
    /// ```
    /// use forebay::queue::shared::{self, Config, Shared};
    /// let queue = shared::create_nameless(&Config::default())?;
    /// let descriptor = queue.descriptor().try_clone_to_owned().unwrap(); // sent, as it were
    /// let other = Shared::from_descriptor(descriptor)?;
    /// other.sender().send(b"back", None).unwrap();
    /// assert_eq!(queue.receiver().take(None).unwrap().len(), 4);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn from_descriptor(descriptor: OwnedFd) -> Result<Shared> {
        Shared::join(descriptor.into(), "queue")
    }

    /// `file` becomes the one to hand over; we work with a description of our own.
    fn join(file: File, on: &str) -> Result<Shared> {
        let failed = |error: io::Error| Error::new(on, "attaching to a queue").because(error);
        let no_queue = |error| failed(error).advise(NO_QUEUE);
        let len = file.metadata().map_err(no_queue)?.len();
        let mut preamble = [0; Preamble::BYTES];
        file.read_exact_at(&mut preamble, 0).map_err(no_queue)?;
        let preamble = Preamble::decode(&preamble, len)
            .ok_or_else(|| Error::new(on, "attaching to a queue").advise(NO_QUEUE))?;
        let capacity = preamble.capacity as usize;

        let mapped = |error| memory::refused(on, capacity, error);
        let front = Mapping::of_file(&file, front()).map_err(mapped)?;
        let frames = Mapping::mirror_of_file(&file, front.len(), capacity).map_err(mapped)?;
        for mapping in [&front, &frames] {
            let all = 0..mapping.len();
            mapping
                .advise(all.clone(), Advice::DontFork)
                .map_err(mapped)?;
            memory::populate(on, mapping, all)?;
        }
        let control = Home::mapped(front, CONTROL_AT);
        let mine = sys::shared::reopen(&file).map_err(no_queue)?;
        let core = Core {
            peers: Peers::join(mine, &control.rare.joined, on)?,
            control,
            bytes: Bytes::shared(frames, capacity),
            redelivers: preamble.after_death == AfterDeath::Redeliver,
            last_burial: LastTime::default(),
            arrived_watchers: Watchers::default(),
            room_watchers: Watchers::default(),
        };
        // What the dead held comes first. Where a lock is not available, it comes later.
        let _ = core.bury(&Limit::new(Some(Duration::ZERO)));
        let handles = Arc::new(Handles::shared(core, preamble.when_full));
        Ok(Shared { handles, file })
    }

    /// A sending end. The queue stays open when it is dropped.
    pub fn sender(&self) -> Sender {
        self.handles.senders.join();
        Sender::new(self.handles.clone())
    }

    /// A receiving end. The queue stays open when it is dropped.
    pub fn receiver(&self) -> Receiver {
        self.handles.receivers.join();
        Receiver::new(self.handles.clone())
    }

    /// The protocol's side, for tests.
    #[cfg(test)]
    pub(super) fn core(&self) -> &Core {
        &self.handles.core
    }

    /// The queue's file, to hand over to another process.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
