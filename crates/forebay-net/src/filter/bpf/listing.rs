//! Prints a program as text, byte for byte as tcpdump does, and parses it.

use super::{
    check::{Invalid, is_conditional},
    code::*,
    instruction::Instruction,
};
use std::fmt;

/// One numbered instruction a line, for people: `(000) ldh      [12]`.
#[derive(Clone, Copy, Debug)]
pub struct Listing<'a>(pub(super) &'a [Instruction]);

/// The elements of a C array of `struct bpf_insn`: `{ 0x28, 0, 0, 0x0000000c },`.
#[derive(Clone, Copy, Debug)]
pub struct Array<'a>(pub(super) &'a [Instruction]);

/// The number of instructions, then the four numbers of each: `40 0 0 12`.
#[derive(Clone, Copy, Debug)]
pub struct Numbers<'a>(pub(super) &'a [Instruction]);

impl fmt::Display for Listing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, instruction) in self.0.iter().enumerate() {
            writeln!(f, "{}", image(instruction, at))?;
        }
        Ok(())
    }
}

/// The line of a listing for this instruction at this place of its program, without the end of the line. An unknown instruction is `unimp`.
///
/// ```
/// use forebay_net::filter::bpf::{Instruction, code, image};
/// assert_eq!(image(&Instruction::new(code::LDH_ABS, 12), 3), "(003) ldh      [12]");
/// assert_eq!(image(&Instruction::new(0xffff, 12), 3), "(003) unimp    0xffff");
/// ```
pub fn image(instruction: &Instruction, at: usize) -> String {
    let (name, operand) = (name(instruction.code), operand(instruction, at));
    if is_conditional(instruction.code) {
        let [yes, no] =
            [instruction.jump_true, instruction.jump_false].map(|skip| at + 1 + skip as usize);
        format!("({at:03}) {name:<8} {operand:<16} jt {yes}\tjf {no}")
    } else {
        format!("({at:03}) {name:<8} {operand}")
    }
}

impl fmt::Display for Array<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for i in self.0 {
            let (code, yes, no, k) = (i.code, i.jump_true, i.jump_false, i.k);
            writeln!(f, "{{ {code:#x}, {yes}, {no}, {k:#010x} }},")?;
        }
        Ok(())
    }
}

impl fmt::Display for Numbers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.0.len())?;
        for i in self.0 {
            writeln!(f, "{} {} {} {}", i.code, i.jump_true, i.jump_false, i.k)?;
        }
        Ok(())
    }
}

/// Parses the output of `tcpdump -ddd`. Does not check the instructions.
pub(super) fn parse(text: &str) -> Result<Vec<Instruction>, Invalid> {
    let mut lines = text.lines();
    let count = lines.next().and_then(|line| line.trim().parse().ok());
    let count: usize =
        count.ok_or_else(|| Invalid::new("the first line is not the number of instructions"))?;
    let instructions = lines.enumerate().map(|(at, line)| {
        four(line).ok_or_else(|| {
            Invalid::new(format!(
                "instruction {at}: `{line}` is not four numbers: code, jumps and k"
            ))
        })
    });
    let instructions = instructions.collect::<Result<Vec<_>, _>>()?;
    if instructions.len() != count {
        let found = instructions.len();
        return Err(Invalid::new(format!(
            "the first line says {count} instructions, but {found} follow"
        )));
    }
    Ok(instructions)
}

fn four(line: &str) -> Option<Instruction> {
    let mut words = line.split_ascii_whitespace();
    let instruction = Instruction {
        code: words.next()?.parse().ok()?,
        jump_true: words.next()?.parse().ok()?,
        jump_false: words.next()?.parse().ok()?,
        k: words.next()?.parse().ok()?,
    };
    words.next().is_none().then_some(instruction)
}

fn name(code: u16) -> &'static str {
    match code {
        LD_ABS | LD_IND | LD_IMM | LD_MEM | LD_LEN => "ld",
        LDH_ABS | LDH_IND => "ldh",
        LDB_ABS | LDB_IND => "ldb",
        LDX_IMM | LDX_MEM | LDX_LEN => "ldx",
        LDX_MSH => "ldxb",
        ST => "st",
        STX => "stx",
        ADD_K | ADD_X => "add",
        SUB_K | SUB_X => "sub",
        MUL_K | MUL_X => "mul",
        DIV_K | DIV_X => "div",
        MOD_K | MOD_X => "mod",
        AND_K | AND_X => "and",
        OR_K | OR_X => "or",
        XOR_K | XOR_X => "xor",
        LSH_K | LSH_X => "lsh",
        RSH_K | RSH_X => "rsh",
        NEG => "neg",
        JA => "ja",
        JEQ_K | JEQ_X => "jeq",
        JGT_K | JGT_X => "jgt",
        JGE_K | JGE_X => "jge",
        JSET_K | JSET_X => "jset",
        RET_K | RET_A => "ret",
        TAX => "tax",
        TXA => "txa",
        _ => "unimp",
    }
}

fn operand(instruction: &Instruction, at: usize) -> String {
    let k = instruction.k;
    // As in libpcap, most numbers are printed as signed.
    let signed = k as i32;
    match instruction.code {
        LD_ABS | LDH_ABS | LDB_ABS => match kernel_name(k) {
            Some(name) => format!("[{name}]"),
            None => format!("[{signed}]"),
        },
        LD_IND | LDH_IND | LDB_IND => format!("[x + {signed}]"),
        LD_MEM | LDX_MEM | ST | STX => format!("M[{k}]"),
        LDX_MSH => format!("4*([{signed}]&0xf)"),
        LD_LEN | LDX_LEN => "#pktlen".into(),
        JA => format!("{}", at + 1 + k as usize),
        RET_K | ADD_K | SUB_K | MUL_K | DIV_K | MOD_K | LSH_K | RSH_K => format!("#{signed}"),
        LD_IMM | LDX_IMM | AND_K | OR_K | XOR_K | JEQ_K | JGT_K | JGE_K | JSET_K => {
            format!("#{k:#x}")
        }
        RET_A | NEG | TAX | TXA => String::new(),
        code if name(code) == "unimp" => format!("{code:#x}"),
        _ => "x".into(),
    }
}

/// The metadata offsets that libpcap prints by name.
fn kernel_name(k: u32) -> Option<&'static str> {
    Some(match k.checked_sub(KERNEL)? {
        0 => "proto",
        4 => "type",
        8 => "ifidx",
        12 => "nla",
        16 => "nlan",
        20 => "mark",
        24 => "queue",
        28 => "hatype",
        32 => "rxhash",
        36 => "cpu",
        40 => "xor_x",
        44 => "vlan_tci",
        48 => "vlanp",
        52 => "poff",
        56 => "random",
        60 => "vlan_tpid",
        _ => return None,
    })
}
