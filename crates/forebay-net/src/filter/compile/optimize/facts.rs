//! What is known about values on the path to a node.

use super::values::Value;
use crate::filter::bpf::code;

/// The maximum number of values, and of results for each. To forget one is always correct.
const VALUES: usize = 48;
const ANSWERS: usize = 12;

/// Values that were loaded, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts(Vec<(Value, Fact)>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Fact {
    /// The least and the greatest value possible.
    range: (u32, u32),
    /// Comparisons and their results.
    answers: Vec<(u16, u32, bool)>,
}

/// The result of the comparison of `value`; `None` for a comparison with X.
pub(super) fn compare(value: u32, jump: u16, k: u32) -> Option<bool> {
    match jump {
        code::JEQ_K => Some(value == k),
        code::JGT_K => Some(value > k),
        code::JGE_K => Some(value >= k),
        code::JSET_K => Some(value & k != 0),
        _ => None,
    }
}

impl Facts {
    /// Records that `value` was loaded, and the result of the comparison.
    pub fn learn(&mut self, value: Value, jump: u16, k: u32, outcome: bool) {
        let at = self.0.iter().position(|(known, _)| *known == value);
        let at = at.unwrap_or_else(|| {
            let fact = Fact {
                range: (0, u32::MAX),
                answers: Vec::new(),
            };
            self.0.push((value, fact));
            self.0.len() - 1
        });
        if at < VALUES {
            self.0[at].1.learn(jump, k, outcome);
        } else {
            self.0.truncate(VALUES);
        }
    }

    /// The result of the comparison; `None` if it is not known, or the value was not loaded.
    pub fn outcome(&self, value: Value, jump: u16, k: u32) -> Option<bool> {
        let (_, fact) = self.0.iter().find(|(known, _)| *known == value)?;
        fact.outcome(jump, k)
    }

    pub fn keep_common(&mut self, other: &Facts) {
        self.0.retain_mut(|(value, fact)| {
            let same = other.0.iter().find(|(known, _)| known == value);
            if let Some((_, other)) = same {
                fact.range.0 = fact.range.0.min(other.range.0);
                fact.range.1 = fact.range.1.max(other.range.1);
                fact.answers
                    .retain(|&(jump, k, outcome)| other.outcome(jump, k) == Some(outcome));
            }
            same.is_some()
        });
    }
}

impl Fact {
    fn learn(&mut self, jump: u16, k: u32, outcome: bool) {
        let (low, high) = &mut self.range;
        match (jump, outcome) {
            (code::JEQ_K, true) => (*low, *high) = (k, k),
            (code::JGT_K, true) => *low = (*low).max(k.saturating_add(1)),
            (code::JGE_K, true) => *low = (*low).max(k),
            (code::JGT_K, false) => *high = (*high).min(k),
            (code::JGE_K, false) => *high = (*high).min(k.saturating_sub(1)),
            (code::JEQ_K | code::JSET_K, _) if self.answers.len() < ANSWERS => {
                self.answers.push((jump, k, outcome));
            }
            _ => {}
        }
    }

    fn outcome(&self, jump: u16, k: u32) -> Option<bool> {
        let (low, high) = self.range;
        if low == high {
            return compare(low, jump, k);
        }
        let answer = self
            .answers
            .iter()
            .find(|(j, known, _)| (*j, *known) == (jump, k));
        match jump {
            code::JEQ_K if k < low || k > high => Some(false),
            code::JGT_K if low > k => Some(true),
            code::JGT_K if high <= k => Some(false),
            code::JGE_K if low >= k => Some(true),
            code::JGE_K if high < k => Some(false),
            _ => answer.map(|(.., outcome)| *outcome),
        }
    }
}
