//! The way from the thread that takes buffers to the one that returns them: the same for all sides, so that what differs is theirs.
//!
//! A ring with room for 256 buffers and a position for each end, alone on its lines; each end keeps what it last saw of the other's.
//! `harness.h` has the same in C.
//!
//! ```text
//!   taker ── buffers ──▶ │ place │ place │ … │ ──▶ returner        tail: the taker's, head: the returner's
//! ```
//!
//! | Edge | Release | Acquire | What becomes visible |
//! |---|---|---|---|
//! | SENT | `send`: the store to `tail` | `receive`: the load that sees it | the items below it |
//! | ROOM | `receive`: the store to `head` | `send`: the load that sees it | that the items below it have been taken out |
#![allow(unsafe_code)]

use forebay::sync::CachePadded;
use std::{
    cell::UnsafeCell,
    mem::MaybeUninit,
    sync::{
        Arc,
        atomic::{
            AtomicUsize,
            Ordering::{Acquire, Release},
        },
    },
};

/// Buffers that there is room for.
const ROOM: usize = 256;

/// What goes over a link.
pub trait Travels: Send {
    /// Buffers that it stands for: a power of two, at most 256.
    const BUFFERS: usize = 1;
}

struct Link<T> {
    /// Written by the sender, read by the receiver.
    tail: CachePadded<AtomicUsize>,
    /// Written by the receiver, read by the sender.
    head: CachePadded<AtomicUsize>,
    /// The first `PLACES` of them are used.
    places: Box<[UnsafeCell<MaybeUninit<T>>; ROOM]>,
}

impl<T: Travels> Link<T> {
    /// Places for items.
    const PLACES: usize = {
        assert!(T::BUFFERS.is_power_of_two() && T::BUFFERS <= ROOM);
        ROOM / T::BUFFERS
    };
}

// SAFETY: each place belongs to one end at a time (SENT, ROOM), and what moves through it is Send.
unsafe impl<T: Travels> Sync for Link<T> {}

/// The taker's end.
pub struct Sender<T> {
    link: Arc<Link<T>>,
    tail: usize,
    cached_head: usize,
}

/// The returner's end.
pub struct Receiver<T> {
    link: Arc<Link<T>>,
    head: usize,
    cached_tail: usize,
}

/// Both ends. What is on its way when they are dropped is leaked: here all of it arrives.
pub fn link<T: Travels>() -> (Sender<T>, Receiver<T>) {
    let link = Arc::new(Link {
        tail: CachePadded(AtomicUsize::new(0)),
        head: CachePadded(AtomicUsize::new(0)),
        places: Box::new([const { UnsafeCell::new(MaybeUninit::uninit()) }; ROOM]),
    });
    let sender = Sender {
        link: link.clone(),
        tail: 0,
        cached_head: 0,
    };
    let receiver = Receiver {
        link,
        head: 0,
        cached_tail: 0,
    };
    (sender, receiver)
}

impl<T: Travels> Sender<T> {
    /// Sends one item, when there is room.
    #[inline(always)]
    pub fn send_one(&mut self, item: T) {
        self.wait();
        self.put_in(item);
        self.link.tail.store(self.tail, Release); // SENT
    }

    /// Sends all items, each batch that there is room for by one step.
    #[inline(always)]
    pub fn send(&mut self, mut items: impl ExactSizeIterator<Item = T>) {
        while items.len() > 0 {
            self.wait();
            let room = Link::<T>::PLACES - (self.tail - self.cached_head);
            items.by_ref().take(room).for_each(|item| self.put_in(item));
            self.link.tail.store(self.tail, Release); // SENT
        }
    }

    #[inline(always)]
    fn wait(&mut self) {
        while self.tail - self.cached_head == Link::<T>::PLACES {
            self.cached_head = self.link.head.load(Acquire); // ROOM
        }
    }

    /// Into the next place, which is vacant: only after `wait`, and no more than that saw.
    #[inline(always)]
    fn put_in(&mut self, item: T) {
        debug_assert!(self.tail - self.cached_head < Link::<T>::PLACES);
        let place: *mut T = self.link.places[self.tail % Link::<T>::PLACES].get().cast();
        // SAFETY: the place is vacant (ROOM), so it is ours until it is sent.
        unsafe { place.write(item) };
        self.tail += 1;
    }
}

impl<T: Travels> Receiver<T> {
    /// Waits for an item, and takes it out.
    #[inline(always)]
    pub fn receive_one(&mut self) -> T {
        self.wait();
        let item = self.take_out();
        self.link.head.store(self.head, Release); // ROOM
        item
    }

    /// Waits for an item at least, and takes up to `n` out by one step.
    #[inline(always)]
    pub fn receive(&mut self, n: usize, target: &mut Vec<T>) {
        self.wait();
        let received = n.min(self.cached_tail - self.head);
        target.extend((0..received).map(|_| self.take_out()));
        self.link.head.store(self.head, Release); // ROOM
    }

    #[inline(always)]
    fn wait(&mut self) {
        while self.cached_tail == self.head {
            self.cached_tail = self.link.tail.load(Acquire); // SENT
        }
    }

    /// The next item. Call it at most once for each item that `wait` returned.
    #[inline(always)]
    fn take_out(&mut self) -> T {
        debug_assert!(self.head < self.cached_tail);
        let place: *const T = self.link.places[self.head % Link::<T>::PLACES].get().cast();
        self.head += 1;
        // SAFETY: an item was written there (SENT), and it is read once: the head has gone on.
        unsafe { place.read() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Travels for Box<usize> {}

    /// Of the 8 places.
    struct Block(usize);

    impl Travels for Block {
        const BUFFERS: usize = 32;
    }

    #[test]
    fn items_arrive_once_each_and_in_order_also_when_there_are_more_than_places() {
        let (mut sender, mut receiver) = link();
        let receiving = std::thread::spawn(move || {
            let mut received = vec![receiver.receive_one()];
            while received.len() < 3 * ROOM {
                receiver.receive(32, &mut received);
            }
            received
        });
        sender.send((0..3 * ROOM).map(Box::new));
        let received = receiving.join().unwrap();
        assert!(received.into_iter().map(|item| *item).eq(0..3 * ROOM));
    }

    #[test]
    fn as_many_buffers_fit_in_blocks() {
        let (mut sender, mut receiver) = link();
        sender.send((0..8).map(Block));
        assert_eq!(
            sender.tail - sender.link.head.load(Acquire),
            Link::<Block>::PLACES
        );
        let mut received = Vec::new();
        receiver.receive(32, &mut received);
        assert!(received.into_iter().map(|block| block.0).eq(0..8));
    }
}
