//! Bars: one a row, with a thin line over the middle eight tenths of its samples.
//!
//! ```text
//!   the text's, two copies  ▇▇▇▇▇▇▇▇▇▇▇▇▇▇──── 8.1
//!   forebay                 ▇▇▇▇─ 2.5
//! ```
//! The scale begins at 0, and is logarithmic where the largest is more than 50 times the smallest: then it says so.

use super::{
    html::escaped,
    put,
    verdict::{Column, is_limit, is_ours, summary},
};
use crate::method::{samples::Summary, table::Table};

const NAMES: f64 = 280.0;
const BARS: f64 = 300.0;
const VALUES: f64 = 90.0;
const ROW: f64 = 20.0;
const HEAD: f64 = 24.0;

/// From a figure to a length.
enum Scale {
    Linear {
        most: f64,
    },
    /// From a decade's beginning to another's.
    Logarithmic {
        least: f64,
        most: f64,
    },
}

impl Scale {
    /// For figures of which none is negative.
    fn of(figures: &[Summary]) -> Scale {
        let most = figures.iter().map(|it| it.high).fold(0.0, f64::max);
        let least = figures.iter().map(|it| it.low).fold(f64::MAX, f64::min);
        match least > 0.0 && most > 50.0 * least {
            true => Scale::Logarithmic {
                least: least.log10().floor(),
                most: most.log10().ceil(),
            },
            false => Scale::Linear { most },
        }
    }

    /// 0 to 1.
    fn at(&self, figure: f64) -> f64 {
        let part = match self {
            Scale::Linear { most } if *most > 0.0 => figure / most,
            Scale::Linear { .. } => 0.0,
            Scale::Logarithmic { least, most } => (figure.log10() - least) / (most - least),
        };
        part.clamp(0.0, 1.0)
    }

    fn words(&self) -> &'static str {
        match self {
            Scale::Linear { .. } => "",
            Scale::Logarithmic { .. } => ", logarithmic",
        }
    }
}

/// Draws a column of a table, if it has figures.
pub fn bars(table: &Table, number: usize, column: &Column, to: &mut String) {
    let rows = table
        .rows
        .iter()
        .filter_map(|row| Some((row, summary(row, number, table.columns.len())?)));
    let rows: Vec<_> = rows.collect();
    let figures: Vec<_> = rows.iter().map(|&(_, figure)| figure).collect();
    if figures.is_empty() {
        return;
    }
    let scale = Scale::of(&figures);
    let (width, height) = (NAMES + BARS + VALUES, HEAD + ROW * rows.len() as f64 + 4.0);
    put(
        to,
        format_args!(
            "<svg viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=img aria-label=\"{0}: {1}\" \
             font-family=\"system-ui,sans-serif\" font-size=\"12\">\n<text x=\"{NAMES}\" y=\"14\" fill=\"#51606e\">{1}{2}</text>\n",
            escaped(&table.title),
            escaped(&column.name),
            scale.words()
        ),
    );
    for (place, (row, figure)) in rows.iter().enumerate() {
        let top = HEAD + ROW * place as f64;
        let fill = match () {
            () if is_ours(row) => "#0b5fa5",
            () if is_limit(row) => "#c3ccd5",
            () => "#8fa3b5",
        };
        let x = |value: f64| NAMES + BARS * scale.at(value);
        let (median, low, high) = (x(figure.median), x(figure.low), x(figure.high));
        let (middle, baseline) = (top + ROW / 2.0 - 2.0, top + ROW / 2.0 + 3.0);
        put(
            to,
            format_args!(
                "<text x=\"{:.0}\" y=\"{baseline}\" text-anchor=end>{}</text>\
                 <rect x=\"{NAMES}\" y=\"{top}\" width=\"{:.1}\" height=\"{}\" fill=\"{fill}\"/>\
                 <line x1=\"{low:.1}\" x2=\"{high:.1}\" y1=\"{middle}\" y2=\"{middle}\" stroke=\"#1c2733\"/>\
                 <text x=\"{:.1}\" y=\"{baseline}\">{}</text>\n",
                NAMES - 6.0,
                escaped(&short(&row.name)),
                median - NAMES,
                ROW - 5.0,
                high.max(median) + 5.0,
                shown(figure.median)
            ),
        );
    }
    to.push_str("</svg>\n");
}

/// Three digits, or all those before the point.
fn shown(figure: f64) -> String {
    let decimals = match figure.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    format!("{figure:.decimals$}")
}

/// As much of a name as there is room for.
fn short(name: &str) -> String {
    const MOST: usize = 44;
    match name.chars().count() > MOST {
        true => name.chars().take(MOST - 1).chain(['…']).collect(),
        false => name.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::table::Cell;

    fn one(median: f64) -> Summary {
        Summary {
            median,
            low: median / 2.0,
            high: median * 2.0,
            samples: 3,
        }
    }

    #[test]
    fn bars_are_as_long_as_their_figures_and_the_longest_fills_the_scale() {
        let scale = Scale::of(&[one(5.0), one(10.0)]);
        assert_eq!(
            (scale.at(0.0), scale.at(10.0), scale.at(20.0)),
            (0.0, 0.5, 1.0)
        );
        let scale = Scale::of(&[one(0.2), one(500.0)]);
        assert!(matches!(scale, Scale::Logarithmic { .. }));
        assert_eq!((scale.at(0.1), scale.at(1000.0)), (0.0, 1.0));
        assert_eq!(Scale::of(&[one(0.0)]).at(0.0), 0.0);
    }

    #[test]
    fn a_column_without_figures_has_no_chart() {
        let mut table = Table::new("t", &["ns"]);
        table.row("a", vec![Cell::Unknown]);
        let mut to = String::new();
        bars(&table, 0, &Column::of(&table, 0), &mut to);
        assert_eq!(to, "");
    }

    #[test]
    fn long_names_are_cut_and_figures_have_three_digits() {
        assert_eq!(short(&"x".repeat(50)).chars().count(), 44);
        assert_eq!(
            [shown(1234.5), shown(12.34), shown(1.234)],
            ["1234", "12.3", "1.23"]
        );
    }
}
