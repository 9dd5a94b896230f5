//! Rules of retention: how long the packets of a sensor, or of an expression, are kept.

use crate::{
    find::{Wanted, is_known},
    segment,
};
use forebay_net::{filter::tree::Tree, units};
use std::{fmt, str::FromStr, time::Duration};

/// `AGE [sensor NAME] [EXPRESSION]`: how long the matching packets are kept. The first rule that matches a packet decides about it.
#[derive(Clone, Debug)]
pub struct Rule {
    text: String,
    age: Duration,
    sensor: Option<String>,
    tree: Tree,
}

/// How long something is kept. `90` would be seconds, and may have been meant as days, so there must be a unit.
pub fn parse_age(text: &str) -> Option<Duration> {
    let has_unit = !text.bytes().all(|byte| byte.is_ascii_digit());
    units::duration(text).filter(|_| has_unit)
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Rule, String> {
        let word = |text: &str| {
            let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
            (word.to_owned(), rest.trim_start().to_owned())
        };
        let (age, mut rest) = word(text.trim());
        let age = parse_age(&age).ok_or_else(|| {
            format!(
                "'{age}' is no time with a unit. Write for example '90d tcp port 25', '1w sensor hall-3' or 30d"
            )
        })?;
        let mut sensor = None;
        if word(&rest).0 == "sensor" {
            let (name, expression) = word(&word(&rest).1);
            if !segment::is_sensor_name(&name) {
                return Err(format!("'{name}' cannot be the name of a sensor"));
            }
            (sensor, rest) = (Some(name), expression);
        }
        let wanted = Wanted::of(&rest, i64::MIN, i64::MAX, &[]);
        Ok(Rule {
            text: text.trim().to_owned(),
            age,
            sensor,
            tree: wanted.map_err(|error| format!("{error:#}"))?.tree,
        })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Rule {
    /// For all packets that no rule before it matches.
    pub(super) fn rest(age: Duration, text: &str) -> Rule {
        Rule {
            text: text.to_owned(),
            age,
            sensor: None,
            tree: Tree::Everything,
        }
    }

    pub(super) fn is_of(&self, sensor: &str) -> bool {
        self.sensor.as_ref().is_none_or(|it| it == sensor)
    }

    /// Whether it is only for this sensor.
    pub(super) fn names(&self, sensor: &str) -> bool {
        self.sensor.as_deref() == Some(sensor)
    }

    /// The sensor that it is for. `None`: all.
    pub(super) fn sensor(&self) -> Option<&String> {
        self.sensor.as_ref()
    }

    pub(super) fn age_ns(&self) -> u64 {
        u64::try_from(self.age.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Whether the index knows everything that the expression asks for.
    pub fn is_known(&self) -> bool {
        is_known(&self.tree)
    }
}

/// What keeps the packets of a segment of a certain age.
#[derive(Debug, PartialEq)]
pub enum Keeps {
    Nothing,
    Everything,
    /// Packets that match, and the rules that say so.
    Matching(Tree, String),
}

/// What these rules keep of a segment of this sensor and age, in nanoseconds. Of an older one, they do not keep more.
pub fn keeps_at(rules: &[Rule], sensor: &str, age_ns: u64) -> Keeps {
    let rules = rules.iter().filter(|it| it.is_of(sensor));
    keeps(rules.map(|it| (it, age_ns > it.age_ns())))
}

/// What these rules keep, in their order. `ended`: whether the segment is older than the rule's age.
///
/// A rule whose time has not ended keeps its packets, except those about which an earlier rule has decided. If the index does not know
/// whether the earlier rule matches, they are kept.
pub fn keeps<'r>(rules: impl Iterator<Item = (&'r Rule, bool)>) -> Keeps {
    let (mut ended, mut kept, mut names) = (Vec::new(), Vec::new(), Vec::new());
    for (rule, has_ended) in rules {
        let is_rest = rule.tree == Tree::Everything;
        if has_ended {
            ended.push(Tree::Not(Box::new(rule.tree.clone())));
        } else if is_rest && ended.is_empty() {
            return Keeps::Everything;
        } else {
            names.push(format!("`{rule}`"));
            kept.push(match ended.is_empty() {
                true => rule.tree.clone(),
                false => {
                    let before = ended.iter().cloned();
                    Tree::And(before.chain([rule.tree.clone()]).collect())
                }
            });
        }
        if is_rest {
            break;
        }
    }
    match kept.len() {
        0 => Keeps::Nothing,
        1 => Keeps::Matching(kept.remove(0), names.remove(0)),
        _ => Keeps::Matching(Tree::Or(kept), names.join(" or ")),
    }
}
