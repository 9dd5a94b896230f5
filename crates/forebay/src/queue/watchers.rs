//! The alarms of one event of a queue: what wakes the poll loops and tasks of this process.

use super::event::Event;
use crate::sync::{Arc, Eventfd, Task, held};
use std::sync::Mutex;

/// Wakes a poll loop or a task.
#[derive(Clone, Debug)]
pub(super) enum Alarm {
    Descriptor(Arc<Eventfd>),
    Task(Arc<Task>),
}

impl Alarm {
    pub(super) fn take_down(&self) -> bool {
        match self {
            Alarm::Descriptor(signal) => signal.take_down(),
            Alarm::Task(task) => task.take_down(),
        }
    }

    fn wake_and(&self, also: impl FnOnce()) {
        match self {
            Alarm::Descriptor(signal) => signal.wake_and(also),
            Alarm::Task(task) => task.wake_and(also),
        }
    }

    pub(super) fn is(&self, other: &Alarm) -> bool {
        match (self, other) {
            (Alarm::Descriptor(one), Alarm::Descriptor(other)) => Arc::ptr_eq(one, other),
            (Alarm::Task(one), Alarm::Task(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

/// The poll loops and tasks that may wait for one event of a queue in this process.
#[derive(Debug, Default)]
pub(super) struct Watchers(pub(super) Mutex<Vec<Alarm>>);

impl Watchers {
    pub(super) fn change(&self, change: impl FnOnce(&mut Vec<Alarm>)) {
        change(&mut held(&self.0));
    }

    /// Signals all armed watches. `ring` of `event` calls it after its fence. The caller holds no lock of the queue: wakers of
    /// tasks run any code.
    #[cold]
    pub(super) fn signal(&self, event: &Event) {
        let mut all = Vec::new();
        self.change(|watchers| all.clone_from(watchers));
        for one in all {
            one.wake_and(|| event.leave());
        }
    }
}
