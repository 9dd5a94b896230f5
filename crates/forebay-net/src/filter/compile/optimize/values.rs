//! Numbers the values that steps compute: within one packet, equal numbers mean equal values.

use crate::filter::{
    bpf::code,
    compile::{graph::Target, test::PlainInstruction},
};
use std::collections::HashMap;

pub(super) type Value = u32;

/// The numbers of the values in A, X and the scratch cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub a: Value,
    pub x: Value,
    pub cells: [Value; code::SCRATCH as usize],
}

/// How a value is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Origin {
    /// The initial contents of A and X.
    Nothing,
    Computed {
        code: u16,
        k: u32,
        a: Value,
        x: Value,
    },
    /// One of several values, depending on the path to a node. The second number is the place.
    Either(Target, usize),
}

/// Numbers of the places A and X, after those of the scratch cells.
const A: usize = code::SCRATCH as usize;
const X: usize = A + 1;

#[derive(Default)]
pub(super) struct Values {
    known: HashMap<Origin, Value>,
    constants: HashMap<Value, u32>,
}

impl Values {
    fn of(&mut self, source: Origin) -> Value {
        let next = self.known.len() as Value;
        let value = *self.known.entry(source).or_insert(next);
        if let Origin::Computed {
            code: code::LD_IMM,
            k,
            ..
        } = source
        {
            self.constants.insert(value, k);
        }
        value
    }

    /// The state before the first instruction, with the cells as zeros.
    pub fn start(&mut self) -> State {
        let nothing = self.of(Origin::Nothing);
        let zero = self.computed(code::LD_IMM, 0, 0, 0);
        State {
            a: nothing,
            x: nothing,
            cells: [zero; code::SCRATCH as usize],
        }
    }

    /// The same, before the instructions that write those zeros.
    pub fn unwritten(&mut self) -> State {
        let nothing = self.of(Origin::Nothing);
        State {
            cells: [nothing; code::SCRATCH as usize],
            ..self.start()
        }
    }

    /// The value, if it is the same for every packet.
    pub fn constant(&self, value: Value) -> Option<u32> {
        self.constants.get(&value).copied()
    }

    fn computed(&mut self, code: u16, k: u32, a: Value, x: Value) -> Value {
        self.of(Origin::Computed { code, k, a, x })
    }

    pub fn run(&mut self, steps: &[PlainInstruction], state: &mut State) {
        for &PlainInstruction { code, k } in steps {
            let cell = k as usize % state.cells.len();
            match code {
                code::LD_MEM => state.a = state.cells[cell],
                code::LDX_MEM => state.x = state.cells[cell],
                code::ST => state.cells[cell] = state.a,
                code::STX => state.cells[cell] = state.x,
                code::TAX => state.x = state.a,
                code::TXA => state.a = state.x,
                code::LDX_MSH => state.x = self.computed(code, k, 0, 0),
                code::LD_IND | code::LDH_IND | code::LDB_IND => {
                    state.a = self.computed(code, k, 0, state.x);
                }
                // The low three bits are the class: 0 loads A, 4 reckons, with X where bit 3 is set.
                _ if code & 0x07 == 0 => state.a = self.computed(code, k, 0, 0),
                _ if code & 0x08 != 0 => state.a = self.computed(code, 0, state.a, state.x),
                _ => state.a = self.computed(code, k, state.a, 0),
            }
        }
    }

    /// Merges the state on one more path to `target`, `new`, into `old`.
    pub fn merge(&mut self, old: &mut State, new: &State, target: Target) {
        let mut place = |old: &mut Value, new: Value, place: usize| {
            if *old != new {
                *old = self.of(Origin::Either(target, place));
            }
        };
        place(&mut old.a, new.a, A);
        place(&mut old.x, new.x, X);
        for (i, (old, new)) in old.cells.iter_mut().zip(new.cells).enumerate() {
            place(old, new, i);
        }
    }
}
