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

#[cfg(any(feature = "shared", loom))]
use super::waiting::SLICE;
use super::{
    core::Core,
    event::Event,
    handles::Handles,
    watchers::{Alarm, Watchers},
};
#[cfg(all(feature = "shared", not(loom)))]
use crate::sync::Follower;
use crate::{
    Result,
    sync::{Arc, Deadline, Eventfd, Wait, planted},
};
#[cfg(not(loom))]
use std::os::fd::{AsFd, BorrowedFd};
#[cfg(any(feature = "shared", loom))]
use std::time::Instant;
#[cfg(all(feature = "shared", not(loom)))]
use std::{thread, time::Duration};

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

/// Wakes a poll loop when a message may be there ([`Receiver::watch`](super::Receiver::watch)), or room for one
/// ([`Sender::watch`](super::Sender::watch)).
///
/// It does not keep the queue open, and it is signalled when the queue closes.
///
/// The other processes of a [shared](super::shared) queue cannot signal a descriptor of this one. A watch of such a queue therefore
/// has a thread, which sleeps until the watch is armed, and then waits like a sender or receiver. It ends within 50 ms after the
/// watch was dropped; until then this process stays attached.
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
    handles: Arc<Handles>,
    what: For,
    by: By,
}

/// How the signal of a watch comes about.
enum By {
    /// Threads of this process send it.
    Ringers(Arc<Eventfd>, Registration),
    /// A thread that waits for the other processes sends it.
    #[cfg(all(feature = "shared", not(loom)))]
    Follower(Follower),
}

impl Watch {
    /// # Errors
    /// No descriptor is left, or no thread.
    pub(super) fn new(handles: &Arc<Handles>, what: For) -> Result<Watch> {
        let by = match handles.core.peers.may_die() {
            #[cfg(all(feature = "shared", not(loom)))]
            true => {
                let theirs = handles.clone();
                By::Follower(Follower::start(move |is_wanted| {
                    theirs.core.follow(&|| what, is_wanted);
                })?)
            }
            _ => {
                let signal = Arc::new(Eventfd::new()?);
                let alarm = Alarm::Descriptor(signal.clone());
                By::Ringers(signal, Registration::new(handles, alarm, what))
            }
        };
        Ok(Watch {
            handles: handles.clone(),
            what,
            by,
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
        match &self.by {
            By::Ringers(signal, registration) => {
                registration.event().join();
                signal.arm();
            }
            #[cfg(all(feature = "shared", not(loom)))]
            By::Follower(follower) => follower.arm(),
        }
        if !planted("queue-arm-without-second-look") && self.handles.core.is_there(self.what) {
            self.disarm();
            return false;
        }
        true
    }

    /// Cancels the request for a signal; one may still arrive.
    pub fn disarm(&mut self) {
        match &self.by {
            By::Ringers(_, registration) => registration.disarm(),
            #[cfg(all(feature = "shared", not(loom)))]
            By::Follower(follower) => follower.disarm(),
        }
    }

    /// Sleeps as a poll loop does.
    #[cfg(test)]
    pub(super) fn poll(&self) {
        match &self.by {
            By::Ringers(signal, _) => signal.sleep(),
            #[cfg(all(feature = "shared", not(loom)))]
            By::Follower(_) => unreachable!("models and tests poll within one process"),
        }
    }
}

impl Core {
    /// Whether the message or the room is there. Also true if a lock is not available: the caller then tries the operation, which
    /// waits for the lock.
    fn is_there(&self, what: For) -> bool {
        let now = Deadline::now();
        let answer = match what {
            For::Message => self.has_message(&now),
            For::Room(len) => self.has_room(len, &now),
        };
        answer.unwrap_or(true)
    }

    /// Blocks until it may be there or `is_wanted` is false, and passes the signals on that it got: it takes nothing itself. `what` may
    /// change between rooms of different lengths.
    #[cfg(any(feature = "shared", loom))]
    pub(super) fn follow(&self, what: &dyn Fn() -> For, is_wanted: &dyn Fn() -> bool) {
        let is_for_messages = what() == For::Message;
        let event = match is_for_messages {
            true => &self.control.arrived,
            false => &self.control.room,
        };
        let pass_on = || match is_for_messages {
            _ if planted("queue-follow-keeps-the-signal") => {}
            true => self.ring_arrived(),
            false => self.ring_room(),
        };
        // In a model, a signal that is lost must not be made up for by a slice that ends.
        let limit = (!cfg!(loom)).then_some(SLICE);
        event.join();
        while is_wanted() && !self.is_there(what()) {
            let slept = Instant::now();
            event.sleep(limit);
            self.recover_sometimes(&Deadline::now());
            // Room that is too small for this watch may suffice for a sender. The pause gives that one the time to take its signal.
            if !is_for_messages && slept.elapsed() < SLICE && !self.is_there(what()) {
                event.leave();
                pass_on();
                #[cfg(not(loom))]
                thread::sleep(Duration::from_millis(1));
                event.join();
            }
        }
        event.leave();
        pass_on();
    }
}

#[cfg(not(loom))]
impl AsFd for Watch {
    /// Becomes readable after [`arm`](Watch::arm) has returned true. Only poll it; do not read from it.
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.by {
            By::Ringers(signal, _) => signal.as_fd(),
            #[cfg(feature = "shared")]
            By::Follower(follower) => follower.as_fd(),
        }
    }
}

debug!([] Watch, |this| what: this.what);

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
        let handles = watch.handles.clone();
        drop(watch);
        assert!(handles.core.arrived_watchers.0.lock().unwrap().is_empty());
        let _watch = receiver.watch().unwrap();
        drop(receiver);
        assert_eq!(sender.try_send(b""), Err(SendError::Closed));
    }
}
