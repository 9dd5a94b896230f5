//! A claim: what its row says, when it holds, and which figures of a run show it.

use crate::report::results::{At, Results, Values};
use std::ops::Div;

/// What stands where the run does not show something.
pub const NOT_SHOWN: &str = "not shown here";

/// What a reason ends with that has simulated figures.
const SIMULATED: &str = " (simulated by valgrind: this machine does not count cache misses)";

/// A number of a run.
pub enum Figure {
    /// One figure.
    One(At),
    /// How many times the second the first is: `one / other`.
    Ratio(At, At),
    /// Something computed.
    Computed(Computed<f64>),
}

type Compute<T> = Box<dyn Fn(&[f64]) -> T>;

/// Figures of a run, and what is made of their values.
pub struct Computed<T> {
    of: Vec<At>,
    compute: Compute<T>,
}

impl<T> Computed<T> {
    fn new<const N: usize>(of: [At; N], compute: impl Fn([f64; N]) -> T + 'static) -> Self {
        Computed {
            of: of.into(),
            compute: Box::new(move |values| {
                compute(values.try_into().expect("a value for each figure"))
            }),
        }
    }
}

pub(super) fn computed<const N: usize>(of: [At; N], compute: fn([f64; N]) -> f64) -> Figure {
    Figure::Computed(Computed::new(of, compute))
}

impl From<At> for Figure {
    fn from(at: At) -> Figure {
        Figure::One(at)
    }
}

impl Div for At {
    type Output = Figure;
    fn div(self, other: At) -> Figure {
        Figure::Ratio(self, other)
    }
}

impl Figure {
    fn of(&self) -> Vec<At> {
        match self {
            Figure::One(at) => vec![*at],
            Figure::Ratio(one, other) => vec![*one, *other],
            Figure::Computed(all) => all.of.clone(),
        }
    }

    /// What it is in a run. The ratio of something to nothing is infinite; that of nothing to nothing shows nothing.
    pub fn value(&self, run: &Results) -> Option<Worth> {
        let Values { all, is_simulated } = run.values(&self.of())?;
        let (value, parts) = match (self, &all[..]) {
            (Figure::Ratio(..), &[one, other]) => (one / other, Some((one, other))),
            (Figure::Computed(figure), all) => ((figure.compute)(all), None),
            (_, all) => (*all.first()?, None),
        };
        (!value.is_nan()).then_some(Worth {
            value,
            parts,
            is_simulated,
        })
    }
}

/// What a figure is in a run.
pub struct Worth {
    pub value: f64,
    /// The two figures of a ratio.
    pub parts: Option<(f64, f64)>,
    pub is_simulated: bool,
}

/// When a claim holds.
pub enum Bound {
    /// At least the first: it holds. At least the second: in part.
    AtLeast(f64, f64),
    /// At most the first; at most the second.
    AtMost(f64, f64),
}

/// What a run says of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Holds,
    InPart,
    DoesNot,
    NotShown,
}

impl Verdict {
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::InPart => "holds in part",
            Verdict::DoesNot => "does not hold",
            Verdict::NotShown => NOT_SHOWN,
        }
    }
}

/// One row.
pub struct Claim {
    /// Which of [`TEXTS`](super::TEXTS).
    pub text: usize,
    pub says: &'static str,
    /// The text's figure with its unit, as a number and as it is printed.
    pub published: f64,
    pub printed: &'static str,
    /// `×`, `%` and the like.
    pub unit: &'static str,
    /// This machine's figure for the text's own code.
    pub here: Option<Figure>,
    /// Forebay's.
    pub ours: Option<Figure>,
    pub bound: Bound,
    /// Why a figure is what it is: figures that show it, and what they say. It compares them, and names no cause that the
    /// figures do not show.
    pub reason: Option<Computed<String>>,
}

impl Claim {
    pub fn verdict(&self, run: &Results) -> Verdict {
        // A row that is about forebay alone has no other figure.
        let figure = self.here.as_ref().or(self.ours.as_ref());
        let worth = figure.and_then(|figure| figure.value(run));
        let Some(Worth { value, .. }) = worth else {
            return Verdict::NotShown;
        };
        let (holds, in_part) = match self.bound {
            Bound::AtLeast(holds, in_part) => (value >= holds, value >= in_part),
            Bound::AtMost(holds, in_part) => (value <= holds, value <= in_part),
        };
        match (holds, in_part) {
            (true, _) => Verdict::Holds,
            (_, true) => Verdict::InPart,
            _ => Verdict::DoesNot,
        }
    }

    /// The reason and the figures that it is computed from.
    pub fn reason(&self, run: &Results) -> Option<(String, &[At])> {
        let reason = self.reason.as_ref()?;
        let Values { all, is_simulated } = run.values(&reason.of)?;
        let mut says = (reason.compute)(&all);
        if is_simulated {
            says += SIMULATED;
        }
        Some((says, &reason.of))
    }

    /// Every figure that the row is made of.
    pub fn figures(&self) -> Vec<At> {
        let figures = [&self.here, &self.ours].into_iter().flatten();
        let mut all: Vec<_> = figures.flat_map(Figure::of).collect();
        all.extend(self.reason.iter().flat_map(|reason| &reason.of));
        all
    }
}

/// A claim whose figure is in a chart only, unless [`Claim::published`] follows.
pub(super) fn claim(says: &'static str) -> Claim {
    Claim {
        text: 0, // `all` sets it
        says,
        published: 0.0,
        printed: "in a chart only",
        unit: "×",
        here: None,
        ours: None,
        bound: Bound::AtLeast(0.0, 0.0),
        reason: None,
    }
}

/// What a row says besides its claim.
impl Claim {
    /// The text's figure, a ratio unless [`Claim::unit`] follows: it holds if most of it is there, and in part if there is any.
    pub(super) fn published(self, published: f64, printed: &'static str) -> Claim {
        Claim {
            published,
            printed,
            bound: Bound::AtLeast(0.8 * published, 1.1),
            ..self
        }
    }

    /// Follows [`published`](Claim::published), whose bound it replaces.
    pub(super) fn unit(self, unit: &'static str, bound: Bound) -> Claim {
        Claim {
            unit,
            bound,
            ..self
        }
    }

    pub(super) fn here(self, figure: impl Into<Figure>) -> Claim {
        let here = Some(figure.into());
        Claim { here, ..self }
    }

    pub(super) fn ours(self, figure: impl Into<Figure>) -> Claim {
        let ours = Some(figure.into());
        Claim { ours, ..self }
    }

    pub(super) fn because<const N: usize>(
        self,
        of: [At; N],
        says: fn([f64; N]) -> String,
    ) -> Claim {
        let reason = Some(Computed::new(of, says));
        Claim { reason, ..self }
    }
}
