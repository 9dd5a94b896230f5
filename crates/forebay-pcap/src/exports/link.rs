//! Link types and time stamp types.

use crate::{
    abi,
    border::{NO_PLACE, allocated, c_text, exports, put, release, text},
    device_name,
    handle::{Handle, Source, State},
    linktypes,
    registry::Given,
    timestamps,
};
use std::{
    cell::RefCell,
    ffi::{CString, c_char, c_int},
    ptr::{null, null_mut},
};

thread_local! {
    /// The text for a number without a description that was returned last.
    static UNKNOWN: RefCell<CString> = RefCell::default();
}

/// The link types that a handle can have.
fn possible(state: &State) -> Vec<c_int> {
    match &state.source {
        Source::Live(live) => live.links().into_iter().map(linktypes::of_file).collect(),
        _ => vec![state.link],
    }
}

exports! {
    fn pcap_datalink(handle: Given<Handle>) -> c_int = abi::ERROR; {
        Handle::ask(handle, |state| Ok(state.link))
    }

    fn pcap_datalink_ext(handle: Given<Handle>) -> c_int = abi::ERROR; {
        Handle::ask(handle, |state| {
            Ok(state.file().map_or(0, |file| file.link_extension as c_int))
        })
    }

    fn pcap_list_datalinks(handle: Given<Handle>, list: *mut *mut c_int) -> c_int = abi::ERROR; {
        Handle::ask(handle, |state| {
            if list.is_null() {
                return Err(NO_PLACE.into());
            }
            let links = possible(state);
            let copied = allocated(&links);
            if copied.is_null() {
                return Err("malloc: out of memory".into());
            }
            put(list, copied);
            Ok(links.len() as c_int)
        })
    }

    fn pcap_set_datalink(handle: Given<Handle>, link: c_int) -> c_int = abi::ERROR; {
        Handle::ask(handle, |state| {
            if link == state.link {
                return Ok(0);
            }
            if possible(state).contains(&link)
                && let (Source::Live(live), Some(known)) = (&mut state.source, linktypes::in_file(link))
            {
                live.set_link(known);
                state.link = link;
                state.filter = None;
                return Ok(0);
            }
            let shown = match linktypes::described(link) {
                Some((name, _)) => name.to_string_lossy().into_owned(),
                None => format!("DLT {link}"),
            };
            Err(format!("{shown} is not one of the DLTs supported by this device").into())
        })
    }

    fn pcap_free_datalinks(list: *mut c_int) = (); { release(list) }

    fn pcap_datalink_name_to_val(name: *const c_char) -> c_int = -1; {
        text(name).and_then(linktypes::numbered).unwrap_or(-1)
    }

    fn pcap_datalink_val_to_name(link: c_int) -> *const c_char = null(); {
        linktypes::described(link).map_or(null(), |(name, _)| name.as_ptr())
    }

    fn pcap_datalink_val_to_description(link: c_int) -> *const c_char = null(); {
        linktypes::described(link).map_or(null(), |(_, text)| text.as_ptr())
    }

    fn pcap_datalink_val_to_description_or_dlt(link: c_int) -> *const c_char = null(); {
        if let Some((_, text)) = linktypes::described(link) {
            return text.as_ptr();
        }
        let keep = |kept: &RefCell<CString>| {
            *kept.borrow_mut() = c_text(format!("DLT {link}"));
            kept.borrow().as_ptr()
        };
        UNKNOWN.try_with(keep).unwrap_or(null())
    }

    fn pcap_list_tstamp_types(handle: Given<Handle>, list: *mut *mut c_int) -> c_int = abi::ERROR; {
        Handle::run(handle, |_, state| {
            if list.is_null() {
                return Err(NO_PLACE.into());
            }
            let types = match &state.source {
                Source::Created(settings) => device_name::tstamp_types(&settings.device),
                _ => Vec::new(),
            };
            if types.is_empty() {
                put(list, null_mut());
                return Ok(0);
            }
            let copied = allocated(&types);
            if copied.is_null() {
                return Err("malloc: out of memory".into());
            }
            put(list, copied);
            Ok(types.len() as c_int)
        })
    }

    fn pcap_free_tstamp_types(list: *mut c_int) = (); { release(list) }

    fn pcap_tstamp_type_name_to_val(name: *const c_char) -> c_int = abi::ERROR; {
        text(name).and_then(timestamps::numbered).unwrap_or(abi::ERROR)
    }

    fn pcap_tstamp_type_val_to_name(number: c_int) -> *const c_char = null(); {
        timestamps::described(number).map_or(null(), |(name, _)| name.as_ptr())
    }

    fn pcap_tstamp_type_val_to_description(number: c_int) -> *const c_char = null(); {
        timestamps::described(number).map_or(null(), |(_, text)| text.as_ptr())
    }
}
