//! Makes foreign text (names in files, answers of servers, messages of the system) safe to show on a terminal.
//!
//! Control characters move the cursor, set titles and answer back. Format characters reorder or hide the letters around them.
//! Both become `\u{1b}`, in JSON `\u001b`.

use std::borrow::Cow;

/// Unicode's format characters (category Cf, version 17) and its two line separators, as ranges.
const FORMATS: [(char, char); 23] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{180e}', '\u{180e}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{2029}'),
    ('\u{202a}', '\u{202e}'),
    ('\u{2060}', '\u{2064}'),
    ('\u{2066}', '\u{206f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{fff9}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0001}', '\u{e0001}'),
    ('\u{e0020}', '\u{e007f}'),
    ('\u{110d0}', '\u{110d0}'),
];

fn is_unsafe(letter: char) -> bool {
    let is_format = || {
        let mut ranges = FORMATS.iter();
        ranges.any(|&(first, last)| (first..=last).contains(&letter))
    };
    letter.is_control() || !letter.is_ascii() && is_format()
}

/// `text` as one line that moves no cursor.
pub fn plain(text: &str) -> Cow<'_, str> {
    escaped(text, |letter, shown| shown.extend(letter.escape_default()))
}

/// A JSON document that a terminal can show and that means the same: such characters occur only in its strings.
pub fn json(document: &serde_json::Value) -> String {
    let text = document.to_string();
    let escaped = escaped(&text, |letter, shown| {
        for unit in letter.encode_utf16(&mut [0; 2]) {
            *shown += &format!("\\u{unit:04x}");
        }
    });
    escaped.into_owned()
}

fn escaped(text: &str, escape: impl Fn(char, &mut String)) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return text.into();
    }
    let mut shown = String::new();
    for letter in text.chars() {
        if is_unsafe(letter) {
            escape(letter, &mut shown);
        } else {
            shown.push(letter);
        }
    }
    shown.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        for code in 0..=u32::from(char::MAX) {
            let Some(letter) = char::from_u32(code) else {
                continue;
            };
            let text = format!("a{letter}b");
            let shown = plain(&text);
            let is_obeyed = code < 32 || (127..160).contains(&code);
            assert!(
                !is_obeyed || shown.is_ascii() && shown.contains('\\'),
                "{code:x}"
            );
            assert!(!shown.contains(is_unsafe), "{code:x}");
        }
        assert_eq!(
            plain("\u{1b}[31m\u{9b}\u{202e}"),
            "\\u{1b}[31m\\u{9b}\\u{202e}"
        );
        assert_eq!(plain("Straße 日本 🦀"), "Straße 日本 🦀");
    }

    #[test]
    fn json_means_the_same() {
        let document = serde_json::json!({ "a\u{7f}": "\u{1b}\u{9b}\u{202e}\u{e0041}ä\"\\" });
        let shown = json(&document);
        assert!(!shown.contains(is_unsafe), "{shown}");
        let read: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(read, document);
    }
}
