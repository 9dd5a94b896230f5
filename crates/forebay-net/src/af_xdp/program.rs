//! The two XDP programs. One puts the time before a frame, and gives the frame to the socket of its queue:
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
//!
//! The other one copies a frame into a ring buffer, and lets the stack have it:
//!
//! ```text
//!   r6 = context; another queue? ──────────────────────────────────▶ pass
//!   r7 = the frame's length; r8 = r7, up to the snapshot length
//!   r9 = bpf_ringbuf_reserve(room for r8 bytes) failed? ───────────▶ lost += 1 ─▶ pass
//!   bpf_xdp_load_bytes(context, 0, r9 + 24, r8)                      the verifier wants rooms of constant sizes
//!   r9 ◀ time 8 │ r7 4 │ r8 4 │ lost 8 │ frame
//!   exchange(asleep, 0) = 1? bpf_ringbuf_submit(r9, wake or not)
//!   pass: return XDP_PASS
//! ```

use crate::ebpf::{ASLEEP, Instruction, LOST, RingBuffer};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Bytes of the time stamp, directly before the frame.
pub(super) const STAMP_BYTES: usize = 8;

/// What is before a frame in the ring buffer: time, length, bytes kept, and the number of frames lost before.
pub(super) const RECORD_BYTES: usize = 24;
/// The longest part of a frame that the ring buffer takes.
pub(super) const MAX_KEPT: u32 = 65_536;
/// Rooms for frames in the ring buffer. A frame gets the smallest one into which it fits.
const ROOMS: [u32; 11] = [
    64, 128, 256, 512, 768, 1024, 1536, 2048, 4096, 9216, MAX_KEPT,
];

/// Instruction codes (linux/bpf.h).
const LOAD_WORD: u8 = 0x61;
const LOAD_DOUBLE: u8 = 0x79;
const LOAD_CONSTANT: u8 = 0x18;
const STORE_WORD: u8 = 0x63;
const STORE_DOUBLE: u8 = 0x7b;
const ADD_CONSTANT: u8 = 0x07;
const MOVE: u8 = 0xbf;
const MOVE_CONSTANT: u8 = 0xb7;
const CALL: u8 = 0x85;
const JUMP: u8 = 0x05;
const JUMP_EQUAL: u8 = 0x15;
const JUMP_NOT_EQUAL: u8 = 0x55;
const JUMP_GREATER: u8 = 0x2d;
const JUMP_GREATER_CONSTANT: u8 = 0x25;
const JUMP_LESS_CONSTANT: u8 = 0xa5;
/// With a constant that selects the operation.
const ATOMIC_WORD: u8 = 0xc3;
const ATOMIC_DOUBLE: u8 = 0xdb;
const ATOMIC_ADD: i32 = 0;
const ATOMIC_EXCHANGE: i32 = 0xe1;
const EXIT: u8 = 0x95;

/// Functions of the kernel.
const KTIME_GET_TAI_NS: i32 = 208;
const XDP_ADJUST_META: i32 = 54;
const REDIRECT_MAP: i32 = 51;
const XDP_GET_BUFF_LEN: i32 = 188;
const XDP_LOAD_BYTES: i32 = 189;
const RINGBUF_RESERVE: i32 = 131;
const RINGBUF_SUBMIT: i32 = 132;
const RINGBUF_DISCARD: i32 = 133;
/// Whether to wake a reader of a ring buffer (`BPF_RB_…`).
const NO_WAKEUP: i32 = 1;
const FORCE_WAKEUP: i32 = 2;

/// The source register of [`LOAD_CONSTANT`] that makes the constant a map's descriptor, or the address of the map's first value.
const MAP_DESCRIPTOR: u8 = 1;
const MAP_VALUE: u8 = 2;
/// Lets the stack have a frame.
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

/// The program that copies the first `snaplen` bytes of each frame, of one queue or of all, into this ring buffer. Linux 6.1.
pub(super) fn copy(ring: &RingBuffer, snaplen: u32, queue: Option<u32>) -> Vec<Instruction> {
    let mut code = Code::default();
    code.put(MOVE, of(6, 1), 0, 0);
    if let Some(queue) = queue {
        code.put(LOAD_WORD, of(1, 6), QUEUE, 0);
        code.jump(JUMP_NOT_EQUAL, 1, queue as i32, To::Pass);
    }
    code.put(MOVE, of(1, 6), 0, 0);
    code.put(CALL, 0, 0, XDP_GET_BUFF_LEN);
    code.put(MOVE, of(7, 0), 0, 0);
    code.put(MOVE, of(8, 7), 0, 0);
    // The kernel copies no 0 bytes. No frame is that short.
    code.jump(JUMP_LESS_CONSTANT, 8, 1, To::Pass);
    let kept = snaplen.clamp(1, MAX_KEPT);
    code.put(JUMP_GREATER_CONSTANT, 8, 1, kept as i32);
    code.put(JUMP, 0, 1, 0);
    code.put(MOVE_CONSTANT, 8, 0, kept as i32);
    let needed = ROOMS.iter().position(|&room| room >= kept);
    for &room in &ROOMS[..=needed.unwrap_or(ROOMS.len() - 1)] {
        let bytes = RECORD_BYTES as i32 + room as i32;
        let mut part = Code::default();
        part.map(1, MAP_DESCRIPTOR, ring.map());
        part.put(MOVE_CONSTANT, 2, 0, bytes);
        part.put(MOVE_CONSTANT, 3, 0, 0);
        part.put(CALL, 0, 0, RINGBUF_RESERVE);
        part.jump(JUMP_EQUAL, 0, 0, To::Lost);
        part.put(MOVE, of(9, 0), 0, 0);
        part.put(MOVE, of(1, 6), 0, 0);
        part.put(MOVE_CONSTANT, 2, 0, 0);
        part.put(MOVE, of(3, 9), 0, 0);
        part.put(ADD_CONSTANT, 3, 0, RECORD_BYTES as i32);
        part.put(MOVE, of(4, 8), 0, 0);
        part.put(CALL, 0, 0, XDP_LOAD_BYTES);
        part.jump(JUMP_EQUAL, 0, 0, To::Filled);
        part.jump(JUMP, 0, 0, To::Discard);
        let len = part.instructions.len() as i16;
        code.put(JUMP_GREATER_CONSTANT, 8, len, room as i32);
        code.append(part);
    }
    code.jump(JUMP, 0, 0, To::Lost);
    code.here(To::Discard);
    code.put(MOVE, of(1, 9), 0, 0);
    code.put(MOVE_CONSTANT, 2, 0, NO_WAKEUP);
    code.put(CALL, 0, 0, RINGBUF_DISCARD);
    code.here(To::Lost);
    code.map(1, MAP_VALUE, ring.words());
    code.put(MOVE_CONSTANT, 2, 0, 1);
    code.put(ATOMIC_DOUBLE, of(1, 2), LOST, ATOMIC_ADD);
    code.jump(JUMP, 0, 0, To::Pass);
    code.here(To::Filled);
    code.put(CALL, 0, 0, KTIME_GET_TAI_NS);
    code.put(STORE_DOUBLE, of(9, 0), 0, 0);
    code.put(STORE_WORD, of(9, 7), 8, 0);
    code.put(STORE_WORD, of(9, 8), 12, 0);
    code.map(1, MAP_VALUE, ring.words());
    code.put(LOAD_DOUBLE, of(2, 1), LOST, 0);
    code.put(STORE_DOUBLE, of(9, 2), 16, 0);
    code.put(MOVE_CONSTANT, 3, 0, 0);
    code.put(ATOMIC_WORD, of(1, 3), ASLEEP, ATOMIC_EXCHANGE);
    code.put(MOVE_CONSTANT, 2, 0, NO_WAKEUP);
    code.put(JUMP_EQUAL, 3, 1, 0);
    code.put(MOVE_CONSTANT, 2, 0, FORCE_WAKEUP);
    code.put(MOVE, of(1, 9), 0, 0);
    code.put(CALL, 0, 0, RINGBUF_SUBMIT);
    code.here(To::Pass);
    code.put(MOVE_CONSTANT, 0, 0, XDP_PASS);
    code.put(EXIT, 0, 0, 0);
    code.linked()
}

/// Places of the program that copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    Filled,
    Lost,
    Discard,
    Pass,
}

/// Instructions, jumps whose distance is still to be set, and the places to which they lead.
#[derive(Default)]
struct Code {
    instructions: Vec<Instruction>,
    jumps: Vec<(usize, To)>,
    places: Vec<(To, usize)>,
}

impl Code {
    fn put(&mut self, code: u8, registers: u8, offset: i16, constant: i32) {
        self.instructions
            .push(Instruction(code, registers, offset, constant));
    }

    /// Loads a map, or the address of its value.
    fn map(&mut self, register: u8, kind: u8, map: i32) {
        self.put(LOAD_CONSTANT, of(register, kind), 0, map);
        self.put(0, 0, 0, 0); // the upper half of the constant
    }

    fn jump(&mut self, code: u8, registers: u8, constant: i32, to: To) {
        self.jumps.push((self.instructions.len(), to));
        self.put(code, registers, 0, constant);
    }

    fn here(&mut self, place: To) {
        self.places.push((place, self.instructions.len()));
    }

    fn append(&mut self, part: Code) {
        let moved = self.instructions.len();
        self.instructions.extend(part.instructions);
        self.jumps
            .extend(part.jumps.into_iter().map(|(at, to)| (at + moved, to)));
    }

    /// The instructions, with all distances set.
    fn linked(mut self) -> Vec<Instruction> {
        for (at, to) in self.jumps {
            let place = self.places.iter().find(|(place, _)| *place == to);
            let place = place.map_or(at + 1, |&(_, place)| place);
            self.instructions[at].2 = (place - at - 1) as i16; // all jumps lead forward
        }
        self.instructions
    }
}
