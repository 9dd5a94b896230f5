//! Places the nodes of a graph as instructions, in node order, verdicts last.
//!
//! Jumps only go forward, so instructions are emitted from the last to the first, and every jump's target is already placed. A
//! conditional jump reaches 255 instructions. For a farther target a landing is placed directly after the jump: a `ja`, or the
//! verdict itself. Jumps before it share the landing.

use super::{
    graph::{ACCEPT, Graph, REJECT, Target},
    test::PlainInstruction,
};
use crate::filter::{
    bpf::{Instruction, Program, code},
    error::Said,
    view::View,
};

struct Layout {
    /// The last instruction comes first.
    backwards: Vec<Instruction>,
    /// The number of instructions from a target's first one to the end; 0 if it is not placed yet.
    place: Vec<usize>,
    /// The same for the nearest instruction that leads straight to the target: its last landing, or itself.
    landing: Vec<usize>,
    /// Whether the program reads scratch cells. Then no return may precede an instruction: see `bpf/check.rs`.
    reads_cells: bool,
    snaplen: u32,
}

pub(super) fn lay_out(graph: &Graph, view: View, snaplen: u32) -> Said<Program> {
    let (most, whose) = match view {
        View::Socket => (Program::MOST, "the kernel accepts"),
        View::Packet | View::Restored => (Program::MAX_LEN, "a program may have"),
    };
    let mut used = vec![false; graph.end()];
    used[graph.start] = true;
    for target in (0..graph.end()).rev() {
        if let Some(node) = graph.node(target).filter(|_| used[target]) {
            (used[node.holds], used[node.fails]) = (true, true);
        }
    }
    let reads_cell = |step: &PlainInstruction| matches!(step.code, code::LD_MEM | code::LDX_MEM);
    let mut steps = (0..graph.end())
        .filter_map(|target| graph.node(target))
        .flat_map(|node| &node.steps);
    let mut layout = Layout {
        reads_cells: steps.any(reads_cell),
        backwards: Vec::new(),
        place: vec![0; graph.end()],
        landing: vec![0; graph.end()],
        snaplen,
    };
    for target in (0..graph.end()).filter(|target| used[*target]) {
        let Some(node) = graph.node(target) else {
            layout.backwards.push(layout.verdict(target));
            layout.placed(target);
            continue;
        };
        match node.jump {
            Some((code, k)) => layout.conditional(code, k, node.holds, node.fails),
            None if layout.skip_to(node.holds) == 0 => {}
            None => layout.land(node.holds),
        }
        let steps = node.steps.iter().rev();
        layout
            .backwards
            .extend(steps.map(|step| Instruction::new(step.code, step.k)));
        layout.placed(target);
        if layout.backwards.len() > most {
            return Err(format!(
                "the expression needs more than the {most} instructions that {whose}; write it shorter, such as net instead of many hosts"
            ));
        }
    }
    layout.backwards.reverse();
    Program::new(layout.backwards).map_err(|invalid| format!("the program is not valid, {invalid}"))
}

impl Layout {
    fn verdict(&self, target: Target) -> Instruction {
        debug_assert!(target == ACCEPT || target == REJECT);
        Instruction::new(code::RET_K, if target == ACCEPT { self.snaplen } else { 0 })
    }

    /// Marks the instruction emitted last as the first one of `target`.
    fn placed(&mut self, target: Target) {
        self.place[target] = self.backwards.len();
        self.landing[target] = self.backwards.len();
    }

    /// How many instructions the next one emitted must skip to reach `target`.
    fn skip_to(&self, target: Target) -> usize {
        self.backwards.len() - self.place[target]
    }

    /// Emits a landing: an instruction that leads to `target`.
    fn land(&mut self, target: Target) {
        let landing = match target {
            ACCEPT | REJECT if !self.reads_cells => self.verdict(target),
            _ => Instruction::new(code::JA, self.skip_to(target) as u32),
        };
        self.backwards.push(landing);
        self.landing[target] = self.backwards.len();
    }

    fn conditional(&mut self, jump: u16, k: u32, holds: Target, fails: Target) {
        // A landing for one side moves the other side one instruction farther away, so up to two landings are needed.
        let near = loop {
            let skip = |target: Target| u8::try_from(self.backwards.len() - self.landing[target]);
            match (skip(holds), skip(fails)) {
                (Ok(holds), Ok(fails)) => break (holds, fails),
                (Ok(_), Err(_)) => self.land(fails),
                (Err(_), _) => self.land(holds),
            }
        };
        self.backwards
            .push(Instruction::jump(jump, k, near.0, near.1));
    }
}
