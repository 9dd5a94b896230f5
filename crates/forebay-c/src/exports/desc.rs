//! Packets as descriptors of 16 bytes, which a ring or a queue of the program carries.
//!
//! ```text
//!  forebay_packet ──describe──▶ forebay_desc ──ring──▶ adopt ──▶ forebay_packet
//! ```
//! The table of handles knows which descriptors the program holds. So one that is used twice, changed or made up is an error.

#![allow(unsafe_code)] // The names are this library's.
#![allow(non_camel_case_types)] // These, too.

use super::pool::forebay_packet;
use crate::{
    border::{Place, answer, items, items_mut},
    ends::give_one,
    failure::{Failure, Result},
    handles::{note, redeem, take},
};
use forebay::{
    error::Code,
    packet::{Desc, PacketDesc},
};
use std::ffi::c_int;

/// A packet in 16 bytes. It owns the packet's slot. Of all copies of it, one becomes a packet again, once.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct forebay_desc {
    /// Only the functions with `desc` in their names read them.
    pub words: [u64; 2],
}

/// The number of items before the first failure; the failure if there are none.
fn until_failure<T>(items: &[T], mut each: impl FnMut(usize, &T) -> Result<()>) -> Result<isize> {
    for (number, item) in items.iter().enumerate() {
        match each(number, item) {
            Ok(()) => {}
            Err(failure) if number == 0 => return Err(failure),
            Err(_) => return Ok(number as isize),
        }
    }
    Ok(items.len() as isize)
}

/// Turns packets into descriptors, and returns how many: all before the first one that cannot be. The handles of these packets end, and
/// their slots stay in use until `forebay_desc_adopt`. `FOREBAY_BUSY`: another call uses the first packet, or other packets share its slot
/// and begin or end elsewhere, see `forebay_packet_unshare`.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_packet_describe(
    packets: *const *mut forebay_packet,
    count: usize,
    descs: *mut forebay_desc,
) -> isize {
    answer(|| {
        let packets = items(packets, count, "packets")?;
        let descs: &mut [forebay_desc] = items_mut(descs, count, "descs")?;
        until_failure(packets, |number, &packet| {
            let shared = || Failure::new(Code::Busy, "other packets share its slot: unshare it");
            let desc = take(packet, |it| it.into_desc().map_err(|it| (it, shared())))??;
            let words = desc.into_raw();
            note(words);
            descs[number] = forebay_desc { words };
            Ok(())
        })
    })
}

/// Turns descriptors into packets, in any thread: stores their handles in `packets`, which has room for `count`, and returns how many: all
/// before the first one that cannot be. A descriptor and all its copies become a packet once. A copy that is kept longer must not be used: if
/// the slot was described again with the same length and facts, it equals the new descriptor. `FOREBAY_MISUSE`: the first one was
/// turned into a packet before, does not come from `forebay_packet_describe`, or is from before a fork. `FOREBAY_NO_MEMORY`: 16 million handles
/// exist, and its packet went back to the pool.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_desc_adopt(
    descs: *const forebay_desc,
    count: usize,
    packets: *mut *mut forebay_packet,
) -> isize {
    answer(|| {
        let descs = items(descs, count, "descs")?;
        let packets: &mut [*mut forebay_packet] = items_mut(packets, count, "packets")?;
        until_failure(descs, |number, desc| {
            redeem(desc.words)?;
            // SAFETY: `note` had these words from `into_raw`, in a call before this one, and has them no more.
            let packet = unsafe { PacketDesc::from_raw(desc.words) }.into_packet();
            give_one(packet, &Place::new(&raw mut packets[number], "packets")?)?;
            Ok(())
        })
    })
}

fn read<T>(desc: *const forebay_desc, read: impl FnOnce(Desc) -> Result<T>) -> Result<T> {
    let desc = items(desc, 1, "desc")?;
    read(desc[0].words.into())
}

/// The length of the packet's data, also in further slots. It does not touch the packet, as the other functions that read a descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_desc_len(desc: *const forebay_desc) -> isize {
    answer(|| read(desc, |it| Ok(it.len() as isize)))
}

/// The lowest 48 bits of the packet's time in nanoseconds.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_desc_time_ns(desc: *const forebay_desc) -> i64 {
    answer(|| read(desc, |it| Ok(it.time_ns() as i64)))
}

/// The hash of the packet's flow.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_desc_hash(desc: *const forebay_desc) -> c_int {
    answer(|| read(desc, |it| Ok(c_int::from(it.hash()))))
}

/// The packet's port.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_desc_port(desc: *const forebay_desc) -> c_int {
    answer(|| read(desc, |it| Ok(c_int::from(it.port()))))
}
