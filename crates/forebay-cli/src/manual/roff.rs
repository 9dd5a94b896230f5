//! Text as roff, the language of manual pages.

use std::fmt::Write;

/// `text` without a meaning for roff.
pub fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    match text.starts_with(['.', '\'']) {
        true => format!("\\&{text}"),
        false => text,
    }
}

/// `text` of one paragraph on one line. What is between backticks is bold.
pub fn line(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut line = String::new();
    for (number, part) in words.split('`').enumerate() {
        match number % 2 {
            1 => write!(line, "\\fB{}\\fR", escaped(part)).expect("writing to a string"),
            _ => line += &escaped(part),
        }
    }
    match line.starts_with(['.', '\'']) {
        true => format!("\\&{line}"),
        false => line,
    }
}

/// A page under construction.
#[derive(Default)]
pub struct Page(pub String);

impl Page {
    fn put(&mut self, lines: &str) {
        self.0 += lines;
        self.0.push('\n');
    }

    pub fn section(&mut self, name: &str) {
        self.put(&format!(".SH {}", escaped(name)));
    }

    pub fn paragraph(&mut self, text: &str) {
        self.separate();
        self.put(&line(text));
    }

    /// Begins a paragraph: a section does so itself.
    fn separate(&mut self) {
        let last = self.0.trim_end().lines().next_back().unwrap_or_default();
        if !last.starts_with(".SH ") {
            self.put(".PP");
        }
    }

    /// A paragraph with a name in front.
    pub fn item(&mut self, name: &str, text: &str) {
        self.put(&format!(".TP\n{}\n{}", line(name), line(text)));
    }

    pub fn bullet(&mut self, text: &str) {
        self.put(&format!(".IP \\(bu 2\n{}", line(text)));
    }

    /// Lines that stay as they are.
    pub fn verbatim<'a>(&mut self, lines: impl IntoIterator<Item = &'a str>) {
        self.separate();
        self.put(".EX");
        for line in lines {
            let line = if line.trim().is_empty() {
                "\\&".into()
            } else {
                escaped(line)
            };
            self.put(&line);
        }
        self.put(".EE");
    }
}
