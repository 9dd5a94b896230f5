//! A page of `docs/` as a manual page: headings, paragraphs, lists, tables and blocks of code.

use super::roff::Page;

/// Writes the sections of `text` to `page`: what follows its title is the description.
pub fn render(page: &mut Page, text: &str) {
    let mut lines = text.lines().peekable();
    let mut columns = Vec::new();
    while let Some(first) = lines.next() {
        if let Some(title) = first.strip_prefix("## ") {
            page.section(&title.to_uppercase());
        } else if first.starts_with("# ") {
            page.section("DESCRIPTION");
        } else if first.starts_with("```") {
            let mut code = Vec::new();
            code.extend(lines.by_ref().take_while(|line| !line.starts_with("```")));
            page.verbatim(code);
        } else if first.starts_with('|') {
            let cells = cells(first);
            match lines.next_if(|line| line.starts_with("|---")) {
                Some(_) => columns = cells,
                None => row(page, &columns, &cells),
            }
        } else if !first.trim().is_empty() {
            let mut text = first.to_owned();
            let goes_on =
                |line: &&str| !line.trim().is_empty() && !line.starts_with(['|', '#', '-', '`']);
            while let Some(line) = lines.next_if(goes_on) {
                text = text + " " + line.trim();
            }
            match text.strip_prefix("- ") {
                Some(text) => page.bullet(&plain(text)),
                None => page.paragraph(&plain(&text)),
            }
        }
    }
}

/// The cells of a row; `\|` is a bar within one.
fn cells(row: &str) -> Vec<String> {
    let row = row.replace("\\|", "\0");
    let cells = row.trim_matches('|').split('|');
    cells.map(|cell| plain(&cell.replace('\0', "|"))).collect()
}

/// The first cell as a name, and the others after it, with the names of their columns if there are several.
fn row(page: &mut Page, columns: &[String], cells: &[String]) {
    let Some((name, others)) = cells.split_first() else {
        return;
    };
    let names = columns.iter().skip(1);
    let others = others.iter().zip(names);
    let others = others.map(
        |(cell, column)| match column.is_empty() || cells.len() == 2 {
            true => cell.clone(),
            false => format!("{column}: {cell}"),
        },
    );
    page.item(name, &others.collect::<Vec<_>>().join("; "));
}

/// Without links, and with bold text as code is.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text.trim();
    while let Some((before, after)) = rest.split_once('[') {
        let link = after
            .split_once("](")
            .and_then(|(name, after)| Some((name, after.split_once(')')?.1)));
        plain += before;
        match link.filter(|(name, _)| !name.contains(['[', ']', '`'])) {
            Some((name, after)) => {
                plain += name;
                rest = after;
            }
            None => {
                plain.push('[');
                rest = after;
            }
        }
    }
    (plain + rest).replace("**", "`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_paragraph_is_kept() {
        let mut page = Page::default();
        let text = "# Title\n\nA `word`\nand [more](x.md#y).\n\n## Part\n\n- one\n  line\n- **two**\n\n| K | A | B |\n|---|---|---|\n| `a\\|b` | 1 | 2 |\n\n```\n.x -y\n\n```\n";
        render(&mut page, text);
        let expected = ".SH DESCRIPTION\nA \\fBword\\fR and more.\n.SH PART\n.IP \\(bu 2\none line\n.IP \\(bu 2\n\\fBtwo\\fR\n\
            .TP\n\\fBa|b\\fR\nA: 1; B: 2\n.PP\n.EX\n\\&.x \\-y\n\\&\n.EE\n";
        assert_eq!(page.0, expected);
    }
}
