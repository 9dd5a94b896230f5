//! The receiving end of many lanes: the public interface, and the round over all lanes. `leading` has the sleeping.
//!
//! ```text
//!          next ▼
//!   lanes: │ 0 │ 1 │ 2 │ 3 │      a round begins after the lane that was served last and takes one message a lane,
//!            ▲───────────┘        so a peer that floods its lane costs the others one copy a round
//! ```

use super::{
    Ending, Fault, LaneStats, LanesConfig, Left, Peer, RecvError, handshake,
    lane::{Found, Inlet},
    link::Link,
    waiting::Waiting,
};
use crate::{
    Error,
    error::Code,
    sync::{Deadline, held, limited},
};
use std::{
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, TryLockError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

/// Receives messages from the lanes of any number of [`Sender`](super::Sender)s, without trusting them.
///
/// Threads may share it: each message goes to one thread, and the messages of one peer are taken in order. Dropping or
/// [closing](Hub::close) it notifies all senders.
#[derive(Debug)]
pub struct Hub {
    config: LanesConfig,
    lanes: RwLock<Vec<Arc<Lane>>>,
    /// Where the next round begins.
    next: AtomicUsize,
    accepted: AtomicU64,
    pub(super) waiting: Waiting,
}

/// One peer's lane.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) peer: Peer,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) inlet: Inlet,
    pub(super) link: Link,
    /// A violation of the protocol that was found on its socket.
    pub(super) fault: Option<Fault>,
    received_bytes: u64,
    is_over: bool,
}

/// Length, sender and number of a message that was copied out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReceivedFrom {
    /// Length of the message in bytes. It is at the start of the buffer.
    pub len: usize,
    /// The sender of the message.
    pub peer: Peer,
    /// How many messages this peer sent before it.
    pub sequence: u64,
}

impl Hub {
    /// Makes a hub without peers.
    ///
    /// # Errors
    /// A 0 in `config`, or no file descriptors left.
    pub fn new(config: &LanesConfig) -> crate::Result<Hub> {
        config.validate()?;
        Ok(Hub {
            config: config.clone(),
            lanes: RwLock::default(),
            next: AtomicUsize::new(0),
            accepted: AtomicU64::new(0),
            waiting: Waiting::new()?,
        })
    }

    /// Accepts the sender at the other end of `socket`, and waits until it has made its lane. A peer can delay this call as long
    /// as it likes: use [`accept_timeout`](Hub::accept_timeout) for peers that are not trusted.
    ///
    /// Other threads receive meanwhile, from the new peer as soon as it is accepted.
    ///
    /// # Errors
    /// After an error, the socket is closed and the hub is unchanged.
    ///
    /// - The hub has its [maximum number of peers](LanesConfig::max_peers), or is closed.
    /// - The peer is gone, or wants [too long a lane](LanesConfig::max_lane_bytes).
    /// - The peer does not follow the handshake, for example by sending memory that it could shrink.
    /// - There are no descriptors, memory or mappings left.
    pub fn accept(&self, socket: UnixStream) -> crate::Result<Peer> {
        self.accept_until(socket, &Deadline::never())
    }

    /// Like [`accept`](Hub::accept), but waits for up to `timeout`.
    ///
    /// # Errors
    /// Those of `accept`; and the peer does not answer in time: [`Error::cause`] is then `TimedOut`.
    pub fn accept_timeout(&self, socket: UnixStream, timeout: Duration) -> crate::Result<Peer> {
        self.accept_until(socket, &Deadline::after(timeout))
    }

    fn accept_until(&self, socket: UnixStream, deadline: &Deadline) -> crate::Result<Peer> {
        let closed = || {
            Error::coded(Code::Closed, "hub", "accepting a peer: it is closed")
                .advise("Make a new one")
        };
        let failed = |error| {
            Error::new("lane", "watching the socket")
                .because(error)
                .advise("Use a connected socket, and check fs.epoll.max_user_watches")
        };
        let mut link = Link::new(socket).map_err(failed)?;
        let has_room = || self.lanes().len() < self.config.max_peers;
        let max = self.config.max_lane_bytes;
        let inlet = handshake::accept(&link, max, has_room, deadline)?;
        link.expect_ring();
        let state = State {
            inlet,
            link,
            fault: None,
            received_bytes: 0,
            is_over: false,
        };
        let mut lanes = self.lanes.write().unwrap_or_else(PoisonError::into_inner);
        if self.waiting.is_closed() {
            return Err(closed());
        }
        if lanes.len() >= self.config.max_peers {
            return Err(handshake::too_many()); // other peers were accepted meanwhile
        }
        let peer = Peer(self.accepted.fetch_add(1, Relaxed)); // Relaxed: only the number matters
        // Last, because the socket then stays watched until its lane ends, even if it closes earlier.
        self.waiting.watch(&state.link, peer).map_err(failed)?;
        let state = Mutex::new(state);
        lanes.push(Arc::new(Lane { peer, state }));
        Ok(peer)
    }

    pub(super) fn lanes(&self) -> RwLockReadGuard<'_, Vec<Arc<Lane>>> {
        self.lanes.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lane(&self, peer: Peer) -> Option<Arc<Lane>> {
        self.lanes().iter().find(|lane| lane.peer == peer).cloned()
    }

    fn remove(&self, peer: Peer) {
        let mut lanes = self.lanes.write().unwrap_or_else(PoisonError::into_inner);
        lanes.retain(|lane| lane.peer != peer);
    }

    limited! {
        /// Copies the next message of any peer into `buffer`, waiting for one if all lanes are empty.
        ///
        /// # Errors
        /// - [`TooSmall`](RecvError::TooSmall): the message stays.
        /// - [`Ended`](RecvError::Ended): one of the lanes has ended; the others continue.
        /// - [`Closed`](RecvError::Closed).
        ///
        /// ```
        /// use forebay::queue::lanes::{Ending, Hub, LanesConfig, RecvError, Sender};
        /// use std::os::unix::net::UnixStream;
        /// let hub = Hub::new(&LanesConfig::default())?;
        /// let (ours, theirs) = UnixStream::pair().unwrap();
        /// let sending = std::thread::spawn(|| {
        ///     Sender::attach(theirs, 4096).unwrap().send("hello").unwrap();
        /// }); // and dropped
        /// let peer = hub.accept(ours)?;
        /// let mut buffer = vec![0; 2];
        /// let Err(RecvError::TooSmall { needed, .. }) = hub.recv(&mut buffer) else { panic!() };
        /// buffer.resize(needed, 0);
        /// assert_eq!(hub.recv(&mut buffer).unwrap().len, 5);
        /// let Err(RecvError::Ended { ending, .. }) = hub.recv(&mut buffer) else { panic!() };
        /// assert_eq!(ending, Ending::Closed);
        /// # sending.join().unwrap();
        /// # Ok::<(), forebay::Error>(())
        /// ```
        fn recv(&self, buffer: &mut [u8]) -> Result<ReceivedFrom, RecvError>,
        |deadline| self.recv_until(buffer, &deadline),
        no wait: try_recv "\n\n# Errors\nThose of `recv`, and [`Empty`](RecvError::Empty).",
        for: recv_timeout "\n\n# Errors\nThose of `recv`, and [`TimedOut`](RecvError::TimedOut).",
        until: recv_deadline
    }

    fn recv_until(
        &self,
        buffer: &mut [u8],
        deadline: &Deadline,
    ) -> Result<ReceivedFrom, RecvError> {
        match self.poll_lanes(buffer) {
            Some(answer) => answer,
            None => self.wait(buffer, deadline),
        }
    }

    /// Checks each lane once, starting with the next one, until one has a message or an error.
    pub(super) fn poll_lanes(&self, buffer: &mut [u8]) -> Option<Result<ReceivedFrom, RecvError>> {
        let lanes = self.lanes();
        let first = self.next.load(Relaxed); // Relaxed: a hint; any value is valid
        // Lanes that other threads hold come last: these threads hold them while they copy a message.
        for patient in [false, true] {
            let mut all_seen = true;
            for step in 0..lanes.len() {
                let index = first.wrapping_add(step) % lanes.len();
                let lane = &lanes[index];
                let Some(mut state) = lane.hold(patient) else {
                    all_seen = false;
                    continue;
                };
                let Some(answer) = state.take(lane.peer, buffer) else {
                    continue;
                };
                self.next.store(index + 1, Relaxed);
                if state.is_over {
                    self.waiting.unwatch(&state.link);
                    drop(state);
                    let peer = lane.peer;
                    drop(lanes);
                    self.remove(peer);
                }
                return Some(answer);
            }
            if all_seen {
                break;
            }
        }
        None
    }

    /// Ends the lane of `peer`, even if it holds messages, and notifies the peer. Returns the lane's counts, or `None` if it
    /// had already ended.
    pub fn expel(&self, peer: Peer) -> Option<LaneStats> {
        let lane = self.lane(peer)?;
        let mut state = held(&lane.state);
        let stats = (!state.is_over).then(|| state.stats(peer));
        state.end(Left::Expelled);
        self.waiting.unwatch(&state.link);
        drop(state);
        self.remove(peer);
        stats
    }

    /// The counts of all open lanes, in the order in which they were accepted.
    pub fn stats(&self) -> Vec<LaneStats> {
        let lanes = self.lanes();
        (lanes.iter().map(|lane| held(&lane.state).stats(lane.peer))).collect()
    }

    /// Ends all lanes. Waiting and later calls return [`Closed`](RecvError::Closed).
    pub fn close(&self) {
        self.waiting.close();
        let mut lanes = self.lanes.write().unwrap_or_else(PoisonError::into_inner);
        for lane in lanes.drain(..) {
            held(&lane.state).end(Left::Closed);
        }
    }
}

/// For poll loops: readable after [`arm`](Hub::arm) has returned true.
impl AsFd for Hub {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waiting.as_fd()
    }
}

impl Lane {
    /// Locks its state. If another thread holds it, waits if `patient`, and returns `None` otherwise.
    pub(super) fn hold(&self, patient: bool) -> Option<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(state)) => Some(state.into_inner()),
            Err(TryLockError::WouldBlock) => patient.then(|| held(&self.state)),
        }
    }
}

impl State {
    /// The next message or error of the lane; `None` if it is empty.
    fn take(&mut self, peer: Peer, buffer: &mut [u8]) -> Option<Result<ReceivedFrom, RecvError>> {
        if self.is_over {
            return None;
        }
        let mut found = self.find(buffer);
        let mut left = Left::Not;
        if found == Ok(Found::Nothing) {
            if !self.link.has_ended() {
                return None;
            }
            // The peer may have sent messages just before it left: they are visible now.
            left = self.inlet.how_it_left();
            found = self.find(buffer);
        }
        let ending = match found {
            Ok(Found::Message { len, number, rings }) => {
                self.received_bytes += len as u64;
                if rings {
                    self.link.ring();
                }
                return Some(Ok(ReceivedFrom {
                    len,
                    peer,
                    sequence: number,
                }));
            }
            Ok(Found::Longer(needed)) => return Some(Err(RecvError::TooSmall { peer, needed })),
            Ok(Found::Nothing) => left.ending(),
            Err(fault) => Ending::Broken(fault),
        };
        let stats = self.stats(peer);
        self.end(match ending {
            Ending::Broken(_) => Left::Expelled,
            _ => Left::Closed,
        });
        Some(Err(RecvError::Ended {
            peer,
            ending,
            stats,
        }))
    }

    fn find(&mut self, buffer: &mut [u8]) -> Result<Found, Fault> {
        match self.fault {
            Some(fault) => Err(fault),
            None => self.inlet.take(buffer),
        }
    }

    /// Whether [`take`](State::take) would return a message or an error.
    pub(super) fn has_something(&mut self) -> bool {
        self.fault.is_some() || self.link.has_ended() || self.inlet.filled() != Ok(0)
    }

    /// Ends the lane, and notifies the peer.
    fn end(&mut self, left: Left) {
        if !self.is_over {
            self.is_over = true;
            self.inlet.leave(left);
            self.link.shut();
        }
    }

    fn stats(&mut self, peer: Peer) -> LaneStats {
        LaneStats {
            peer,
            received: self.inlet.received(),
            received_bytes: self.received_bytes,
            queued_bytes: self.inlet.filled_bytes(),
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.end(Left::Closed);
    }
}
