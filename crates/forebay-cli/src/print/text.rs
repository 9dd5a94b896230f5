//! A line under construction: bytes in a buffer that is reused, with numbers and addresses written without allocation.

use super::data::{Printed, right_checksum};
use std::fmt::{self, Write};

/// Bytes that are safe to show on a terminal: text from packets is only added by [`Text::foreign`].
#[derive(Default)]
pub struct Text(Vec<u8>);

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Of each number below 1000: three digits, and how many of them are leading zeros.
static GROUPS: [[u8; 4]; 1000] = {
    let mut groups = [[0; 4]; 1000];
    let mut at = 0;
    while at < groups.len() {
        let [a, b, c] = [at / 100, at / 10 % 10, at % 10];
        let zeros = (at < 100) as u8 + (at < 10) as u8;
        groups[at] = [b'0' + a as u8, b'0' + b as u8, b'0' + c as u8, zeros];
        at += 1;
    }
    groups
};

impl Text {
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Removes everything after the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }

    /// Returns `Ok`, to end a function that prints.
    pub fn done(&mut self) -> Printed {
        Ok(())
    }

    #[inline]
    pub fn put(&mut self, text: &str) -> &mut Self {
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    /// Bytes that are safe to show.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    #[inline]
    pub fn byte(&mut self, byte: u8) -> &mut Self {
        self.0.push(byte);
        self
    }

    /// A number of at most 64 bits.
    #[inline]
    pub fn num(&mut self, number: impl TryInto<i128>) -> &mut Self {
        let number = number.try_into().unwrap_or_default();
        if number < 0 {
            self.byte(b'-');
        }
        self.unsigned(number.unsigned_abs() as u64)
    }

    fn unsigned(&mut self, number: u64) -> &mut Self {
        match number {
            0..1000 => self.first_digits(number as usize, b""),
            1000..1_000_000 => self
                .first_digits((number / 1000) as usize, b"")
                .three_digits(number),
            _ => self
                .unsigned(number / 1_000_000)
                .three_digits(number / 1000)
                .three_digits(number),
        }
    }

    /// A number below 1000 without leading zeros, and the byte that follows, if there is one.
    ///
    /// Copies four bytes and forgets those that are too many: a copy of as many bytes as there are is a call.
    #[inline]
    fn first_digits(&mut self, number: usize, next: &[u8]) -> &mut Self {
        let [digits @ .., zeros] = GROUPS[number];
        let mut bytes = [b' '; 4];
        bytes[..3].copy_from_slice(&digits);
        if let [next] = next {
            bytes[3] = *next;
        }
        let bytes = (u32::from_le_bytes(bytes) >> (8 * zeros)).to_le_bytes();
        let end = self.0.len() + 3 - usize::from(zeros) + next.len();
        self.0.extend_from_slice(&bytes);
        self.0.truncate(end);
        self
    }

    /// The last three digits of a number, also if they are zeros.
    #[inline]
    pub fn three_digits(&mut self, number: u64) -> &mut Self {
        let [digits @ .., _] = GROUPS[(number % 1000) as usize];
        self.0.extend_from_slice(&digits);
        self
    }

    /// A name, or if it is empty another text with the number that has no name.
    pub fn name_or(&mut self, name: &str, unknown: &str, number: impl TryInto<i128>) -> &mut Self {
        match name {
            "" => self.put(unknown).num(number),
            name => self.put(name),
        }
    }

    /// Prints whether a checksum is right. `found`: the one in the packet; `wrong`: the sum over all that it covers, which is 0 if it is right.
    pub fn sum(&mut self, protocol: &str, found: u16, wrong: u16) -> &mut Self {
        if wrong == 0 {
            return self.put("[").put(protocol).put(" sum ok] ");
        }
        let right = right_checksum(found, wrong);
        self.put("[bad ").put(protocol).put(" cksum 0x");
        self.hex_padded(found.into(), 4).put(" -> 0x");
        self.hex_padded(right.into(), 4).put("!] ")
    }

    /// With leading zeros, for a number of at most this many digits.
    pub fn padded(&mut self, number: u64, width: usize) -> &mut Self {
        let mut digits = [b'0'; 20];
        let mut left = number;
        for digit in digits[..width].iter_mut().rev() {
            *digit = b'0' + (left % 10) as u8;
            left /= 10;
        }
        self.0.extend_from_slice(&digits[..width]);
        self
    }

    /// Hexadecimal digits without leading zeros.
    pub fn hex(&mut self, number: u64) -> &mut Self {
        let digits = (64 - number.leading_zeros()).div_ceil(4).max(1);
        self.hex_padded(number, digits as usize)
    }

    /// The lowest `width` hexadecimal digits.
    pub fn hex_padded(&mut self, number: u64, width: usize) -> &mut Self {
        for at in (0..width).rev() {
            self.0
                .push(DIGITS[(number.checked_shr(4 * at as u32).unwrap_or(0) & 15) as usize]);
        }
        self
    }

    pub fn blanks(&mut self, count: usize) -> &mut Self {
        self.0.resize(self.0.len() + count, b' ');
        self
    }

    pub fn ipv4(&mut self, address: [u8; 4]) -> &mut Self {
        let [a, b, c, d] = address.map(usize::from);
        self.first_digits(a, b".").first_digits(b, b".");
        self.first_digits(c, b".").first_digits(d, b"")
    }

    /// The first longest run of zeros becomes `::`, and an embedded IPv4 address is written as one.
    pub fn ipv6(&mut self, address: [u8; 16]) -> &mut Self {
        let mut words = [0u16; 8];
        for (word, pair) in words.iter_mut().zip(address.chunks_exact(2)) {
            *word = u16::from_be_bytes([pair[0], pair[1]]);
        }
        let (mut best, mut best_len, mut run) = (8, 1, 0);
        for (at, &word) in words.iter().enumerate() {
            run = if word == 0 { run + 1 } else { 0 };
            if run > best_len {
                (best, best_len) = (at + 1 - run, run);
            }
        }
        let embeds = best == 0 && (best_len == 6 || best_len == 5 && words[5] == 0xffff);
        let mut at = 0;
        while at < 8 {
            if at == best {
                at += best_len;
                self.put("::");
                continue;
            }
            if at > 0 && at != best + best_len {
                self.byte(b':');
            }
            if embeds && at == 6 {
                return self.ipv4([address[12], address[13], address[14], address[15]]);
            }
            self.hex(words[at].into());
            at += 1;
        }
        self
    }

    /// Pairs of digits with colons: a MAC address.
    pub fn mac(&mut self, address: &[u8]) -> &mut Self {
        for (at, &byte) in address.iter().enumerate() {
            if at > 0 {
                self.byte(b':');
            }
            self.hex_padded(byte.into(), 2);
        }
        self
    }

    /// The names of the flags that are set: `[router, override]` or `[none]`.
    pub fn flags(&mut self, flags: u16, names: &[(u16, &str)]) -> &mut Self {
        let set = names.iter().filter(|(bit, _)| flags & bit != 0);
        let set: Vec<_> = set.map(|(_, name)| *name).collect();
        let shown = match set.is_empty() {
            true => "none",
            false => &set.join(", "),
        };
        self.byte(b'[').put(shown).byte(b']')
    }

    /// Text of a packet: printable ASCII as it is, everything else as `\` and three octal digits.
    pub fn foreign(&mut self, text: &[u8]) -> &mut Self {
        if text
            .iter()
            .all(|byte| matches!(byte, b' '..=b'[' | b']'..=b'~'))
        {
            return self.raw(text);
        }
        for &byte in text {
            match byte {
                b'\\' => self.put("\\\\"),
                b' '..=b'~' => self.byte(byte),
                _ => {
                    let [a, b, c] = [byte >> 6, byte >> 3 & 7, byte & 7].map(|digit| b'0' + digit);
                    self.byte(b'\\').byte(a).byte(b).byte(c)
                }
            };
        }
        self
    }
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.put(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(write: impl FnOnce(&mut Text) -> &mut Text) -> String {
        let mut text = Text::default();
        write(&mut text);
        String::from_utf8(text.0).unwrap()
    }

    #[test]
    fn numbers_and_addresses_look_as_people_expect() {
        assert_eq!(
            of(|t| t.padded(7, 6).byte(b' ').hex(0).hex(0x1f)),
            "000007 01f"
        );
        assert_eq!(of(|t| t.ipv4([10, 0, 255, 1])), "10.0.255.1");
        let powers = (0..20).map(|digits| 10u64.pow(digits));
        let near =
            powers.flat_map(|it| [it - 1, it, it + 1, it.saturating_mul(7).saturating_add(90)]);
        for number in near.chain([u64::MAX]) {
            assert_eq!(of(|t| t.num(number)), number.to_string());
            let (low, signed) = (number as u8, (number as i64).wrapping_neg());
            assert_eq!(
                of(|t| t.num(low).byte(b' ').num(signed)),
                format!("{low} {signed}")
            );
        }
        for address in [
            "::",
            "::1",
            "1::",
            "2001:db8::1",
            "1:0:0:2::3",
            "fe80::1:2:3:4",
            "1:2:3:4:5:6:7:8",
            "::ffff:1.2.3.4",
            "::1.2.3.4",
            "1:0:2:3:4:5:6:7",
        ] {
            let parsed: std::net::Ipv6Addr = address.parse().unwrap();
            assert_eq!(of(|t| t.ipv6(parsed.octets())), address);
        }
    }

    #[test]
    fn text_of_packets_moves_no_cursor() {
        let every: Vec<u8> = (0..=255).collect();
        let shown = of(|t| t.foreign(&every));
        assert!(shown.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        assert_eq!(of(|t| t.foreign(b"a\\\x1b[2J\xff")), "a\\\\\\033[2J\\377");
    }
}
