//! How the threads that receive from a hub sleep: one of them on all sockets, on behalf of the others.
//!
//! ```text
//!  leader:     arm all lanes ─▶ (fence) ─▶ check ─▶ sleep on all sockets ─▶ take the rings ─▶ arm … check ─▶ resign ─▶ next
//!  followers:  wait until no thread leads ────────────────────────────────────────────────────────────────▶ check, arm, …
//! ```
//!
//! A ring announces something, but not how much, and each peer rings once for each sleep. So only the leader takes rings; it
//! then arms and checks again. A leader that resigns lets the next thread lead, which does the same. Invariant: if there is
//! something to take and a thread waits, then one thread is awake.

use super::{
    Hub, Peer, RecvError,
    hub::{Lane, ReceivedFrom},
    lane,
    sender::YIELDS,
};
use crate::{
    sync::{Deadline, spin_then_yield},
    sys::passing::Happening,
};
use std::time::Duration;

/// The only thread that takes rings and sleeps on the sockets, until dropped.
struct Leader<'a> {
    hub: &'a Hub,
    is_armed: bool,
}

impl Leader<'_> {
    /// Requests a ring from all peers for what they send from now on. The caller then checks all lanes.
    fn arm(&mut self) {
        for lane in self.hub.lanes().iter() {
            if let Some(mut state) = lane.hold(true) {
                state.inlet.arm();
                state.link.expect_ring();
            }
        }
        self.is_armed = true;
        lane::fence_after_arming();
    }

    /// Waits for up to `limit` until a peer rings or is gone, and handles it.
    fn listen(&self, limit: Option<Duration>) {
        for happening in self.hub.waiting.listen(limit) {
            self.handle(happening);
        }
    }

    fn handle(&self, happening: Happening) {
        let Some(lane) = self.hub.lane(Peer(happening.number)) else {
            return; // the nudge, or a lane that has just ended
        };
        let Some(mut state) = lane.hold(true) else {
            return;
        };
        state.fault = state.fault.or(state.link.drain_rings().err());
        if happening.hung_up {
            state.link.ends();
        }
        if state.fault.is_some() || state.link.has_ended() {
            // The hang-up would be reported again and again, until all its messages are taken.
            self.hub.waiting.unwatch(&state.link);
        }
    }

    fn disarm(&mut self) {
        for lane in self.hub.lanes().iter() {
            if let Some(state) = lane.hold(true) {
                state.inlet.disarm();
            }
        }
        self.is_armed = false;
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        if self.is_armed {
            self.disarm();
        }
        self.hub.waiting.resign();
    }
}

impl Hub {
    /// Waits until no thread leads, then leads. `None` if the deadline passes first, or the hub is closed.
    fn lead(&self, deadline: &Deadline) -> Option<Leader<'_>> {
        self.waiting.lead(deadline).then(|| Leader {
            hub: self,
            is_armed: false,
        })
    }

    #[cold]
    pub(super) fn wait(
        &self,
        buffer: &mut [u8],
        deadline: &Deadline,
    ) -> Result<ReceivedFrom, RecvError> {
        let waits = deadline.may_wait();
        if waits
            && let Some(answer) =
                spin_then_yield(YIELDS, deadline, || match self.waiting.is_closed() {
                    true => None,
                    false => self.poll_lanes(buffer),
                })
        {
            return answer;
        }
        let mut leader = self.lead(deadline);
        loop {
            if self.waiting.is_closed() {
                return Err(RecvError::Closed);
            }
            let left = deadline.left();
            let is_over = left == Some(Duration::ZERO);
            if let Some(leader) = &mut leader {
                if is_over {
                    leader.listen(left); // detects peers that are gone
                } else {
                    leader.arm();
                }
            }
            if let Some(answer) = self.poll_lanes(buffer) {
                return answer;
            }
            match &leader {
                Some(leader) if !is_over => leader.listen(left),
                _ if waits => return Err(RecvError::TimedOut),
                _ => return Err(RecvError::Empty),
            }
        }
    }

    /// Requests a signal for the next message or the end of a peer.
    ///
    /// - True: there is neither yet. Poll [`as_fd`](std::os::fd::AsFd::as_fd) for input, and arm again before the next poll.
    /// - False: receive, until there is nothing left.
    ///
    /// A signal may come early or without cause. Only one thread may use it, while no other thread receives.
    ///
    /// ```
    /// use forebay::queue::lanes::{LanesConfig, Hub, Sender};
    /// use rustix::event::{PollFd, PollFlags, poll};
    /// use std::os::unix::net::UnixStream;
    /// let hub = Hub::new(&LanesConfig::default())?;
    /// let (ours, theirs) = UnixStream::pair().unwrap();
    /// std::thread::spawn(|| Sender::attach(theirs, 1).unwrap().send(b"hello"));
    /// hub.accept(ours)?;
    /// if hub.arm() {
    ///     poll(&mut [PollFd::new(&hub, PollFlags::IN)], None).unwrap(); // and others
    /// }
    /// assert_eq!(hub.try_recv(&mut [0; 5]).unwrap().len, 5);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn arm(&self) -> bool {
        let Some(mut leader) = self.lead(&Deadline::now()) else {
            return !self.waiting.is_closed();
        };
        leader.listen(Some(Duration::ZERO));
        leader.arm();
        leader.is_armed = false; // stays armed for as long as no other thread leads
        let has_something =
            |lane: &Lane| (lane.hold(true)).is_some_and(|mut state| state.has_something());
        let is_quiet = !self.lanes().iter().any(|lane| has_something(lane));
        is_quiet && !self.waiting.is_closed()
    }
}
