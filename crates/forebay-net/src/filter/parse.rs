//! Parses an expression by recursive descent:
//!
//! ```text
//! expression  = term { ("and" | "or") (term | id) }        one precedence, to the left
//! term        = "not" term | "(" expression ")" | relation | primitive
//! primitive   = [protocol] [direction] [kind] id | protocol | "vlan" [n] | "broadcast" | …
//! id          = "not" id | "(" id { ("and" | "or") id } ")" | name | number | address
//! ```
//!
//! An id without qualifiers takes those of the id before it: `tcp port 80 or 443`. Primitives are parsed in `primitive.rs`, ids
//! in `id.rs`, arithmetic in `arithmetic.rs`.

use super::{
    ast::{Arith, Expr, Joint, Protocol, Relation},
    error::Wrong,
    names::Names,
    qualifiers::Qualifiers,
    token::{Token, TokenKind, tokens},
    words,
};
use std::ops::Range;

/// The maximum length of an expression in bytes.
const LONGEST: usize = 256 * 1024;

/// The maximum nesting of parentheses, `not`s and operators.
const DEEPEST: usize = 100;

pub(super) type Result<T> = std::result::Result<T, Wrong>;

pub(super) struct Parser<'a> {
    pub text: &'a str,
    pub names: &'a Names,
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

/// A term with the qualifiers that the next id inherits; or a number whose relation has not been parsed yet.
pub(super) enum Operand {
    Test(Expr, Option<Qualifiers>),
    Value(Arith),
}

/// Parses `text`. `None`: it has no words, and accepts every packet.
pub(super) fn parse(text: &str, names: &Names) -> Result<Option<Expr>> {
    if text.len() > LONGEST {
        let what = format!(
            "the expression has {} bytes; the maximum is {LONGEST}",
            text.len()
        );
        return Err(Wrong::new(0..0, what));
    }
    let tokens = tokens(text)?;
    let mut parser = Parser {
        text,
        names,
        tokens,
        at: 0,
        depth: 0,
    };
    if parser.peek() == TokenKind::End {
        return Ok(None);
    }
    let start = parser.span().start;
    let (expression, _) = match parser.expression(None)? {
        Operand::Test(expression, inherited) => (expression, inherited),
        Operand::Value(_) => return Err(parser.lonely_number(start)),
    };
    match parser.peek() {
        TokenKind::End => Ok(Some(expression)),
        _ => Err(parser.unexpected("'and' or 'or'")),
    }
}

impl Parser<'_> {
    pub fn peek(&self) -> TokenKind {
        self.tokens[self.at].kind
    }

    fn peek_at(&self, ahead: usize) -> TokenKind {
        let last = self.tokens.len() - 1;
        self.tokens[(self.at + ahead).min(last)].kind
    }

    pub fn span(&self) -> Range<usize> {
        self.tokens[self.at].span.clone()
    }

    pub fn word(&self) -> &str {
        &self.text[self.span()]
    }

    /// The span from `start` to the end of the last word taken.
    pub fn since(&self, start: usize) -> Range<usize> {
        start..self.tokens[self.at.saturating_sub(1)].span.end.max(start)
    }

    pub fn advance(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len() - 1);
    }

    pub fn take(&mut self, kind: TokenKind) -> bool {
        let found = self.peek() == kind;
        if found {
            self.advance();
        }
        found
    }

    pub fn expect(&mut self, symbol: &'static str) -> Result<()> {
        match self.take(TokenKind::Symbol(symbol)) {
            true => Ok(()),
            false => Err(self.unexpected(&format!("'{symbol}'"))),
        }
    }

    /// Runs `inner` one level deeper.
    pub fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == DEEPEST {
            let what = format!("this is nested more than {DEEPEST} levels deep");
            return Err(Wrong::new(self.span(), what));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    pub fn unexpected(&self, expected: &str) -> Wrong {
        let (span, word) = (self.span(), self.word());
        let what = match self.peek() {
            TokenKind::End => format!("expected {expected}, but the expression ends"),
            TokenKind::Name => match words::nearest(word) {
                Some(near) => format!(
                    "'{word}' is not a keyword or a host name here (did you mean '{near}'?)"
                ),
                None => format!("expected {expected}, found '{word}'"),
            },
            TokenKind::Keyword(_) if matches!(expected, "a name or an address") => format!(
                "expected {expected}, found the keyword '{word}'; a name is written \\{word}"
            ),
            _ => format!("expected {expected}, found '{word}'"),
        };
        Wrong::new(span, what)
    }

    fn lonely_number(&self, start: usize) -> Wrong {
        let span = self.since(start);
        let word = &self.text[span.clone()];
        let what = format!(
            "'{word}' is compared with nothing; write 'port {word}', 'host {word}' or '{word} = …'"
        );
        Wrong::new(span, what)
    }

    /// Parses a chain of terms and ids, or a number in parentheses.
    fn expression(&mut self, inherited: Option<Qualifiers>) -> Result<Operand> {
        let (first, mut inherited) = match self.operand(inherited)? {
            Operand::Test(expression, inherited) => (expression, inherited),
            value => return Ok(value),
        };
        let mut rest = Vec::new();
        while let Some(joint) = self.joint() {
            let start = self.span().start;
            let next = if self.begins_id() {
                let qualifiers = self.inherit(inherited)?;
                (self.id(qualifiers)?, Some(qualifiers))
            } else {
                match self.operand(inherited)? {
                    Operand::Test(expression, inherited) => (expression, inherited),
                    Operand::Value(_) => return Err(self.lonely_number(start)),
                }
            };
            rest.push((joint, next.0));
            inherited = next.1;
        }
        Ok(Operand::Test(Expr::chain(first, rest), inherited))
    }

    pub fn joint(&mut self) -> Option<Joint> {
        let joint = match self.peek() {
            TokenKind::Keyword("and") => Joint::And,
            TokenKind::Keyword("or") => Joint::Or,
            _ => return None,
        };
        self.advance();
        Some(joint)
    }

    fn inherit(&self, inherited: Option<Qualifiers>) -> Result<Qualifiers> {
        let needs = || {
            let word = self.word();
            let near = match (self.peek(), words::nearest(word)) {
                (TokenKind::Name, Some(near)) => format!(" (did you mean '{near}'?)"),
                _ => String::new(),
            };
            let what = format!(
                "'{word}' needs a word before it that says what it is, such as host, net or port{near}"
            );
            Wrong::new(self.span(), what)
        };
        inherited.ok_or_else(needs)
    }

    /// Whether an id without qualifiers follows, not a term. Skips parentheses and `not`s.
    fn begins_id(&self) -> bool {
        let mut ahead = 0;
        let mut open = 0;
        loop {
            match self.peek_at(ahead) {
                TokenKind::Symbol("(") => open += 1,
                TokenKind::Symbol("!") | TokenKind::Keyword("not") => {}
                TokenKind::Number(_) => break,
                TokenKind::Dotted
                | TokenKind::Ipv6(_)
                | TokenKind::Ether(_)
                | TokenKind::Name
                | TokenKind::Escaped => {
                    return true;
                }
                _ => return false,
            }
            ahead += 1;
        }
        ahead += 1;
        while open > 0 && self.peek_at(ahead) == TokenKind::Symbol(")") {
            (ahead, open) = (ahead + 1, open - 1);
        }
        // A number is an id unless an operator or a relation follows.
        !matches!(self.peek_at(ahead), TokenKind::Symbol(symbol) if !matches!(symbol, ")" | "(" | "!"))
    }

    fn operand(&mut self, inherited: Option<Qualifiers>) -> Result<Operand> {
        let start = self.span().start;
        match self.peek() {
            TokenKind::Symbol("!") | TokenKind::Keyword("not") => {
                self.advance();
                let inner = if inherited.is_some() && self.begins_id() {
                    let qualifiers = self.inherit(inherited)?;
                    Operand::Test(self.deeper(|p| p.id(qualifiers))?, inherited)
                } else {
                    self.deeper(|p| p.operand(inherited))?
                };
                match inner {
                    Operand::Test(inner, inherited) => {
                        Ok(Operand::Test(Expr::Not(Box::new(inner)), inherited))
                    }
                    Operand::Value(_) => Err(self.lonely_number(start)),
                }
            }
            TokenKind::Symbol("(") => {
                self.advance();
                let inner = self.deeper(|p| p.expression(inherited))?;
                if !self.take(TokenKind::Symbol(")")) {
                    return Err(match self.peek() {
                        TokenKind::End => Wrong::new(start..start + 1, "this '(' is never closed"),
                        _ => self.unexpected("'and', 'or' or ')'"),
                    });
                }
                match inner {
                    Operand::Test(inner, _) => Ok(Operand::Test(inner, inherited)),
                    Operand::Value(value) => self.relation(Some(value), start),
                }
            }
            TokenKind::Symbol(")") => Err(Wrong::new(self.span(), "this ')' has no matching '('")),
            TokenKind::Number(_) | TokenKind::Symbol("-") | TokenKind::Keyword("len") => {
                self.relation(None, start)
            }
            TokenKind::Keyword(keyword)
                if Protocol::of_keyword(keyword).is_some()
                    && self.peek_at(1) == TokenKind::Symbol("[") =>
            {
                self.relation(None, start)
            }
            TokenKind::Keyword(_) => self.primitive(),
            TokenKind::End => Err(self.unexpected("a term")),
            _ => {
                self.inherit(None)?;
                Err(self.unexpected("a term"))
            }
        }
    }

    /// Parses `value RELATION value`, or a value if no relation follows. The first value may already be parsed.
    fn relation(&mut self, first: Option<Arith>, start: usize) -> Result<Operand> {
        let left = self.arithmetic(first)?;
        let relation = match self.peek() {
            TokenKind::Symbol("=") => Relation::Equal,
            TokenKind::Symbol("!=") => Relation::NotEqual,
            TokenKind::Symbol(">") => Relation::Greater,
            TokenKind::Symbol("<") => Relation::Less,
            TokenKind::Symbol(">=") => Relation::AtLeast,
            TokenKind::Symbol("<=") => Relation::AtMost,
            _ => return Ok(Operand::Value(left)),
        };
        self.advance();
        let right = self.arithmetic(None)?;
        let span = self.since(start);
        let relation = Expr::Relation {
            left,
            relation,
            right,
            span,
        };
        Ok(Operand::Test(relation, None))
    }
}
