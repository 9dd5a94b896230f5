//! Filters: compiled by `forebay_net::filter`, and kept in the structures of `pcap/bpf.h`.

use crate::{
    abi::BpfProgram,
    border::{allocated, items},
    failure::Failure,
    linktypes,
};
use forebay_net::filter::{
    Filter, View,
    bpf::{Instruction, Program},
};
use std::ffi::{CStr, c_int};

/// Compiles an expression for packets of libpcap's link type `link`.
pub fn compile(
    text: Option<&CStr>,
    link: c_int,
    view: View,
    snaplen: c_int,
) -> Result<Program, Failure> {
    let snaplen = match u32::try_from(snaplen) {
        Ok(0) => return Err("snaplen of 0 rejects all packets".into()),
        Ok(snaplen) => snaplen,
        Err(_) => u32::MAX,
    };
    let Some(link) = linktypes::in_file(link) else {
        return Err(format!("unknown data link type {link}").into());
    };
    let text = match text.map(CStr::to_str) {
        None => "",
        Some(Ok(text)) => text,
        Some(Err(_)) => return Err("the filter expression is not UTF-8".into()),
    };
    let filter: Filter = text.parse().map_err(failure)?;
    filter.compile(link, view, snaplen).map_err(failure)
}

fn failure(error: forebay_net::filter::Error) -> Failure {
    error.what().into()
}

/// The program in memory that `pcap_freecode` releases.
pub fn handed_out(program: &Program) -> Result<BpfProgram, Failure> {
    let instructions = allocated(program.instructions());
    match instructions.is_null() {
        true => Err("malloc: out of memory".into()),
        false => Ok(BpfProgram {
            len: program.instructions().len() as u32,
            instructions,
        }),
    }
}

/// Checks a program of any origin.
pub fn checked(program: &BpfProgram) -> Result<Program, Failure> {
    let program = valid(program.instructions, program.len as usize);
    program.ok_or_else(|| "BPF program is not valid".into())
}

/// The program at a place that the caller passed, if it is valid.
pub fn valid(instructions: *const Instruction, len: usize) -> Option<Program> {
    // A length that was never set must not be read, nor reserved.
    let len = (len <= Program::MAX_LEN).then_some(len)?;
    Program::new(items(instructions, len)?.to_vec()).ok()
}
