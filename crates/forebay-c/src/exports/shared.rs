//! Queues between processes that trust each other, by name or by descriptor. The ends are those of a queue between threads.

#![allow(unsafe_code)] // The names are this library's.
#![allow(non_camel_case_types)] // These, too.

use super::{
    queue::{forebay_queue_options, when_full},
    receiver::forebay_receiver,
    sender::forebay_sender,
};
use crate::{
    border::{self, Place, answer, descriptor, done, items_mut, number, text},
    ends::{destroy, give_one},
    failure::{Failure, Result},
    handles::{handles, shared},
};
use forebay::queue::shared::{
    AfterDeath, Shared, SharedQueueConfig, attach, create, create_nameless, list, remove,
};
use std::ffi::{c_char, c_int};

/// A queue between processes, to which this one is attached. All threads may use it at the same time.
pub struct forebay_shared_queue(());

handles!(forebay_shared_queue => Shared);

fn queue<R>(handle: *const forebay_shared_queue, body: impl FnOnce(&Shared) -> R) -> Result<R> {
    Ok(shared(handle, body)?)
}

/// Makes a queue between processes of one user, and attaches to it. It keeps its name until it is removed. A null name: it has none, and
/// others attach by its descriptor. `options` may be null.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_shared_queue_create(
    name: *const c_char,
    options: *const forebay_queue_options,
    queue: *mut *mut forebay_shared_queue,
) -> c_int {
    done(|| {
        let place = Place::new(queue, "queue")?;
        let options = border::options(options)?;
        if options.lazy != 0 || options.huge_pages != 0 {
            return Err(Failure::invalid(
                "`lazy` and `huge_pages` are for queues between threads",
            ));
        }
        let config = SharedQueueConfig {
            capacity_bytes: match options.capacity_bytes {
                0 => SharedQueueConfig::default().capacity_bytes,
                some => some,
            },
            when_full: when_full(options.when_full)?,
            after_death: match options.at_most_once {
                0 => AfterDeath::Redeliver,
                _ => AfterDeath::Abandon,
            },
        };
        let made = match name.is_null() {
            true => create_nameless(&config)?,
            false => create(text(name, "name")?, &config)?,
        };
        give_one(made, &place)
    })
}

/// Attaches to the queue of this name.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_shared_queue_attach(
    name: *const c_char,
    queue: *mut *mut forebay_shared_queue,
) -> c_int {
    done(|| {
        let place = Place::new(queue, "queue")?;
        give_one(attach(text(name, "name")?)?, &place)
    })
}

/// Attaches to a queue by a descriptor that was inherited or received from another process. The library duplicates it.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_shared_queue_from_descriptor(
    number: c_int,
    queue: *mut *mut forebay_shared_queue,
) -> c_int {
    done(|| {
        let place = Place::new(queue, "queue")?;
        give_one(Shared::from_descriptor(descriptor(number)?)?, &place)
    })
}

/// The descriptor by which other processes attach. It belongs to the queue: do not close it.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_shared_queue_descriptor(handle: *mut forebay_shared_queue) -> c_int {
    answer(|| queue(handle, |it| number(it.descriptor())))
}

/// Makes a sending end.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_shared_queue_sender(
    handle: *mut forebay_shared_queue,
    sender: *mut *mut forebay_sender,
) -> c_int {
    done(|| {
        let place = Place::new(sender, "sender")?;
        give_one(queue(handle, |it| it.sender())?, &place)
    })
}

/// Makes a receiving end.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_shared_queue_receiver(
    handle: *mut forebay_shared_queue,
    receiver: *mut *mut forebay_receiver,
) -> c_int {
    done(|| {
        let place = Place::new(receiver, "receiver")?;
        give_one(queue(handle, |it| it.receiver())?, &place)
    })
}

/// The number of attached processes.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_shared_queue_processes(handle: *mut forebay_shared_queue) -> c_int {
    answer(|| {
        queue(handle, |it| {
            c_int::try_from(it.processes()).unwrap_or(c_int::MAX)
        })
    })
}

/// Gives the queue up. Its ends stay usable; the process is attached until all have ended.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_shared_queue_destroy(handle: *mut forebay_shared_queue) -> c_int {
    done(|| destroy(handle))
}

/// Stores the names of this user's queues, each with a zero at its end, in a buffer of `room` bytes. Returns the bytes that all need; the
/// buffer has only whole names, and is left as it is if there is not room for all.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_shared_queue_list(buffer: *mut c_char, room: usize) -> isize {
    answer(|| {
        let buffer: &mut [u8] = items_mut(buffer.cast(), room, "buffer")?;
        let names: Vec<u8> = list()?
            .into_iter()
            .flat_map(|name| name.into_bytes().into_iter().chain([0]))
            .collect();
        if let Some(place) = buffer.get_mut(..names.len()) {
            place.copy_from_slice(&names);
        }
        Ok(names.len() as isize)
    })
}

/// Removes the name of a queue. Processes that are attached stay attached.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_shared_queue_remove(name: *const c_char) -> c_int {
    done(|| Ok(remove(text(name, "name")?)?))
}
