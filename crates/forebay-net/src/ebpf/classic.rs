//! Translates a classic program that selects frames to eBPF that does the same, and also counts the frames that it rejects.
//!
//! The kernel translates every classic program this way itself (net/core/filter.c), but a classic program cannot count.
//!
//! ```text
//!   r6 = context, r7 = X, r8 = the frame's length, r9 = A, stack = M[16]
//!   load      r8 < offset + size? ──▶ reject        so no load ends the program by itself
//!   return k  r0 = k; exit                          k = 0 ──▶ reject
//!   reject:   counters[processor % SLOTS] += 1; r0 = 0; exit
//! ```

use super::{Instruction, KernelCounters, SLOT_BYTES, SLOTS};
use crate::filter::bpf::{
    self,
    code::{self, *},
};
use std::os::fd::AsRawFd;

/// Registers.
const RESULT: u8 = 0;
const CONTEXT: u8 = 6;
const X: u8 = 7;
const LEN: u8 = 8;
const A: u8 = 9;
const STACK: u8 = 10;

/// Instruction codes of eBPF (linux/bpf.h). Those of arithmetic and of loads from a frame are those of classic BPF.
const MOVE: u8 = 0xbf;
const MOVE_WORD: u8 = 0xbc;
const SET_WORD: u8 = 0xb4;
const LOAD_WORD: u8 = 0x61;
const STORE_WORD: u8 = 0x63;
const LOAD_ADDRESS: u8 = 0x18;
const ADD: u8 = 0x0f;
const ADD_CONSTANT: u8 = 0x07;
const SHIFT_LEFT_CONSTANT: u8 = 0x67;
const ATOMIC_ADD: u8 = 0xdb;
const JUMP: u8 = 0x05;
const JUMP_GREATER: u8 = 0x2d;
/// On 32 bits, as classic BPF compares.
const JUMP_EQUAL_WORD: u8 = 0x16;
const JUMP_LESS_WORD: u8 = 0xa6;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// The function of the kernel that returns the processor's number.
const PROCESSOR: i32 = 8;
/// The source register of [`LOAD_ADDRESS`] that makes the constant a map, and the result the address of its first value.
const MAP_VALUE: u8 = 2;
/// Offsets in `struct __sk_buff`.
const CONTEXT_LEN: i16 = 0;
const CONTEXT_PACKET_TYPE: i16 = 4;
const CONTEXT_VLAN_PRESENT: i16 = 20;
const CONTEXT_VLAN_TAG: i16 = 24;
const CONTEXT_INTERFACE: i16 = 40;

#[derive(Clone, Copy)]
enum JumpTarget {
    /// A classic instruction.
    At(usize),
    Reject,
}

#[derive(Default)]
struct Translation {
    code: Vec<Instruction>,
    /// Jumps whose distance is still to be set.
    jumps: Vec<(usize, JumpTarget)>,
}

/// The program that makes the same decisions and counts rejections in `counters`. `None`: it reads metadata that eBPF programs cannot
/// read, or it is too long.
pub(crate) fn counting(
    program: &[bpf::Instruction],
    counters: &KernelCounters,
) -> Option<Vec<Instruction>> {
    let mut all = Translation::default();
    all.put(MOVE, of(CONTEXT, 1), 0, 0);
    all.put(LOAD_WORD, of(LEN, CONTEXT), CONTEXT_LEN, 0);
    all.put(SET_WORD, X, 0, 0);
    all.put(SET_WORD, A, 0, 0);
    let mut starts = Vec::with_capacity(program.len());
    // The kernel refuses instructions that nothing leads to.
    let mut is_reached = vec![false; program.len()];
    *is_reached.first_mut()? = true;
    for (at, instruction) in program.iter().enumerate() {
        starts.push(all.code.len());
        if is_reached[at] {
            all.translate(at, *instruction)?;
            for next in followers(at, *instruction) {
                *is_reached.get_mut(next)? = true;
            }
        }
    }
    let reject = all.code.len();
    let mut targets = all.jumps.iter().map(|(_, to)| to);
    if targets.any(|to| matches!(to, JumpTarget::Reject)) {
        all.count_and_reject(counters);
    }
    for (at, to) in all.jumps {
        let to = match to {
            JumpTarget::At(classic) => starts[classic],
            JumpTarget::Reject => reject,
        };
        all.code[at].2 = i16::try_from(to - at - 1).ok()?;
    }
    Some(all.code)
}

/// The instructions that may be executed after this one.
fn followers(at: usize, instruction: bpf::Instruction) -> impl Iterator<Item = usize> {
    let next = at + 1;
    let skips = match instruction.code {
        RET_K | RET_A => [None, None],
        JA => [Some(instruction.k as usize), None],
        // Only in jumps, which have the lowest three bits of this one, do the fields mean something.
        jump if jump & 7 == JA => {
            [instruction.jump_true, instruction.jump_false].map(|it| Some(usize::from(it)))
        }
        _ => [Some(0), None],
    };
    skips.into_iter().flatten().map(move |skip| next + skip)
}

/// A destination and a source register.
const fn of(to: u8, from: u8) -> u8 {
    to | from << 4
}

/// Where a scratch cell lies in the stack.
fn cell(number: u32) -> i16 {
    4 * number as i16 - 4 * code::SCRATCH as i16
}

impl Translation {
    fn put(&mut self, code: u8, registers: u8, offset: i16, constant: i32) {
        self.code
            .push(Instruction(code, registers, offset, constant));
    }

    fn jump(&mut self, code: u8, registers: u8, constant: i32, to: JumpTarget) {
        self.jumps.push((self.code.len(), to));
        self.put(code, registers, 0, constant);
    }

    fn translate(&mut self, at: usize, instruction: bpf::Instruction) -> Option<()> {
        let bpf::Instruction { code, k, .. } = instruction;
        let constant = k as i32;
        match code {
            LD_ABS | LDH_ABS | LDB_ABS if k >= KERNEL => {
                let field = match k {
                    KERNEL_PACKET_TYPE => CONTEXT_PACKET_TYPE,
                    KERNEL_INTERFACE => CONTEXT_INTERFACE,
                    KERNEL_VLAN_TAG => CONTEXT_VLAN_TAG,
                    KERNEL_VLAN_PRESENT => CONTEXT_VLAN_PRESENT,
                    _ => return None,
                };
                self.put(LOAD_WORD, of(A, CONTEXT), field, 0);
            }
            LD_ABS | LDH_ABS | LDB_ABS | LDX_MSH => {
                let size = size(code);
                let end = i32::try_from(k).ok()?.checked_add(size)?;
                self.jump(JUMP_LESS_WORD, LEN, end, JumpTarget::Reject);
                match code {
                    LDX_MSH => {
                        self.put(LDB_ABS as u8, 0, 0, constant);
                        self.put(AND_K as u8, RESULT, 0, 0xf);
                        self.put(LSH_K as u8, RESULT, 0, 2);
                        self.put(MOVE_WORD, of(X, RESULT), 0, 0);
                    }
                    _ => {
                        self.put(code as u8, 0, 0, constant);
                        self.put(MOVE_WORD, of(A, RESULT), 0, 0);
                    }
                }
            }
            LD_IND | LDH_IND | LDB_IND => {
                // The sum has 64 bits, so it does not wrap.
                let end = i32::try_from(k).ok()?.checked_add(size(code))?;
                self.put(MOVE, of(2, X), 0, 0);
                self.put(ADD_CONSTANT, 2, 0, end);
                self.jump(JUMP_GREATER, of(2, LEN), 0, JumpTarget::Reject);
                self.put(code as u8, of(0, X), 0, constant);
                self.put(MOVE_WORD, of(A, RESULT), 0, 0);
            }
            LD_IMM => self.put(SET_WORD, A, 0, constant),
            LDX_IMM => self.put(SET_WORD, X, 0, constant),
            LD_LEN => self.put(MOVE_WORD, of(A, LEN), 0, 0),
            LDX_LEN => self.put(MOVE_WORD, of(X, LEN), 0, 0),
            LD_MEM => self.put(LOAD_WORD, of(A, STACK), cell(k), 0),
            LDX_MEM => self.put(LOAD_WORD, of(X, STACK), cell(k), 0),
            ST => self.put(STORE_WORD, of(STACK, A), cell(k), 0),
            STX => self.put(STORE_WORD, of(STACK, X), cell(k), 0),
            TAX => self.put(MOVE_WORD, of(X, A), 0, 0),
            TXA => self.put(MOVE_WORD, of(A, X), 0, 0),
            DIV_X | MOD_X => {
                self.jump(JUMP_EQUAL_WORD, X, 0, JumpTarget::Reject);
                self.put(code as u8, of(A, X), 0, 0);
            }
            ADD_X | SUB_X | MUL_X | OR_X | AND_X | XOR_X | LSH_X | RSH_X => {
                self.put(code as u8, of(A, X), 0, 0)
            }
            NEG => self.put(code as u8, A, 0, 0),
            ADD_K | SUB_K | MUL_K | DIV_K | MOD_K | OR_K | AND_K | XOR_K | LSH_K | RSH_K => {
                self.put(code as u8, A, 0, constant)
            }
            JA => self.jump(JUMP, 0, 0, JumpTarget::At(at + 1 + k as usize)),
            RET_K if k == 0 => self.jump(JUMP, 0, 0, JumpTarget::Reject),
            RET_K => {
                self.put(SET_WORD, RESULT, 0, constant);
                self.put(EXIT, 0, 0, 0);
            }
            RET_A => {
                self.jump(JUMP_EQUAL_WORD, A, 0, JumpTarget::Reject);
                self.put(MOVE_WORD, of(RESULT, A), 0, 0);
                self.put(EXIT, 0, 0, 0);
            }
            _ => self.branch(at, instruction),
        }
        Some(())
    }

    /// A conditional jump. Its class for 32 bits is one above that of classic BPF.
    fn branch(&mut self, at: usize, instruction: bpf::Instruction) {
        let bpf::Instruction {
            code,
            jump_true,
            jump_false,
            k,
        } = instruction;
        let to = |skip: u8| JumpTarget::At(at + 1 + usize::from(skip));
        let (registers, constant) = match code {
            JEQ_X | JGT_X | JGE_X | JSET_X => (of(A, X), 0),
            _ => (A, k as i32),
        };
        let opposite = match code & 0xf7 {
            JEQ_K => Some(0x50),
            JGT_K => Some(0xb0), // at most
            JGE_K => Some(0xa0), // less
            _ => None,
        };
        match opposite {
            Some(opposite) if jump_true == 0 => {
                let code = opposite | (code as u8 & 0x08) | 0x06;
                self.jump(code, registers, constant, to(jump_false));
            }
            _ => {
                self.jump(code as u8 + 1, registers, constant, to(jump_true));
                if jump_false > 0 {
                    self.jump(JUMP, 0, 0, to(jump_false));
                }
            }
        }
    }

    fn count_and_reject(&mut self, counters: &KernelCounters) {
        self.put(CALL, 0, 0, PROCESSOR);
        self.put(AND_K as u8, RESULT, 0, SLOTS as i32 - 1);
        let shift = SLOT_BYTES.ilog2() as i32;
        self.put(SHIFT_LEFT_CONSTANT, RESULT, 0, shift);
        let map = counters.map.as_raw_fd();
        self.put(LOAD_ADDRESS, of(1, MAP_VALUE), 0, map);
        self.put(0, 0, 0, 0); // the offset from there
        self.put(ADD, of(1, RESULT), 0, 0);
        self.put(SET_WORD, 2, 0, 1);
        self.put(ATOMIC_ADD, of(1, 2), 0, 0);
        self.put(SET_WORD, RESULT, 0, 0);
        self.put(EXIT, 0, 0, 0);
    }
}

/// Bytes that a load reads.
fn size(code: u16) -> i32 {
    match code {
        LD_ABS | LD_IND => 4,
        LDH_ABS | LDH_IND => 2,
        _ => 1,
    }
}
