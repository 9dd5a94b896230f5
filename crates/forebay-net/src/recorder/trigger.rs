//! Triggers, and how they reach the recorder's thread.

use crate::{
    filter::{Filter, FrameProgram, Programs},
    port::{Frame, Interface},
    session::Summary,
};
use forebay::time::Clock;
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    mpsc::{self, Receiver, Sender},
};

/// Triggers a recorder, from any thread.
#[derive(Clone, Debug)]
pub struct Trigger {
    pending: Arc<Mutex<Pending>>,
    pub(super) messages: Sender<Message>,
    clock: Clock,
}

impl Trigger {
    /// A trigger, and what its recorder's thread reads.
    pub(super) fn new() -> (Trigger, Receiver<Message>) {
        let (messages, inbox) = mpsc::channel();
        let trigger = Trigger {
            pending: Arc::default(),
            messages,
            clock: Clock::real(),
        };
        (trigger, inbox)
    }

    /// Triggers at this time, in nanoseconds since the Unix epoch. Never waits for a file.
    pub fn pull(&self, at_ns: u64) {
        let is_first = {
            let mut pending = self.pending();
            pending.add(at_ns);
            pending.count == 1
        };
        if is_first {
            let _ = self.messages.send(Message::Triggered); // it fails after the end
        }
    }

    pub(super) fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Triggers now.
    pub fn pull_now(&self) {
        self.pull(self.clock.wall_now());
    }

    /// A closure for [`Session::each`](crate::session::Session::each): triggers at each packet that matches `filter`, with the packet's time.
    pub fn on_match(self, filter: Filter) -> impl FnMut(&Frame<'_>, &Interface) + Send + 'static {
        let mut programs = Programs::new(filter);
        let mut last: Option<FrameProgram> = None;
        move |frame, interface| {
            let same = last.take().filter(|it| it.is_of(interface));
            let program = last.insert(same.unwrap_or_else(|| programs.of_interface(interface)));
            if program.accepts(frame) {
                self.pull(frame.time_ns);
            }
        }
    }
}

/// Triggers that the recorder's thread has not taken yet: their number, and the times of the earliest and the latest one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pending {
    pub count: u64,
    pub first_ns: u64,
    pub last_ns: u64,
}

impl Pending {
    fn add(&mut self, at_ns: u64) {
        self.first_ns = match self.count {
            0 => at_ns,
            _ => self.first_ns.min(at_ns),
        };
        self.last_ns = self.last_ns.max(at_ns);
        self.count += 1;
    }
}

#[derive(Debug)]
pub(super) enum Message {
    Triggered,
    /// A session has ended.
    Written(u64, Option<Box<Summary>>),
    Finish,
}
