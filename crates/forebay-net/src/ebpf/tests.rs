//! Programs that the kernel runs, compared with the machine of this crate.

use super::*;
use crate::{
    filter::{
        Filter, View,
        bpf::{self, Program, code::*},
    },
    port::LinkType,
};
use forebay_testing::{dice::Dice, lab::skip};

/// Bytes that the kernel takes away before a socket filter runs (bpf_prog_test_run_skb).
const LINK: usize = 14;

/// Runs a program over a frame, and returns its result.
fn run(program: &OwnedFd, frame: &[u8]) -> io::Result<u32> {
    const PROG_TEST_RUN: libc::c_int = 10;
    let mut attributes = [0; 6];
    attributes[0] = pair(number(program.as_fd()), 0);
    attributes[1] = pair(frame.len() as u32, 0);
    attributes[2] = frame.as_ptr() as u64;
    attributes[4] = pair(1, 0);
    let len = size_of_val(&attributes);
    let place = attributes.as_mut_ptr();
    // SAFETY: the kernel reads the frame, which lives until the call returns, and writes results only into `attributes`.
    match unsafe { libc::syscall(libc::SYS_bpf, PROG_TEST_RUN, place, len) } {
        0 => Ok((attributes[0] >> 32) as u32),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Checks that the kernel decides as the classic program does, and counts what it rejects.
fn agrees(classic: &Program, counters: &KernelCounters, frames: &[Vec<u8>]) {
    let translated = counting(classic.instructions(), counters).unwrap();
    let loaded = load(ProgramKind::SocketFilter, &translated)
        .unwrap_or_else(|error| panic!("{error}:\n{}", classic.listing()));
    for frame in frames {
        let before = counters.sum();
        let data = &frame[LINK..];
        let expected = classic.run(data, data.len() as u32);
        let kept = run(&loaded, frame).unwrap();
        assert_eq!(kept, expected, "{data:x?}\n{}", classic.listing());
        assert_eq!(counters.sum() - before, u64::from(expected == 0));
    }
}

/// Noise, and packets of several protocols, whole and cut.
fn frames() -> Vec<Vec<u8>> {
    let mut dice = Dice(7);
    let mut frames = Vec::new();
    for len in [1, 13, 14, 33, 34, 54, 60, 200] {
        for kind in 0..8 {
            let mut frame = dice.bytes(LINK + len.max(60));
            let data = &mut frame[LINK..];
            if kind > 0 {
                data[12..14].copy_from_slice(&[[8, 0], [0x86, 0xdd], [0x81, 0]][kind % 3]);
                (data[14], data[20], data[21]) = (0x45, 0, 0);
                data[23] = [6, 17, 1][kind / 3];
                data[34..38].copy_from_slice(&[0, 80, 0, 53]);
            }
            frame.truncate(LINK + len);
            frames.push(frame);
        }
    }
    frames
}

fn counters() -> Option<KernelCounters> {
    let counters = KernelCounters::new().ok();
    if counters.is_none() {
        skip("CAP_BPF");
    }
    counters
}

#[test]
fn the_kernel_decides_as_the_classic_program_and_counts_what_it_rejects() {
    let Some(counters) = counters() else { return };
    for expression in [
        "ip",
        "not ip",
        "tcp port 80",
        "udp and dst port 53",
        "ip[8] > 100 or ip6",
        "ip[2:2] - 4 * (ip[0] & 15) != 0",
        "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
        "udp[4:2] / udp[6:2] = 1 or ip[6] % ip[7] = 0",
        "len > 100",
        "greater 60 and not ether multicast",
        "ether[100:4] != 0",
        "host 10.0.0.1 or net 192.168.0.0/16 or ip6 net 2000::/3",
        "ip protochain 17",
        "portrange 50-100",
    ] {
        let filter: Filter = expression.parse().unwrap();
        let program = filter.compile(LinkType::ETHERNET, View::Packet, 262_144);
        agrees(&program.unwrap(), &counters, &frames());
    }
}

#[test]
fn every_instruction_has_the_same_result() {
    let Some(counters) = counters() else { return };
    let plain = bpf::Instruction::new;
    let mut dice = Dice(9);
    let frames: Vec<_> = (0..12).map(|len| dice.bytes(LINK + 1 + 4 * len)).collect();
    let with_constant = [ADD_K, SUB_K, MUL_K, DIV_K, MOD_K, OR_K, AND_K, XOR_K];
    let with_x = [ADD_X, SUB_X, MUL_X, DIV_X, MOD_X, OR_X, AND_X, XOR_X];
    let mut operations: Vec<_> = with_x.map(|code| plain(code, 0)).into();
    for k in [1, 7, 0x8000_0001, u32::MAX] {
        operations.extend(with_constant.map(|code| plain(code, k)));
    }
    operations.extend([LSH_K, RSH_K].map(|code| plain(code, 5)));
    operations.extend([NEG, TXA, LD_LEN, LDX_LEN].map(|code| plain(code, 0)));
    operations.extend([LD_IMM, LDX_IMM].map(|code| plain(code, 0x9000_0000)));
    operations.extend([LD_IND, LDH_IND, LDB_IND, LDX_MSH].map(|code| plain(code, 2)));
    operations.extend([LD_IND, LDB_IND].map(|code| plain(code, 0x7FFF_FFF0)));
    // A, X and a cell are from the frame; the result depends on A and X after the operation.
    for operation in operations {
        let steps = vec![
            plain(LDB_ABS, 0),
            plain(AND_K, 7),
            plain(TAX, 0),
            plain(ST, 15),
            plain(LDH_ABS, 3),
            operation,
            plain(STX, 0),
            plain(LDX_MEM, 15),
            plain(ADD_X, 0),
            plain(LDX_MEM, 0),
            plain(XOR_X, 0),
            plain(RET_A, 0),
        ];
        agrees(&Program::new(steps).unwrap(), &counters, &frames);
    }
    for k in [0, 3, 0x80, 0xFFFF_FF00] {
        for (code, (on_true, on_false)) in
            [JEQ_K, JGT_K, JGE_K, JSET_K, JEQ_X, JGT_X, JGE_X, JSET_X]
                .into_iter()
                .flat_map(|code| [(0, 1), (1, 0), (1, 2), (0, 0)].map(|skips| (code, skips)))
        {
            let steps = vec![
                plain(LDX_IMM, 0x60),
                plain(LDB_ABS, 0),
                bpf::Instruction::jump(code, k, on_true, on_false),
                plain(RET_K, 0),
                plain(RET_K, 1),
                plain(RET_K, u32::MAX),
            ];
            agrees(&Program::new(steps).unwrap(), &counters, &frames);
        }
    }
}

#[test]
fn a_program_that_reads_other_metadata_is_not_translated_and_one_that_rejects_nothing_counts_nothing()
 {
    let Some(counters) = counters() else { return };
    let hardware = bpf::Instruction::new(LD_ABS, KERNEL_HARDWARE);
    let by_hardware = [hardware, bpf::Instruction::new(RET_A, 0)];
    assert_eq!(counting(&by_hardware, &counters), None);
    // Fields of jumps mean nothing in a load.
    let mut len = bpf::Instruction::new(LD_LEN, 0);
    len.jump_true = 7;
    let accept = [len, bpf::Instruction::new(RET_K, 9)];
    let accepts = counting(&accept, &counters).unwrap();
    load(ProgramKind::SocketFilter, &accepts).unwrap();
}
