//! A ring of elements of one size between two threads: bytes, numbers or structures.
//!
//! The ring holds bytes, and both ends advance by whole elements. An element never wraps around: the memory is mapped twice.

#![allow(unsafe_code)] // The names are this library's.
#![allow(non_camel_case_types)] // These, too.

use crate::{
    border::{self, Place, Versioned, answer, done, items, items_mut, limit, number},
    ends::{destroy, give_both},
    failure::{Failure, Result},
    handles::{exclusive, handles},
};
use forebay::{
    error::Code,
    ring::spsc::{self, ForeignEnd, RingConfig, WaitError},
    sync::Eventfd,
};
use std::{
    ffi::{c_int, c_void},
    os::fd::AsFd,
    time::Duration,
};

/// The end of a ring that pushes. One thread at a time may use it.
pub struct forebay_ring_producer(());

/// The end of a ring that pops. One thread at a time may use it.
pub struct forebay_ring_consumer(());

/// Settings of a ring. Zeros are the defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct forebay_ring_options {
    /// `sizeof(struct forebay_ring_options)`.
    pub size: usize,
    /// Bytes of an element, 1 or more; 0 is 1. Elements are aligned to the largest power of two in it, up to 4096.
    pub element_size: usize,
    /// Number of elements, all usable; 0 is 1024.
    pub capacity: usize,
    /// Not 0: the memory is not faulted in when the ring is made, but when it is used first.
    pub lazy: u32,
    /// Not 0: pages of 2 MiB, if the ring is that large.
    pub huge_pages: u32,
    /// Not 0: the lowest latency for single elements, but fewer elements per second.
    pub latency: u32,
    /// Zero.
    pub reserved: u32,
}

// SAFETY: `repr(C)`, a size first, and numbers.
unsafe impl Versioned for forebay_ring_options {
    const SIZES: &'static [usize] = &[40];

    fn reserved(&self) -> u32 {
        self.reserved
    }
}

pub struct Producer {
    pub(super) end: ForeignEnd<spsc::Producer<u8, Eventfd>>,
    pub(super) element: usize,
    /// The position up to which slots were lent.
    reserved: u64,
}

pub struct Consumer {
    pub(super) end: ForeignEnd<spsc::Consumer<u8, Eventfd>>,
    pub(super) element: usize,
}

handles!(forebay_ring_producer => Producer, forebay_ring_consumer => Consumer);

impl Producer {
    /// Room for whole elements.
    fn vacant(&mut self, count: usize) -> usize {
        self.end.reserve(count.saturating_mul(self.element)).len() / self.element
    }

    fn full(&self) -> Failure {
        match self.end.consumer_is_gone() {
            true => Code::Closed.into(),
            false => Code::Full.into(),
        }
    }

    /// As many elements as there is room for.
    fn push(&mut self, elements: &[u8]) -> Result<usize> {
        let vacant = self.vacant(elements.len() / self.element) * self.element;
        let pushed = self.end.push_slice(&elements[..vacant.min(elements.len())]);
        match pushed {
            0 if !elements.is_empty() => Err(self.full()),
            pushed => Ok(pushed / self.element),
        }
    }

    fn wait(&mut self, count: usize, timeout_ns: i64) -> Result<usize> {
        let bytes = count.saturating_mul(self.element).min(self.end.capacity());
        let limit = limit(timeout_ns);
        let vacant = match limit {
            Some(limit) => self.end.wait_vacant_timeout(bytes, limit),
            None => Ok(self.end.wait_vacant(bytes)),
        };
        match vacant {
            Err(WaitError::TimedOut) if limit == Some(Duration::ZERO) => Err(self.full()),
            Err(error) => Err(error.into()),
            Ok(vacant) if vacant < bytes => Err(Code::Closed.into()),
            Ok(vacant) => Ok(vacant / self.element),
        }
    }
}

impl Consumer {
    fn pop(&mut self, elements: &mut [u8]) -> Result<usize> {
        let (wanted, element) = (elements.len(), self.element);
        let gone = self.end.producer_is_gone(); // before the last elements are looked for
        match self.end.pop_slice(elements) {
            0 if wanted > 0 && gone => Err(Code::Closed.into()),
            0 if wanted > 0 => Err(Code::Empty.into()),
            popped => Ok(popped / element),
        }
    }

    fn wait(&mut self, count: usize, timeout_ns: i64) -> Result<usize> {
        let bytes = count.saturating_mul(self.element).min(self.end.capacity());
        let limit = limit(timeout_ns);
        let filled = match limit {
            Some(limit) => self.end.wait_filled_timeout(bytes, limit),
            None => Ok(self.end.wait_filled(bytes)),
        };
        match filled {
            Err(WaitError::TimedOut) if limit == Some(Duration::ZERO) => Err(Code::Empty.into()),
            Err(WaitError::TimedOut) => Err(Code::TimedOut.into()),
            // The producer is gone: the last elements.
            _ if bytes > 0 && self.end.is_empty() => Err(Code::Closed.into()),
            _ => Ok(self.end.len() / self.element),
        }
    }
}

pub(super) fn producer<R>(
    handle: *const forebay_ring_producer,
    body: impl FnOnce(&mut Producer) -> Result<R>,
) -> Result<R> {
    exclusive(handle, |it| {
        it.end.catch_up(); // with what a view has done
        body(it)
    })?
}

pub(super) fn consumer<R>(
    handle: *const forebay_ring_consumer,
    body: impl FnOnce(&mut Consumer) -> Result<R>,
) -> Result<R> {
    exclusive(handle, |it| {
        it.end.catch_up(); // with what a view has done
        body(it)
    })?
}

/// Makes a ring, and stores its ends. `options` may be null: a ring of 1024 bytes.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_ring_create(
    options: *const forebay_ring_options,
    producer: *mut *mut forebay_ring_producer,
    consumer: *mut *mut forebay_ring_consumer,
) -> c_int {
    done(|| {
        let places = (
            Place::new(producer, "producer")?,
            Place::new(consumer, "consumer")?,
        );
        let options = border::options(options)?;
        let element = options.element_size.max(1);
        let capacity = match options.capacity {
            0 => 1024,
            some => some,
        };
        let bytes = capacity.checked_mul(element);
        let config = RingConfig {
            capacity: bytes.ok_or(Failure::new(Code::NoMemory, "the ring is too large"))?,
            populate: options.lazy == 0,
            huge_pages: options.huge_pages != 0,
            latency: options.latency != 0,
        };
        let (producer, consumer) = spsc::ring_with(&config)?;
        let ends = (
            Producer {
                end: ForeignEnd::new(producer),
                element,
                reserved: 0,
            },
            Consumer {
                end: ForeignEnd::new(consumer),
                element,
            },
        );
        give_both::<forebay_ring_producer, forebay_ring_consumer>(ends, places)
    })
}

/// Pushes one element: a copy of `element_size` bytes. `FOREBAY_FULL`: there is no room now. `FOREBAY_CLOSED`: there is none, and the consumer
/// is gone. The producer looks for the consumer only when it has no room: until then, elements are accepted, and end with the ring.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_ring_push(
    handle: *mut forebay_ring_producer,
    element: *const c_void,
) -> c_int {
    done(|| {
        producer(handle, |it| {
            it.push(items(element.cast(), it.element, "element")?)
                .map(drop)
        })
    })
}

/// Pushes one element, and waits for room. With a time limit of 0 it never waits: `FOREBAY_FULL`. `FOREBAY_CLOSED`: there is no room, and the
/// consumer is gone, or goes during the wait.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_ring_push_wait(
    handle: *mut forebay_ring_producer,
    element: *const c_void,
    timeout_ns: i64,
) -> c_int {
    done(|| {
        producer(handle, |it| {
            let element = items(element.cast(), it.element, "element")?;
            it.wait(1, timeout_ns)?;
            it.push(element).map(drop)
        })
    })
}

/// Pushes as many of `count` elements as there is room for, and returns their number. If there is room for none, it returns `FOREBAY_FULL` or
/// `FOREBAY_CLOSED`, as `forebay_ring_push`.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_ring_push_burst(
    handle: *mut forebay_ring_producer,
    elements: *const c_void,
    count: usize,
) -> isize {
    answer(|| {
        producer(handle, |it| {
            let bytes = count.saturating_mul(it.element);
            let pushed = it.push(items(elements.cast(), bytes, "elements")?)?;
            Ok(pushed as isize)
        })
    })
}

/// Lends vacant slots to be filled in place, up to `count`, and returns their number; they are one array. They are published by
/// `forebay_ring_commit`, and valid until the next call with this end. If no slot is vacant, it returns `FOREBAY_FULL` or `FOREBAY_CLOSED`, as
/// `forebay_ring_push`.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_ring_reserve(
    handle: *mut forebay_ring_producer,
    count: usize,
    slots: *mut *mut c_void,
) -> isize {
    answer(|| {
        let place = Place::new(slots, "slots")?;
        producer(handle, |it| {
            let mut vacant = it.end.reserve(count.saturating_mul(it.element));
            let some = vacant.len() / it.element;
            place.put(vacant.as_mut_ptr().cast());
            it.reserved = it.end.pushed() + (some * it.element) as u64;
            match some {
                0 if count > 0 => Err(it.full()),
                some => Ok(some as isize),
            }
        })
    })
}

/// Publishes the first `count` of the slots that were reserved. `FOREBAY_INVALID`: there are fewer. `FOREBAY_CLOSED`: the consumer is gone.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_ring_commit(handle: *mut forebay_ring_producer, count: usize) -> c_int {
    done(|| {
        producer(handle, |it| {
            let bytes = count.saturating_mul(it.element);
            if bytes as u64 > it.reserved.saturating_sub(it.end.pushed()) {
                return Err(Failure::invalid("more slots than were reserved"));
            }
            let vacant = it.end.reserve(bytes);
            if vacant.len() < bytes {
                return Err(Code::Closed.into()); // Lent room stays vacant while the consumer lives.
            }
            vacant.commit(bytes);
            Ok(())
        })
    })
}

/// Waits until `count` slots are vacant (at most the capacity), and returns how many are. With a time limit of 0 it never waits:
/// `FOREBAY_FULL`. `FOREBAY_CLOSED`: fewer are vacant, and the consumer is gone.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_ring_wait_vacant(
    handle: *mut forebay_ring_producer,
    count: usize,
    timeout_ns: i64,
) -> isize {
    answer(|| producer(handle, |it| Ok(it.wait(count, timeout_ns)? as isize)))
}

/// The number of vacant slots.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_ring_vacant(handle: *mut forebay_ring_producer) -> isize {
    answer(|| producer(handle, |it| Ok((it.end.vacant() / it.element) as isize)))
}

/// The number of elements pushed since the ring was made.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_ring_pushed(handle: *mut forebay_ring_producer) -> i64 {
    answer(|| {
        producer(
            handle,
            |it| Ok((it.end.pushed() / it.element as u64) as i64),
        )
    })
}

/// Prepares a wait for a vacant slot in `poll`. 1: there is none yet; wait until the descriptor is readable (not writable), and try again. 0: there
/// is, or the other end is gone; do not wait.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_ring_producer_arm(handle: *mut forebay_ring_producer) -> c_int {
    answer(|| producer(handle, |it| Ok(c_int::from(it.end.arm_for(it.element)))))
}

/// The descriptor for `forebay_ring_producer_arm`. It belongs to the end: do not read or close it.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_ring_producer_descriptor(handle: *mut forebay_ring_producer) -> c_int {
    answer(|| producer(handle, |it| Ok(number(it.end.as_fd()))))
}

/// Ends this end. The consumer gets what is in the ring, and then `FOREBAY_CLOSED`.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_ring_producer_destroy(handle: *mut forebay_ring_producer) -> c_int {
    done(|| destroy(handle))
}

/// Pops one element into `element`. `FOREBAY_EMPTY`: there is none now. `FOREBAY_CLOSED`: the producer is gone, and no element is left.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_ring_pop(
    handle: *mut forebay_ring_consumer,
    element: *mut c_void,
) -> c_int {
    done(|| {
        consumer(handle, |it| {
            it.pop(items_mut(element.cast(), it.element, "element")?)
                .map(drop)
        })
    })
}

/// Pops one element, and waits for it. With a time limit of 0 it never waits: `FOREBAY_EMPTY`.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_ring_pop_wait(
    handle: *mut forebay_ring_consumer,
    element: *mut c_void,
    timeout_ns: i64,
) -> c_int {
    done(|| {
        consumer(handle, |it| {
            let element = items_mut(element.cast(), it.element, "element")?;
            it.wait(1, timeout_ns)?;
            it.pop(element).map(drop)
        })
    })
}

/// Pops up to `count` elements into an array, and returns their number. If there is none, it returns `FOREBAY_EMPTY` or `FOREBAY_CLOSED`, as
/// `forebay_ring_pop`.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_ring_pop_burst(
    handle: *mut forebay_ring_consumer,
    elements: *mut c_void,
    count: usize,
) -> isize {
    answer(|| {
        consumer(handle, |it| {
            let bytes = count.saturating_mul(it.element);
            let popped = it.pop(items_mut(elements.cast(), bytes, "elements")?)?;
            Ok(popped as isize)
        })
    })
}

/// Lends up to `count` elements to be read in place, and returns their number; they are one array. They stay in the ring until
/// `forebay_ring_release`, and are valid until the next call with this end.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_ring_peek(
    handle: *mut forebay_ring_consumer,
    count: usize,
    elements: *mut *const c_void,
) -> isize {
    answer(|| {
        let place = Place::new(elements, "elements")?;
        consumer(handle, |it| {
            let gone = it.end.producer_is_gone(); // before the last elements are looked for
            let filled = it.end.peek(count.saturating_mul(it.element));
            let some = filled.len() / it.element;
            place.put(filled.as_ptr().cast());
            match some {
                0 if count > 0 && gone => Err(Code::Closed.into()),
                0 if count > 0 => Err(Code::Empty.into()),
                some => Ok(some as isize),
            }
        })
    })
}

/// Releases the first `count` elements, and returns how many there were.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_ring_release(handle: *mut forebay_ring_consumer, count: usize) -> isize {
    answer(|| {
        consumer(handle, |it| {
            let released = it.end.skip(count.saturating_mul(it.element));
            Ok((released / it.element) as isize)
        })
    })
}

/// Waits until there are `count` elements (at most the capacity), or the producer is gone, and returns how many there are.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_ring_wait_filled(
    handle: *mut forebay_ring_consumer,
    count: usize,
    timeout_ns: i64,
) -> isize {
    answer(|| consumer(handle, |it| Ok(it.wait(count, timeout_ns)? as isize)))
}

/// The number of elements in the ring.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_ring_len(handle: *mut forebay_ring_consumer) -> isize {
    answer(|| consumer(handle, |it| Ok((it.end.len() / it.element) as isize)))
}

/// The number of elements popped or released since the ring was made.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_ring_popped(handle: *mut forebay_ring_consumer) -> i64 {
    answer(|| {
        consumer(
            handle,
            |it| Ok((it.end.popped() / it.element as u64) as i64),
        )
    })
}

/// Prepares a wait for an element in `poll`. 1: there is none yet; wait until the descriptor is readable, and try again. 0: there
/// is, or the other end is gone; do not wait.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_ring_consumer_arm(handle: *mut forebay_ring_consumer) -> c_int {
    answer(|| consumer(handle, |it| Ok(c_int::from(it.end.arm_for(it.element)))))
}

/// The descriptor for `forebay_ring_consumer_arm`. It belongs to the end: do not read or close it.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_ring_consumer_descriptor(handle: *mut forebay_ring_consumer) -> c_int {
    answer(|| consumer(handle, |it| Ok(number(it.end.as_fd()))))
}

/// Ends this end. The producer gets `FOREBAY_CLOSED` once the ring is full.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_ring_consumer_destroy(handle: *mut forebay_ring_consumer) -> c_int {
    done(|| destroy(handle))
}
