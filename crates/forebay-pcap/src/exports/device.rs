//! The list of devices.

use crate::{
    abi::{self, Device},
    border::{NO_PLACE, exports, message, put, text},
    devices,
};
use std::{
    ffi::{CString, c_char, c_int},
    ptr::null_mut,
    sync::{Mutex, PoisonError},
};

/// The names that `pcap_lookupdev` returned. They stay in place, because the program may keep them.
static NAMES: Mutex<Vec<CString>> = Mutex::new(Vec::new());

fn kept(name: CString) -> *mut c_char {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let at = names.iter().position(|known| *known == name);
    let at = at.unwrap_or_else(|| {
        names.push(name);
        names.len() - 1
    });
    names[at].as_ptr().cast_mut()
}

exports! {
    fn pcap_findalldevs(list: *mut *mut Device, errors: *mut c_char) -> c_int = abi::ERROR; {
        if list.is_null() {
            message(errors, NO_PLACE);
            return abi::ERROR;
        }
        match devices::list() {
            Ok(first) => {
                put(list, first);
                0
            }
            Err(failure) => {
                put(list, null_mut());
                message(errors, &failure.text);
                failure.code
            }
        }
    }

    fn pcap_freealldevs(list: *mut Device) = (); { devices::release_list(list) }

    fn pcap_lookupdev(errors: *mut c_char) -> *mut c_char = null_mut(); {
        match devices::first() {
            Ok(name) => kept(name),
            Err(failure) => {
                message(errors, &failure.text);
                null_mut()
            }
        }
    }

    fn pcap_lookupnet(
        device: *const c_char,
        network: *mut u32,
        mask: *mut u32,
        errors: *mut c_char,
    ) -> c_int = abi::ERROR; {
        let device = text(device).unwrap_or(c"any");
        // What is not an interface has no address.
        let is_interface = device != c"any" && device != c"sim" && !device.to_bytes().contains(&b':');
        let found = match is_interface {
            true => devices::network(device),
            false => Ok((0, 0)),
        };
        match found {
            Ok(found) => {
                put(network, found.0);
                put(mask, found.1);
                0
            }
            Err(failure) => {
                message(errors, &failure.text);
                failure.code
            }
        }
    }
}
