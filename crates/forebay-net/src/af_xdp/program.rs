//! The XDP program: it puts the time before a frame, and gives the frame to the socket of its queue.
//!
//! ```text
//!   r6 = context
//!   r7 = bpf_ktime_get_tai_ns()                    ┐
//!   bpf_xdp_adjust_meta(context, -8) failed? ──┐   │ the time stamp: left out if
//!   is there room for 8 bytes?  no ────────────┤   │ the kernel has no such clock
//!   bytes before the frame = r7                │   ┘
//!   return bpf_redirect_map(map, queue, XDP_PASS) ◀┘
//! ```
//!
//! A frame whose queue has no socket goes to the stack, as if there were no program. The kernel copies the bytes before a frame with it.

use crate::ebpf::Instruction;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Bytes of the time stamp, directly before the frame.
pub(super) const STAMP_BYTES: usize = 8;

/// Instruction codes (linux/bpf.h).
const LOAD_WORD: u8 = 0x61;
const LOAD_CONSTANT: u8 = 0x18;
const STORE_DOUBLE: u8 = 0x7b;
const ADD_CONSTANT: u8 = 0x07;
const MOVE: u8 = 0xbf;
const MOVE_CONSTANT: u8 = 0xb7;
const CALL: u8 = 0x85;
const JUMP_NOT_EQUAL: u8 = 0x55;
const JUMP_GREATER: u8 = 0x2d;
const EXIT: u8 = 0x95;

/// Functions of the kernel.
const KTIME_GET_TAI_NS: i32 = 208;
const XDP_ADJUST_META: i32 = 54;
const REDIRECT_MAP: i32 = 51;

/// The source register of [`LOAD_CONSTANT`] that makes the constant a map's descriptor.
const MAP_DESCRIPTOR: u8 = 1;
/// What to do with a frame whose queue has no socket.
const XDP_PASS: i32 = 2;
/// Offsets in `struct xdp_md`.
const DATA: i16 = 0;
const DATA_META: i16 = 8;
const QUEUE: i16 = 16;

/// A destination and a source register.
const fn of(to: u8, from: u8) -> u8 {
    to | from << 4
}

/// The program for a map of sockets.
pub(super) fn redirect(map: BorrowedFd<'_>, stamps: bool) -> Vec<Instruction> {
    let mut program = vec![Instruction(MOVE, of(6, 1), 0, 0)];
    if stamps {
        program.extend([
            Instruction(CALL, 0, 0, KTIME_GET_TAI_NS),
            Instruction(MOVE, of(7, 0), 0, 0),
            Instruction(MOVE, of(1, 6), 0, 0),
            Instruction(MOVE_CONSTANT, 2, 0, -(STAMP_BYTES as i32)),
            Instruction(CALL, 0, 0, XDP_ADJUST_META),
            Instruction(JUMP_NOT_EQUAL, 0, 6, 0),
            Instruction(LOAD_WORD, of(2, 6), DATA_META, 0),
            Instruction(LOAD_WORD, of(3, 6), DATA, 0),
            Instruction(MOVE, of(4, 2), 0, 0),
            Instruction(ADD_CONSTANT, 4, 0, STAMP_BYTES as i32),
            Instruction(JUMP_GREATER, of(4, 3), 1, 0),
            Instruction(STORE_DOUBLE, of(2, 7), 0, 0),
        ]);
    }
    program.extend([
        Instruction(LOAD_WORD, of(2, 6), QUEUE, 0),
        Instruction(LOAD_CONSTANT, of(1, MAP_DESCRIPTOR), 0, map.as_raw_fd()),
        Instruction(0, 0, 0, 0), // the upper half of the constant
        Instruction(MOVE_CONSTANT, 3, 0, XDP_PASS),
        Instruction(CALL, 0, 0, REDIRECT_MAP),
        Instruction(EXIT, 0, 0, 0),
    ]);
    program
}
