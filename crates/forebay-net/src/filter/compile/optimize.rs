//! Removes repeated tests and loads: `tcp port 80 or 443` tests the EtherType, the protocol and the fragment once, and loads
//! each port once for both numbers.
//!
//! Four passes over the graph, each in the order in which nodes run:
//!
//! 1. [`answer`]: if the path to a node already decides its test, the path skips the node.
//! 2. [`gather`]: among tests with the same target, those of one value are made neighbours.
//! 3. [`clear_cells`]: scratch cells that may be read before they are written start as 0.
//! 4. [`load_once`]: a value that A or X already holds is not loaded again.
//!
//! No pass adds a load to a path. Some paths load less: a load that decides nothing is removed, and one that decides later
//! moves there. So a packet that ends before such a load (or that would divide by zero) may match, although it was rejected
//! before. libpcap's optimizer does the same, but removes fewer loads; in those cases we accept a packet that libpcap
//! rejects. For packets that are long enough, verdicts never change.

use super::{
    graph::{Graph, Node, Target},
    test::{PlainInstruction, step},
};
use crate::filter::bpf::code;
use facts::Facts;
use std::collections::HashMap;
use values::{State, Values};

mod facts;
mod values;

/// The maximum number of nodes that one path skips at once. It bounds the time, not correctness.
const FARTHEST: usize = 1024;

pub(super) fn optimize(graph: &mut Graph) {
    // Skipping a node may leave another node with a single path to it, on which more is known.
    for _ in 0..3 {
        answer(graph);
        *graph = compact(graph);
        gather(graph);
        *graph = compact(graph);
    }
    answer(graph);
    *graph = compact(graph);
    clear_cells(graph);
    load_once(graph);
}

/// What is known at the start of a node.
#[derive(Clone)]
struct Known {
    facts: Facts,
    state: State,
}

fn answer(graph: &mut Graph) {
    let mut values = Values::default();
    let mut known: HashMap<Target, Known> = HashMap::new();
    let start = Known {
        facts: Facts::default(),
        state: values.start(),
    };
    graph.start = past(graph, &mut values, &start, graph.start);
    known.insert(graph.start, start);
    for target in (0..graph.end()).rev() {
        let Some(mut here) = known.remove(&target) else {
            continue;
        };
        let Some(node) = graph.node(target).cloned() else {
            continue;
        };
        values.run(&node.steps, &mut here.state);
        let Some((jump, k)) = node.jump else {
            let next = past(graph, &mut values, &here, node.holds);
            if let Some(node) = graph.node_mut(target) {
                (node.holds, node.fails) = (next, next);
            }
            meet(&mut known, &mut values, next, here);
            continue;
        };
        let mut ends = [node.holds, node.fails];
        for (end, outcome) in ends.iter_mut().zip([true, false]) {
            let mut there = here.clone();
            there.facts.learn(there.state.a, jump, k, outcome);
            *end = past(graph, &mut values, &there, *end);
            meet(&mut known, &mut values, *end, there);
        }
        if let Some(node) = graph.node_mut(target) {
            [node.holds, node.fails] = ends;
        }
    }
}

/// The target that a path to `target` really reaches, given what is known on it.
fn past(graph: &Graph, values: &mut Values, known: &Known, mut target: Target) -> Target {
    for _ in 0..FARTHEST {
        let Some(node) = graph.node(target) else {
            break;
        };
        let Some((jump, k)) = node.jump else {
            break;
        };
        if node.holds == node.fails {
            target = node.holds;
            continue;
        }
        let mut state = known.state.clone();
        values.run(&node.steps, &mut state);
        let outcome = match values.constant(state.a) {
            Some(value) => facts::compare(value, jump, k),
            None => known.facts.outcome(state.a, jump, k),
        };
        target = match outcome {
            Some(true) => node.holds,
            Some(false) => node.fails,
            None => break,
        };
    }
    target
}

/// Keeps only what is known on every path to `target`.
fn meet(known: &mut HashMap<Target, Known>, values: &mut Values, target: Target, new: Known) {
    match known.get_mut(&target) {
        None => {
            known.insert(target, new);
        }
        Some(old) => {
            old.facts.keep_common(&new.facts);
            values.merge(&mut old.state, &new.state, target);
        }
    }
}

/// Removes unreachable nodes, merges nodes that became equal, and renumbers so that a node comes after those it leads to.
fn compact(graph: &Graph) -> Graph {
    let mut compacted = Graph::default();
    let mut moved: Vec<Option<Target>> = vec![None; graph.end()];
    let mut open = vec![graph.start];
    while let Some(&target) = open.last() {
        let Some(node) = graph.node(target) else {
            moved[target] = Some(target);
            open.pop();
            continue;
        };
        // Nodes that are finished later come earlier in the program, so the node tested next comes first.
        match (moved[node.fails], moved[node.holds]) {
            _ if moved[target].is_some() => {
                open.pop();
            }
            (None, _) => open.push(node.fails),
            (_, None) => open.push(node.holds),
            (Some(fails), Some(holds)) => {
                let node = Node {
                    holds,
                    fails,
                    ..node.clone()
                };
                moved[target] = Some(compacted.add(node));
                open.pop();
            }
        }
    }
    compacted.start = moved[graph.start].unwrap_or(graph.start);
    compacted
}

fn gather(graph: &mut Graph) {
    let mut ways = vec![0_u32; graph.end()];
    for target in 0..graph.end() {
        if let Some(node) = graph.node(target) {
            ways[node.holds] += 1;
            ways[node.fails] += 1;
        }
    }
    for outcome in [false, true] {
        let mut seen = vec![false; graph.end()];
        for target in (0..graph.end()).rev() {
            if !seen[target] {
                let row = row(graph, &ways, target, outcome);
                row.iter().for_each(|target| seen[*target] = true);
                stand_together(graph, &row);
            }
        }
    }
}

/// The nodes that follow one another while each test results in `outcome`, and whose other side leads to one common target.
fn row(graph: &Graph, ways: &[u32], start: Target, outcome: bool) -> Vec<Target> {
    let ends = |node: &Node| match outcome {
        true => (node.holds, node.fails),
        false => (node.fails, node.holds),
    };
    let mut row = Vec::new();
    let mut exit = None;
    let mut target = start;
    while let Some(node) = graph.node(target).filter(|node| node.jump.is_some()) {
        let (next, other) = ends(node);
        if exit.is_some_and(|exit| exit != other) || (target != start && ways[target] > 1) {
            break;
        }
        exit = Some(other);
        row.push(target);
        target = next;
    }
    row
}

/// Makes the tests of one value neighbours, at the place of its first test.
fn stand_together(graph: &mut Graph, row: &[Target]) {
    let mut first: HashMap<&[PlainInstruction], usize> = HashMap::new();
    let mut order: Vec<(usize, Target)> = Vec::new();
    for (at, target) in row.iter().enumerate() {
        let steps = graph.node(*target).map_or(&[][..], |node| &node.steps);
        order.push((*first.entry(steps).or_insert(at), *target));
    }
    order.sort_by_key(|(first, _)| *first);
    let asked = order.iter().filter_map(|(_, target)| graph.node(*target));
    let asked: Vec<_> = asked.map(|node| (node.steps.clone(), node.jump)).collect();
    // The nodes of a row differ in nothing else, so they keep their places and exchange their tests.
    for (target, (steps, jump)) in row.iter().zip(asked) {
        if let Some(node) = graph.node_mut(*target) {
            (node.steps, node.jump) = (steps, jump);
        }
    }
}

fn clear_cells(graph: &mut Graph) {
    let mut written: HashMap<Target, u16> = HashMap::from([(graph.start, 0)]);
    let mut unsure = 0;
    for target in (0..graph.end()).rev() {
        let (Some(&(mut cells)), Some(node)) = (written.get(&target), graph.node(target)) else {
            continue;
        };
        for step in &node.steps {
            let cell = 1_u16.checked_shl(step.k).unwrap_or(0);
            match step.code {
                code::ST | code::STX => cells |= cell,
                code::LD_MEM | code::LDX_MEM => unsure |= cell & !cells,
                _ => {}
            }
        }
        for next in [node.holds, node.fails] {
            *written.entry(next).or_insert(u16::MAX) &= cells;
        }
    }
    if unsure == 0 {
        return;
    }
    let cells = (0..code::SCRATCH).filter(|cell| unsure & (1 << cell) != 0);
    let mut steps = vec![step(code::LD_IMM, 0)];
    steps.extend(cells.map(|cell| step(code::ST, cell)));
    graph.start = graph.add(Node {
        steps,
        jump: None,
        holds: graph.start,
        fails: graph.start,
    });
}

fn load_once(graph: &mut Graph) {
    let mut values = Values::default();
    let mut known: HashMap<Target, State> = HashMap::from([(graph.start, values.unwritten())]);
    for target in (0..graph.end()).rev() {
        let (Some(mut state), Some(node)) = (known.remove(&target), graph.node(target).cloned())
        else {
            continue;
        };
        let kept = needed(&mut values, &node, &mut state);
        if let Some(node) = graph.node_mut(target) {
            node.steps = kept;
        }
        for next in [node.holds, node.fails] {
            match known.get_mut(&next) {
                None => {
                    known.insert(next, state.clone());
                }
                Some(old) => values.merge(old, &state, next),
            }
        }
    }
}

/// The steps of `node` that change A, X or a scratch cell. `state` is what those hold before; it is updated to what they hold
/// after.
fn needed(values: &mut Values, node: &Node, state: &mut State) -> Vec<PlainInstruction> {
    let steps = &node.steps;
    let mut skipped = 0;
    let mut after = state.clone();
    for (at, step) in steps.iter().enumerate() {
        values.run(&[*step], &mut after);
        // A prefix of steps has no effect if A and X end as they began, or are not read afterwards.
        let next = steps.get(at + 1);
        let a_unread = next.is_some_and(|next| next.code & 0x07 == 0);
        let x_unread = next.is_none() && node.jump.is_some_and(|(jump, _)| jump & 0x08 == 0);
        let same = after.cells == state.cells
            && (a_unread || after.a == state.a)
            && (x_unread || after.x == state.x);
        if same {
            skipped = at + 1;
        }
    }
    let mut kept = Vec::new();
    for step in &steps[skipped..] {
        let before = state.clone();
        values.run(&[*step], state);
        if *state != before {
            kept.push(*step);
        }
    }
    kept
}
