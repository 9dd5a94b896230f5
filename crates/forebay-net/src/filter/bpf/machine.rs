//! Runs a program over one packet. Most instructions of filters load a field and compare it, so a load and the comparison
//! after it are joined to one step.
//!
//! ```text
//!  instructions   ldh [12]          jeq #0x800     ldb [23] …
//!  steps          ldh [12] · jeq    jeq #0x800     ldb [23] …
//!                        └────────────────────────▶ skips the joined comparison
//! ```
//!
//! The comparison also keeps its own place, for jumps that lead to it: the index of a step is that of its instruction.

use super::{code::*, instruction::Instruction};

/// One instruction, or two joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operation {
    /// As in [`code`](super::code), or one of the joined codes below.
    pub code: u8,
    pub jump_true: u8,
    pub jump_false: u8,
    /// The offset from which a joined step loads.
    pub offset: u8,
    pub k: u32,
}

/// `ld [offset]`, `jeq #k`. Classic BPF does not use these codes.
pub(super) const LD_JEQ: u16 = 0xE0;
/// `ldh [offset]`, `jeq #k`
pub(super) const LDH_JEQ: u16 = 0xE8;
/// `ldb [offset]`, `jeq #k`
pub(super) const LDB_JEQ: u16 = 0xF0;
/// `ldh [x + offset]`, `jeq #k`
pub(super) const LDH_IND_JEQ: u16 = 0xF8;

/// `ldh [offset]`, `jset #k`
pub(super) const LDH_JSET: u16 = 0xEF;
/// `ldb [x + offset]`, `jset #k`
pub(super) const LDB_IND_JSET: u16 = 0xF7;

/// An instruction that is not joined to the next one. `None`: there is no such instruction.
pub(super) fn single(instruction: Instruction) -> Option<Operation> {
    let is_joined = |code| {
        let joined = [
            LD_JEQ,
            LDH_JEQ,
            LDB_JEQ,
            LDH_IND_JEQ,
            LDH_JSET,
            LDB_IND_JSET,
        ];
        joined.contains(&code)
    };
    Some(Operation {
        code: u8::try_from(instruction.code).ok()?,
        jump_true: instruction.jump_true,
        jump_false: instruction.jump_false,
        offset: 0,
        k: instruction.k,
    })
    .filter(|_| !is_joined(instruction.code))
}

pub(super) fn steps(program: &[Instruction]) -> Vec<Operation> {
    let step = |at: usize| {
        let one = &program[at];
        let two = program.get(at + 1).unwrap_or(one);
        let pair = match (one.code, two.code) {
            (LD_ABS, JEQ_K) => Some(LD_JEQ),
            (LDH_ABS, JEQ_K) => Some(LDH_JEQ),
            (LDB_ABS, JEQ_K) => Some(LDB_JEQ),
            (LDH_IND, JEQ_K) => Some(LDH_IND_JEQ),
            (LDH_ABS, JSET_K) => Some(LDH_JSET),
            (LDB_IND, JSET_K) => Some(LDB_IND_JSET),
            _ => None,
        };
        let (code, offset, last) = match (pair, u8::try_from(one.k)) {
            (Some(pair), Ok(offset)) => (pair, offset, two),
            _ => (one.code, 0, one),
        };
        Operation {
            code: code as u8,
            jump_true: last.jump_true,
            jump_false: last.jump_false,
            offset,
            k: last.k,
        }
    };
    (0..program.len()).map(step).collect()
}

impl Operation {
    /// Whether this step rejects every packet that reaches it.
    pub fn rejects(&self) -> bool {
        (self.code.into(), self.k) == (RET_K, 0)
    }
}

/// The state of a program that runs over a packet.
#[derive(Clone, Copy, Default)]
pub(super) struct Registers {
    pub next: usize,
    pub a: u32,
    pub x: u32,
}

/// What a program reads of a packet, in network byte order; `None` outside the packet.
pub(super) trait Loads: Copy {
    fn word(self, at: usize) -> Option<u32>;
    fn half(self, at: usize) -> Option<u32>;
    fn byte(self, at: usize) -> Option<u32>;
}

impl Loads for &[u8] {
    #[inline(always)]
    fn word(self, at: usize) -> Option<u32> {
        word(self, at)
    }

    #[inline(always)]
    fn half(self, at: usize) -> Option<u32> {
        half(self, at)
    }

    #[inline(always)]
    fn byte(self, at: usize) -> Option<u32> {
        byte(self, at)
    }
}

/// The number of bytes to keep. `None`: a load was outside the packet, the program divided by 0, or `program` has no step at a place.
#[inline]
pub(super) fn run(
    program: impl Fn(usize) -> Option<Operation>,
    from: Registers,
    scratch: &mut [u32],
    data: impl Loads,
    wire_len: u32,
) -> Option<u32> {
    let Registers {
        mut next,
        mut a,
        mut x,
    } = from;
    loop {
        let step = program(next)?;
        let (k, offset) = (step.k, step.offset as usize);
        let skip = |holds: bool| {
            if holds {
                return usize::from(step.jump_true);
            }
            branched();
            usize::from(step.jump_false)
        };
        next += 1;
        match step.code.into() {
            LD_ABS => a = data.word(k as usize)?,
            LDH_ABS => a = data.half(k as usize)?,
            LDB_ABS => a = data.byte(k as usize)?,
            LD_IND => a = data.word(sum(x, k)?)?,
            LDH_IND => a = data.half(sum(x, k)?)?,
            LDB_IND => a = data.byte(sum(x, k)?)?,
            LDX_MSH => x = (data.byte(k as usize)? & 0xF) * 4,
            LD_IMM => a = k,
            LDX_IMM => x = k,
            LD_LEN => a = wire_len,
            LDX_LEN => x = wire_len,
            LD_MEM => a = *scratch.get(k as usize)?,
            LDX_MEM => x = *scratch.get(k as usize)?,
            // The cells of a program that never reads one are an empty slice.
            ST => scratch.get_mut(k as usize).map_or((), |cell| *cell = a),
            STX => scratch.get_mut(k as usize).map_or((), |cell| *cell = x),
            TAX => x = a,
            TXA => a = x,

            LD_JEQ => {
                a = data.word(offset)?;
                next += 1 + skip(a == k);
            }
            LDH_JEQ => {
                a = data.half(offset)?;
                next += 1 + skip(a == k);
            }
            LDB_JEQ => {
                a = data.byte(offset)?;
                next += 1 + skip(a == k);
            }
            LDH_IND_JEQ => {
                a = data.half(sum(x, offset as u32)?)?;
                next += 1 + skip(a == k);
            }

            LDH_JSET => {
                a = data.half(offset)?;
                next += 1 + skip(a & k != 0);
            }
            LDB_IND_JSET => {
                a = data.byte(sum(x, offset as u32)?)?;
                next += 1 + skip(a & k != 0);
            }

            JEQ_K => next += skip(a == k),
            JEQ_X => next += skip(a == x),
            JGT_K => next += skip(a > k),
            JGT_X => next += skip(a > x),
            JGE_K => next += skip(a >= k),
            JGE_X => next += skip(a >= x),
            JSET_K => next += skip(a & k != 0),
            JSET_X => next += skip(a & x != 0),
            // A program that is not checked may jump back, as those of libpcap with `protochain` do.
            JA => next = next.wrapping_add(k as i32 as usize),

            ADD_K => a = a.wrapping_add(k),
            ADD_X => a = a.wrapping_add(x),
            SUB_K => a = a.wrapping_sub(k),
            SUB_X => a = a.wrapping_sub(x),
            MUL_K => a = a.wrapping_mul(k),
            MUL_X => a = a.wrapping_mul(x),
            DIV_K => a = a.checked_div(k)?,
            DIV_X => a = a.checked_div(x)?,
            MOD_K => a = a.checked_rem(k)?,
            MOD_X => a = a.checked_rem(x)?,
            AND_K => a &= k,
            AND_X => a &= x,
            OR_K => a |= k,
            OR_X => a |= x,
            XOR_K => a ^= k,
            XOR_X => a ^= x,
            LSH_K => a = a.checked_shl(k).unwrap_or(0),
            LSH_X => a = a.checked_shl(x).unwrap_or(0),
            RSH_K => a = a.checked_shr(k).unwrap_or(0),
            RSH_X => a = a.checked_shr(x).unwrap_or(0),
            NEG => a = a.wrapping_neg(),

            RET_K => return Some(k),
            RET_A => return Some(a),
            _ => return None,
        }
    }
}

/// Makes the compiler emit a branch, which the processor predicts. With a conditional move instead, the next step would wait for
/// the loaded bytes, which took 50 % longer.
#[cold]
#[inline(always)]
fn branched() {}

#[inline(always)]
pub(super) fn sum(x: u32, k: u32) -> Option<usize> {
    let at = (x as usize).checked_add(k as usize)?;
    // The kernel's metadata is for absolute loads only.
    (at < KERNEL as usize).then_some(at)
}

/// An offset is a 32-bit number or a sum of two, so its end never wraps.
#[inline(always)]
fn bytes<const N: usize>(data: &[u8], at: usize) -> Option<[u8; N]> {
    data.get(at..at + N)?.try_into().ok()
}

#[inline(always)]
pub(super) fn word(data: &[u8], at: usize) -> Option<u32> {
    bytes(data, at).map(u32::from_be_bytes)
}

#[inline(always)]
pub(super) fn half(data: &[u8], at: usize) -> Option<u32> {
    bytes(data, at).map(|two| u16::from_be_bytes(two).into())
}

#[inline(always)]
pub(super) fn byte(data: &[u8], at: usize) -> Option<u32> {
    data.get(at).copied().map(u32::from)
}
