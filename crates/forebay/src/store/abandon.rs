//! A switch, and a time limit, by which any thread stops a store.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// Stops a store from any thread at any time: nothing more is written. Clones share one state. What was accepted and not
/// written then counts as lost.
///
/// ```
/// use forebay::store::{Abandon, StoreConfig};
/// let abandon = Abandon::default();
/// let config = StoreConfig { abandon: abandon.clone(), ..StoreConfig::default() };
/// abandon.set();
/// assert!(config.abandon.is_set());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Abandon(Arc<From>);

/// When it takes effect.
#[derive(Debug)]
struct From {
    epoch: Instant,
    /// Nanoseconds after the epoch; `u64::MAX` means never. Relaxed: it publishes nothing but itself.
    at: AtomicU64,
}

impl Default for From {
    fn default() -> Self {
        From {
            epoch: Instant::now(),
            at: AtomicU64::new(u64::MAX),
        }
    }
}

impl Abandon {
    /// Nothing more is written from now on. This cannot be undone.
    pub fn set(&self) {
        self.0.at.store(0, Relaxed);
    }

    /// Nothing more is written once `grace` has passed. Of several calls, the earliest deadline holds.
    ///
    /// ```
    /// # use forebay::store::Abandon;
    /// use std::time::Duration;
    /// let abandon = Abandon::default();
    /// abandon.set_after(Duration::from_secs(3600));
    /// assert!(!abandon.is_set());
    /// abandon.set_after(Duration::ZERO);
    /// assert!(abandon.is_set());
    /// ```
    pub fn set_after(&self, grace: Duration) {
        let at = self.0.epoch.elapsed() + grace;
        let at = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX - 1);
        self.0.at.fetch_min(at, Relaxed);
    }

    /// Whether the deadline has passed, so that nothing more is written.
    pub fn is_set(&self) -> bool {
        match self.0.at.load(Relaxed) {
            u64::MAX => false,
            0 => true,
            at => self.0.epoch.elapsed().as_nanos() >= u128::from(at),
        }
    }
}
