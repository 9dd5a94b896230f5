//! The text of `--rewrite`.

use super::{Change, Prefix, Rewrite, Sides};
use forebay::{Error, Result};
use std::{net::IpAddr, str::FromStr};

const HELP: &str = "Use mac-src=MAC, mac-dst=MAC, mac=OLD=NEW, ip=OLD=NEW, ip-src=OLD=NEW, ip-dst=OLD=NEW, port=OLD=NEW, port-src=OLD=NEW, port-dst=OLD=NEW, vlan=ID, vlan=OLD=NEW, vlan=none, or checksums";

impl FromStr for Rewrite {
    type Err = Error;

    /// # Errors
    /// An unknown change, or a value that is not an address, a port or a number of a VLAN.
    fn from_str(text: &str) -> Result<Rewrite> {
        let changes = text.split(',').map(change);
        Ok(Rewrite {
            changes: changes.collect::<Result<_>>()?,
        })
    }
}

fn change(text: &str) -> Result<Change> {
    let wrong =
        |advice: &str| Error::invalid("", format!("'{text}' cannot be rewritten")).advise(advice);
    if text == "checksums" {
        return Ok(Change::Checksums);
    }
    let (key, value) = text.split_once('=').ok_or_else(|| wrong(HELP))?;
    let (field, sides) = match key.split_once('-') {
        Some((field, "src")) => (field, Sides::Source),
        Some((field, "dst")) => (field, Sides::Destination),
        None => (key, Sides::Both),
        Some(_) => return Err(wrong(HELP)),
    };
    let pair = value.split_once('=');
    match field {
        "mac" => {
            let advice = "A MAC address is six pairs of hexadecimal digits: 02:00:00:00:00:01. Without OLD, name the side: mac-src or mac-dst";
            let parsed = |text| mac(text).ok_or_else(|| wrong(advice));
            let (from, to) = match pair {
                Some((from, to)) => (Some(parsed(from)?), parsed(to)?),
                // Both sides would get the same address.
                None if sides == Sides::Both => return Err(wrong(advice)),
                None => (None, parsed(value)?),
            };
            Ok(Change::Mac { sides, from, to })
        }
        "ip" => {
            let advice = "Give two addresses or two prefixes of the same length: 10.0.0.0/24=192.168.7.0/24 or 2001:db8::1=2001:db8::2";
            let (from, to) = pair.ok_or_else(|| wrong(advice))?;
            match (prefix(from), prefix(to)) {
                (Some(from), Some(to)) if from.len == to.len && from.is_v4 == to.is_v4 => {
                    Ok(Change::Ip { sides, from, to })
                }
                _ => Err(wrong(advice)),
            }
        }
        "port" => {
            let advice = "Give two numbers from 0 to 65535: 80=8080";
            let numbers = pair.and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
            let (from, to) = numbers.ok_or_else(|| wrong(advice))?;
            Ok(Change::Port { sides, from, to })
        }
        "vlan" if sides == Sides::Both => {
            let advice =
                "Give numbers from 0 to 4094: vlan=7 or vlan=5=7; vlan=none removes all tags";
            let number = |text: &str| text.parse().ok().filter(|&number| number <= 4094);
            let numbers = match pair {
                None if value == "none" => return Ok(Change::RemoveVlan),
                None => number(value).map(Change::SetVlan),
                Some((from, to)) => number(from)
                    .zip(number(to))
                    .map(|(from, to)| Change::MapVlan { from, to }),
            };
            numbers.ok_or_else(|| wrong(advice))
        }
        _ => Err(wrong(HELP)),
    }
}

fn mac(text: &str) -> Option<[u8; 6]> {
    let mut address = [0; 6];
    let mut pairs = text.split([':', '-']);
    for byte in &mut address {
        let pair = pairs.next().filter(|pair| matches!(pair.len(), 1 | 2))?;
        *byte = u8::from_str_radix(pair, 16).ok()?;
    }
    pairs.next().is_none().then_some(address)
}

fn prefix(text: &str) -> Option<Prefix> {
    let (address, len) = match text.split_once('/') {
        Some((address, len)) => (address, Some(len.parse().ok()?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let len = len.unwrap_or(most);
    (len <= most).then(|| Prefix::new(address, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_parsed_or_refused_with_advice() {
        let rewrite: Rewrite = "mac-src=2:0:0:0:0:1,ip-dst=10.0.0.0/8=11.0.0.0/8,vlan=none"
            .parse()
            .unwrap();
        assert_eq!(rewrite.changes.len(), 3);
        for (text, advice) in [
            ("", "mac-src=MAC"),
            ("mac", "mac-src=MAC"),
            ("mac-up=02:00:00:00:00:01", "mac-src=MAC"),
            ("mac=02:00:00:00:00:01", "name the side"),
            ("mac-src=02:00:00:00:00", "six pairs"),
            ("mac-src=+2:00:00:00:00:01:01", "six pairs"),
            ("ip=10.0.0.1", "two addresses"),
            ("ip=10.0.0.1=::1", "two addresses"),
            ("ip=10.0.0.0/8=11.0.0.0/9", "two addresses"),
            ("ip=10.0.0.0/33=11.0.0.0/33", "two addresses"),
            ("port=80", "0 to 65535"),
            ("port=80=99999", "0 to 65535"),
            ("vlan=4095", "0 to 4094"),
            ("vlan-src=1", "mac-src=MAC"),
            ("ttl=1=2", "mac-src=MAC"),
        ] {
            let error = text.parse::<Rewrite>().unwrap_err().to_string();
            assert!(error.contains(advice), "{text}: {error}");
        }
    }
}
