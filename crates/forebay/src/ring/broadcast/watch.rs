//! A descriptor to poll for the next message of a reader.
//!
//! The producer may be in another process that cannot be trusted with a descriptor of this one. A thread therefore sleeps on the
//! ring's bell, as a reader does that waits.

use super::{Reader, reading::Watching};
use crate::sync::{
    Arc, Follower,
    atomic::{
        AtomicU64,
        Ordering::{Acquire, Release},
    },
};
use std::os::fd::{AsFd, BorrowedFd};

/// Wakes a poll loop when there is a message for a [`Reader`], or when the ring is closed: [`Reader::watch`].
///
/// Each watch has a thread, which sleeps unless it is armed. It ends within 250 ms after the watch was dropped; until then the
/// memory of the ring stays mapped. As with [`recv`](Reader::recv), a producer that dies wakes no reader.
///
/// ```
/// use forebay::ring::broadcast::{BroadcastConfig, Producer};
/// use rustix::event::{poll, PollFd, PollFlags};
/// let mut producer = Producer::new(&BroadcastConfig::default())?;
/// let mut reader = producer.reader()?;
/// let mut watch = reader.watch()?;
/// std::thread::spawn(move || producer.send(&[b"hello"]));
/// while watch.arm(&reader) {
///     poll(&mut [PollFd::new(&watch, PollFlags::IN)], None).unwrap(); // and others
/// }
/// assert_eq!(reader.try_recv(&mut [0; 1500]).unwrap().len, 5);
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Debug)]
pub struct Watch {
    follower: Follower,
    /// Sequence number of the message that is waited for.
    next: Arc<AtomicU64>,
}

impl Reader {
    /// A descriptor for poll loops that wait for a message, or for the end.
    ///
    /// # Errors
    /// No descriptor or no thread is available.
    pub fn watch(&self) -> crate::Result<Watch> {
        let next = Arc::new(AtomicU64::new(self.reading.next));
        let (watching, asked) = (self.reading.watching(), next.clone());
        let wait = move |is_wanted: &dyn Fn() -> bool| {
            watching.wait(|| asked.load(Acquire), is_wanted);
        };
        Ok(Watch {
            follower: Follower::start(wait)?,
            next,
        })
    }
}

impl Watch {
    /// Requests a signal when `reader` has a message to receive, or when the ring is closed.
    ///
    /// - True: there is neither yet. Poll [`as_fd`](AsFd::as_fd) **for input** (it is an eventfd), and arm again before the next poll.
    /// - False: try to receive; the watch was not armed.
    ///
    /// A signal may be early or spurious. The descriptor stays readable until the next `arm`. A reader of another ring than the
    /// watch's gets signals of the wrong ring.
    pub fn arm(&mut self, reader: &Reader) -> bool {
        if reader.reading.is_ready() {
            self.disarm();
            return false;
        }
        self.next.store(reader.reading.next, Release);
        self.follower.arm();
        true
    }

    /// Cancels the request for a signal; one may still arrive.
    pub fn disarm(&mut self) {
        self.follower.disarm();
    }
}

impl AsFd for Watch {
    /// Becomes readable after [`arm`](Watch::arm) has returned true. Only poll it; do not read from it.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.follower.as_fd()
    }
}

const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<(Watch, Watching)>()
};
