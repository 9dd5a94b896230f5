//! The five texts: each figure they tell, beside this machine's for the same code, and ours; and what they claim.
//!
//! `told` has what they say. Everything measured is looked up in the run's tables: what this run did not measure says so. A
//! claim is a ratio; where this machine's is less than nine tenths of the text's, a line says why.

mod told;

pub use told::TEXTS;

use super::{Run, html::escaped, put};
use crate::method::table::Cell;

/// One of the texts.
pub struct Text {
    /// Its number.
    pub number: &'static str,
    title: &'static str,
    machine: &'static str,
    figures: &'static [Figure],
    claims: &'static [Claim],
}

/// What was measured in a run, if it was.
type Measured = fn(&Run<'_>) -> Option<f64>;

/// One that a text tells.
struct Figure {
    what: &'static str,
    text: &'static str,
    unit: Unit,
    /// This machine's, for the same code.
    here: Measured,
    ours: Measured,
}

/// Of a figure, with which way is better.
#[derive(Clone, Copy)]
enum Unit {
    Less(&'static str),
    More(&'static str),
}

/// That one thing is so many times as good as another.
struct Claim {
    says: &'static str,
    times: f64,
    here: Measured,
    /// Why it is less here.
    why: &'static str,
}

impl Run<'_> {
    /// The figure in a room, in the first table and row whose names begin so (a row called exactly so before all others),
    /// in a column.
    fn at(&self, room: &str, table: &str, row: &str, column: &str) -> Option<f64> {
        let (_, tables) = self.rooms.iter().find(|(name, _)| name == room)?;
        let table = tables.iter().find(|it| it.title.starts_with(table))?;
        let exactly = table.rows.iter().find(|it| it.name == row);
        let row = exactly.or_else(|| table.rows.iter().find(|it| it.name.starts_with(row)))?;
        let column = table.columns.iter().position(|name| name == column)?;
        match row.cells.get(column)? {
            Cell::Spread { summary, .. } => Some(summary.median),
            Cell::Number(figure) => Some(figure.value()),
            Cell::Text(_) | Cell::Unknown => None,
        }
    }
}

/// One figure over another, where both were measured.
fn over(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    let (one, other) = one.zip(other)?;
    (other > 0.0).then_some(one / other)
}

impl Text {
    /// Its section of the page.
    pub fn section(&self, run: &Run<'_>, to: &mut String) {
        put(
            to,
            format_args!(
                "<h2 id=\"text-{0}\">Text {0}: {1}</h2>\n<p class=note>Its figures: {2}.</p>\n<table>\n<tr><th></th><th>the text</th>\
                 <th>here, the same code</th><th>forebay</th><th>times as good as the same code</th></tr>\n",
                self.number,
                escaped(self.title),
                escaped(self.machine)
            ),
        );
        for figure in self.figures {
            figure.line(run, to);
        }
        to.push_str("</table>\n<ul>\n");
        for claim in self.claims {
            claim.line(run, to);
        }
        to.push_str("</ul>\n");
    }
}

impl Figure {
    fn line(&self, run: &Run<'_>, to: &mut String) {
        let (here, ours) = ((self.here)(run), (self.ours)(run));
        let (unit, better) = match self.unit {
            Unit::Less(unit) => (unit, over(here, ours)),
            Unit::More(unit) => (unit, over(ours, here)),
        };
        put(
            to,
            format_args!(
                "<tr><th>{}, {unit}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                escaped(self.what),
                escaped(self.text),
                shown(here),
                shown(ours),
                better.map_or("–".into(), |times| format!("{times:.2}×"))
            ),
        );
    }
}

impl Claim {
    fn line(&self, run: &Run<'_>, to: &mut String) {
        let Claim { says, times, .. } = self;
        let verdict = match (self.here)(run) {
            None => "not measured in this run.".into(),
            Some(here) if here >= 0.9 * times => format!("<b>{here:.2}×</b> here: it holds."),
            Some(here) => format!(
                "<b>{here:.2}×</b> here: it does not hold. {}",
                escaped(self.why)
            ),
        };
        put(
            to,
            format_args!(
                "<li>{}: {times:.2}× in the text, {verdict}</li>\n",
                escaped(says)
            ),
        );
    }
}

fn shown(figure: Option<f64>) -> String {
    match figure {
        None => "not measured".into(),
        Some(figure) if figure.abs() >= 100.0 => format!("{figure:.0}"),
        Some(figure) if figure.abs() >= 10.0 => format!("{figure:.1}"),
        Some(figure) => format!("{figure:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::{machine::Machine, table::Table};

    const HALVED: Claim = Claim {
        says: "half the cost",
        times: 2.0,
        here: |run| {
            over(
                run.at("r", "t", "slow", "ns"),
                run.at("r", "t", "fast", "ns"),
            )
        },
        why: "Because.",
    };

    fn said(slow: Option<f64>) -> String {
        let mut table = Table::new("t: of what", &["ns"]);
        let cell = slow.map_or(Cell::Unknown, |ns| Cell::number(ns, 1));
        table.row("slow, another", vec![Cell::number(77.0, 1)]);
        table.row("slow", vec![cell]);
        table.row("fast", vec![Cell::number(10.0, 1)]);
        let machine = Machine::here().unwrap();
        let tables = [table];
        let run = Run {
            machine: &machine,
            rounds: 1,
            quick: false,
            rooms: vec![("r".into(), &tables)],
        };
        let mut to = String::new();
        HALVED.line(&run, &mut to);
        to
    }

    #[test]
    fn a_claim_that_does_not_hold_says_why_and_one_that_holds_does_not() {
        assert!(said(Some(19.0)).contains("<b>1.90×</b> here: it holds."));
        assert!(said(Some(15.0)).contains("<b>1.50×</b> here: it does not hold. Because."));
        assert!(said(None).contains("not measured in this run"));
    }
}
