//! Parses arithmetic on bytes of a packet: `tcp[tcpflags] & (tcp-syn | tcp-ack) != 0`.
//!
//! Precedence, from low to high: `|`, `&`, `<< >>`, `+ -`, `* /`, unary `-`. The exceptions are `^` and `%`, for which libpcap's
//! grammar declares no precedence: each takes the operand directly to its left, and everything to its right. Constants are
//! folded here, modulo 2^32 as in BPF.

use super::{
    ast::{Arith, Operator, Protocol},
    error::Wrong,
    parse::{Parser, Result},
    token::TokenKind,
};

/// The maximum number of operators in a number, so that trees stay shallow.
const MOST: usize = 200;

const UNARY: u8 = 6;

/// No packet is this long. The limit also keeps sums of offsets away from the offsets of the kernel's metadata.
pub(super) const FARTHEST: u32 = 1 << 24;

impl Parser<'_> {
    /// Parses a number. The first operand may already be parsed.
    pub fn arithmetic(&mut self, first: Option<Arith>) -> Result<Arith> {
        let mut left = MOST;
        self.binary(first, 0, &mut left)
    }

    fn binary(&mut self, first: Option<Arith>, weakest: u8, left: &mut usize) -> Result<Arith> {
        let start = self.span().start;
        let mut value = match first {
            Some(value) => value,
            None => self.unary(left)?,
        };
        while let TokenKind::Symbol(symbol) = self.peek() {
            // The operator, its precedence, and the minimum precedence of the right side.
            let (operator, strength, right) = match symbol {
                "|" => (Operator::Or, 1, 2),
                "&" => (Operator::And, 2, 3),
                "<<" => (Operator::ShiftLeft, 3, 4),
                ">>" => (Operator::ShiftRight, 3, 4),
                "+" => (Operator::Add, 4, 5),
                "-" => (Operator::Subtract, 4, 5),
                "*" => (Operator::Multiply, 5, UNARY),
                "/" => (Operator::Divide, 5, UNARY),
                "%" => (Operator::Modulo, u8::MAX, 0),
                "^" => (Operator::Xor, u8::MAX, 0),
                _ => break,
            };
            if strength < weakest {
                break;
            }
            if *left == 0 {
                let what = format!("a number may have at most {MOST} operators");
                return Err(Wrong::new(self.span(), what));
            }
            *left -= 1;
            self.advance();
            let right = self.deeper(|p| p.binary(None, right, left))?;
            let span = self.since(start);
            value = join(operator, value, right).map_err(|what| Wrong::new(span, what))?;
        }
        Ok(value)
    }

    fn unary(&mut self, left: &mut usize) -> Result<Arith> {
        let start = self.span().start;
        match self.peek() {
            TokenKind::Number(number) => {
                self.advance();
                Ok(Arith::Number(number))
            }
            TokenKind::Symbol("-") => {
                self.advance();
                let value = self.deeper(|p| p.binary(None, UNARY, left))?;
                Ok(match value {
                    Arith::Number(number) => Arith::Number(number.wrapping_neg()),
                    value => Arith::Negate(Box::new(value)),
                })
            }
            TokenKind::Symbol("(") => {
                self.advance();
                let value = self.deeper(|p| p.binary(None, 0, left))?;
                self.expect(")")?;
                Ok(value)
            }
            TokenKind::Keyword("len") => {
                self.advance();
                Ok(Arith::Length)
            }
            TokenKind::Keyword(keyword) if Protocol::of_keyword(keyword).is_some() => {
                let protocol = Protocol::of_keyword(keyword).unwrap_or(Protocol::Any);
                self.advance();
                self.load(protocol, start, left)
            }
            _ => Err(self.unexpected("a number")),
        }
    }

    /// Parses `[INDEX]` or `[INDEX:SIZE]` after a protocol.
    fn load(&mut self, protocol: Protocol, start: usize, left: &mut usize) -> Result<Arith> {
        use Protocol::*;
        let indexable = matches!(
            protocol,
            Link | Ip
                | Arp
                | Rarp
                | Atalk
                | Decnet
                | Sca
                | Lat
                | Moprc
                | Mopdl
                | Ip6
                | Sctp
                | Tcp
                | Udp
                | Icmp
                | Igmp
                | Igrp
                | Pim
                | Vrrp
                | Carp
                | Icmp6
        );
        if !indexable {
            let name = protocol.keyword();
            let what =
                format!("bytes of '{name}' cannot be read; count them from ether[…] or ip[…]");
            return Err(Wrong::new(self.since(start), what));
        }
        self.expect("[")?;
        let index_start = self.span().start;
        let index = self.deeper(|p| p.binary(None, 0, left))?;
        if let Arith::Number(byte @ FARTHEST..) = index {
            let span = self.since(index_start);
            return Err(Wrong::new(
                span,
                format!("byte {byte} is beyond the end of every packet"),
            ));
        }
        let mut size = 1;
        if self.take(TokenKind::Symbol(":")) {
            let TokenKind::Number(number) = self.peek() else {
                return Err(self.unexpected("a size of 1, 2 or 4"));
            };
            if !matches!(number, 1 | 2 | 4) {
                let what = format!("the size is 1, 2 or 4 bytes, not {number}");
                return Err(Wrong::new(self.span(), what));
            }
            size = number;
            self.advance();
        }
        self.expect("]")?;
        Ok(Arith::Load {
            protocol,
            index: Box::new(index),
            size,
        })
    }
}

fn join(operator: Operator, left: Arith, right: Arith) -> std::result::Result<Arith, String> {
    if let Arith::Number(b) = right {
        match operator {
            Operator::Divide | Operator::Modulo if b == 0 => {
                return Err("this divides by zero".to_owned());
            }
            Operator::ShiftLeft | Operator::ShiftRight if b > 31 => {
                return Err(format!("this shifts by {b} bits; the maximum is 31"));
            }
            _ => {}
        }
        if let Arith::Number(a) = left {
            return Ok(Arith::Number(match operator {
                Operator::Add => a.wrapping_add(b),
                Operator::Subtract => a.wrapping_sub(b),
                Operator::Multiply => a.wrapping_mul(b),
                Operator::Divide => a / b,
                Operator::Modulo => a % b,
                Operator::And => a & b,
                Operator::Or => a | b,
                Operator::Xor => a ^ b,
                Operator::ShiftLeft => a << b,
                Operator::ShiftRight => a >> b,
            }));
        }
    }
    Ok(Arith::Binary {
        operator,
        left: Box::new(left),
        right: Box::new(right),
    })
}
