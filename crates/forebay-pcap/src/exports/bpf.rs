//! Filters, and the programs that they become.

use crate::{
    abi::{self, BpfProgram, PacketHeader},
    border::{NO_PLACE, c_text, exports, item, items, put, release, text},
    failure::Failure,
    filter,
    handle::{Handle, Source, State},
    registry::Given,
    stdio::Stdio,
};
use forebay_net::filter::{
    View,
    bpf::{Instruction, image, run_unchecked},
};
use std::{
    cell::RefCell,
    ffi::{CString, c_char, c_int, c_uchar, c_uint},
    ptr::null_mut,
};

thread_local! {
    /// The text that `bpf_image` returned last.
    static IMAGE: RefCell<CString> = RefCell::default();
}

/// A program without instructions, which [`pcap_freecode`] may also be called with.
const NONE: BpfProgram = BpfProgram {
    len: 0,
    instructions: null_mut(),
};

/// How a program that is compiled for this handle sees packets.
fn view(state: &State) -> View {
    match &state.source {
        Source::Live(live) => live.view(),
        _ => View::Packet,
    }
}

/// Runs a program over a packet.
fn decides(program: *const Instruction, len: usize, data: &[u8], wire_len: u32) -> u32 {
    let fetch = |at: usize| match at < len {
        true => item(program, at),
        false => None,
    };
    run_unchecked(fetch, data, wire_len)
}

exports! {
    // All programs are optimized, and no expression that is supported needs the mask.
    fn pcap_compile(
        handle: Given<Handle>,
        program: *mut BpfProgram,
        expression: *const c_char,
        _optimize: c_int,
        _netmask: u32,
    ) -> c_int = abi::ERROR; {
        put(program, NONE);
        let Some(handle) = handle.get() else {
            return abi::ERROR;
        };
        // Names may have to be looked up: meanwhile, other calls use the handle.
        let known = handle.state().and_then(|state| match state.source {
            Source::Created(_) => Err(Failure::new(
                abi::NOT_ACTIVATED,
                "not-yet-activated pcap_t passed to pcap_compile",
            )),
            _ if program.is_null() => Err(NO_PLACE.into()),
            _ => Ok((state.link, view(&state), state.snapshot)),
        });
        let compiled = known.and_then(|(link, view, snapshot)| {
            filter::handed_out(&filter::compile(text(expression), link, view, snapshot)?)
        });
        match compiled {
            Ok(compiled) => {
                put(program, compiled);
                0
            }
            Err(failure) => handle.fail(&failure),
        }
    }

    fn pcap_compile_nopcap(
        snaplen: c_int,
        link: c_int,
        program: *mut BpfProgram,
        expression: *const c_char,
        _optimize: c_int,
        _netmask: u32,
    ) -> c_int = abi::ERROR; {
        if program.is_null() {
            return abi::ERROR;
        }
        put(program, NONE);
        let compiled = filter::compile(text(expression), link, View::Packet, snaplen);
        match compiled.and_then(|compiled| filter::handed_out(&compiled)) {
            Ok(compiled) => {
                put(program, compiled);
                0
            }
            Err(failure) => failure.code,
        }
    }

    fn pcap_setfilter(handle: Given<Handle>, program: *const BpfProgram) -> c_int = abi::ERROR; {
        Handle::ask(handle, |state| {
            let Some(program) = item(program, 0) else {
                return Err("setfilter: No filter specified".into());
            };
            let program = filter::checked(&program)?;
            if let Source::Live(live) = &mut state.source {
                live.set_filter(&program)?;
            }
            state.filter = Some(program);
            Ok(0)
        })
    }

    fn pcap_freecode(program: *mut BpfProgram) = (); {
        if let Some(found) = item(program, 0) {
            release(found.instructions);
            put(program, NONE);
        }
    }

    fn pcap_offline_filter(
        program: *const BpfProgram,
        header: *const PacketHeader,
        data: *const c_uchar,
    ) -> c_int = 0; {
        let (Some(program), Some(header)) = (item(program, 0), item(header, 0)) else {
            return 0;
        };
        let Some(data) = items(data, header.caplen as usize) else {
            return 0;
        };
        if program.instructions.is_null() {
            return 0;
        }
        decides(program.instructions, program.len as usize, data, header.len) as c_int
    }

    fn bpf_filter(
        program: *const Instruction,
        data: *const c_uchar,
        wire_len: c_uint,
        len: c_uint,
    ) -> c_uint = 0; {
        if program.is_null() {
            // No filter accepts everything.
            return c_uint::MAX;
        }
        // The length of the program is not known: it ends with a return.
        let data = items(data, len as usize).unwrap_or(&[]);
        decides(program, usize::MAX, data, wire_len)
    }

    fn bpf_validate(program: *const Instruction, len: c_int) -> c_int = 0; {
        let valid = usize::try_from(len).ok().and_then(|len| filter::valid(program, len));
        valid.is_some().into()
    }

    fn bpf_image(instruction: *const Instruction, at: c_int) -> *mut c_char = null_mut(); {
        let Some(instruction) = item(instruction, 0) else {
            return null_mut();
        };
        let line = c_text(image(&instruction, usize::try_from(at).unwrap_or(0)));
        let keep = |kept: &RefCell<CString>| {
            *kept.borrow_mut() = line;
            kept.borrow().as_ptr().cast_mut()
        };
        IMAGE.try_with(keep).unwrap_or(null_mut())
    }

    fn bpf_dump(program: *const BpfProgram, option: c_int) = (); {
        let found = item(program, 0);
        let Some(found) = found.and_then(|it| items(it.instructions, it.len as usize)) else {
            return;
        };
        // The caller may have text in the same buffer.
        let _ = Stdio::standard_output().write(dumped(found, option).as_bytes());
    }
}

/// The text of a program, as `tcpdump -d`, `-dd` and `-ddd` print it.
fn dumped(program: &[Instruction], option: c_int) -> String {
    let numbered = program.iter().enumerate();
    let lines = numbered.map(|(at, it)| {
        let (code, yes, no, k) = (it.code, it.jump_true, it.jump_false, it.k);
        match option {
            ..=1 => format!("{}\n", image(it, at)),
            2 => format!("{{ {code:#x}, {yes}, {no}, {k:#010x} }},\n"),
            _ => format!("{code} {yes} {no} {k}\n"),
        }
    });
    let count = match option {
        3.. => format!("{}\n", program.len()),
        _ => String::new(),
    };
    count + &lines.collect::<String>()
}
