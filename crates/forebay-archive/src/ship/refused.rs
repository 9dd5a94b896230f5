//! Files that the store refuses while it answers: each one waits alone, and longer after each try.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

/// The longest wait before a file is tried again.
const MAX_WAIT: Duration = Duration::from_secs(600);

/// The refused files that are still there, by [`Finished::mark`](super::spool::Finished::mark).
#[derive(Default)]
pub(super) struct Refused(HashMap<String, Refusal>);

struct Refusal {
    tries: u32,
    until: Instant,
}

impl Refused {
    /// Counts a try that failed at `now`. Returns how long the file waits.
    pub(super) fn add(&mut self, mark: String, now: Instant) -> Duration {
        let refusal = self.0.entry(mark);
        let refusal = refusal.or_insert(Refusal {
            tries: 0,
            until: now,
        });
        let wait = Duration::from_secs(1 << refusal.tries.min(31)).min(MAX_WAIT);
        refusal.tries += 1;
        refusal.until = now + wait;
        wait
    }

    /// How often the store refused this file.
    pub(super) fn tries(&self, mark: &str) -> u32 {
        self.0.get(mark).map_or(0, |it| it.tries)
    }

    pub(super) fn is_waiting(&self, mark: &str, now: Instant) -> bool {
        self.0.get(mark).is_some_and(|it| now < it.until)
    }

    /// This file is in the archive. If the store had refused it, the reason may be gone for all others, too: they wait no longer.
    pub(super) fn taken(&mut self, mark: &str) {
        if self.0.remove(mark).is_some() {
            self.0.clear();
        }
    }

    /// Forgets all other files.
    pub(super) fn retain(&mut self, there: &HashSet<String>) {
        self.0.retain(|mark, _| there.contains(mark));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_waits_longer_after_each_try_up_to_ten_minutes_and_until_another_one_is_taken() {
        let mut refused = Refused::default();
        let now = Instant::now();
        let waits: Vec<u64> = (0..40)
            .map(|_| refused.add("a".into(), now).as_secs())
            .collect();
        assert_eq!(waits[..4], [1, 2, 4, 8]);
        assert!(waits[9] == 512 && waits[10..].iter().all(|it| *it == 600));
        assert_eq!(refused.tries("a"), 40);
        assert!(refused.is_waiting("a", now + MAX_WAIT / 2));
        assert!(!refused.is_waiting("a", now + MAX_WAIT) && !refused.is_waiting("b", now));
        refused.taken("b");
        assert!(refused.is_waiting("a", now));
        refused.add("b".into(), now);
        refused.taken("b");
        assert!(!refused.is_waiting("a", now));
    }
}
