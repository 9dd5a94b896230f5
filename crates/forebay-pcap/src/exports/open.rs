//! Opening and closing handles.

use crate::{
    abi,
    border::{exports, message, text, without_signals},
    device_name::device_name,
    failure::Failure,
    handle::{Handle, Source, State},
    linktypes,
    live::Live,
    registry::{Given, Registered},
    settings::Settings,
    stdio::{Stdio, error_text},
    timestamps::Precision,
};
use std::{
    ffi::{CStr, c_char, c_int, c_uint},
    ptr::null_mut,
    sync::Arc,
};

/// A new handle for the program, or null and a message.
fn handed(opened: Result<Handle, Failure>, errors: *mut c_char) -> *mut Handle {
    match opened {
        Ok(handle) => {
            message(errors, "");
            Handle::registry().give(handle)
        }
        Err(failure) => {
            message(errors, &failure.text);
            null_mut()
        }
    }
}

fn precision(number: c_uint) -> Result<Precision, Failure> {
    let known = c_int::try_from(number).ok().and_then(Precision::numbered);
    known.ok_or_else(|| format!("unknown time stamp resolution {number}").into())
}

fn opened_file(path: Option<&CStr>, number: c_uint) -> Result<Handle, Failure> {
    let Some(path) = path else {
        return Err("A null pointer was supplied as the file name".into());
    };
    let precision = precision(number)?;
    let stream = match path.to_bytes() {
        b"-" => Stdio::standard_input(),
        _ => Stdio::open(path, c"r").map_err(|error| {
            let why = error_text(error.raw_os_error().unwrap_or(0));
            format!("{}: {}", path.to_string_lossy(), why.to_string_lossy())
        })?,
    };
    Handle::of_file(stream, precision)
}

fn opened_stream(stream: *mut libc::FILE, number: c_uint) -> Result<Handle, Failure> {
    let precision = precision(number)?;
    let Some(stream) = Stdio::lent(stream) else {
        return Err("Null FILE * pointer provided to savefile open routine".into());
    };
    // If this fails, the stream stays the program's.
    let handle = Handle::of_file(stream, precision)?;
    if let Source::File(_, file) = &handle.state()?.source {
        file.hold()?.stream().keep();
    }
    Ok(handle)
}

/// Opens the device of a created handle.
fn activate(handle: &Handle, state: &mut State) -> Result<c_int, Failure> {
    let settings = match &state.source {
        Source::Created(settings) => settings,
        _ => return Err(Failure::activated()),
    };
    if settings.monitor {
        return Err(Failure::new(abi::RFMON_NOTSUP, ""));
    }
    handle.wake()?;
    let (mut live, link) = without_signals(|| Live::open(settings))?;
    let sender = live.sender()?;
    handle.counts.note(live.stats());
    let _ = handle.sender.set(sender);
    state.precision = settings.precision;
    state.snapshot = live.snaplen();
    state.link = linktypes::of_file(link);
    state.source = Source::Live(Box::new(live));
    Ok(0)
}

exports! {
    fn pcap_create(device: *const c_char, errors: *mut c_char) -> *mut Handle = null_mut(); {
        let device = device_name(text(device).unwrap_or(c"any"));
        handed(Ok(Handle::created(Settings::of(device))), errors)
    }

    fn pcap_activate(handle: Given<Handle>) -> c_int = abi::ERROR; {
        Handle::run(handle, activate)
    }

    fn pcap_open_live(
        device: *const c_char,
        snaplen: c_int,
        promiscuous: c_int,
        timeout: c_int,
        errors: *mut c_char,
    ) -> *mut Handle = null_mut(); {
        let device = device_name(text(device).unwrap_or(c"any"));
        let shown = device.to_string_lossy().into_owned();
        let handle = Handle::created(Settings {
            snaplen,
            promiscuous: promiscuous != 0,
            timeout,
            ..Settings::of(device)
        });
        let activated = handle.state().and_then(|mut state| activate(&handle, &mut state));
        let opened = activated.map_err(|failure| format!("{shown}: {}", failure.text).into());
        handed(opened.map(|_| handle), errors)
    }

    fn pcap_open_dead(link: c_int, snaplen: c_int) -> *mut Handle = null_mut(); {
        handed(Ok(Handle::dead(link, snaplen, Precision::Micro)), null_mut())
    }

    fn pcap_open_dead_with_tstamp_precision(
        link: c_int,
        snaplen: c_int,
        number: c_uint,
    ) -> *mut Handle = null_mut(); {
        let opened = precision(number).map(|precision| Handle::dead(link, snaplen, precision));
        handed(opened, null_mut())
    }

    fn pcap_open_offline(path: *const c_char, errors: *mut c_char) -> *mut Handle = null_mut(); {
        handed(opened_file(text(path), 0), errors)
    }

    fn pcap_open_offline_with_tstamp_precision(
        path: *const c_char,
        number: c_uint,
        errors: *mut c_char,
    ) -> *mut Handle = null_mut(); {
        handed(opened_file(text(path), number), errors)
    }

    fn pcap_fopen_offline(
        stream: *mut libc::FILE,
        errors: *mut c_char,
    ) -> *mut Handle = null_mut(); {
        handed(opened_stream(stream, 0), errors)
    }

    fn pcap_fopen_offline_with_tstamp_precision(
        stream: *mut libc::FILE,
        number: c_uint,
        errors: *mut c_char,
    ) -> *mut Handle = null_mut(); {
        handed(opened_stream(stream, number), errors)
    }

    // A loop that is handing a packet to the program ends afterwards.
    fn pcap_close(handle: Given<Handle>) = (); {
        if let Some(handle) = handle.close() {
            // Not without one: a process that has forked shares the descriptor that ends a wait.
            if Arc::strong_count(&handle) > 1 {
                handle.break_loop();
            }
            // Connections to a share are closed by threads, which shall not run the program's handlers.
            without_signals(|| drop(handle));
        }
    }
}
