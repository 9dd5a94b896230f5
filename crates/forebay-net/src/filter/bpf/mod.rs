//! The classic Berkeley Packet Filter: a program of small instructions that inspects one packet and returns the number of its
//! bytes to keep.
//!
//! ```text
//!  Instruction…  ── Program::new ──▶  Program  ── run ──▶ bytes of this packet to keep, 0 for none
//!  (code.rs)        (check.rs)          │         (machine.rs; of many packets at once: batch.rs)
//!                                       └──▶ the kernel: instructions() are its `sock_filter`s
//!  "4\n40 0 0 12\n…" ── parse ──▶       └──▶ listing · array · numbers, as tcpdump -d, -dd, -ddd
//! ```
//!
//! A program gives the same result here and in libpcap. In the kernel, two things differ: a program can also load the metadata at
//! [`code::KERNEL`], and the kernel shifts by `X` modulo 32.

mod batch;
mod check;
pub mod code;
mod instruction;
mod listing;
mod machine;
mod restored;
#[cfg(test)]
mod tests;

use crate::port::{Frame, LinkType};
pub(crate) use batch::{BatchFilter, FrameBatch, WIDTH};
pub use check::Invalid;
pub use instruction::Instruction;
pub use listing::{Array, Listing, Numbers, image};
use machine::{Loads, Registers};
use restored::Restored;
use std::str::FromStr;

/// Runs instructions that nobody checked, each fetched by its place, over a packet as [`Program::run`] does. An unknown instruction or a
/// place without one ends them with 0. Jumps only go forward.
///
/// ```
/// use forebay_net::filter::bpf::{Instruction, code, run_unchecked};
/// let program = [Instruction::new(code::LD_LEN, 0), Instruction::new(code::RET_A, 0)];
/// assert_eq!(run_unchecked(|at| program.get(at).copied(), &[], 60), 60);
/// assert_eq!(run_unchecked(|at| program[..1].get(at).copied(), &[], 60), 0);
/// ```
pub fn run_unchecked(
    fetch: impl Fn(usize) -> Option<Instruction>,
    data: &[u8],
    wire_len: u32,
) -> u32 {
    let program = |at| fetch(at).and_then(machine::single);
    let cells = &mut [0; code::SCRATCH as usize];
    machine::run(program, Registers::default(), cells, data, wire_len).unwrap_or(0)
}

/// A checked program: it ends, its jumps stay inside it, and it uses only known instructions and cells that exist.
///
/// ```
/// use forebay_net::filter::bpf::{Instruction, Program, code};
///
/// // The first 96 bytes of what is IPv4 on an Ethernet.
/// let ipv4 = Program::new(vec![
///     Instruction::new(code::LDH_ABS, 12),
///     Instruction::jump(code::JEQ_K, 0x0800, 0, 1),
///     Instruction::new(code::RET_K, 96),
///     Instruction::new(code::RET_K, 0),
/// ])?;
/// let mut frame = [0; 60];
/// assert_eq!(ipv4.run(&frame, 60), 0);
/// frame[12] = 0x08;
/// assert_eq!(ipv4.run(&frame, 60), 96);
/// # Ok::<(), forebay_net::filter::bpf::Invalid>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    instructions: Vec<Instruction>,
    steps: Vec<machine::Operation>,
    uses_scratch: bool,
}

impl Program {
    /// The maximum number of instructions that the kernel accepts (`BPF_MAXINSNS`).
    pub const MOST: usize = 4096;
    /// The maximum number of instructions of a program. The kernel does not accept all of these.
    pub const MAX_LEN: usize = check::MAX_LEN;

    /// Checks a program by the kernel's rules, except for its length. They are stricter than libpcap's:
    ///
    /// * it has 1 to [`MAX_LEN`](Program::MAX_LEN) instructions, all known;
    /// * jumps go forward and stay inside the program;
    /// * a scratch cell is written before it is read;
    /// * no division by a constant 0, and constant shifts are below 32;
    /// * the last instruction is a return.
    ///
    /// # Errors
    /// Returns the first instruction that breaks a rule, and the rule.
    pub fn new(instructions: Vec<Instruction>) -> Result<Program, Invalid> {
        check::check(&instructions)?;
        let reads_scratch = |i: &Instruction| matches!(i.code, code::LD_MEM | code::LDX_MEM);
        Ok(Program {
            uses_scratch: instructions.iter().any(reads_scratch),
            steps: machine::steps(&instructions),
            instructions,
        })
    }

    /// The instructions, as the kernel takes them.
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// Runs the program over a packet whose kept bytes are `data` and whose length on the wire is `wire_len`. Returns how many
    /// bytes to keep, which can be more than there are; 0 rejects the packet. Never panics.
    #[inline]
    pub fn run(&self, data: &[u8], wire_len: u32) -> u32 {
        self.run_from(Registers::default(), data, wire_len)
    }

    /// As [`run`](Program::run), for a program that was compiled for this link type and [`View::Restored`](super::View::Restored).
    pub fn run_restored(&self, frame: &Frame<'_>, link: LinkType) -> u32 {
        let restored = Restored::new(frame, link);
        let wire_len = restored.wire_len(frame.wire_len);
        self.run_from(Registers::default(), restored, wire_len)
    }

    /// As [`run`](Program::run), from a step that precedes every write to a scratch cell.
    #[inline]
    fn run_from(&self, from: Registers, data: impl Loads, wire_len: u32) -> u32 {
        // A program that never reads a scratch cell needs no memory for them.
        let program = |at: usize| self.steps.get(at).copied();
        let kept = if self.uses_scratch {
            let cells = &mut [0; code::SCRATCH as usize];
            machine::run(program, from, cells, data, wire_len)
        } else {
            machine::run(program, from, &mut [], data, wire_len)
        };
        kept.unwrap_or(0)
    }

    /// For people, as `tcpdump -d` prints it.
    pub fn listing(&self) -> Listing<'_> {
        Listing(&self.instructions)
    }

    /// For C, as `tcpdump -dd` prints it.
    pub fn array(&self) -> Array<'_> {
        Array(&self.instructions)
    }

    /// For programs, as `tcpdump -ddd` prints it; [`str::parse`] reads it.
    pub fn numbers(&self) -> Numbers<'_> {
        Numbers(&self.instructions)
    }
}

/// Parses the output of `tcpdump -ddd`.
impl FromStr for Program {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Program, Invalid> {
        Program::new(listing::parse(text)?)
    }
}
