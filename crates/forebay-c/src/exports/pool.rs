//! Pools of slots for packets, and packets with room in front of their data and after it.
//!
//! ```text
//!  slot:  │ headroom │ data │ tailroom │      push and pull move the front, put and trim the end
//! ```

#![allow(unsafe_code)] // The names are this library's.
#![allow(non_camel_case_types)] // These, too.

use crate::{
    border::{self, Place, Versioned, answer, done, items, items_mut, limit, put_versioned},
    ends::{destroy, give_one},
    failure::{Failure, Result},
    handles::{exclusive, handles, take},
};
use forebay::{
    error::Code,
    packet::{Packet, Pool, PoolConfig, WrongPool, return_idle},
};
use std::{
    ffi::{c_int, c_void},
    time::Duration,
};

/// A pool of slots. One thread at a time may use it; its packets may be used and returned in any thread.
pub struct forebay_pool(());

/// A packet in a slot of a pool. One thread at a time may use it; the handle may be passed to another thread, for example through a ring.
pub struct forebay_packet(());

handles!(forebay_pool => Pool, forebay_packet => Packet);

/// Settings of a pool. Zeros are the defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct forebay_pool_options {
    /// `sizeof(struct forebay_pool_options)`.
    pub size: usize,
    /// Number of slots; 0 is 2048.
    pub slots: u32,
    /// Bytes of a slot; 0 is 2048.
    pub slot_bytes: u32,
    /// Bytes in front of the data of a new packet; 0 is 128, and in slots below 256 bytes a half. `forebay_packet_reserve` sets it for one packet.
    pub headroom: u32,
    /// Not 0: the memory is not faulted in when the pool is made, but when it is used first.
    pub lazy: u32,
    /// Not 0: pages of 2 MiB.
    pub huge_pages: u32,
    /// Zero.
    pub reserved: u32,
}

// SAFETY: `repr(C)`, a size first, and numbers.
unsafe impl Versioned for forebay_pool_options {
    const SIZES: &'static [usize] = &[32];

    fn reserved(&self) -> u32 {
        self.reserved
    }
}

/// The counts of a pool.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct forebay_pool_counts {
    /// `sizeof(struct forebay_pool_counts)`.
    pub size: usize,
    pub slots: u32,
    pub free: u32,
    /// Slots in use, or returned and not collected yet.
    pub away: u32,
    /// The most that were away.
    pub max_away: u32,
    /// How many packets were asked for while no slot was free.
    pub exhausted: u64,
}

// SAFETY: `repr(C)`, a size first, and numbers.
unsafe impl Versioned for forebay_pool_counts {
    const SIZES: &'static [usize] = &[32];
}

/// What is known of a packet.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct forebay_packet_facts {
    /// `sizeof(struct forebay_packet_facts)`.
    pub size: usize,
    /// The time in nanoseconds. The packet keeps its lowest 48 bits, which are 78 hours.
    pub time_ns: u64,
    /// Bytes on the wire.
    pub wire_len: u32,
    pub hash: u16,
    pub port: u8,
    /// Zero.
    pub reserved: u8,
}

// SAFETY: `repr(C)`, a size first, and numbers.
unsafe impl Versioned for forebay_packet_facts {
    const SIZES: &'static [usize] = &[24];

    fn reserved(&self) -> u32 {
        self.reserved.into()
    }
}

fn pool<R>(handle: *const forebay_pool, body: impl FnOnce(&mut Pool) -> Result<R>) -> Result<R> {
    exclusive(handle, body)?
}

fn packet<R>(
    handle: *const forebay_packet,
    body: impl FnOnce(&mut Packet) -> Result<R>,
) -> Result<R> {
    exclusive(handle, body)?
}

/// Makes a pool. `options` may be null.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_pool_create(
    options: *const forebay_pool_options,
    pool: *mut *mut forebay_pool,
) -> c_int {
    done(|| {
        let place = Place::new(pool, "pool")?;
        let options = border::options(options)?;
        let default = PoolConfig::default();
        let or = |number: u32, default: u32| if number == 0 { default } else { number };
        let slot_bytes = or(options.slot_bytes, default.slot_bytes);
        let config = PoolConfig {
            slots: or(options.slots, default.slots),
            slot_bytes,
            headroom: or(options.headroom, default.headroom.min(slot_bytes / 2)),
            populate: options.lazy == 0,
            huge_pages: options.huge_pages != 0,
        };
        give_one(Pool::new(&config)?, &place)
    })
}

/// Takes a packet without data from the pool. With a time limit of 0 it never waits: `FOREBAY_EMPTY`.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_pool_take(
    handle: *mut forebay_pool,
    timeout_ns: i64,
    packet: *mut *mut forebay_packet,
) -> c_int {
    done(|| {
        let place = Place::new(packet, "packet")?;
        let taken = pool(handle, |it| match limit(timeout_ns) {
            None => Ok(it.take_wait()),
            Some(Duration::ZERO) => it.take().ok_or(Code::Empty.into()),
            Some(limit) => it.take_timeout(limit).ok_or(Code::TimedOut.into()),
        })?;
        give_one(taken, &place)
    })
}

/// Returns a packet in the thread that has the pool, which is faster than `forebay_packet_destroy`. `FOREBAY_INVALID`: it is of another
/// pool, and unharmed. `FOREBAY_BUSY`: another call uses one of them, and the packet stays.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_pool_put_back(
    handle: *mut forebay_pool,
    packet: *mut forebay_packet,
) -> c_int {
    done(|| {
        pool(handle, |pool| {
            take(packet, |it| {
                pool.put_back(it).map_err(|error| {
                    let failure = Failure::invalid(error.to_string());
                    let WrongPool(packet) = error;
                    (packet, failure)
                })
            })?
        })
    })
}

/// Stores the counts of the pool.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_pool_count(
    handle: *mut forebay_pool,
    counts: *mut forebay_pool_counts,
) -> c_int {
    done(|| {
        let it = pool(handle, |it| Ok(it.counts()))?;
        let known = forebay_pool_counts {
            size: size_of::<forebay_pool_counts>(),
            slots: it.slots,
            free: it.free,
            away: it.away,
            max_away: it.max_away,
            exhausted: it.exhausted,
        };
        put_versioned(counts, known, "counts")
    })
}

/// Ends the pool. Its packets stay usable; the memory ends with the last one.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_pool_destroy(handle: *mut forebay_pool) -> c_int {
    done(|| destroy(handle))
}

/// The data of the packet's first slot, to be read. Returns its length. Valid until the next call with this packet.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_packet_data(
    handle: *mut forebay_packet,
    data: *mut *const c_void,
) -> isize {
    answer(|| {
        let place = Place::new(data, "data")?;
        packet(handle, |it| {
            place.put(it.as_slice().as_ptr().cast());
            Ok(it.as_slice().len() as isize)
        })
    })
}

/// The same, to be written. `FOREBAY_BUSY`: other packets share the bytes, see `forebay_packet_unshare`.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_packet_data_mut(
    handle: *mut forebay_packet,
    data: *mut *mut c_void,
) -> isize {
    answer(|| {
        let place = Place::new(data, "data")?;
        packet(handle, |it| {
            let bytes = it.as_mut_slice()?;
            place.put(bytes.as_mut_ptr().cast());
            Ok(bytes.len() as isize)
        })
    })
}

/// The length of all data, also of further slots.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_packet_len(handle: *mut forebay_packet) -> isize {
    answer(|| packet(handle, |it| Ok(it.len() as isize)))
}

/// Copies all data into a buffer of `room` bytes, also that of further slots, and returns its length. `FOREBAY_TOO_LONG`: there is less
/// room.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_packet_copy(
    handle: *mut forebay_packet,
    buffer: *mut c_void,
    room: usize,
) -> isize {
    answer(|| {
        let buffer: &mut [u8] = items_mut(buffer.cast(), room, "buffer")?;
        packet(handle, |it| {
            let mut rest = buffer.get_mut(..it.len() as usize).ok_or(Code::TooLong)?;
            for part in it.parts() {
                let (here, further) = rest.split_at_mut(part.len());
                here.copy_from_slice(part);
                rest = further;
            }
            Ok(it.len() as isize)
        })
    })
}

/// The number of bytes in front of the data.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_packet_headroom(handle: *mut forebay_packet) -> isize {
    answer(|| packet(handle, |it| Ok(it.headroom() as isize)))
}

/// The number of bytes after the data.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_packet_tailroom(handle: *mut forebay_packet) -> isize {
    answer(|| packet(handle, |it| Ok(it.tailroom() as isize)))
}

/// Sets the headroom of a packet without data.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_packet_reserve(handle: *mut forebay_packet, headroom: u32) -> c_int {
    done(|| packet(handle, |it| Ok(it.reserve(headroom)?)))
}

/// Adds `n` bytes in front of the data, and stores where they are.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_packet_push(
    handle: *mut forebay_packet,
    n: u32,
    bytes: *mut *mut c_void,
) -> c_int {
    done(|| {
        let place = Place::new(bytes, "bytes")?;
        packet(handle, |it| {
            place.put(it.push(n)?.as_mut_ptr().cast());
            Ok(())
        })
    })
}

/// Removes `n` bytes from the front, and stores where they are. `bytes` may be null.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_packet_pull(
    handle: *mut forebay_packet,
    n: u32,
    bytes: *mut *const c_void,
) -> c_int {
    done(|| {
        let place = Place::optional(bytes);
        packet(handle, |it| {
            let pulled = it.pull(n)?.as_ptr().cast();
            if let Some(place) = place {
                place.put(pulled);
            }
            Ok(())
        })
    })
}

/// Adds `n` bytes after the data, and stores where they are.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_packet_put(
    handle: *mut forebay_packet,
    n: u32,
    bytes: *mut *mut c_void,
) -> c_int {
    done(|| {
        let place = Place::new(bytes, "bytes")?;
        packet(handle, |it| {
            place.put(it.put(n)?.as_mut_ptr().cast());
            Ok(())
        })
    })
}

/// Cuts the data to its first `len` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_packet_trim(handle: *mut forebay_packet, len: u32) -> c_int {
    done(|| packet(handle, |it| Ok(it.trim(len)?)))
}

/// Appends bytes, in further slots of a pool where the packet's has no room.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_packet_append(
    handle: *mut forebay_packet,
    more: *mut forebay_pool,
    bytes: *const c_void,
    len: usize,
) -> c_int {
    done(|| {
        let bytes: &[u8] = items(bytes.cast(), len, "bytes")?;
        packet(handle, |it| pool(more, |pool| Ok(it.append(pool, bytes)?)))
    })
}

/// Makes another packet with the same bytes, which are not copied. Neither can be written then.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_packet_share(
    handle: *mut forebay_packet,
    other: *mut *mut forebay_packet,
) -> c_int {
    done(|| {
        let place = Place::new(other, "other")?;
        give_one(packet(handle, |it| Ok(it.share()))?, &place)
    })
}

/// Copies the bytes of a shared packet into a slot of a pool, so that it can be written.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_packet_unshare(
    handle: *mut forebay_packet,
    more: *mut forebay_pool,
) -> c_int {
    done(|| packet(handle, |it| pool(more, |pool| Ok(it.unshare(pool)?))))
}

/// Stores what is known of the packet.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_packet_get_facts(
    handle: *mut forebay_packet,
    facts: *mut forebay_packet_facts,
) -> c_int {
    done(|| {
        let known = packet(handle, |it| {
            Ok(forebay_packet_facts {
                size: size_of::<forebay_packet_facts>(),
                time_ns: it.time_ns(),
                wire_len: it.wire_len(),
                hash: it.hash(),
                port: it.port(),
                reserved: 0,
            })
        })?;
        put_versioned(facts, known, "facts")
    })
}

/// Sets what is known of the packet.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_packet_set_facts(
    handle: *mut forebay_packet,
    facts: *const forebay_packet_facts,
) -> c_int {
    done(|| {
        Place::new(facts.cast_mut(), "facts")?;
        let facts = border::options(facts)?;
        packet(handle, |it| {
            it.set_time(facts.time_ns);
            it.set_wire_len(facts.wire_len);
            it.set_hash(facts.hash);
            it.set_port(facts.port);
            Ok(())
        })
    })
}

/// Returns the packet to its pool, from any thread.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_packet_destroy(handle: *mut forebay_packet) -> c_int {
    done(|| destroy(handle))
}

/// Returns the few slots that this thread keeps after it has returned packets. A thread does so by itself when it ends.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_packet_return_idle() -> c_int {
    done(|| {
        return_idle();
        Ok(())
    })
}
