//! The instructions of the machine.

/// One instruction, laid out as the kernel's `sock_filter`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The operation, one of [`code`](super::code).
    pub code: u16,
    /// The number of instructions to skip if a conditional jump is taken.
    pub jump_true: u8,
    /// The number of instructions to skip if it is not taken.
    pub jump_false: u8,
    /// A constant, an offset, or the distance of a jump.
    pub k: u32,
}

impl Instruction {
    /// An instruction that continues with the next one, or ends the program.
    pub const fn new(code: u16, k: u32) -> Self {
        Instruction::jump(code, k, 0, 0)
    }

    /// A conditional jump that skips `jump_true` instructions if the condition is true, else `jump_false`.
    pub const fn jump(code: u16, k: u32, jump_true: u8, jump_false: u8) -> Self {
        Instruction {
            code,
            jump_true,
            jump_false,
            k,
        }
    }
}
