//! Tests of single instructions, broken rules and random programs. `tests/filter` compares whole expressions with tcpdump.

use super::{code::*, *};
use forebay_testing::dice::rounds;
use proptest::prelude::*;

const PACKET: &[u8] = &[0x45, 0x00, 0x01, 0xFF, 0x80, 0x00, 0x00, 0x02, 0xFF, 0xFF];

/// Runs these instructions and returns `A`.
fn result(steps: &[(u16, u32)]) -> u32 {
    let steps = steps.iter().map(|&(code, k)| Instruction::new(code, k));
    let end = [Instruction::new(RET_A, 0)];
    let program = Program::new(steps.chain(end).collect()).unwrap();
    program.run(PACKET, 1500)
}

#[test]
fn loads_are_big_endian_and_end_the_program_outside_the_packet() {
    assert_eq!(result(&[(LD_ABS, 0)]), 0x4500_01FF);
    assert_eq!(result(&[(LDH_ABS, 2)]), 0x01FF);
    assert_eq!(result(&[(LDB_ABS, 9)]), 0xFF);
    assert_eq!(result(&[(LDX_IMM, 2), (LD_IND, 2)]), 0x8000_0002);
    assert_eq!(result(&[(LDX_IMM, 2), (LDH_IND, 2)]), 0x8000);
    assert_eq!(result(&[(LDX_IMM, 2), (LDB_IND, 2)]), 0x80);
    for load in [
        (LD_ABS, 7),
        (LDH_ABS, 9),
        (LDB_ABS, 10),
        (LDX_MSH, 10),
        (LDB_ABS, KERNEL),
    ] {
        assert_eq!(result(&[load, (LD_IMM, 7)]), 0, "{load:?}");
    }
    assert_eq!(result(&[(LDX_IMM, u32::MAX), (LDB_IND, 1), (LD_IMM, 7)]), 0);
}

#[test]
fn lengths_scratch_cells_and_registers_are_what_was_put_there() {
    assert_eq!(result(&[(LD_LEN, 0)]), 1500);
    assert_eq!(result(&[(LDX_LEN, 0), (TXA, 0)]), 1500);
    assert_eq!(result(&[(LDX_MSH, 0), (TXA, 0)]), 20);
    for steps in [
        &[(LD_IMM, 9), (ST, 15), (LD_IMM, 0), (LD_MEM, 15)][..],
        &[(LDX_IMM, 9), (STX, 0), (LD_IMM, 1), (TAX, 0), (LD_MEM, 0)],
        &[(LD_IMM, 9), (ST, 3), (LDX_MEM, 3), (LD_IMM, 0), (TXA, 0)],
        &[(LD_IMM, 9), (ST, 3)],
    ] {
        assert_eq!(result(steps), 9, "{steps:?}");
    }
}

#[test]
fn arithmetic_wraps_and_has_no_sign() {
    let with = |code: u16, a: u32, other: u32| {
        let by_x = result(&[(LD_IMM, a), (LDX_IMM, other), (code | 0x08, 0)]);
        let refused = matches!((code, other), (DIV_K | MOD_K, 0) | (LSH_K | RSH_K, 32..));
        if !refused {
            assert_eq!(result(&[(LD_IMM, a), (code, other)]), by_x, "{code:#x}");
        }
        by_x
    };
    assert_eq!(with(ADD_K, u32::MAX, 3), 2);
    assert_eq!(with(SUB_K, 2, 3), u32::MAX);
    assert_eq!(with(MUL_K, 0x8000_0001, 2), 2);
    assert_eq!(with(DIV_K, u32::MAX, 2), 0x7FFF_FFFF);
    assert_eq!(with(DIV_K, 7, 0), 0);
    assert_eq!(with(MOD_K, 7, 4), 3);
    assert_eq!(with(MOD_K, 7, 0), 0);
    assert_eq!(with(AND_K, 6, 3), 2);
    assert_eq!(with(OR_K, 6, 3), 7);
    assert_eq!(with(XOR_K, 6, 3), 5);
    assert_eq!(with(LSH_K, 3, 31), 0x8000_0000);
    assert_eq!(with(LSH_K, 3, 32), 0);
    assert_eq!(with(RSH_K, 0x8000_0000, 31), 1);
    assert_eq!(with(RSH_K, 0x8000_0000, 40), 0);
    assert_eq!(result(&[(LD_IMM, 1), (NEG, 0)]), u32::MAX);
}

#[test]
fn jumps_compare_without_sign() {
    let holds = |code: u16, a: u32, other: u32| {
        let both = [(code, other), (code | 0x08, 0)].map(|(code, k)| {
            let program = vec![
                Instruction::new(LDX_IMM, other),
                Instruction::new(LD_IMM, a),
                Instruction::jump(code, k, 1, 0),
                Instruction::new(RET_K, 0),
                Instruction::new(JA, 1),
                Instruction::new(RET_K, 2),
                Instruction::new(RET_K, 1),
            ];
            Program::new(program).unwrap().run(PACKET, 0) == 1
        });
        assert_eq!(both[0], both[1]);
        both[0]
    };
    assert!(holds(JEQ_K, 5, 5) && !holds(JEQ_K, 5, 6));
    assert!(holds(JGT_K, u32::MAX, 1) && !holds(JGT_K, 5, 5));
    assert!(holds(JGE_K, 5, 5) && !holds(JGE_K, 5, u32::MAX));
    assert!(holds(JSET_K, 6, 2) && !holds(JSET_K, 6, 9));
}

#[test]
fn broken_rules_are_told_with_the_instruction() {
    let ret = Instruction::new(RET_K, 1);
    let load = Instruction::new(LDB_ABS, 0);
    let (new, jump) = (Instruction::new, Instruction::jump);
    let one_way = [jump(JEQ_K, 0, 0, 1), new(STX, 3), new(LDX_MEM, 3), ret];
    let (no_return, out) = (
        "the last instruction is not a return",
        "jumps out of the program",
    );
    let unwritten = "reads a scratch cell that may not be written yet";
    for (program, number, code, expected) in [
        (&[load][..], 0, 0x30, no_return),
        (&[ret, load], 1, 0x30, no_return),
        (&[jump(JEQ_K, 0, 0, 1), ret], 0, 0x15, out),
        (&[jump(JEQ_X, 0, 1, 0), ret], 0, 0x1d, out),
        (&[load, new(JA, u32::MAX), ret], 1, 0x5, out),
        (&[new(0x22, 0), ret], 0, 0x22, "no such instruction"),
        (&[new(ST, 16), ret], 0, 0x2, "there are 16 scratch cells"),
        (&[new(LD_MEM, 3), ret], 0, 0x60, unwritten),
        (&one_way, 2, 0x61, unwritten),
        (&[new(DIV_K, 0), ret], 0, 0x34, "divides by 0"),
        (&[new(MOD_K, 0), ret], 0, 0x94, "divides by 0"),
        (&[new(LSH_K, 32), ret], 0, 0x64, "shifts by 32 or more"),
    ] {
        let error = Program::new(program.to_vec()).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("instruction {number} (code {code:#x}): {expected}")
        );
    }
    for len in [0, 65_536] {
        let error = Program::new(vec![ret; len]).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("a program has 1 to 65535 instructions, not {len}")
        );
    }
    assert!(Program::new(vec![ret; 65_535]).is_ok());
}

#[test]
fn every_instruction_has_its_line() {
    let lines = [
        (LD_ABS, 4, "ld       [4]"),
        (LDH_ABS, KERNEL_VLAN_TAG, "ldh      [vlan_tci]"),
        (LDB_ABS, KERNEL_VLAN_PRESENT, "ldb      [vlanp]"),
        (LDH_ABS, KERNEL + 2, "ldh      [-4094]"),
        (LD_IND, 4, "ld       [x + 4]"),
        (LD_IMM, 30, "ld       #0x1e"),
        (LDX_LEN, 0, "ldx      #pktlen"),
        (LDX_MSH, 14, "ldxb     4*([14]&0xf)"),
        (ST, 3, "st       M[3]"),
        (ADD_K, 300, "add      #300"),
        (ADD_X, 0, "add      x"),
        (AND_K, 15, "and      #0xf"),
        (LSH_K, 2, "lsh      #2"),
        (JA, 0, "ja       1"),
        (TAX, 0, "tax      "),
        (RET_A, 0, "ret      "),
        (RET_K, 262_144, "ret      #262144"),
    ];
    for (code, k, expected) in lines {
        let program = Program::new(vec![Instruction::new(code, k), Instruction::new(RET_K, 0)]);
        let text = program.unwrap().listing().to_string();
        assert_eq!(text.lines().next().unwrap(), format!("(000) {expected}"));
    }
}

#[test]
fn text_that_is_no_program_is_refused() {
    let first_line = "the first line is not the number of instructions";
    let not_four =
        |line: &str| format!("instruction 0: `{line}` is not four numbers: code, jumps and k");
    for (text, expected) in [
        ("", first_line),
        ("ip", first_line),
        ("1\n6 0 0", &not_four("6 0 0")),
        ("1\n6 0 0 1 1", &not_four("6 0 0 1 1")),
        ("1\n6 0 256 1", &not_four("6 0 256 1")),
        (
            "2\n6 0 0 1",
            "the first line says 2 instructions, but 1 follow",
        ),
        (
            "1\n7 0 0 1",
            "instruction 0 (code 0x7): the last instruction is not a return",
        ),
    ] {
        assert_eq!(text.parse::<Program>().unwrap_err().to_string(), expected);
    }
}

/// Any instruction; most are valid.
fn instruction() -> impl Strategy<Value = Instruction> {
    let is_known = |code: &u16| {
        let steps = [(ST, 1), (*code, 1), (RET_K, 0)];
        Program::new(steps.map(|(code, k)| Instruction::new(code, k)).to_vec()).is_ok()
    };
    let known: Vec<u16> = (0..0x100).filter(is_known).collect();
    let k = prop_oneof![4 => 0..40_u32, 1 => any::<u32>(), 1 => KERNEL..KERNEL + 70];
    (prop::sample::select(known), 0..6_u8, 0..6_u8, k)
        .prop_map(|(code, yes, no, k)| Instruction::jump(code, k, yes, no))
}

/// Typical of filters: loads from the start of a packet, and comparisons with likely values.
fn usual_instruction() -> impl Strategy<Value = Instruction> {
    let loads = vec![
        LD_ABS, LDH_ABS, LDB_ABS, LDH_IND, LDB_IND, LDX_MSH, LD_LEN, AND_K,
    ];
    let jumps = vec![JEQ_K, JEQ_K, JGT_K, JGE_K, JSET_K, JEQ_X];
    let load =
        (prop::sample::select(loads), 0..20_u32).prop_map(|(code, k)| Instruction::new(code, k));
    let jump = (prop::sample::select(jumps), 0..8_u32, 0..6_u8, 0..6_u8);
    let jump = jump.prop_map(|(code, k, yes, no)| Instruction::jump(code, k, yes, no));
    prop_oneof![load, jump, (0..4_u32).prop_map(|k| Instruction::new(JA, k)),]
}

/// A slow reference machine: one packet, one instruction at a time.
fn by_the_book(program: &[Instruction], data: &[u8], wire_len: u32) -> u32 {
    let (mut a, mut x, mut cells, mut at) = (0_u32, 0_u32, [0_u32; 16], 0);
    let number = |from: u64, len: u64| {
        let mut bytes = (from..from + len).map(|at| data.get(at as usize));
        bytes.try_fold(0_u32, |sum, byte| Some(sum << 8 | u32::from(*byte?)))
    };
    loop {
        let Instruction {
            code,
            jump_true,
            jump_false,
            k,
        } = program[at];
        at += 1;
        let (class, other) = (code & 7, if code & 8 == 0 { k } else { x });
        match class {
            0 | 1 => {
                let size = [4, 2, 1][usize::from(code >> 3 & 3)];
                let value = match code >> 5 {
                    0 => Some(k),
                    1 => number(k.into(), size),
                    2 => number(u64::from(x) + u64::from(k), size),
                    3 => Some(cells[k as usize]),
                    4 => Some(wire_len),
                    _ => number(k.into(), 1).map(|byte| byte % 16 * 4),
                };
                let Some(value) = value else { return 0 };
                *(if class == 0 { &mut a } else { &mut x }) = value;
            }
            2 => cells[k as usize] = a,
            3 => cells[k as usize] = x,
            4 => {
                let (left, right) = (u64::from(a), u64::from(other));
                let value = match code >> 4 {
                    0 => left + right,
                    1 => left + (1 << 32) - right,
                    2 => left.wrapping_mul(right),
                    3 | 9 if right == 0 => return 0,
                    3 => left / right,
                    4 => left | right,
                    5 => left & right,
                    6 | 7 if right > 31 => 0,
                    6 => left << right,
                    7 => left >> right,
                    8 => (1 << 32) - left,
                    9 => left % right,
                    _ => left ^ right,
                };
                a = value as u32;
            }
            5 => {
                let holds = match code >> 4 {
                    0 => {
                        at += k as usize;
                        continue;
                    }
                    1 => a == other,
                    2 => a > other,
                    3 => a >= other,
                    _ => a & other != 0,
                };
                at += usize::from(if holds { jump_true } else { jump_false });
            }
            6 => return if code & 0x10 == 0 { k } else { a },
            _ if code == TAX => x = a,
            _ => a = x,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(rounds(20_000)))]

    /// Every program that passes the checks runs to its end, with the same result as the slow machine.
    #[test]
    fn what_is_accepted_runs(
        mut program in prop::collection::vec(instruction(), 0..24),
        data in prop::collection::vec(any::<u8>(), 0..64),
        wire_len: u32,
    ) {
        // Many returns and written cells, so that most jumps and reads are valid.
        program.splice(0..0, [Instruction::new(ST, 1), Instruction::new(STX, 2)]);
        program.extend([Instruction::new(RET_A, 0); 8]);
        if let Ok(program) = Program::new(program) {
            let expected = by_the_book(program.instructions(), &data, wire_len);
            prop_assert_eq!(program.run(&data, wire_len), expected);
            let again: Program = program.numbers().to_string().parse().unwrap();
            prop_assert_eq!(&again, &program);
            prop_assert_eq!(program.listing().to_string().lines().count(), again.instructions().len());
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(rounds(2_000)))]

    /// Packets that run together give the same results as each on its own, also after programs of other lengths.
    #[test]
    fn packets_run_abreast_as_one_by_one(
        mut program in prop::collection::vec(usual_instruction(), 1..40),
        rare in prop::option::of((instruction(), 0..40_usize)),
        packets in prop::collection::vec((prop::collection::vec(0..8_u8, 0..24), any::<u32>()), 1..=WIDTH),
    ) {
        if let Some((rare, at)) = rare {
            program.insert(at.min(program.len()), rare);
        }
        program.extend([Instruction::new(RET_K, 1), Instruction::new(RET_K, 0)].repeat(4));
        let Ok(program) = Program::new(program) else {
            return Ok(());
        };
        let mut abreast = BatchFilter::new();
        let other = Program::new(vec![Instruction::new(RET_K, 9); 60]).unwrap();
        for part in [&packets[..], &packets[..1]] {
            let mut row = FrameBatch::new();
            part.iter().for_each(|(data, wire_len)| row.push(data, *wire_len));
            abreast.run(&other, &row);
            let alone = part.iter().map(|(data, wire_len)| by_the_book(program.instructions(), data, *wire_len));
            prop_assert_eq!(abreast.run(&program, &row), alone.collect::<Vec<_>>());
        }
    }
}
