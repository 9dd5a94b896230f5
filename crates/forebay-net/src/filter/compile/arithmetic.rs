//! Compiles numbers computed from a packet, and their comparison.
//!
//! A number first tests that the protocols whose bytes it reads are present. As in libpcap, only the left operand of `a + b`
//! adds such a test; in a comparison both sides do.

use super::{
    compiler::Compiler,
    load::{Base, Size},
    protocols::IPV6,
    test::{PlainInstruction, Test, step},
};
use crate::filter::{
    arithmetic::FARTHEST,
    ast::{Arith, Operator, Protocol, Relation},
    bpf::code,
    error::Said,
};

struct Number {
    /// The test that must be true before the steps run.
    asked: Option<Test>,
    /// Steps that leave the number in A. They may use X, and the scratch cells from the given one on.
    steps: Vec<PlainInstruction>,
}

impl Compiler {
    pub(super) fn relation(
        &mut self,
        left: &Arith,
        relation: Relation,
        right: &Arith,
    ) -> Said<Test> {
        let (jump, negated) = match relation {
            Relation::Equal => (code::JEQ_K, false),
            Relation::NotEqual => (code::JEQ_K, true),
            Relation::Greater => (code::JGT_K, false),
            Relation::AtMost => (code::JGT_K, true),
            Relation::AtLeast => (code::JGE_K, false),
            Relation::Less => (code::JGE_K, true),
        };
        let (left_asked, right_asked, test) = match (constant(left), constant(right)) {
            (_, Some(b)) => {
                let asked = self.number(right, 0)?.asked;
                let mut number = self.number(left, 0)?;
                let test = match (constant(left), jump, number.steps.last()) {
                    (Some(a), ..) => Test::Always(match jump {
                        code::JEQ_K => a == b,
                        code::JGT_K => a > b,
                        _ => a >= b,
                    }),
                    (
                        _,
                        code::JEQ_K,
                        Some(&PlainInstruction {
                            code: code::AND_K,
                            k,
                        }),
                    ) if b == 0 => {
                        number.steps.pop();
                        Test::Value(number.steps, code::JSET_K, k).not()
                    }
                    _ => Test::Value(number.steps, jump, b),
                };
                (number.asked, asked, test)
            }
            _ => {
                let (number, asked) = self.both(left, right, 0)?;
                // With X instead of K as the operand of the jump.
                (
                    number.asked,
                    asked,
                    Test::Value(number.steps, jump | 0x08, 0),
                )
            }
        };
        let test = if negated { test.not() } else { test };
        let asked = left_asked.into_iter().chain(right_asked).reduce(Test::and);
        Ok(match asked {
            Some(asked) => asked.and(test),
            None => test,
        })
    }

    /// Loads `A =` the left and `X =` the right number, in this order. Returns the test of the left one, and separately that of
    /// the right one.
    fn both(&mut self, left: &Arith, right: &Arith, cell: u8) -> Said<(Number, Option<Test>)> {
        let mut number = self.number(left, cell)?;
        if let Some(left) = constant(left) {
            let right = self.number(right, cell)?;
            number.steps = right.steps;
            number
                .steps
                .extend([step(code::TAX, 0), step(code::LD_IMM, left)]);
            return Ok((number, right.asked));
        }
        let kept = self.number_cell(cell);
        number.steps.push(step(code::ST, kept));
        let right = self.number(right, cell.saturating_add(1))?;
        number.steps.extend(right.steps);
        number
            .steps
            .extend([step(code::TAX, 0), step(code::LD_MEM, kept)]);
        Ok((number, right.asked))
    }

    fn number(&mut self, number: &Arith, cell: u8) -> Said<Number> {
        Ok(match number {
            Arith::Number(value) => Number {
                asked: None,
                steps: vec![step(code::LD_IMM, *value)],
            },
            Arith::Length => Number {
                asked: None,
                steps: vec![step(code::LD_LEN, 0)],
            },
            Arith::Negate(inner) => {
                let mut inner = self.number(inner, cell)?;
                inner.steps.push(step(code::NEG, 0));
                inner
            }
            Arith::Binary {
                operator,
                left,
                right,
            } => {
                match (constant(right), operator) {
                    (Some(0), Operator::Divide | Operator::Modulo) => {
                        return Err("this divides by zero".to_owned());
                    }
                    (Some(32..), Operator::ShiftLeft | Operator::ShiftRight) => {
                        return Err("this shifts by more than 31 bits".to_owned());
                    }
                    _ => {}
                }
                if let Some(right) = constant(right) {
                    let mut left = self.number(left, cell)?;
                    match constant(number) {
                        Some(value) => left.steps = vec![step(code::LD_IMM, value)],
                        None => left.steps.push(step(code_of(*operator), right)),
                    }
                    return Ok(left);
                }
                let (mut both, _) = self.both(left, right, cell)?;
                match constant(number) {
                    Some(value) => both.steps = vec![step(code::LD_IMM, value)],
                    // With X instead of K as the operand.
                    None => both.steps.push(step(code_of(*operator) | 0x08, 0)),
                }
                both
            }
            Arith::Load {
                protocol,
                index,
                size,
            } => self.bytes(*protocol, index, *size, cell)?,
        })
    }

    /// `protocol[index:size]`
    fn bytes(&mut self, protocol: Protocol, index: &Arith, size: u32, cell: u8) -> Said<Number> {
        let size = match size {
            1 => Size::Byte,
            2 => Size::Half,
            _ => Size::Word,
        };
        let base = match protocol {
            Protocol::Link => Base::Link,
            Protocol::Icmp6 => Base::Behind6,
            Protocol::Sctp
            | Protocol::Tcp
            | Protocol::Udp
            | Protocol::Icmp
            | Protocol::Igmp
            | Protocol::Igrp
            | Protocol::Pim
            | Protocol::Vrrp
            | Protocol::Carp => Base::Behind4,
            _ => Base::Network,
        };
        let number = self.number(index, cell)?;
        let mut asked: Vec<Test> = Vec::new();
        match base {
            Base::Link => asked.extend(number.asked),
            Base::Behind6 => {
                asked.extend(number.asked);
                asked.push(self.payload_is(IPV6)?);
                asked.push(Test::equal(self.load(Base::Network, 6, Size::Byte), 58));
            }
            Base::Behind4 => {
                asked.push(self.protocol(Protocol::Ip)?);
                asked.extend(number.asked);
                asked.push(self.protocol(protocol)?);
                asked.push(self.is_first_fragment());
            }
            _ => {
                asked.extend(number.asked);
                asked.push(self.protocol(protocol)?);
            }
        }
        let steps = match constant(index) {
            Some(index) => self.load(base, within(index)?, size),
            None => self.load_at(number.steps, base, size, cell),
        };
        let asked = asked.into_iter().reduce(Test::and);
        Ok(Number { asked, steps })
    }

    /// The field of `base` at the offset that `index` leaves in A.
    fn load_at(
        &mut self,
        index: Vec<PlainInstruction>,
        base: Base,
        size: Size,
        cell: u8,
    ) -> Vec<PlainInstruction> {
        let place = self.base(base);
        let mut steps = index;
        match (base, place.cell) {
            (Base::Behind4, Some(_)) => {
                let kept = self.number_cell(cell);
                steps.push(step(code::ST, kept));
                steps.extend(self.ipv4_header_len());
                steps.extend([step(code::LD_MEM, kept), step(code::ADD_X, 0)]);
            }
            (Base::Behind4, None) => {
                steps.extend(self.ipv4_header_len());
                steps.push(step(code::ADD_X, 0));
            }
            (_, Some(of)) => {
                steps.extend([step(code::LDX_MEM, of.into()), step(code::ADD_X, 0)]);
            }
            (_, None) => {}
        }
        steps.extend([step(code::TAX, 0), step(size.indexed(), place.bytes)]);
        steps
    }
}

/// The value of a number that is the same for every packet, also if a factor of 0 removes the packet's part.
fn constant(number: &Arith) -> Option<u32> {
    use Operator::*;
    match number {
        Arith::Number(value) => Some(*value),
        Arith::Length | Arith::Load { .. } => None,
        Arith::Negate(inner) => constant(inner).map(u32::wrapping_neg),
        Arith::Binary {
            operator,
            left,
            right,
        } => match (operator, constant(left), constant(right)) {
            (Multiply | And, None, Some(0)) => Some(0),
            (Multiply | And | Divide | Modulo | ShiftLeft | ShiftRight, Some(0), None) => Some(0),
            (_, Some(a), Some(b)) => match operator {
                Add => Some(a.wrapping_add(b)),
                Subtract => Some(a.wrapping_sub(b)),
                Multiply => Some(a.wrapping_mul(b)),
                Divide => a.checked_div(b),
                Modulo => a.checked_rem(b),
                And => Some(a & b),
                Or => Some(a | b),
                Xor => Some(a ^ b),
                ShiftLeft => a.checked_shl(b),
                ShiftRight => a.checked_shr(b),
            },
            _ => None,
        },
    }
}

fn code_of(operator: Operator) -> u16 {
    match operator {
        Operator::Add => code::ADD_K,
        Operator::Subtract => code::SUB_K,
        Operator::Multiply => code::MUL_K,
        Operator::Divide => code::DIV_K,
        Operator::Modulo => code::MOD_K,
        Operator::And => code::AND_K,
        Operator::Or => code::OR_K,
        Operator::Xor => code::XOR_K,
        Operator::ShiftLeft => code::LSH_K,
        Operator::ShiftRight => code::RSH_K,
    }
}

/// Checks an index that the parser did not recognize as a constant.
pub(super) fn within(index: u32) -> Said<u32> {
    match index {
        FARTHEST.. => Err(format!("byte {index} is beyond the end of every packet")),
        _ => Ok(index),
    }
}
