//! Splits an expression into words, each with its place.
//!
//! If several kinds of word match, the longest one wins. Among equally long ones, the first in this order wins: keyword, Ethernet
//! address, number, IPv4 address, named constant, name. So `80-90` and `len-5` are names, and `123456789012` is an Ethernet
//! address, as in libpcap. The tables are in `words.rs`.

use super::{error::Wrong, words};
use std::{net::Ipv6Addr, ops::Range};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// In its canonical spelling: `esis` for `es-is`.
    Keyword(&'static str),
    Number(u32),
    /// Two to four decimal numbers: an IPv4 address or its first bytes; [`dotted`] reads it.
    Dotted,
    Ipv6(Ipv6Addr),
    Ether([u8; 6]),
    Name,
    /// A name after a backslash, which is never a keyword. Its span includes the backslash.
    Escaped,
    Symbol(&'static str),
    End,
}

#[derive(Clone, Debug)]
pub(super) struct Token {
    pub kind: TokenKind,
    pub span: Range<usize>,
}

/// Longer symbols come first.
const SYMBOLS: &[(&str, TokenKind)] = &[
    ("&&", TokenKind::Keyword("and")),
    ("||", TokenKind::Keyword("or")),
    (">=", TokenKind::Symbol(">=")),
    ("<=", TokenKind::Symbol("<=")),
    ("!=", TokenKind::Symbol("!=")),
    ("==", TokenKind::Symbol("=")),
    ("<<", TokenKind::Symbol("<<")),
    (">>", TokenKind::Symbol(">>")),
    ("+", TokenKind::Symbol("+")),
    ("-", TokenKind::Symbol("-")),
    ("*", TokenKind::Symbol("*")),
    ("/", TokenKind::Symbol("/")),
    ("%", TokenKind::Symbol("%")),
    (":", TokenKind::Symbol(":")),
    ("[", TokenKind::Symbol("[")),
    ("]", TokenKind::Symbol("]")),
    ("!", TokenKind::Symbol("!")),
    ("<", TokenKind::Symbol("<")),
    (">", TokenKind::Symbol(">")),
    ("(", TokenKind::Symbol("(")),
    (")", TokenKind::Symbol(")")),
    ("&", TokenKind::Symbol("&")),
    ("|", TokenKind::Symbol("|")),
    ("^", TokenKind::Symbol("^")),
    ("=", TokenKind::Symbol("=")),
];

/// All words of `text`, followed by an [`End`](TokenKind::End).
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, Wrong> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        if matches!(first, ' ' | '\t' | '\r' | '\n') {
            at += 1;
            continue;
        }
        let (kind, len) = token(&text[at..], at)?;
        let span = at..at + len;
        at = span.end;
        found.push(Token { kind, span });
    }
    // An error about something missing at the end points after the last word.
    let end = found.last().map_or(0, |last: &Token| last.span.end);
    found.push(Token {
        kind: TokenKind::End,
        span: end..end,
    });
    Ok(found)
}

/// The first word of `rest`, which starts at byte `at`, and its length.
fn token(rest: &str, at: usize) -> Result<(TokenKind, usize), Wrong> {
    if let Some(name) = rest.strip_prefix('\\') {
        let len = name
            .find([' ', '!', '(', ')', '\n', '\t'])
            .unwrap_or(name.len());
        let span = at..at + 1 + len;
        return match len {
            0 => Err(Wrong::new(
                span,
                "a backslash must be followed by a name: ip proto \\tcp",
            )),
            _ => Ok((TokenKind::Escaped, 1 + len)),
        };
    }
    let colons = prefix(rest, |c| c.is_ascii_hexdigit() || matches!(c, ':' | '.'));
    if colons.matches(':').count() > 1 {
        let rest_of_word = prefix(&rest[colons.len()..], |c| c.is_ascii_alphanumeric());
        let whole = colons.len() + rest_of_word.len();
        return match (colons.parse(), ether(colons)) {
            (Ok(address), _) if rest_of_word.is_empty() => Ok((TokenKind::Ipv6(address), whole)),
            (_, Some(address)) if rest_of_word.is_empty() => Ok((TokenKind::Ether(address), whole)),
            _ => {
                let what = format!(
                    "'{}' is neither an IPv6 nor an Ethernet address",
                    &rest[..whole]
                );
                Err(Wrong::new(at..at + whole, what))
            }
        };
    }
    let word = word(rest);
    if !word.is_empty() {
        let span = at..at + word.len();
        let kind = classify(word).map_err(|what| Wrong::new(span, what))?;
        return Ok((kind, word.len()));
    }
    if let Some((symbol, kind)) = SYMBOLS.iter().find(|(symbol, _)| rest.starts_with(symbol)) {
        return Ok((*kind, symbol.len()));
    }
    let odd = rest.chars().next().unwrap_or_default();
    let shown = if odd.is_control() { '?' } else { odd };
    let what = format!("'{shown}' is not part of the filter language");
    Err(Wrong::new(at..at + odd.len_utf8(), what))
}

fn prefix(text: &str, belongs: impl Fn(char) -> bool) -> &str {
    &text[..text.find(|c| !belongs(c)).unwrap_or(text.len())]
}

/// Letters and digits, with `-` and `_` inside. At the end a `-` is a minus.
fn word(rest: &str) -> &str {
    if !rest.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return "";
    }
    let all = prefix(rest, |c| {
        c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
    });
    all.trim_end_matches(['-', '_'])
}

fn classify(word: &str) -> Result<TokenKind, String> {
    if let Some(keyword) = words::keyword(word) {
        return Ok(TokenKind::Keyword(keyword));
    }
    if let Some(address) = ether(word) {
        return Ok(TokenKind::Ether(address));
    }
    if is_number(word) {
        return number(word).map(TokenKind::Number);
    }
    let mut parts = word.split('.');
    let decimal = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if (2..=4).contains(&parts.clone().count()) && parts.all(decimal) {
        return Ok(TokenKind::Dotted);
    }
    Ok(words::constant(word).map_or(TokenKind::Name, TokenKind::Number))
}

/// The IPv4 address that starts with these bytes, and the number of bits they fill.
pub(super) fn dotted(word: &str) -> Result<(u32, u32), String> {
    let (mut value, mut bits) = (0, 0);
    for part in word.split('.') {
        let byte: u8 = part
            .parse()
            .map_err(|_| format!("'{word}' is not an IPv4 address: {part} is greater than 255"))?;
        bits += 8;
        value |= u32::from(byte) << (32 - bits);
    }
    Ok((value, bits))
}

fn is_number(word: &str) -> bool {
    match word.strip_prefix("0x").or(word.strip_prefix("0X")) {
        Some(hex) => !hex.is_empty() && hex.bytes().all(|b| b.is_ascii_hexdigit()),
        None => word.bytes().all(|b| b.is_ascii_digit()),
    }
}

fn number(word: &str) -> Result<u32, String> {
    let (digits, radix) = match word.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&word[2..], 16),
        [b'0', _, ..] => (&word[1..], 8),
        _ => (word, 10),
    };
    if radix == 8 && digits.contains(['8', '9']) {
        return Err(format!(
            "'{word}' is octal because of its leading 0, and 8 and 9 are not octal digits"
        ));
    }
    u32::from_str_radix(digits, radix).map_err(|_| format!("'{word}' does not fit in 32 bits"))
}

/// `a:b:c:d:e:f`, `a-b-c-d-e-f` and `a.b.c.d.e.f` with one or two hexadecimal digits each, `abcd.abcd.abcd` and
/// `abcdabcdabcd`.
fn ether(word: &str) -> Option<[u8; 6]> {
    let hex = |part: &str| part.bytes().all(|b| b.is_ascii_hexdigit());
    let mut address = [0; 6];
    let parts: Vec<&str> = if word.len() == 12 && hex(word) {
        (0..6).map(|i| &word[2 * i..2 * i + 2]).collect()
    } else if word.len() == 14
        && word.split('.').count() == 3
        && word.split('.').all(|part| part.len() == 4 && hex(part))
    {
        [0, 2, 5, 7, 10, 12].map(|i| &word[i..i + 2]).to_vec()
    } else {
        let separator = [':', '-', '.']
            .into_iter()
            .find(|&c| word.matches(c).count() == 5)?;
        word.split(separator).collect()
    };
    for (byte, part) in address.iter_mut().zip(parts) {
        if !(1..=2).contains(&part.len()) || !hex(part) {
            return None;
        }
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    Some(address)
}
