//! The host in an address: a name, or an IP address in one of the forms that browsers accept.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Why a text is not a host.
pub(super) enum Fault {
    /// It has letters beyond ASCII.
    NotAscii,
    Invalid(&'static str),
}

/// The host that `text` names, in lower case; an IPv6 address stays in brackets.
pub(super) fn read(text: &str) -> Result<String, Fault> {
    if let Some(address) = text.strip_prefix('[') {
        let address = address.strip_suffix(']').and_then(|text| text.parse().ok());
        let address: Ipv6Addr = address.ok_or(Fault::Invalid("invalid IPv6 address"))?;
        return Ok(format!("[{address}]"));
    }
    if text.is_empty() {
        return Err(Fault::Invalid("empty host"));
    }
    if !text.is_ascii() {
        return Err(Fault::NotAscii);
    }
    // `%` too: what it would stand for is refused as well.
    let is_forbidden = |byte: &u8| !byte.is_ascii_graphic() || b"#%/:<>?@[\\]^`{|}".contains(byte);
    if text.as_bytes().iter().any(is_forbidden) {
        return Err(Fault::Invalid("invalid domain character"));
    }
    let name = text.to_ascii_lowercase();
    let labels = name.strip_suffix('.').unwrap_or(&name);
    let last = labels.rsplit('.').next().unwrap_or_default();
    let is_number = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number && number(last).is_none() {
        return Ok(name);
    }
    let address = ipv4(labels).ok_or(Fault::Invalid("invalid IPv4 address"))?;
    Ok(address.to_string())
}

/// An address of up to four numbers. The last one fills the bytes that are left.
fn ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut numbers: Vec<u64> = text.split('.').map(number).collect::<Option<_>>()?;
    let last = numbers.pop()?;
    let left = 4_u32.checked_sub(numbers.len() as u32)?;
    if numbers.iter().any(|&number| number > 255) || last >= 1_u64.checked_shl(8 * left)? {
        return None;
    }
    let first = numbers.iter().zip([24, 16, 8]);
    let address = first.fold(last, |address, (number, shift)| address | number << shift);
    Some(Ipv4Addr::from(address as u32))
}

/// A number, octal after `0`, hexadecimal after `0x`.
fn number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        None => (text, 10),
    };
    if digits.is_empty() {
        return (radix != 10).then_some(0);
    }
    let is_number = digits.bytes().all(|byte| char::from(byte).is_digit(radix));
    // What is too large for an address may be larger still.
    is_number.then(|| u64::from_str_radix(digits, radix).unwrap_or(u64::MAX))
}
