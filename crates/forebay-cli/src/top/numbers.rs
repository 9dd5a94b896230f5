//! Numbers as the screen and `--once` show them: `350`, `10.15 k`, `3.634 M`.

use forebay_net::units::scaled;

/// A number with a prefix, for a unit or nothing to follow: `3.634 M`, or `350` before a word.
pub fn number(value: f64) -> String {
    scaled(value).trim_end().into()
}

/// A number of a column: digits are below digits, with room for a prefix and for the mark `+` after it.
pub fn cell(value: f64, is_incomplete: bool) -> String {
    let mark = if is_incomplete { '+' } else { ' ' };
    let number = scaled(value);
    match number.ends_with(' ') {
        true if is_incomplete => format!("{}+ ", number.trim_end()),
        true => format!("{number}  "),
        false => format!("{number}{mark}"),
    }
}
