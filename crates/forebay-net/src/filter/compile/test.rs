//! The tests of a compiled expression as a tree: each compares one value, and they are joined in the order in which they run.

use crate::filter::{ast::Joint, bpf::code};

/// An instruction without jumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct PlainInstruction {
    pub code: u16,
    pub k: u32,
}

pub(super) fn step(code: u16, k: u32) -> PlainInstruction {
    PlainInstruction { code, k }
}

#[derive(Clone, Debug)]
pub(super) enum Test {
    Always(bool),
    /// Computes a value from the packet and offsets in scratch cells only, and compares it with the code and constant of a
    /// conditional jump.
    Value(Vec<PlainInstruction>, u16, u32),
    Not(Box<Test>),
    /// Each joins everything before it.
    Chain(Box<Test>, Vec<(Joint, Test)>),
    /// If the first is true, the second; else the third.
    If(Box<[Test; 3]>),
    /// Sets scratch cells; always true.
    Do(Vec<PlainInstruction>),
}

impl Test {
    /// `value & mask == wanted`.
    pub fn masked(mut steps: Vec<PlainInstruction>, mask: u32, wanted: u32) -> Test {
        match mask {
            // True for every packet, also for one that is too short for the load.
            0 => Test::Always(wanted == 0),
            u32::MAX => Test::Value(steps, code::JEQ_K, wanted),
            _ if wanted == 0 => Test::Value(steps, code::JSET_K, mask).not(),
            _ => {
                steps.push(step(code::AND_K, mask));
                Test::Value(steps, code::JEQ_K, wanted)
            }
        }
    }

    pub fn equal(steps: Vec<PlainInstruction>, wanted: u32) -> Test {
        Test::Value(steps, code::JEQ_K, wanted)
    }

    pub fn not(self) -> Test {
        match self {
            Test::Not(inner) => *inner,
            Test::Always(holds) => Test::Always(!holds),
            other => Test::Not(Box::new(other)),
        }
    }

    pub fn and(self, next: Test) -> Test {
        self.join(Joint::And, next)
    }

    pub fn or(self, next: Test) -> Test {
        self.join(Joint::Or, next)
    }

    pub fn join(self, joint: Joint, next: Test) -> Test {
        match self {
            Test::Chain(first, mut rest) => {
                rest.push((joint, next));
                Test::Chain(first, rest)
            }
            first => Test::Chain(Box::new(first), vec![(joint, next)]),
        }
    }

    /// True if one of `tests` is true; they run in this order.
    pub fn any(tests: impl IntoIterator<Item = Test>) -> Test {
        let joined = tests.into_iter().reduce(Test::or);
        joined.unwrap_or(Test::Always(false))
    }
}
