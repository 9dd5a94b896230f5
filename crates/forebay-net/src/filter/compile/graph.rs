//! The control flow graph of an expression. Its nodes are tests, and each leads to two other nodes or to a verdict.
//!
//! ```text
//!    [12] == 0x0800 ──no──▶ [12] == 0x0806 ──no──▶ REJECT
//!         │ yes                  │ yes
//!         ▼                      ▼
//!    [26] == 10.0.0.1 ─yes─▶ ACCEPT …
//! ```
//!
//! Nodes are created from the last test to the first, so a node's number is greater than the numbers of the nodes it leads to.
//! A pass from the highest number down has seen every path to a node before the node itself.

use super::test::{PlainInstruction, Test};
use crate::filter::{ast::Joint, error::Said};
use std::collections::HashMap;

/// The number of a [`Node`], or a verdict.
pub(super) type Target = usize;

pub(super) const REJECT: Target = 0;
pub(super) const ACCEPT: Target = 1;
const VERDICTS: usize = 2;

/// The maximum number of tests of an expression, before duplicates are removed.
const MOST: usize = 32_768;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub steps: Vec<PlainInstruction>,
    /// The comparison of the value that the steps leave in A; `None` always goes to [`holds`](Node::holds).
    pub jump: Option<(u16, u32)>,
    pub holds: Target,
    pub fails: Target,
}

#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: Vec<Node>,
    known: HashMap<Node, Target>,
    pub start: Target,
}

impl Graph {
    pub fn node(&self, target: Target) -> Option<&Node> {
        self.nodes.get(target.checked_sub(VERDICTS)?)
    }

    pub fn node_mut(&mut self, target: Target) -> Option<&mut Node> {
        self.nodes.get_mut(target.checked_sub(VERDICTS)?)
    }

    /// One more than the greatest target.
    pub fn end(&self) -> Target {
        VERDICTS + self.nodes.len()
    }

    /// The target for `node`: an existing one if an equal node exists.
    pub fn add(&mut self, node: Node) -> Target {
        if node.jump.is_some() && node.holds == node.fails {
            return node.holds;
        }
        let next = self.end();
        let target = *self.known.entry(node.clone()).or_insert(next);
        if target == next {
            self.nodes.push(node);
        }
        target
    }
}

pub(super) fn build(test: &Test) -> Said<Graph> {
    let mut graph = Graph::default();
    graph.start = add(&mut graph, test, ACCEPT, REJECT)?;
    Ok(graph)
}

/// Adds the nodes of `test`, which lead to `holds` and `fails`. Returns the first of them.
fn add(graph: &mut Graph, test: &Test, holds: Target, fails: Target) -> Said<Target> {
    if graph.nodes.len() > MOST {
        return Err(format!(
            "the expression asks more than {MOST} questions; write it shorter"
        ));
    }
    Ok(match test {
        Test::Always(true) => holds,
        Test::Always(false) => fails,
        Test::Not(inner) => add(graph, inner, fails, holds)?,
        Test::Value(steps, code, k) => graph.add(Node {
            steps: steps.clone(),
            jump: Some((*code, *k)),
            holds,
            fails,
        }),
        Test::Do(steps) => graph.add(Node {
            steps: steps.clone(),
            jump: None,
            holds,
            fails: holds,
        }),
        Test::If(parts) => {
            let [condition, then, otherwise] = &**parts;
            let then = add(graph, then, holds, fails)?;
            let otherwise = add(graph, otherwise, holds, fails)?;
            add(graph, condition, then, otherwise)?
        }
        Test::Chain(first, rest) => {
            // From last to first. Whatever precedes `and t` continues with t if it is true, and fails like the whole chain if it is
            // false. For `or t` it is the other way round.
            let (mut holds, mut fails) = (holds, fails);
            for (joint, next) in rest.iter().rev() {
                let next = add(graph, next, holds, fails)?;
                match joint {
                    Joint::And => holds = next,
                    Joint::Or => fails = next,
                }
            }
            add(graph, first, holds, fails)?
        }
    })
}
