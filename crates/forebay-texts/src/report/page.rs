//! The page: HTML without scripts, one row a claim, a chart a text, and every table of the run.

use super::{
    chart,
    claims::{self, Claim, Figure, NOT_SHOWN, TEXTS},
    digits::digits,
    results::{At, Results},
};
use anyhow::Result;
use serde_json::Value;
use std::fmt::Write;

/// Others may have this share of the processors, in percent, while it is measured.
pub const OTHERS_LIMIT: f64 = 5.0;

const STYLE: &str = include_str!("page.css");

/// The whole page.
pub fn html(run: &Results, assembly: &str) -> Result<String> {
    let claims = claims::all();
    let mut page =
        String::from("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    page += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
    page += "<title>Five texts on buffers, measured again</title>\n";
    write!(page, "<style>\n{STYLE}</style>\n</head>\n<body>\n")?;
    page += "<h1>Five texts on buffers, measured again</h1>\n";
    page += "<p>Each claim of each text is a row: the text's figure, the figure of the text's own code on this machine, forebay's figure, and \
             whether the claim holds here. The reason is computed from the figures named under it. Where the run does not have them, \
             the row says “not shown here”.</p>\n";
    write!(page, "{}", machine(run))?;
    page += &summary(&claims, run);
    for (number, (title, author)) in TEXTS.iter().enumerate() {
        let of_text: Vec<&Claim> = claims.iter().filter(|claim| claim.text == number).collect();
        writeln!(
            page,
            "<h2 id=\"text-{number}\">{} <small>{}</small></h2>",
            escaped(title),
            escaped(author)
        )?;
        if let Some(svg) = chart::ratios(&of_text, run)? {
            writeln!(
                page,
                "<figure>{svg}<figcaption>How many times as fast, or as large; the line is 1. Logarithmic.</figcaption></figure>"
            )?;
        }
        page += "<table class=\"claims\">\n<thead><tr><th>Claim</th><th>The text</th><th>Its code here</th><th>forebay</th>\
                 <th>Verdict</th><th>Reason, and what shows it</th></tr></thead>\n<tbody>\n";
        for claim in of_text {
            page += &row(claim, run);
        }
        page += "</tbody>\n</table>\n";
    }
    if !assembly.is_empty() {
        write!(
            page,
            "<h2>Assembly of both copies</h2>\n<p>An entry passed by value and appended, as this program's compiler translates it.</p>\n\
             <pre>{}</pre>\n",
            escaped(&listing(assembly))
        )?;
    }
    page += "<h2>Every table of the run</h2>\n<p>Medians, and the range of the middle eight tenths of the samples.</p>\n";
    for table in run.tables() {
        page += &details(table);
    }
    page += "</body>\n</html>\n";
    Ok(page)
}

/// The claims and the main tables in Markdown, for BENCHMARKS.md.
pub fn markdown(run: &Results) -> String {
    let mut text = String::new();
    text += &format!("{}; `{}`.\n", plain_machine(run), run.word("command"));
    if let Some(how) = run.simulation() {
        text += &format!("In tables named `cache/` and in figures marked “simulated”: {how}.\n");
    }
    for (number, (title, author)) in TEXTS.iter().enumerate() {
        text += &format!(
            "\n**{title}** ({author})\n\n| Claim | The text | Its code here | forebay | |\n|---|---|---|---|---|\n"
        );
        for claim in claims::all().iter().filter(|claim| claim.text == number) {
            let cells = [
                claim.says.replace('|', "\\|"),
                claim.printed.into(),
                shown(claim, &claim.here, run),
                shown(claim, &claim.ours, run),
                claim.verdict(run).word().into(),
            ];
            text += &format!("| {} |\n", cells.join(" | "));
        }
    }
    text + &published(run)
}

/// The tables that BENCHMARKS.md has, by the part of their titles before the first colon.
const PUBLISHED: [&str; 25] = [
    "driver/1 Gb/s of 64-byte frames, 1.488 million a second",
    "driver/batches",
    "driver/split",
    "ring/alone",
    "pool/one by one, not touched",
    "pool/one by one, 64 bytes written",
    "pool/bursts of 32, 64 bytes written in each",
    "header/add and remove 14 bytes/64",
    "header/add and remove 14 bytes/4000",
    "descriptor/trivial",
    "descriptor/read (RX)",
    "descriptor/write (TX)",
    "descriptor/anywhere",
    "mirror/64 B",
    "mirror/1500 B",
    "stream/view",
    "stream/copy",
    "stream/copying in",
    "cache/driver/batches",
    "cache/pool/one by one, not touched",
    "cache/ring/alone",
    "append/28/28 bytes, a buffer of 16 KiB, to /dev/null",
    "append/28/28 bytes, a buffer of 16 KiB, to a file",
    "append/28/28 bytes, a buffer of 64 KiB, to a file",
    "append/forwarding, a file",
];

/// Those tables in Markdown: medians.
fn published(run: &Results) -> String {
    let mut text = String::new();
    for table in run.tables() {
        let title = table["title"].as_str().unwrap_or_default();
        let list = |name: &str| table[name].as_array().into_iter().flatten();
        if !PUBLISHED.contains(&title.split(": ").next().unwrap_or_default()) {
            continue;
        }
        let columns: Vec<_> = list("columns").filter_map(Value::as_str).collect();
        text += &format!("\n### {title}\n\n| | {} |\n", columns.join(" | "));
        text += &format!("|---|{}\n", "---|".repeat(columns.len()));
        for row in list("rows") {
            let cells = row["cells"].as_array().into_iter().flatten();
            let cells: Vec<_> = cells.map(median).collect();
            let name = row["name"].as_str().unwrap_or_default();
            text += &format!("| {name} | {} |\n", cells.join(" | "));
        }
    }
    text
}

fn median(cell: &Value) -> String {
    match cell {
        Value::Object(summary) => summary["median"].as_f64().map_or("–".into(), digits),
        _ => figure(cell),
    }
}

/// Every claim with the tables and rows that it is made of, in Markdown, for docs/background.md: it depends on no run.
pub fn places() -> String {
    let mut text = String::from("\n| Claim | In the text | Tables and rows |\n|---|---|---|\n");
    for (number, (title, _)) in TEXTS.iter().enumerate() {
        text += &format!("| **{title}** | | |\n");
        for claim in claims::all().iter().filter(|claim| claim.text == number) {
            let mut tables: Vec<(&str, Vec<&str>)> = Vec::new();
            for At(table, row, _) in claim.figures() {
                let row = row.split('|').next().unwrap_or(row);
                match tables.iter_mut().find(|(name, _)| *name == table) {
                    None => tables.push((table, vec![row])),
                    Some((_, rows)) if !rows.contains(&row) => rows.push(row),
                    Some(_) => {}
                }
            }
            let places = tables
                .iter()
                .map(|(table, rows)| format!("`{table}`: {}", rows.join("; ")));
            let places: Vec<_> = places.collect();
            let places = match places.is_empty() {
                true => "another machine".into(),
                false => places.join(". "),
            };
            text += &format!("| {} | {} | {places} |\n", claim.says, claim.printed);
        }
    }
    text
}

fn row(claim: &Claim, run: &Results) -> String {
    let verdict = claim.verdict(run);
    let reason = match claim.reason(run) {
        None => format!("<span class=\"none\">{NOT_SHOWN}</span>"),
        Some((says, of)) => {
            let mut sources: Vec<String> = of.iter().map(ToString::to_string).collect();
            sources.dedup();
            let sources = escaped(&sources.join("; "));
            format!(
                "{}<details><summary>shown by {} figures</summary>{sources}</details>",
                escaped(&says),
                of.len()
            )
        }
    };
    let cell = |name: &str, content: &str| format!("<td data-name=\"{name}\">{content}</td>");
    format!(
        "<tr><th scope=\"row\">{}</th>{}{}{}{}{}</tr>\n",
        escaped(claim.says),
        cell("The text", &escaped(claim.printed)),
        cell("Its code here", &escaped(&shown(claim, &claim.here, run))),
        cell("forebay", &escaped(&shown(claim, &claim.ours, run))),
        cell(
            "Verdict",
            &format!("<b class=\"{:?}\">{}</b>", verdict, verdict.word())
        ),
        cell("Reason", &reason)
    )
}

/// A figure with its unit, and the two numbers of a ratio.
fn shown(claim: &Claim, figure: &Option<Figure>, run: &Results) -> String {
    let Some(figure) = figure else {
        return "–".into();
    };
    let Some(worth) = figure.value(run) else {
        return NOT_SHOWN.into();
    };
    let mut notes = Vec::new();
    if let Some((one, other)) = worth.parts {
        notes.push(format!("{} and {}", digits(one), digits(other)));
    }
    if worth.is_simulated {
        notes.push("simulated".into());
    }
    if worth.value.is_infinite() {
        return notes.join(", ");
    }
    let value = format!("{}{}", digits(worth.value), claim.unit);
    match notes.is_empty() {
        true => value,
        false => format!("{value} ({})", notes.join(", ")),
    }
}

fn plain_machine(run: &Results) -> String {
    let machine = &run.0["machine"];
    let word = |name: &str| machine[name].as_str().unwrap_or("unknown");
    format!(
        "{}, {} processors, Linux {}, {}, commit {}, {}",
        word("processor"),
        machine["processors"].as_array().map_or(0, Vec::len),
        word("kernel"),
        word("compiler"),
        run.word("commit"),
        run.word("date")
    )
}

fn machine(run: &Results) -> String {
    let machine = &run.0["machine"];
    let mut text = String::from("<dl>\n");
    let mut line = |name: &str, value: String| {
        text += &format!("<dt>{name}</dt><dd>{}</dd>\n", escaped(&value));
    };
    line("Machine and commit", plain_machine(run));
    line("Command", run.word("command").into());
    let others = run.others_percent();
    line(
        "Load",
        format!(
            "{} when it began; other programs had {} of the processors while it ran",
            machine["load"].as_str().unwrap_or("unknown"),
            others.map_or("an unknown share".into(), |share| format!("{share:.1} %"))
        ),
    );
    if let Some(how) = run.simulation() {
        line("Simulation", how.replace('`', ""));
    }
    line("Samples a side", run.0["rounds"].to_string());
    text += "</dl>\n";
    if run.0["quick"] == true {
        text +=
            "<p class=\"warning\">Measured with --quick: to see that it works, not to quote.</p>\n";
    }
    if others.is_none_or(|share| share > OTHERS_LIMIT) {
        text += "<p class=\"warning\">Measured on a busy machine: these figures are not to be quoted.</p>\n";
    }
    text
}

/// How many claims of each text hold.
fn summary(claims: &[Claim], run: &Results) -> String {
    use claims::Verdict::{DoesNot, Holds, InPart, NotShown};
    let mut text = String::from(
        "<table class=\"summary\">\n<thead><tr><th>Text</th><th>holds</th><th>in part</th><th>does not</th><th>not shown</th></tr></thead>\n<tbody>\n",
    );
    for (number, (title, _)) in TEXTS.iter().enumerate() {
        let count = |verdict| {
            let of_text = claims.iter().filter(|claim| claim.text == number);
            of_text
                .filter(|claim| claim.verdict(run) == verdict)
                .count()
        };
        let cells = [Holds, InPart, DoesNot, NotShown]
            .map(|verdict| format!("<td>{}</td>", count(verdict)));
        text += &format!(
            "<tr><th scope=\"row\"><a href=\"#text-{number}\">{}</a></th>{}</tr>\n",
            escaped(title),
            cells.concat()
        );
    }
    text + "</tbody>\n</table>\n"
}

/// A table of the run, folded.
fn details(table: &Value) -> String {
    let list = |name: &str| table[name].as_array().into_iter().flatten();
    let words = |value: &Value| escaped(value.as_str().unwrap_or_default());
    let mut text = format!(
        "<details class=\"table\"><summary>{}</summary>\n<div><table>\n<thead><tr><th></th>",
        words(&table["title"])
    );
    list("columns").for_each(|column| text += &format!("<th>{}</th>", words(column)));
    text += "</tr></thead>\n<tbody>\n";
    let columns = list("columns").count();
    for row in list("rows") {
        let cells = row["cells"].as_array().map_or(&[][..], Vec::as_slice);
        text += &format!("<tr><th scope=\"row\">{}</th>", words(&row["name"]));
        for cell in cells {
            let span = match cells.len() == columns {
                true => String::new(),
                false => format!(" colspan=\"{columns}\""),
            };
            text += &format!("<td{span}>{}</td>", escaped(&figure(cell)));
        }
        text += "</tr>\n";
    }
    text += "</tbody>\n</table></div>\n";
    list("notes").for_each(|note| text += &format!("<p>{}</p>\n", words(note)));
    text + "</details>\n"
}

fn figure(cell: &Value) -> String {
    let number = |name: &str| cell[name].as_f64().map_or("–".into(), digits);
    match cell {
        Value::Null => "–".into(),
        Value::String(words) => words.clone(),
        Value::Object(_) => format!(
            "{} ({}–{})",
            number("median"),
            number("low"),
            number("high")
        ),
        _ => cell.as_f64().map_or("–".into(), digits),
    }
}

/// The instructions of both functions, without the assembler's directives.
fn listing(assembly: &str) -> String {
    let mut lines = Vec::new();
    let mut is_inside = false;
    for line in assembly.lines() {
        let label = line
            .strip_suffix(':')
            .filter(|label| !label.starts_with('.'));
        if let Some(label) = label {
            is_inside = label.contains("append_");
            if is_inside {
                let name = match label.contains("append_28") {
                    true => "append_28:",
                    false => "append_32:",
                };
                lines.push(name.to_string());
            }
        } else if is_inside && !line.trim_start().starts_with('.') {
            lines.push(line.replace('\t', "    "));
        }
    }
    lines.join("\n")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
