//! Errors, versions, and what a handle knows about itself.

#![allow(unsafe_code)]

use crate::{
    abi,
    border::{c_text, exports, message, text},
    failure::status_text,
    handle::{Handle, Source},
    registry::Given,
    stdio::{Stdio, error_text},
};
use std::{
    cell::RefCell,
    ffi::{CString, c_char, c_int, c_uint},
    ptr::{null, null_mut},
};

/// "libpcap version 1.10" is what programs look for.
const VERSION: &std::ffi::CStr = match std::ffi::CStr::from_bytes_with_nul(
    concat!(
        "libpcap version 1.10.3 (Forebay ",
        env!("CARGO_PKG_VERSION"),
        ")\0"
    )
    .as_bytes(),
) {
    Ok(text) => text,
    Err(_) => c"libpcap version 1.10.3",
};

#[unsafe(no_mangle)]
static pcap_version: [u8; 7] = *b"1.10.3\0";

thread_local! {
    /// The text that was returned last.
    static TEXT: RefCell<CString> = RefCell::default();
}

/// A text that is valid until this thread asks for the next one.
fn kept(text: CString) -> *const c_char {
    let keep = |kept: &RefCell<CString>| {
        *kept.borrow_mut() = text;
        kept.borrow().as_ptr()
    };
    TEXT.try_with(keep).unwrap_or(null())
}

exports! {
    fn pcap_init(options: c_uint, errors: *mut c_char) -> c_int = abi::ERROR; {
        match options {
            0 | 1 => 0,
            _ => {
                message(errors, "Unknown options specified");
                abi::ERROR
            }
        }
    }

    fn pcap_lib_version() -> *const c_char = null(); { VERSION.as_ptr() }

    fn pcap_statustostr(code: c_int) -> *const c_char = null(); {
        match status_text(code) {
            Some(text) => text.as_ptr(),
            None => kept(c_text(format!("Unknown error: {code}"))),
        }
    }

    fn pcap_strerror(number: c_int) -> *const c_char = null(); { kept(error_text(number)) }

    fn pcap_geterr(handle: Given<Handle>) -> *mut c_char = null_mut(); {
        handle.get().map_or(null_mut(), |handle| handle.error())
    }

    fn pcap_perror(handle: Given<Handle>, prefix: *const c_char) = (); {
        let Some(handle) = handle.get() else {
            return;
        };
        let error = text(handle.error()).unwrap_or(c"");
        let prefix = text(prefix).unwrap_or(c"");
        let line = [prefix.to_bytes(), b": ", error.to_bytes(), b"\n"].concat();
        let _ = Stdio::standard_error().write(&line);
    }

    fn pcap_snapshot(handle: Given<Handle>) -> c_int = abi::ERROR; {
        Handle::ask(handle, |state| Ok(state.snapshot))
    }

    fn pcap_is_swapped(handle: Given<Handle>) -> c_int = abi::ERROR; {
        Handle::ask(handle, |state| Ok(state.file().is_some_and(|file| file.is_swapped).into()))
    }

    fn pcap_major_version(handle: Given<Handle>) -> c_int = abi::ERROR; {
        Handle::ask(handle, |state| Ok(state.file().map_or(0, |file| file.version.0.into())))
    }

    fn pcap_minor_version(handle: Given<Handle>) -> c_int = abi::ERROR; {
        Handle::ask(handle, |state| Ok(state.file().map_or(0, |file| file.version.1.into())))
    }

    fn pcap_bufsize(handle: Given<Handle>) -> c_int = abi::ERROR; {
        Handle::ask(handle, |state| Ok(match &state.source {
            Source::Live(live) => live.buffer_bytes(),
            _ => 0,
        }))
    }

    fn pcap_get_tstamp_precision(handle: Given<Handle>) -> c_int = abi::ERROR; {
        Handle::run(handle, |_, state| Ok(match &state.source {
            Source::Created(settings) => settings.precision.number(),
            _ => state.precision.number(),
        }))
    }

    fn pcap_file(handle: Given<Handle>) -> *mut libc::FILE = null_mut(); {
        let handle = handle.get();
        let state = handle.as_ref().and_then(|handle| handle.state().ok());
        let stream = state.and_then(|state| state.file().map(|file| file.stream));
        stream.unwrap_or(null_mut())
    }

    fn pcap_fileno(handle: Given<Handle>) -> c_int = abi::ERROR; {
        Handle::run(handle, |_, state| Ok(match &mut state.source {
            // As documented, also for files.
            Source::Created(_) | Source::Dead | Source::File(..) => -1,
            Source::Live(live) => live.descriptor()?,
        }))
    }

    fn pcap_get_selectable_fd(handle: Given<Handle>) -> c_int = abi::ERROR; {
        Handle::run(handle, |_, state| Ok(match &mut state.source {
            Source::Live(live) => live.descriptor()?,
            Source::File(file, _) => file.descriptor,
            Source::Created(_) | Source::Dead => -1,
        }))
    }

    // Each device has a descriptor that reports its packets, so no timeout is needed.
    fn pcap_get_required_select_timeout(_handle: Given<Handle>) -> *const libc::timeval = null(); {
        null()
    }
}
