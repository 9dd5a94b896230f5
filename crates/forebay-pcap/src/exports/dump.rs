//! Capture files that programs write.

use crate::{
    abi::{self, PacketHeader},
    border::{exports, guarded_if_cancelled, items, text},
    dumper::{Described, Dumper},
    failure::Failure,
    handle::{Handle, State},
    linktypes,
    registry::{Given, Registered},
};
use std::{
    ffi::{CStr, c_char, c_int, c_long, c_uchar},
    ptr::null_mut,
};

/// What the header of a file for packets of this handle describes.
fn described(state: &State) -> Result<Described, Failure> {
    state.activated().map_err(|_| {
        Failure::new(
            abi::NOT_ACTIVATED,
            "not-yet-activated pcap_t passed to pcap_dump_open",
        )
    })?;
    let link = linktypes::in_file(state.link);
    Ok(Described {
        link: link.ok_or_else(|| {
            format!(
                "link-layer type {} isn't supported in savefiles",
                state.link
            )
        })?,
        extension: state.file().map_or(0, |file| file.link_extension),
        snaplen: state.snapshot as u32,
        precision: state.precision,
    })
}

/// A new dumper for the program; null if it cannot be opened, for which the handle has the reason.
fn dumper(
    handle: Given<Handle>,
    open: impl FnOnce(&Described) -> Result<Dumper, Failure>,
) -> *mut Dumper {
    let Some(handle) = handle.get() else {
        return null_mut();
    };
    let described = handle.state().and_then(|state| described(&state));
    match described.and_then(|described| open(&described)) {
        // As in libpcap, the program can use it as a stream.
        Ok(dumper) => {
            let stream = dumper.stream().stream().cast();
            Dumper::registry().give_as(stream, dumper)
        }
        Err(failure) => {
            handle.fail(&failure);
            null_mut()
        }
    }
}

fn named(path: *const c_char) -> Result<&'static CStr, Failure> {
    text(path).ok_or_else(|| "A null pointer was supplied as the file name".into())
}

#[allow(unsafe_code)] // As in `exports!`.
#[unsafe(no_mangle)]
extern "C" fn pcap_dump(dumper: *mut c_uchar, header: *const PacketHeader, data: *const c_uchar) {
    guarded_if_cancelled((), || {
        // In place: a copy would wait for the fields that were stored just before.
        let Some([header]) = items(header, 1) else {
            return;
        };
        if let Some(data) = items(data, header.caplen as usize) {
            Given(dumper.cast::<Dumper>()).with(|dumper| dumper.write(header, data));
        }
    });
}

exports! {
    fn pcap_dump_open(handle: Given<Handle>, path: *const c_char) -> *mut Dumper = null_mut(); {
        dumper(handle, |described| Dumper::create(named(path)?, described))
    }

    fn pcap_dump_open_append(
        handle: Given<Handle>,
        path: *const c_char,
    ) -> *mut Dumper = null_mut(); {
        dumper(handle, |described| Dumper::append(named(path)?, described))
    }

    fn pcap_dump_fopen(
        handle: Given<Handle>,
        stream: *mut libc::FILE,
    ) -> *mut Dumper = null_mut(); {
        dumper(handle, |described| Dumper::adopt(stream, described))
    }

    fn pcap_dump_file(dumper: Given<Dumper>) -> *mut libc::FILE = null_mut(); {
        dumper.get().map_or(null_mut(), |dumper| dumper.stream().stream())
    }

    fn pcap_dump_ftell(dumper: Given<Dumper>) -> c_long = -1; {
        dumper.get().map_or(-1, |dumper| dumper.stream().tell())
    }

    fn pcap_dump_ftell64(dumper: Given<Dumper>) -> i64 = -1; {
        dumper.get().map_or(-1, |dumper| dumper.stream().tell())
    }

    fn pcap_dump_flush(dumper: Given<Dumper>) -> c_int = abi::ERROR; {
        match dumper.get().map(|dumper| dumper.stream().flush()) {
            Some(Ok(())) => 0,
            _ => abi::ERROR,
        }
    }

    fn pcap_dump_close(dumper: Given<Dumper>) = (); { drop(dumper.close()) }
}
