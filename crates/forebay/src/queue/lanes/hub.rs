//! The receiving end of many lanes. It says what users may do, and looks at all lanes in turn. It imports nothing of other
//! rooms. Read `waiting` next, where it sleeps.
//!
//! ```text
//!          next ▼
//!   lanes: │ 0 │ 1 │ 2 │ 3 │      a look begins behind the lane that was served last: one message each, in turn,
//!            ▲───────────┘        so a peer that floods its lane costs the others one copy a round
//! ```

use super::{
    Config, Ending, Fault, LaneStats, Left, Peer, RecvError, handshake,
    lane::{Found, Inlet},
    link::Link,
    waiting::Waiting,
};
use crate::{Error, queue::limit::Limit, sync::held};
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

/// Takes messages out of the lanes of any number of [`Sender`](super::Sender)s, none of which it need trust.
///
/// Threads may share it: each message goes to one of them, and those of one peer are taken in order. Dropped, or
/// [closed](Hub::close), it says so to all senders.
#[derive(Debug)]
pub struct Hub {
    config: Config,
    lanes: RwLock<Vec<Arc<Lane>>>,
    /// Where the next look begins.
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
    /// What its socket was found to do wrong.
    pub(super) fault: Option<Fault>,
    received_bytes: u64,
    is_over: bool,
}

/// A message that was copied out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes of the message, at the start of the buffer.
    pub len: usize,
    /// Who sent it.
    pub peer: Peer,
    /// How many this peer sent before it.
    pub sequence: u64,
}

impl Hub {
    /// A hub without any peer yet.
    ///
    /// # Errors
    /// A config with a 0 in it; no descriptors left.
    pub fn new(config: &Config) -> crate::Result<Hub> {
        config.validate()?;
        Ok(Hub {
            config: config.clone(),
            lanes: RwLock::default(),
            next: AtomicUsize::new(0),
            accepted: AtomicU64::new(0),
            waiting: Waiting::new()?,
        })
    }

    /// Accepts the sender that has the other end of `socket`, if it makes its lane within `limit` (`None`: for ever).
    ///
    /// Other threads receive meanwhile, from this peer as soon as it is accepted. A peer can hold up this call for the time
    /// limit, and no longer.
    ///
    /// # Errors
    /// There are [as many peers](Config::most_peers) as may be; the peer is gone, wants [too long a
    /// lane](Config::most_lane_bytes), sends anything but what a sender sends (such as memory that it could shrink), or does not do so in
    /// time ([`Error::cause`] is then `TimedOut`); no descriptors, memory or maps left. The socket is closed, and all else is as
    /// before.
    pub fn accept(&self, socket: UnixStream, limit: Option<Duration>) -> crate::Result<Peer> {
        let closed =
            || Error::new("hub", "accepting a peer: it is closed").advise("Make a new one");
        let failed = |error| {
            Error::new("lane", "watching the socket")
                .because(error)
                .advise("Hand over a connected socket, and look at fs.epoll.max_user_watches")
        };
        let mut link = Link::new(socket).map_err(failed)?;
        let has_room = || self.lanes().len() < self.config.most_peers;
        let most = self.config.most_lane_bytes;
        let inlet = handshake::accept(&link, most, has_room, &Limit::new(limit))?;
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
        if lanes.len() >= self.config.most_peers {
            return Err(handshake::too_many()); // others were accepted meanwhile
        }
        let peer = Peer(self.accepted.fetch_add(1, Relaxed)); // Relaxed: only the number matters
        // Last: what is watched is watched until its lane is over, whenever its socket is closed.
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

    /// Copies the next message of any peer into `buffer`, without waiting.
    ///
    /// # Errors
    /// [`Empty`](RecvError::Empty), [`TooSmall`](RecvError::TooSmall), [`Ended`](RecvError::Ended),
    /// [`Closed`](RecvError::Closed).
    pub fn try_recv(&self, buffer: &mut [u8]) -> Result<Received, RecvError> {
        self.recv(buffer, Some(Duration::ZERO))
    }

    /// Copies the next message of any peer into `buffer`, waiting for one for up to `limit` (`None`: for ever).
    ///
    /// # Errors
    /// [`TimedOut`](RecvError::TimedOut), or [`Empty`](RecvError::Empty) where it does not wait;
    /// [`TooSmall`](RecvError::TooSmall): the message stays; [`Ended`](RecvError::Ended): one of the lanes is over, the
    /// others go on; [`Closed`](RecvError::Closed).
    ///
    /// ```
    /// use forebay::queue::lanes::{Config, Ending, Hub, RecvError, Sender};
    /// use std::os::unix::net::UnixStream;
    /// let hub = Hub::new(&Config::default())?;
    /// let (ours, theirs) = UnixStream::pair().unwrap();
    /// let sending = std::thread::spawn(|| {
    ///     Sender::attach(theirs, 4096, None).unwrap().send(b"hello", None).unwrap();
    /// }); // and dropped
    /// let peer = hub.accept(ours, None)?;
    /// let mut buffer = vec![0; 2];
    /// let Err(RecvError::TooSmall { needed, .. }) = hub.recv(&mut buffer, None) else { panic!() };
    /// buffer.resize(needed, 0);
    /// assert_eq!(hub.recv(&mut buffer, None).unwrap().len, 5);
    /// let Err(RecvError::Ended { ending, .. }) = hub.recv(&mut buffer, None) else { panic!() };
    /// assert_eq!(ending, Ending::Closed);
    /// # sending.join().unwrap();
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn recv(&self, buffer: &mut [u8], limit: Option<Duration>) -> Result<Received, RecvError> {
        match self.look(buffer) {
            Some(answer) => answer,
            None => self.wait(buffer, &Limit::new(limit)),
        }
    }

    /// Looks at each lane once, from the one whose turn it is, up to the first that has something.
    pub(super) fn look(&self, buffer: &mut [u8]) -> Option<Result<Received, RecvError>> {
        let lanes = self.lanes();
        let first = self.next.load(Relaxed); // Relaxed: a hint, wherever it points to
        // Lanes at which other threads are come last: they hold them for as long as a copy takes.
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

    /// Ends the lane of `peer`, whatever is in it; the peer is told. Gives its counts, or nothing if it was over before.
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

    /// Counts of all lanes that are not over, in the order in which they were accepted.
    pub fn stats(&self) -> Vec<LaneStats> {
        let lanes = self.lanes();
        (lanes.iter().map(|lane| held(&lane.state).stats(lane.peer))).collect()
    }

    /// Ends all lanes, and all calls that wait or come later: they get [`Closed`](RecvError::Closed).
    pub fn close(&self) {
        self.waiting.close();
        let mut lanes = self.lanes.write().unwrap_or_else(PoisonError::into_inner);
        for lane in lanes.drain(..) {
            held(&lane.state).end(Left::Closed);
        }
    }
}

/// To wait in a poll loop: readable where [`arm`](Hub::arm) has promised so.
impl AsFd for Hub {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waiting.as_fd()
    }
}

impl Lane {
    /// Its state, for us alone; `None` while another thread has it, unless we are patient.
    pub(super) fn hold(&self, patient: bool) -> Option<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(state)) => Some(state.into_inner()),
            Err(TryLockError::WouldBlock) => patient.then(|| held(&self.state)),
        }
    }
}

impl State {
    /// What the lane has for a receiver; nothing where it is empty.
    fn take(&mut self, peer: Peer, buffer: &mut [u8]) -> Option<Result<Received, RecvError>> {
        if self.is_over {
            return None;
        }
        let mut found = self.find(buffer);
        let mut left = Left::Not;
        if found == Ok(Found::Nothing) {
            if !self.link.has_ended() {
                return None;
            }
            // What it sent before it left is there now, if it was not a moment ago.
            left = self.inlet.how_it_left();
            found = self.find(buffer);
        }
        let ending = match found {
            Ok(Found::Message { len, number, rings }) => {
                self.received_bytes += len as u64;
                if rings {
                    self.link.ring();
                }
                return Some(Ok(Received {
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

    /// Whether [`take`](State::take) would have something.
    pub(super) fn has_something(&mut self) -> bool {
        self.fault.is_some() || self.link.has_ended() || self.inlet.filled() != Ok(0)
    }

    /// Ends it, and tells the peer.
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
