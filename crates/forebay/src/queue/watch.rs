//! A descriptor to poll for a queue, for threads that also wait for sockets, timers or signals.
//!
//! The poll loop must arm, **check once more**, and only then sleep. A queue can have any number of watches, each with its own
//! descriptor; all armed ones are signalled at once.
//!
//! ```text
//!   loop {  arm() ── false ─▶ there is something: take it, start over
//!             └──── true ──▶ poll(this descriptor, others) ─▶ start over  }
//! ```
//!
//! An armed watch counts as a sleeper of its [`event`](super::event). Ringing therefore costs nothing extra while no watch is
//! armed, and the ordering is that event's edge RING. The side that clears the armed flag, either the ringer or the watch
//! itself, removes the watch from that count.

use super::{
    event::Event,
    handles::Handles,
    watchers::{Alarm, Watchers},
};
use crate::{
    Error, Result,
    error::Code,
    sync::{Arc, Deadline, Eventfd, Wait, planted},
};
#[cfg(not(loom))]
use std::os::fd::{AsFd, BorrowedFd};

/// What a watch waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum For {
    /// A message.
    Message,
    /// Room for a message of this many bytes.
    Room(usize),
}

/// An alarm among the [`Watchers`] of a queue, until dropped.
pub(super) struct Registration {
    handles: Arc<Handles>,
    alarm: Alarm,
    what: For,
}

impl Registration {
    pub(super) fn new(handles: &Arc<Handles>, alarm: Alarm, what: For) -> Registration {
        let registration = Registration {
            handles: handles.clone(),
            alarm: alarm.clone(),
            what,
        };
        registration.watchers().change(|all| all.push(alarm));
        registration
    }

    fn watchers(&self) -> &Watchers {
        match self.what {
            For::Message => &self.handles.core.arrived_watchers,
            For::Room(_) => &self.handles.core.room_watchers,
        }
    }

    pub(super) fn event(&self) -> &Event {
        match self.what {
            For::Message => &self.handles.core.control.arrived,
            For::Room(_) => &self.handles.core.control.room,
        }
    }

    /// Cancels the request for a signal; one may still arrive.
    pub(super) fn disarm(&self) {
        if self.alarm.take_down() {
            self.event().leave();
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.disarm();
        (self.watchers()).change(|all| all.retain(|one| !one.is(&self.alarm)));
    }
}

/// # Errors
/// The queue is shared with other processes.
pub(super) fn check_local(handles: &Handles, what: &str) -> Result<()> {
    match handles.core.peers.may_die() {
        false => Ok(()),
        true => Err(Error::coded(Code::Unsupported, "queue", format!("{what} a queue between processes")).advise(
            "Wait in a separate thread: the other processes cannot signal a descriptor or task of this one",
        )),
    }
}

/// Wakes a poll loop when a message may be there ([`Receiver::watch`](super::Receiver::watch)), or room for one
/// ([`Sender::watch`](super::Sender::watch)).
///
/// It does not keep the queue open, and it is signalled when the queue closes.
///
/// ```
/// use rustix::event::{poll, PollFd, PollFlags};
/// let (sender, receiver) = forebay::queue::queue(4096)?;
/// std::thread::spawn(move || sender.send(b"hello"));
/// let mut watch = receiver.watch()?;
/// while watch.arm() {
///     poll(&mut [PollFd::new(&watch, PollFlags::IN)], None).unwrap(); // and others
/// }
/// assert_eq!(&*receiver.try_take().unwrap(), b"hello");
/// # Ok::<(), forebay::Error>(())
/// ```
pub struct Watch {
    signal: Arc<Eventfd>,
    registration: Registration,
}

impl Watch {
    /// # Errors
    /// No descriptor is left, or the queue is shared with other processes.
    pub(super) fn new(handles: &Arc<Handles>, what: For) -> Result<Watch> {
        check_local(handles, "watching")?;
        let signal = Arc::new(Eventfd::new()?);
        Ok(Watch {
            registration: Registration::new(handles, Alarm::Descriptor(signal.clone()), what),
            signal,
        })
    }

    /// Asks for a signal when the message or room may be there, or when the queue is closed.
    ///
    /// - True: it is not there yet. Poll [`as_fd`](AsFd::as_fd) **for input** (it is an eventfd), and arm again before the next
    ///   poll.
    /// - False: try to receive or send; the watch was not armed.
    ///
    /// A signal may come early or without cause, and another thread may be faster. The descriptor stays readable until the next
    /// `arm`.
    ///
    /// ```
    /// use forebay::queue::SendError;
    /// let (sender, receiver) = forebay::queue::queue(4096)?;
    /// let mut watch = sender.watch(1000)?;
    /// assert!(!watch.arm()); // there is room
    /// while sender.try_send([0; 1000]) != Err(SendError::Full) {}
    /// assert!(watch.arm());
    /// drop(receiver.try_take()); // makes the descriptor readable
    /// assert!(!watch.arm());
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn arm(&mut self) -> bool {
        self.disarm();
        self.registration.event().join();
        self.signal.arm();
        if !planted("queue-arm-without-second-look") && self.is_there() {
            self.disarm();
            return false;
        }
        true
    }

    /// Cancels the request for a signal; one may still arrive.
    pub fn disarm(&mut self) {
        self.registration.disarm();
    }

    /// Also true if a lock is not available: the caller then tries the operation, which waits for the lock.
    fn is_there(&self) -> bool {
        let core = &self.registration.handles.core;
        let now = Deadline::now();
        let answer = match self.registration.what {
            For::Message => core.has_message(&now),
            For::Room(len) => core.has_room(len, &now),
        };
        answer.unwrap_or(true)
    }

    /// Sleeps as a poll loop does.
    #[cfg(test)]
    pub(super) fn poll(&self) {
        self.signal.sleep();
    }
}

#[cfg(not(loom))]
impl AsFd for Watch {
    /// Becomes readable after [`arm`](Watch::arm) has returned true. Only poll it; do not read from it.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.signal.as_fd()
    }
}

debug!([] Watch, |this| what: this.registration.what);

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::queue::{RecvError, SendError, queue};
    use rustix::event::{PollFd, PollFlags, poll};
    use std::thread;

    /// Waits like a poll loop that has no other descriptors.
    fn wait_for(watch: &mut Watch) {
        while watch.arm() {
            poll(&mut [PollFd::new(&*watch, PollFlags::IN)], None).unwrap();
        }
    }

    #[test]
    fn poll_loops_on_both_ends_pass_every_message_and_hear_of_the_end() {
        const MESSAGES: u64 = if cfg!(forebay_one_view) { 2000 } else { 20_000 };
        let (sender, receiver) = queue(1).unwrap();
        let senders: Vec<_> = (0..2)
            .map(|_| {
                let sender = sender.clone();
                thread::spawn(move || {
                    let mut watch = sender.watch(100).unwrap();
                    for _ in 0..MESSAGES {
                        loop {
                            match sender.try_send([1; 100]) {
                                Ok(()) => break,
                                Err(SendError::Full) => wait_for(&mut watch),
                                // The holder of a lock was preempted for 10 ms.
                                Err(SendError::TimedOut) => {}
                                Err(other) => panic!("{other}"),
                            }
                        }
                    }
                })
            })
            .collect();
        drop(sender);
        let receive = || {
            let mut watch = receiver.watch().unwrap();
            let mut received = 0;
            loop {
                match receiver.try_take() {
                    Ok(message) => received += u64::from(message[0]),
                    Err(RecvError::Closed) => return received,
                    Err(_) => wait_for(&mut watch),
                }
            }
        };
        let received = thread::scope(|scope| {
            let other = scope.spawn(receive);
            receive() + other.join().unwrap()
        });
        senders.into_iter().for_each(|one| one.join().unwrap());
        assert_eq!(received, 2 * MESSAGES);
    }

    #[test]
    fn a_message_that_is_being_filled_is_not_there_yet() {
        let (sender, receiver) = queue(1).unwrap();
        let mut watch = receiver.watch().unwrap();
        let reserved = sender.try_reserve(1).unwrap();
        assert!(watch.arm());
        reserved.commit();
        assert!(!watch.arm());
    }

    #[test]
    fn a_watch_keeps_no_queue_open_and_nothing_of_it_stays() {
        let (sender, receiver) = queue(1).unwrap();
        let mut watch = receiver.watch().unwrap();
        assert!(watch.arm());
        let handles = watch.registration.handles.clone();
        drop(watch);
        assert!(handles.core.arrived_watchers.0.lock().unwrap().is_empty());
        let _watch = receiver.watch().unwrap();
        drop(receiver);
        assert_eq!(sender.try_send(b""), Err(SendError::Closed));
    }
}
