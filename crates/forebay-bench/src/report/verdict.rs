//! Who leads a column and who ties with it, and which way is better.

use crate::method::{
    samples::Summary,
    table::{Cell, Row, Table},
};

/// Where a row stands in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The best median, limits aside.
    Leads,
    /// Within the noise of it.
    Ties,
}

/// What is known of a column.
pub struct Column {
    /// Its head.
    pub name: String,
    /// Whether it has medians with spreads.
    pub is_spread: bool,
    /// Each row's place; `None` also where nobody knows which way is better.
    pub places: Vec<Option<Place>>,
}

/// Whether a row is of this project, by its name.
pub fn is_ours(row: &Row) -> bool {
    ["forebay", "ours"]
        .iter()
        .any(|name| row.name.contains(name))
}

/// Whether a row is no rival but what the machine can do at most, by its name.
pub fn is_limit(row: &Row) -> bool {
    ["limit", "the limit", "memcpy", "write(2)"]
        .iter()
        .any(|name| row.name.starts_with(name))
}

/// The summary of a row in a column.
pub fn summary(row: &Row, column: usize, columns: usize) -> Option<Summary> {
    match row.cells.get(column)? {
        Cell::Spread { summary, .. } if row.cells.len() == columns => Some(*summary),
        _ => None,
    }
}

impl Column {
    /// Of a table's column.
    pub fn of(table: &Table, column: usize) -> Column {
        let name = table.columns[column].clone();
        let each = |row| summary(row, column, table.columns.len());
        let summaries: Vec<_> = table.rows.iter().map(each).collect();
        let mut places = vec![None; table.rows.len()];
        let contends = |row: usize| !is_limit(&table.rows[row]);
        let all = summaries.iter().enumerate();
        let contenders = all.filter_map(|(row, summary)| Some((row, (*summary)?)));
        let contenders: Vec<_> = contenders.filter(|&(row, _)| contends(row)).collect();
        let by_median = |one: &&(usize, Summary), other: &&(usize, Summary)| {
            one.1.median.total_cmp(&other.1.median)
        };
        let best = match less_is_better(&table.title, &name) {
            Some(true) => contenders.iter().min_by(by_median),
            Some(false) => contenders.iter().max_by(by_median),
            None => None,
        };
        if let Some(&(leader, best)) = best {
            let two_threads = ["NEAR", "FAR"].iter().any(|mode| name.contains(mode));
            let noise = if two_threads { 1.2 } else { 1.1 };
            for &(row, other) in &contenders {
                places[row] = match row == leader {
                    true => Some(Place::Leads),
                    false => ties(best, other, noise).then_some(Place::Ties),
                };
            }
        }
        Column {
            is_spread: summaries.iter().any(Option::is_some),
            name,
            places,
        }
    }
}

/// Whether two medians are within the noise, or the middle eight tenths of the samples overlap.
fn ties(one: Summary, other: Summary, noise: f64) -> bool {
    let (less, more) = match one.median <= other.median {
        true => (one, other),
        false => (other, one),
    };
    more.median <= less.median * noise || less.high >= more.low
}

/// Which way is better, by the unit in the column's head, or else in the table's title.
fn less_is_better(title: &str, column: &str) -> Option<bool> {
    const MORE: [&str; 5] = ["bit/s", "/s", "a second", "million", "millions"];
    const LESS: [&str; 8] = [
        "ns", "µs", "ms", "cycles", "lost", "CPU", "blocked", "misses",
    ];
    let of = |text: &str| {
        let mut words = text.split([' ', ',', ':', '(', ')']);
        match () {
            () if MORE.iter().any(|unit| text.contains(unit)) => Some(false),
            () if words.any(|word| LESS.contains(&word)) => Some(true),
            () => None,
        }
    };
    of(column).or_else(|| of(title))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(title: &str, column: &str, rows: &[(&str, f64, f64, f64)]) -> Table {
        let mut table = Table::new(title, &[column]);
        for &(name, low, median, high) in rows {
            let summary = Summary {
                median,
                low,
                high,
                samples: 5,
            };
            table.row(name, vec![Cell::spread(Some(summary), 1)]);
        }
        table
    }

    #[test]
    fn the_best_median_leads_and_what_is_within_the_noise_ties() {
        let rows = [
            ("a", 9.9, 10.0, 10.1),
            ("b", 10.8, 10.9, 11.0),
            ("c", 9.0, 20.0, 30.0),
            ("d", 14.0, 15.0, 16.0),
            ("limit: none", 1.0, 1.0, 1.0),
        ];
        let places = |title, column| Column::of(&table(title, column, &rows), 0).places;
        let (leads, ties) = (Some(Place::Leads), Some(Place::Ties));
        assert_eq!(places("x", "ns"), [leads, ties, ties, None, None]);
        assert_eq!(
            places("x: Gbit/s", "speed"),
            [ties, ties, leads, ties, None]
        );
        assert_eq!(places("x", "whatever"), [None; 5]);
    }

    #[test]
    fn units_tell_which_way_is_better() {
        assert_eq!(less_is_better("", "million a second"), Some(false));
        assert_eq!(
            less_is_better("trips: there and back, ns", "NEAR"),
            Some(true)
        );
        assert_eq!(
            less_is_better("messages, millions a second", "FAR"),
            Some(false)
        );
        assert_eq!(less_is_better("poll/1 % of 1 Gb/s", "CPU %"), Some(true));
        assert_eq!(less_is_better("sizes", "bytes"), None);
    }
}
