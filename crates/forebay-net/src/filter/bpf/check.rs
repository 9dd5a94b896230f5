//! The rules that a program must keep, so that [`run`](super::Program::run) can skip all checks. They are those of the
//! kernel's `bpf_check_classic`, except for the length.

use super::{code::*, instruction::Instruction};

/// The maximum number of instructions of a program.
pub(super) const MAX_LEN: usize = 65_535;

/// Why a sequence of instructions is not a valid program.
///
/// ```
/// use forebay_net::filter::bpf::{Instruction, Program, code};
/// let invalid = Program::new(vec![Instruction::new(code::LDH_ABS, 12)]).unwrap_err();
/// assert_eq!(invalid.to_string(), "instruction 0 (code 0x28): the last instruction is not a return");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    text: String,
}

impl Invalid {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Invalid { text: text.into() }
    }
}

forebay::coded!([] Invalid, "filter", {
    Invalid { text } => Code::Invalid, "{text}";
});

pub(super) fn check(instructions: &[Instruction]) -> Result<(), Invalid> {
    let len = instructions.len();
    if !(1..=MAX_LEN).contains(&len) {
        return Err(Invalid::new(format!(
            "a program has 1 to {MAX_LEN} instructions, not {len}"
        )));
    }
    // Jumps only go forward, so a single pass sees every path to an instruction before the instruction itself. A bit is set
    // for each scratch cell that every path so far has written.
    let mut written = vec![u16::MAX; len];
    written[0] = 0;
    for (at, instruction) in instructions.iter().enumerate() {
        let wrong = |rule: &str| {
            let code = instruction.code;
            Invalid::new(format!("instruction {at} (code {code:#x}): {rule}"))
        };
        one(instruction).map_err(wrong)?;
        let mut now = written[at];
        let cell = 1_u16.checked_shl(instruction.k).unwrap_or(0);
        match instruction.code {
            ST | STX => now |= cell,
            LD_MEM | LDX_MEM if now & cell == 0 => {
                return Err(wrong("reads a scratch cell that may not be written yet"));
            }
            _ => {}
        }
        let skips: &[u32] = match instruction.code {
            RET_K | RET_A if at + 1 == len => &[],
            // As for the kernel, which also takes the cells written here for those at the next instruction.
            RET_K | RET_A => &[0],
            JA => &[instruction.k],
            code if is_conditional(code) => {
                &[instruction.jump_true as u32, instruction.jump_false as u32]
            }
            _ if at + 1 == len => return Err(wrong("the last instruction is not a return")),
            _ => &[0],
        };
        for &skip in skips {
            let target = (skip as usize).checked_add(at + 1);
            match target.and_then(|target| written.get_mut(target)) {
                Some(there) => *there &= now,
                None => return Err(wrong("jumps out of the program")),
            }
        }
    }
    Ok(())
}

pub(super) fn is_conditional(code: u16) -> bool {
    matches!(
        code,
        JEQ_K | JEQ_X | JGT_K | JGT_X | JGE_K | JGE_X | JSET_K | JSET_X
    )
}

/// The rules for an instruction on its own, without its neighbours.
fn one(instruction: &Instruction) -> Result<(), &'static str> {
    match (instruction.code, instruction.k) {
        (DIV_K | MOD_K, 0) => Err("divides by 0"),
        (LSH_K | RSH_K, 32..) => Err("shifts by 32 or more"),
        (LD_MEM | LDX_MEM | ST | STX, SCRATCH..) => Err("there are 16 scratch cells"),
        (
            LD_ABS | LDH_ABS | LDB_ABS | LD_IND | LDH_IND | LDB_IND | LD_IMM | LD_MEM | LD_LEN
            | LDX_IMM | LDX_MEM | LDX_LEN | LDX_MSH | ST | STX | ADD_K | ADD_X | SUB_K | SUB_X
            | MUL_K | MUL_X | DIV_K | DIV_X | OR_K | OR_X | AND_K | AND_X | LSH_K | LSH_X | RSH_K
            | RSH_X | NEG | MOD_K | MOD_X | XOR_K | XOR_X | JA | RET_K | RET_A | TAX | TXA,
            _,
        ) => Ok(()),
        (code, _) if is_conditional(code) => Ok(()),
        _ => Err("no such instruction"),
    }
}
