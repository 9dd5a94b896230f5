//! Runs a program over many packets at once, one instruction at a time.
//!
//! ```text
//!               ldh [12] · jeq #0x800            ldb [23] · jeq #6         ret #262144
//!  waiting at   0 1 2 3 4 5 6 7 ──┬─ yes ──▶  0 2 3 6 7 ──┬─ yes ──▶  0 3 7    these are kept
//!                                 └─ no ──┐               └─ no ──▶ …
//!                                         ▼
//!                                       1 4 5
//! ```
//! The contents of packets are data that a processor cannot predict. If packets run one after another, each comparison is a
//! branch, and a mispredicted branch costs more than several instructions. Here a comparison only selects the list that a
//! packet moves to. So there is no branch to mispredict, and the loads of many packets overlap. Jumps only go forward, so one
//! pass over the lists in program order is enough.
//!
//! Instructions that are rare in filters are left to `machine`, which runs each packet that reaches one from there to the
//! end. No bytes of packets are copied.

use super::{
    Program,
    code::*,
    machine::{
        LD_JEQ, LDB_IND_JSET, LDB_JEQ, LDH_IND_JEQ, LDH_JEQ, LDH_JSET, Operation, Registers, byte,
        half, sum, word,
    },
};

/// The maximum number of packets in a row: their numbers are bytes.
pub const WIDTH: usize = 256;
/// The numbers of all packets of a full row.
const ALL: [u8; WIDTH] = {
    let mut all = [0; WIDTH];
    let mut number = 0;
    while number < WIDTH {
        all[number] = number as u8;
        number += 1;
    }
    all
};
/// With fewer packets, running them one after another is faster.
const LEAST: usize = 8;

/// Packets that run together: their bytes, and their lengths on the wire.
pub struct FrameBatch<'a> {
    len: usize,
    data: [&'a [u8]; WIDTH],
    wire_lens: [u32; WIDTH],
}

impl<'a> FrameBatch<'a> {
    /// An empty row.
    pub fn new() -> Self {
        FrameBatch {
            len: 0,
            data: [&[]; WIDTH],
            wire_lens: [0; WIDTH],
        }
    }

    /// The number of packets in the row.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the row holds [`WIDTH`] packets.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.len == WIDTH
    }

    /// Adds a packet. The row must hold fewer than [`WIDTH`].
    #[inline(always)]
    pub fn push(&mut self, data: &'a [u8], wire_len: u32) {
        self.data[self.len] = data;
        self.wire_lens[self.len] = wire_len;
        self.len += 1;
    }

    /// The kept bytes of a packet, and its length on the wire.
    #[inline(always)]
    pub fn lens(&self, number: usize) -> (u32, u32) {
        (self.data[number].len() as u32, self.wire_lens[number])
    }

    pub fn clear(&mut self) {
        self.len = 0;
    }
}

/// The working memory to run programs over rows. It can be reused for any program and any row.
pub struct BatchFilter {
    lists: Vec<List>,
    a: [u32; WIDTH],
    x: [u32; WIDTH],
    kept: [u32; WIDTH],
}

/// Packets that wait at an instruction.
#[derive(Clone)]
struct List {
    len: usize,
    packets: [u8; WIDTH],
}

impl BatchFilter {
    pub fn new() -> Self {
        BatchFilter {
            lists: Vec::new(),
            a: [0; WIDTH],
            x: [0; WIDTH],
            kept: [0; WIDTH],
        }
    }

    /// Returns, for each packet of the row, the result of [`Program::run`].
    #[inline(never)]
    pub fn run(&mut self, program: &Program, row: &FrameBatch<'_>) -> &[u32] {
        if row.len < LEAST {
            for number in 0..row.len {
                self.kept[number] = program.run(row.data[number], row.wire_lens[number]);
            }
            return &self.kept[..row.len];
        }
        let empty = List {
            len: 0,
            packets: [0; WIDTH],
        };
        if self.lists.len() < program.steps.len() {
            self.lists.resize(program.steps.len(), empty);
        }
        self.lists[0] = List {
            len: row.len,
            packets: ALL,
        };
        self.a.fill(0);
        self.x.fill(0);
        // The result for a packet whose program ends at a load outside the packet.
        self.kept.fill(0);
        for at in 0..program.steps.len() {
            if self.lists[at].len > 0 {
                self.step(program, at, row);
            }
        }
        &self.kept[..row.len]
    }

    /// Runs the step at `at` for all packets that wait there.
    #[inline(always)]
    fn step(&mut self, program: &Program, at: usize, row: &FrameBatch<'_>) {
        let BatchFilter { lists, a, x, kept } = self;
        let step = program.steps[at];
        let (k, offset) = (step.k, step.offset as usize);
        let data = |i: u8| row.data[usize::from(i)];
        let at_x = |x: &[u32; WIDTH], i: u8| sum(x[usize::from(i)], k);
        let jump = Jump {
            steps: &program.steps,
            from: at,
            yes: at + 1 + usize::from(step.jump_true),
            no: at + 1 + usize::from(step.jump_false),
        };
        // Skip the comparison, which is already done.
        let pair = Jump {
            yes: jump.yes + 1,
            no: jump.no + 1,
            ..jump
        };
        let mut set = |i: u8, value: Option<u32>| {
            let value = value?;
            a[usize::from(i)] = value;
            Some(value)
        };
        match step.code.into() {
            LD_JEQ => fork(lists, pair, |i| Some(set(i, word(data(i), offset))? == k)),
            LDH_JEQ => fork(lists, pair, |i| Some(set(i, half(data(i), offset))? == k)),
            LDB_JEQ => fork(lists, pair, |i| Some(set(i, byte(data(i), offset))? == k)),
            LDH_IND_JEQ => fork(lists, pair, |i| {
                let place = sum(x[usize::from(i)], u32::from(step.offset))?;
                Some(set(i, half(data(i), place))? == k)
            }),
            LDH_JSET => fork(lists, pair, |i| {
                Some(set(i, half(data(i), offset))? & k != 0)
            }),
            LDB_IND_JSET => fork(lists, pair, |i| {
                let place = sum(x[usize::from(i)], u32::from(step.offset))?;
                Some(set(i, byte(data(i), place))? & k != 0)
            }),
            JEQ_K => fork(lists, jump, |i| Some(a[usize::from(i)] == k)),
            JGT_K => fork(lists, jump, |i| Some(a[usize::from(i)] > k)),
            JGE_K => fork(lists, jump, |i| Some(a[usize::from(i)] >= k)),
            JSET_K => fork(lists, jump, |i| Some(a[usize::from(i)] & k != 0)),
            JA => pass_on(lists, at, at + 1 + k as usize, |_| true),

            LD_ABS => pass_on(lists, at, at + 1, |i| {
                set(i, word(data(i), k as usize)).is_some()
            }),
            LDH_ABS => pass_on(lists, at, at + 1, |i| {
                set(i, half(data(i), k as usize)).is_some()
            }),
            LDB_ABS => pass_on(lists, at, at + 1, |i| {
                set(i, byte(data(i), k as usize)).is_some()
            }),
            LDH_IND => pass_on(lists, at, at + 1, |i| {
                set(i, at_x(x, i).and_then(|place| half(data(i), place))).is_some()
            }),
            LDB_IND => pass_on(lists, at, at + 1, |i| {
                set(i, at_x(x, i).and_then(|place| byte(data(i), place))).is_some()
            }),
            LDX_MSH => pass_on(lists, at, at + 1, |i| {
                let found = byte(data(i), k as usize);
                x[usize::from(i)] = (found.unwrap_or(0) & 0xF) * 4;
                found.is_some()
            }),
            LD_LEN => pass_on(lists, at, at + 1, |i| {
                set(i, Some(row.wire_lens[usize::from(i)])).is_some()
            }),
            AND_K => pass_on(lists, at, at + 1, |i| {
                a[usize::from(i)] &= k;
                true
            }),

            RET_K => end(&mut lists[at], |i| kept[usize::from(i)] = k),
            _ => end(&mut lists[at], |i| {
                let i = usize::from(i);
                let from = Registers {
                    next: at,
                    a: a[i],
                    x: x[i],
                };
                kept[i] = program.run_from(from, row.data[i], row.wire_lens[i]);
            }),
        }
    }
}

/// Where a step sends the packets of its list.
#[derive(Clone, Copy)]
struct Jump<'a> {
    steps: &'a [Operation],
    from: usize,
    yes: usize,
    no: usize,
}

/// Moves each packet to one of the two lists, or to neither for `None`.
#[inline(always)]
fn fork(lists: &mut [List], jump: Jump<'_>, mut holds: impl FnMut(u8) -> Option<bool>) {
    // In most comparisons one side rejects, and a rejected packet needs no entry in a list.
    if jump.steps[jump.no].rejects() {
        return pass_on(lists, jump.from, jump.yes, |i| holds(i) == Some(true));
    }
    if jump.steps[jump.yes].rejects() {
        return pass_on(lists, jump.from, jump.no, |i| holds(i) == Some(false));
    }
    let Ok([now, yes, no]) = lists.get_disjoint_mut([jump.from, jump.yes, jump.no]) else {
        return pass_on(lists, jump.from, jump.yes, |i| holds(i).is_some());
    };
    let (mut in_yes, mut in_no) = (yes.len, no.len);
    for &i in &now.packets[..now.len] {
        let Some(holds) = holds(i) else { continue };
        // Write to both lists without a branch; only one of them advances its length.
        yes.packets[in_yes % WIDTH] = i;
        no.packets[in_no % WIDTH] = i;
        in_yes += usize::from(holds);
        in_no += usize::from(!holds);
    }
    (now.len, yes.len, no.len) = (0, in_yes, in_no);
}

/// Moves each packet for which `goes_on` is true to the list `to`.
#[inline(always)]
fn pass_on(lists: &mut [List], from: usize, to: usize, mut goes_on: impl FnMut(u8) -> bool) {
    let [now, next] = lists
        .get_disjoint_mut([from, to])
        .expect("jumps go forward, to a step");
    let mut len = next.len;
    for &i in &now.packets[..now.len] {
        next.packets[len % WIDTH] = i;
        len += usize::from(goes_on(i));
    }
    (now.len, next.len) = (0, len);
}

#[inline(always)]
fn end(list: &mut List, mut with: impl FnMut(u8)) {
    for &i in &list.packets[..list.len] {
        with(i);
    }
    list.len = 0;
}
