//! When records go to the output, and how far they have got: the flush period, requests, the end, and the counts.

use super::{Appender, STEP};
use crate::{
    Result,
    store::{
        buffer::Then,
        closing::Closing,
        config::StoreInfo,
        counts::{Stage, Taken, Totals},
        writer::Ending,
    },
};
use std::time::{Duration, Instant};

impl Appender {
    pub(super) fn pending(&self, accepted: u64) -> u64 {
        accepted.saturating_sub(self.writer.counts().written.bytes)
    }

    /// Whether a record could be reserved. Waits up to `limit` for an empty buffer.
    pub fn wait_empty(&mut self, limit: Duration) -> bool {
        self.writer.has_failed() || self.renew(limit, true)
    }

    /// Reports an earlier failure, and keeps the flush period by the caller's clock. A buffer that is due is handed over if the
    /// writer is idle. Otherwise it stays due and continues to fill: while the writer is slow, many short buffers would only take
    /// the room of long ones.
    ///
    /// * With a writer thread ([`StoreConfig::thread`](crate::store::StoreConfig::thread)) calling it is optional: the thread keeps the period by itself.
    /// * Without one, no buffer is handed over before it is full unless the caller ticks, flushes or closes.
    ///
    /// # Errors
    /// As [`reserve`](Appender::reserve).
    #[inline]
    pub fn tick(&mut self, now: u64) -> Result<()> {
        if self.writer.has_failed() {
            self.check(0)?;
        }
        let has_bytes = matches!(&self.current, Some(buffer) if self.lent > 0 || buffer.len() > self.writer.taken());
        self.writer.keep_time(now);
        // In a live store, the rest of the buffer would be lost for records. The thread takes what is due out of it.
        let is_left = self.live.is_some() && self.writer.is_thread();
        if has_bytes && !is_left {
            let since = *self.waiting_since.get_or_insert(now);
            if now.saturating_sub(since) >= self.flush_ns && self.writer_is_idle() {
                self.hand_over_partial();
            }
        }
        Ok(())
    }

    /// Whether all buffers except the current one are empty and have been returned.
    pub(super) fn writer_is_idle(&mut self) -> bool {
        self.writer.empties() + 1 == self.writer.buffers()
    }

    /// When [`tick`](Appender::tick) next has something to do, in the clock's time. `None`: nothing noticed by a tick is waiting.
    /// Call `tick` then if the store has no writer thread; with one, that is optional.
    pub fn due_at(&self) -> Option<u64> {
        let flush = self.waiting_since;
        let flush = flush.map(|since| since.saturating_add(self.flush_ns));
        flush.into_iter().chain(self.writer.sync_due_at()).min()
    }

    /// Hands over the current buffer, full or not. The writer writes it after the buffers before it.
    ///
    /// # Errors
    /// As [`reserve`](Appender::reserve).
    pub fn flush(&mut self) -> Result<()> {
        self.check(0)?;
        self.hand_over_partial();
        Ok(())
    }

    pub(super) fn hand_over_partial(&mut self) {
        let writer = &self.writer;
        if let Some(buffer) = self.current.take_if(|buffer| writer.holds(buffer)) {
            self.hand_over(buffer, false, Then::default());
        }
    }

    /// Waits up to `limit` until everything accepted so far has reached `stage`, and returns the stage reached. That is less than
    /// requested if the time ran out or if the output cannot promise it.
    ///
    /// ```
    /// use forebay::{records::Records, store::{StoreConfig, FileConfig, FileSink, Stage}};
    /// use std::time::Duration;
    /// let path = std::env::temp_dir().join(format!("forebay-doc-wait-{}", std::process::id()));
    /// let mut orders = Records::<u64>::plain(FileSink::create(&path, &FileConfig::default())?, &StoreConfig::default())?;
    /// orders.append(&7)?;
    /// let stage = orders.wait_for(Stage::Durable, Duration::from_secs(60))?;
    /// assert_eq!(stage, Stage::Durable); // from here on, no power cut takes it
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`claim`](Appender::claim); or the sync failed, and it is unknown what the device holds.
    pub fn wait_for(&mut self, stage: Stage, limit: Duration) -> Result<Stage> {
        self.check(0)?;
        let deadline = Instant::now().checked_add(limit);
        let mut is_asked = stage == Stage::Accepted;
        loop {
            let left = deadline.map_or(STEP, |at| at.saturating_duration_since(Instant::now()));
            if !is_asked {
                let then = Then {
                    sync: stage == Stage::Durable,
                    next_output: false,
                };
                is_asked = self.send_off(then, STEP.min(left));
            }
            // Evaluated once: the last buffer may return between two calls.
            let is_over = is_asked && self.all_are_back();
            let reached = match is_over {
                true => self.reached(),
                false => Stage::Accepted,
            };
            if reached >= stage || is_over || left.is_zero() {
                self.check(0)?;
                return Ok(reached);
            }
            self.refuse_to_wait_in_vain()?;
            self.writer.wait_one(STEP.min(left));
            self.check(0)?;
        }
    }

    fn all_are_back(&mut self) -> bool {
        self.writer.empties() + usize::from(self.current.is_some()) == self.writer.buffers()
    }

    /// The stage that everything handed over has reached, once all buffers are back.
    fn reached(&self) -> Stage {
        let counts = self.writer.counts();
        match counts.durable == counts.written {
            true => Stage::Durable,
            false => Stage::Written,
        }
    }

    /// Directs what is accepted from now on to the sink's next output ([`Files`](crate::store::Files)), starting at its first byte. The
    /// writer switches after the last byte of the current output. `false`: no buffer is empty to carry the request; try again
    /// after [`wait_empty`](Appender::wait_empty).
    ///
    /// # Errors
    /// As [`reserve`](Appender::reserve). If there is no next output, or it is not available now, the error is reported like a
    /// failed write: once, and [`retry`](Appender::retry) tries again.
    pub fn next_output(&mut self) -> Result<bool> {
        self.check(0)?;
        let then = Then {
            sync: false,
            next_output: true,
        };
        Ok(self.send_off(then, Duration::ZERO))
    }

    /// Size in bytes of the output that records go to now, including those accepted so far.
    pub fn output_bytes(&self) -> u64 {
        match &self.current {
            // Without heads, the number of pieces a buffer is written in does not matter.
            Some(buffer) if self.layout.head == 0 => {
                self.end + (buffer.len() - self.skipped + self.lent) as u64
            }
            Some(buffer) => self.writer.end_of(buffer),
            None => self.end,
        }
    }

    /// Hands over the current buffer, or an empty one, with a request to carry out after it. `false`: no buffer is empty.
    fn send_off(&mut self, then: Then, limit: Duration) -> bool {
        if self.current.is_none() && !self.renew(limit, true) {
            return false;
        }
        let Some(buffer) = self.current.take() else {
            return false;
        };
        self.hand_over(buffer, false, then);
        if then.next_output {
            self.end = 0;
        }
        true
    }

    /// Retries a failed write from the byte where it stopped, in order and without a gap.
    pub fn retry(&mut self) {
        self.writer.retry();
    }

    /// How full the store is relative to its limit, 0 to 1.
    pub fn fill_level(&mut self) -> f64 {
        let (filling, len) = match &self.current {
            Some(buffer) => {
                let len = buffer.len() - self.skipped + self.lent;
                (1, len.min(self.capacity))
            }
            None => (0, 0),
        };
        let others = self.writer.buffers() - filling;
        let away = others - self.writer.empties().min(others);
        (away as f64 + len as f64 / self.capacity as f64) / self.writer.max_buffers() as f64
    }

    /// The current counts.
    pub fn totals(&self) -> Totals {
        self.writer.counts().totals(&self.taken())
    }

    pub(super) fn taken(&self) -> Taken {
        let current = self.current.as_ref();
        let bytes = self.handed_over_bytes + (self.output_bytes() - self.end);
        Taken {
            records: self.handed_over + current.map_or(0, |buffer| self.records_in(buffer)),
            bytes,
            high_water: self.high_water.max(self.pending(bytes)),
            dropped: self.dropped,
        }
    }

    /// What the store got, which can be less than what was requested.
    pub fn info(&self) -> StoreInfo {
        StoreInfo {
            bytes: self.first_buffers * self.capacity,
            limit_bytes: self.writer.max_buffers() * self.capacity,
            buffer_bytes: self.capacity,
            direct: self.direct,
            in_memory: self.in_memory,
            thread: self.writer.is_thread(),
            huge_pages: self.huge_pages,
        }
    }

    /// Hands over what is left and accepts nothing more.
    pub fn close(mut self) -> Closing {
        Closing {
            taken: self.taken(),
            ending: self.end(),
        }
    }

    fn end(&mut self) -> Ending {
        self.hand_over_partial();
        self.writer.end()
    }
}

impl Drop for Appender {
    /// Writes what is left, like [`close`](Appender::close), and ignores the result.
    fn drop(&mut self) {
        let closing = Closing {
            taken: self.taken(),
            ending: self.end(),
        };
        closing.finish();
    }
}
