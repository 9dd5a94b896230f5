//! The comparison of two figures in words: one wins, or it is a tie.

/// Rates of two programs whose quotient is below this are a tie: each figure depends on two processors.
pub const TIE_OF_RATES: f64 = 1.2;

/// The same for the cost of a packet, which depends on one processor.
pub const TIE_OF_COSTS: f64 = 1.1;

/// The figure of one side.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    pub name: String,
    pub value: f64,
    /// The true value may be higher.
    pub at_least: bool,
}

/// Which of the two has the higher figure, or is better because it has the lower one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    Higher,
    Lower,
}

/// One sentence about two figures. Those whose quotient is below `tie` are equal.
pub fn verdict(first: &Figure, second: &Figure, better: Better, tie: f64) -> String {
    let (low, high) = match first.value <= second.value {
        true => (first, second),
        false => (second, first),
    };
    let versus = format!("{} against {}", first.name, second.name);
    let times = high.value / low.value;
    if first.at_least && second.at_least {
        let limit = format!("{times:.2} times as high with {}", high.name);
        return format!("{versus}: undecided, both reach the sender's limit, which is {limit}");
    }
    if low.at_least {
        return format!(
            "{versus}: undecided, {} reaches the sender's limit",
            low.name
        );
    }
    if low.value == high.value {
        return format!("{versus}: a tie");
    }
    if times < tie {
        return match high.at_least {
            true => format!(
                "{versus}: at least a tie for {}, {times:.2} times or more",
                high.name
            ),
            false => format!("{versus}: a tie, {times:.2} times"),
        };
    }
    let winner = match better {
        Better::Higher => high,
        Better::Lower => low,
    };
    let what = match better {
        _ if low.value == 0.0 => "the other has no such rate".into(),
        Better::Higher if high.at_least => format!("at least {times:.2} times the other"),
        Better::Higher => format!("{times:.2} times the other"),
        Better::Lower => format!("{:.2} of the other", 1.0 / times),
    };
    format!("{versus}: {} wins, {what}", winner.name)
}

/// The best of these figures.
pub fn best(figures: impl Iterator<Item = Figure>, better: Better) -> Option<Figure> {
    figures.reduce(|best, it| {
        let is_better = match better {
            Better::Higher => it.value > best.value,
            Better::Lower => it.value < best.value,
        };
        if is_better { it } else { best }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(name: &str, value: f64, at_least: bool) -> Figure {
        Figure {
            name: name.into(),
            value,
            at_least,
        }
    }

    fn rates(a: (f64, bool), b: (f64, bool)) -> String {
        let (a, b) = (figure("a", a.0, a.1), figure("b", b.0, b.1));
        verdict(&a, &b, Better::Higher, TIE_OF_RATES)
    }

    #[test]
    fn a_fifth_more_wins_and_less_is_a_tie() {
        for (a, b, expected) in [
            (1.2, 1.0, "a against b: a wins, 1.20 times the other"),
            (1.0, 1.2, "a against b: b wins, 1.20 times the other"),
            (1.19, 1.0, "a against b: a tie, 1.19 times"),
            (1.0, 1.19, "a against b: a tie, 1.19 times"),
            (1.0, 1.0, "a against b: a tie"),
            (1.0, 0.0, "a against b: a wins, the other has no such rate"),
        ] {
            assert_eq!(rates((a, false), (b, false)), expected);
        }
        let nothing = rates((0.0, false), (0.0, false));
        assert_eq!(nothing, "a against b: a tie");
    }

    #[test]
    fn a_rate_at_the_senders_limit_can_win_but_never_lose() {
        for (a, b, expected) in [
            (
                (2.0, true),
                (1.0, false),
                "a wins, at least 2.00 times the other",
            ),
            (
                (1.1, true),
                (1.0, false),
                "at least a tie for a, 1.10 times or more",
            ),
            (
                (1.0, true),
                (2.0, false),
                "undecided, a reaches the sender's limit",
            ),
            (
                (2.0, false),
                (1.0, true),
                "undecided, b reaches the sender's limit",
            ),
            (
                (2.0, true),
                (1.0, true),
                "undecided, both reach the sender's limit, which is 2.00 times as high with a",
            ),
        ] {
            assert_eq!(rates(a, b), format!("a against b: {expected}"));
        }
    }

    #[test]
    fn where_less_is_better_the_lower_figure_wins() {
        let (a, b) = (figure("a", 50.0, false), figure("b", 100.0, false));
        let said = verdict(&a, &b, Better::Lower, TIE_OF_COSTS);
        assert_eq!(said, "a against b: a wins, 0.50 of the other");
        let both = || [a.clone(), b.clone()].into_iter();
        assert_eq!(best(both(), Better::Lower), Some(a.clone()));
        assert_eq!(best(both(), Better::Higher), Some(b.clone()));
        assert_eq!(best([].into_iter(), Better::Higher), None);
    }
}
