//! `--report DIR`: all that one run says, as one page that needs nothing else: no script, no style from elsewhere.
//!
//! ```text
//!  index.html:  the machine ─▶ each of the five texts: its figures, this machine's, ours ─▶ each room: charts, tables
//! ```
//! A room's tables come as they are: nothing here knows what rooms there are, but for `texts`, which looks figures up by
//! room, table, row and column. `verdict` says which rows lead and which tie, `chart` draws, `html` keeps text from being
//! taken for tags.

mod chart;
mod html;
mod texts;
mod verdict;

use crate::method::{
    machine::Machine,
    table::{Cell, Row, Table},
};
use anyhow::{Context, Result};
use html::escaped;
use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};
use verdict::{Column, Place};

/// One run.
pub struct Run<'a> {
    /// What it ran on.
    pub machine: &'a Machine,
    /// Samples a side.
    pub rounds: usize,
    /// Whether it was only to see that it works.
    pub quick: bool,
    /// Each room's name and tables, in order.
    pub rooms: Vec<(String, &'a [Table])>,
}

/// Writes the page into `folder`, which is made if it is not there; says where it is.
///
/// # Errors
/// The folder cannot be made, or the page not be written.
pub fn write(folder: &Path, run: &Run<'_>) -> Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let path = folder.join("index.html");
    fs::write(&path, page(run)).with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}

/// The page.
fn page(run: &Run<'_>) -> String {
    let mut body = String::new();
    body += "<h1>Forebay, measured</h1>\n";
    if run.quick {
        body += "<p class=warning>A quick run: a tenth of the work in each sample. To see that it works, not to quote.</p>\n";
    }
    for line in run.machine.lines().lines() {
        put(
            &mut body,
            format_args!("<p class=machine>{}</p>\n", escaped(line)),
        );
    }
    put(
        &mut body,
        format_args!("<p class=machine>{} samples a side</p>\n", run.rounds),
    );
    body += READING;
    body += "<nav>";
    for text in &texts::TEXTS {
        put(
            &mut body,
            format_args!("<a href=\"#text-{0}\">Text {0}</a> ", text.number),
        );
    }
    for (name, _) in &run.rooms {
        put(
            &mut body,
            format_args!("<a href=\"#{0}\">{0}</a> ", escaped(name)),
        );
    }
    body += "</nav>\n";
    for text in &texts::TEXTS {
        text.section(run, &mut body);
    }
    for (name, tables) in &run.rooms {
        put(
            &mut body,
            format_args!("<h2 id=\"{0}\">{0}</h2>\n", escaped(name)),
        );
        tables.iter().for_each(|table| section(table, &mut body));
    }
    format!(
        "<!DOCTYPE html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n<meta name=viewport content=\"width=device-width\">\n\
         <title>Forebay, measured</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )
}

/// Adds to a text; that cannot fail.
fn put(to: &mut String, what: std::fmt::Arguments<'_>) {
    to.write_fmt(what).expect("a string takes all");
}

/// A table, and a chart of each of its columns that is worth one.
fn section(table: &Table, to: &mut String) {
    let (title, rest) = table
        .title
        .split_once(": ")
        .unwrap_or((table.title.as_str(), ""));
    put(
        to,
        format_args!(
            "<section>\n<h3>{}</h3>\n<p>{}</p>\n",
            escaped(title),
            escaped(rest)
        ),
    );
    let columns: Vec<Column> = (0..table.columns.len())
        .map(|column| Column::of(table, column))
        .collect();
    to.push_str("<div class=charts>\n");
    for column in charted(&columns) {
        chart::bars(table, column, &columns[column], to);
    }
    to.push_str("</div>\n<table>\n<tr><th></th>");
    for column in &table.columns {
        put(to, format_args!("<th>{}</th>", escaped(column)));
    }
    to.push_str("</tr>\n");
    for (number, row) in table.rows.iter().enumerate() {
        line(row, number, &columns, to);
    }
    to.push_str("</table>\n");
    for note in &table.notes {
        put(to, format_args!("<p class=note>{}</p>\n", escaped(note)));
    }
    to.push_str("</section>\n");
}

/// Columns to draw: those with spreads, and of several units for the same thing the first.
fn charted(columns: &[Column]) -> Vec<usize> {
    let has_ns = columns.iter().any(|column| column.name == "ns");
    (0..columns.len())
        .filter(|&column| {
            let column = &columns[column];
            column.is_spread && !(has_ns && column.name.ends_with("cycles"))
        })
        .collect()
}

fn line(row: &Row, number: usize, columns: &[Column], to: &mut String) {
    let class = match () {
        () if verdict::is_ours(row) => " class=ours",
        () if verdict::is_limit(row) => " class=limit",
        () => "",
    };
    put(
        to,
        format_args!("<tr{class}><th>{}</th>", escaped(&row.name)),
    );
    if row.cells.len() != columns.len() {
        let why: Vec<_> = row.cells.iter().map(Cell::to_string).collect();
        put(
            to,
            format_args!(
                "<td class=skipped colspan={}>{}</td></tr>\n",
                columns.len(),
                escaped(&why.join(" "))
            ),
        );
        return;
    }
    for (cell, column) in row.cells.iter().zip(columns) {
        let (class, mark) = match column.places[number] {
            Some(Place::Leads) => (" class=leads", ""),
            Some(Place::Ties) => (" class=ties", " ≈"),
            None => ("", ""),
        };
        put(
            to,
            format_args!("<td{class}>{}{mark}</td>", escaped(&cell.to_string())),
        );
    }
    to.push_str("</tr>\n");
}

const READING: &str = "<p>Each figure is the median of its samples, with the tenth below and the tenth above it in brackets, and in \
    the charts as a thin line. <b>Bold</b>: leads its column, limits aside. ≈: ties with what leads, that is, is within a tenth of \
    it (a fifth where two threads are measured), or the middle eight tenths of the samples overlap. Sides were measured in turn. \
    Where it was asked how far apart two processors were, it says NEAR or FAR, and samples during which that changed are left \
    out and counted. –: this machine does not tell, or there was no such sample.</p>\n";

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#1c2733;background:#fff}\
    h1,h2,h3{line-height:1.2}h2{margin-top:3rem;border-bottom:2px solid #d5dde5;padding-bottom:.3rem}\
    h3{margin:2rem 0 .2rem}nav a{margin-right:.7em}\
    table{border-collapse:collapse;margin:.6rem 0;font-variant-numeric:tabular-nums;font-size:.92em}\
    th,td{padding:.2rem .7rem;text-align:right;border-bottom:1px solid #e4eaf0;vertical-align:top}\
    th:first-child{text-align:left;font-weight:normal}tr:first-child th{font-weight:600;color:#51606e}\
    .ours th:first-child{font-weight:600;color:#0b5fa5}.limit{color:#6b7783}\
    .leads{font-weight:700}.ties{font-weight:600}.skipped,.words{text-align:left;color:#6b7783}\
    .note,.machine{color:#51606e;font-size:.9em;margin:.15rem 0}.warning{color:#a33}\
    .charts{display:flex;flex-wrap:wrap;gap:1rem}svg{max-width:100%;height:auto}\
    section{margin-bottom:2rem}li{margin:.3rem 0}";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::samples::Summary;

    fn spread(median: f64) -> Cell {
        let summary = Summary {
            median,
            low: median * 0.99,
            high: median * 1.01,
            samples: 9,
        };
        Cell::spread(Some(summary), 1)
    }

    /// Every tag that is opened is closed, in order; the page names nothing outside itself.
    fn is_well_formed(page: &str) {
        let mut open: Vec<&str> = Vec::new();
        for part in page.split('<').skip(1) {
            let (tag, _) = part.split_once('>').expect("a tag ends");
            let name = tag
                .trim_start_matches('/')
                .split([' ', '/'])
                .next()
                .unwrap();
            match tag {
                _ if tag.starts_with('!') || tag.ends_with('/') || name == "meta" => {}
                _ if tag.starts_with('/') => assert_eq!(open.pop(), Some(name), "</{name}> closes"),
                _ => open.push(name),
            }
        }
        assert!(open.is_empty(), "still open: {open:?}");
        for outside in [
            "http://", "https://", "<script", "<link", "<img", "@import", "url(",
        ] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn a_page_shows_each_table_whole_and_nothing_from_elsewhere() {
        let mut table = Table::new("a room/a < b: of \"what\"", &["ns", "gain"]);
        table.row("forebay & co", vec![spread(10.0), Cell::number(1.5, 1)]);
        table.row("another", vec![spread(10.5), Cell::Unknown]);
        table.row("slow", vec![spread(99.0), Cell::Text("<no>".into())]);
        table.skipped("missing", &anyhow::anyhow!("needs a <thing>"));
        table.note("so & so");
        let machine = Machine::here().unwrap();
        let tables = [table];
        let run = Run {
            machine: &machine,
            rounds: 9,
            quick: true,
            rooms: vec![("room".into(), &tables)],
        };
        let page = page(&run);
        is_well_formed(&page);
        for said in [
            "a room/a &lt; b",
            "forebay &amp; co",
            "needs a &lt;thing&gt;",
            "so &amp; so",
            "<td class=leads>10.0 (9.9–10.1)</td>",
            "<td class=ties>10.5 (10.4–10.6) ≈</td>",
            "<td>99.0 (98.0–100.0)</td>",
            "<svg",
            "A quick run",
            "Text 004",
        ] {
            assert!(page.contains(said), "{said} is missing in\n{page}");
        }
    }

    #[test]
    fn a_report_is_one_file_in_a_folder_that_need_not_be_there() {
        let folder = std::env::temp_dir().join(format!("forebay-report-{}", std::process::id()));
        let machine = Machine::here().unwrap();
        let run = Run {
            machine: &machine,
            rounds: 1,
            quick: false,
            rooms: Vec::new(),
        };
        let path = write(&folder.join("in/here"), &run).unwrap();
        assert!(fs::read_to_string(&path).unwrap().ends_with("</html>\n"));
        fs::remove_dir_all(folder).unwrap();
    }
}
