//! The port's side of all workers: starts them, takes their batches in file order, and ends them.

use super::{
    batch::Batch,
    buffer_pool::BufferPool,
    config::ParallelConfig,
    decoder_state::Token,
    notify::Notify,
    order::Order,
    worker::{PlainGuess, StopAll, Worker},
    worker_queue::WorkerQueue,
};
use crate::file::{TimeRange, eviction::Eviction};
use forebay::{Error, Result};
use std::{
    fs::File,
    sync::{Arc, Mutex},
    thread,
};

/// What the workers start with.
pub(super) struct Start {
    pub file: File,
    pub begin: u64,
    /// The offset at which reading ends, if the file does not end before.
    pub end: u64,
    pub times: TimeRange,
    pub token: Box<Token>,
    pub config: ParallelConfig,
}

pub(super) struct Workers {
    pub queues: Vec<WorkerQueue>,
    order: Option<Arc<Order>>,
    pub notify: Notify,
    pub buffers: BufferPool,
    /// The window whose batch is next.
    next_window: u64,
    /// Of the file: the offset of the first window, the length of a window, and the length of all.
    span: (u64, u64, u64),
    /// A batch with more bytes is not light.
    max_light: usize,
}

impl Workers {
    /// No workers yet. Batches of up to `max_light` bytes count as light.
    ///
    /// # Errors
    /// No file descriptor is available.
    pub fn new(max_light: usize) -> Result<Self> {
        Ok(Workers {
            queues: Vec::new(),
            order: None,
            notify: Notify::new()?,
            buffers: BufferPool::default(),
            next_window: 0,
            span: (0, 0, 0),
            max_light,
        })
    }

    /// Starts the workers; errors name the file.
    ///
    /// # Errors
    /// No thread or memory is available.
    pub fn start(&mut self, start: Start, name: &str) -> Result<()> {
        let window_bytes = start.config.window_bytes.clamp(1, 1 << 30);
        let len = start.file.metadata().map_or(0, |metadata| metadata.len());
        let len = len.min(start.end);
        self.span = (start.begin, window_bytes as u64, len);
        let eviction = Arc::new(Mutex::new(Eviction::of(&start.file, len, start.begin)));
        let file = Arc::new(start.file);
        let order = self.order.insert(Arc::new(Order::new(start.token)));
        for number in 0..start.config.threads.max(1) {
            let queue = WorkerQueue::new(|rings| {
                let worker = Worker {
                    file: file.clone(),
                    eviction: eviction.clone(),
                    begin: start.begin,
                    end: start.end,
                    times: start.times,
                    window_bytes,
                    order: order.clone(),
                    empty: rings.empty,
                    full: rings.full,
                    notify: self.notify.clone(),
                    buffers: self.buffers.clone(),
                    guess: PlainGuess::default(),
                    _stop_all: StopAll(order.clone(), self.notify.clone()),
                };
                let thread = thread::Builder::new().name(format!("forebay-reader-{number}"));
                let started = thread.spawn(move || worker.run());
                started.map_err(|e| Error::new(name, "starting a thread").because(e))
            })?;
            self.queues.push(queue);
        }
        Ok(())
    }

    /// The bytes that the batches so far cover, and the length of the file.
    pub fn reading(&self) -> Option<(u64, u64)> {
        let (begin, window, len) = self.span;
        let read = begin + self.next_window * window;
        (len > 0).then_some((read.min(len), len))
    }

    /// The next batch in file order, and the number of its worker. `Err`: it has not arrived; whether it still may.
    pub fn next(&mut self) -> std::result::Result<(usize, Batch), bool> {
        let mut may_arrive = false;
        for (number, queue) in self.queues.iter_mut().enumerate() {
            match queue.take(self.next_window) {
                Ok(batch) => {
                    self.next_window += 1;
                    return Ok((number, batch));
                }
                Err(it_may) => may_arrive |= it_may,
            }
        }
        // The port may sleep now, and the workers may be waiting for these batches.
        self.queues.iter_mut().for_each(WorkerQueue::hand_over);
        Err(may_arrive)
    }

    /// Returns a batch that was read to its worker.
    pub fn give_back(&mut self, number: usize, batch: Batch) {
        let is_light = batch.memory() <= self.max_light;
        self.queues[number].give_back(batch, is_light);
    }

    /// Ends the workers: without their rings they stop after their present window.
    pub fn stop(&mut self) {
        if let Some(order) = self.order.take() {
            order.close();
        }
        let threads: Vec<_> = self.queues.drain(..).map(|queue| queue.thread).collect();
        for thread in threads {
            // A thread that panicked has printed its own message.
            let _ = thread.join();
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop();
    }
}
