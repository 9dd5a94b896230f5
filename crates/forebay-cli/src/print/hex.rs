//! Dumps of bytes: `-x`, `-X` and `-A`.

use super::text::Text;

const A_LINE: usize = 16;
/// Columns of sixteen bytes in hexadecimal digits.
const COLUMNS: usize = 40;

/// `0x0000:  4500 0054 …`, each line after a newline and a tab.
pub fn hex(bytes: &[u8], out: &mut Text) {
    for (number, line) in bytes.chunks(A_LINE).enumerate() {
        one(number, line, out);
    }
}

/// The same, with the bytes that are printable.
pub fn hex_and_text(bytes: &[u8], out: &mut Text) {
    for (number, line) in bytes.chunks(A_LINE).enumerate() {
        let columns = one(number, line, out);
        out.blanks(COLUMNS - columns + 2);
        for &byte in line {
            out.byte(if byte.is_ascii_graphic() { byte } else { b'.' });
        }
    }
}

/// Returns the columns that the digits take.
fn one(number: usize, line: &[u8], out: &mut Text) -> usize {
    let offset = (number * A_LINE) as u64;
    let digits = if offset > 0xffff { 5 } else { 4 };
    out.put("\n\t0x").hex_padded(offset, digits).put(": ");
    let before = out.len();
    for pair in line.chunks(2) {
        out.byte(b' ');
        for &byte in pair {
            out.hex_padded(byte.into(), 2);
        }
    }
    out.len() - before
}

/// The bytes as text after a newline: tabs and newlines as they are, without the carriage returns before newlines.
pub fn text(bytes: &[u8], out: &mut Text) {
    out.byte(b'\n');
    characters(bytes, out);
}

/// The same without the newline before it.
pub fn characters(bytes: &[u8], out: &mut Text) {
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            b'\r' if bytes.get(at + 1).is_none_or(|&next| next == b'\n') => {}
            b'\t' | b'\n' | b' '..=b'~' => drop(out.byte(byte)),
            _ => drop(out.byte(b'.')),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_no_characters_that_a_terminal_obeys() {
        let mut out = Text::default();
        text(b"GET /\r\n\tx\ry\x1b[2J\xff\r", &mut out);
        assert_eq!(out.bytes(), b"\nGET /\n\tx.y.[2J.");
    }
}
