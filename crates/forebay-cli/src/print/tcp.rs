//! TCP.

use super::{
    data::{Cut, Data, Printed, right_checksum},
    ends::Ends,
    flows::Base,
    ipv4::TCP,
    printer::{Kind, Printer},
    text::Text,
};
use etherparse::TcpHeaderSlice;

const HEADER: usize = 20;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RESET: u8 = 4;
const ACK: u8 = 16;
const URGENT: u8 = 32;
/// The letters of the flags, from the lowest bit on.
const LETTERS: &[u8; 8] = b"FSRP.UEW";

impl Printer {
    pub(super) fn tcp(&mut self, data: Data<'_>, ends: Ends, out: &mut Text) -> Printed {
        self.protocol = "tcp";
        let Ok((source, destination)) = ends.print_with_ports(TCP, data, self.hosts.as_ref(), out)
        else {
            ends.print(self.hosts.as_ref(), out);
            out.byte(b':');
            return Err(Cut);
        };
        let fixed = data.slice(0, HEADER)?;
        let header_len = usize::from(data.u8(12)? >> 4) * 4;
        if header_len < HEADER {
            out.put(" tcp ").num(data.len as i64 - header_len as i64);
            out.put(" [bad hdr length ");
            return out.num(header_len).put(" - too short, < 20]").done();
        }
        let mut whole = [0; HEADER];
        whole.copy_from_slice(fixed);
        // The options are looked at one by one below, as far as they are captured.
        whole[12] = 5 << 4 | whole[12] & 15;
        let header = TcpHeaderSlice::from_slice(&whole).map_err(|_| Cut)?;
        if self.style.brief {
            out.put("tcp ").num(data.len as i64 - header_len as i64);
            if header_len > data.len {
                out.put(" [bad hdr length ").num(header_len);
                out.put(" - too long, > ").num(data.len).byte(b']');
            }
            return Ok(());
        }
        let flags = data.u8(13)?;
        self.kind = match flags {
            _ if flags & RESET != 0 => Kind::Reset,
            _ if flags & (SYN | FIN) != 0 => Kind::Turn,
            _ => Kind::Plain,
        };
        out.put("Flags [");
        let before = out.len();
        for (bit, &letter) in LETTERS.iter().enumerate() {
            if flags >> bit & 1 == 1 {
                out.byte(letter);
            }
        }
        if out.len() == before {
            out.put("none");
        }
        out.byte(b']');
        let (sequence, acknowledged) = (header.sequence_number(), header.acknowledgment_number());
        let base = match self.style.absolute_sequence || flags & ACK == 0 {
            true => Base::default(),
            false => {
                let begins = flags & SYN != 0;
                let numbers = (sequence, acknowledged);
                self.flows
                    .base(&ends, (source, destination), numbers, begins)
            }
        };
        if header_len > data.len {
            out.put(" [bad hdr length ").num(header_len);
            return out.put(" - too long, > ").num(data.len).byte(b']').done();
        }
        if let Some(bytes) = self.to_verify(data, &ends) {
            let (wrong, found) = (ends.checksum(TCP, bytes), header.checksum());
            out.put(", cksum 0x").hex_padded(found.into(), 4);
            match wrong {
                0 => drop(out.put(" (correct)")),
                _ => {
                    let right = right_checksum(found, wrong);
                    out.put(" (incorrect -> 0x")
                        .hex_padded(right.into(), 4)
                        .byte(b')');
                }
            }
        }
        let payload = data.len - header_len;
        if self.style.verbose > 1 || payload > 0 || flags & (SYN | FIN | RESET) != 0 {
            let sequence = sequence.wrapping_sub(base.sequence);
            out.put(", seq ").num(sequence);
            if payload > 0 {
                out.byte(b':').num(sequence.wrapping_add(payload as u32));
            }
        }
        if flags & ACK != 0 {
            out.put(", ack ")
                .num(acknowledged.wrapping_sub(base.acknowledged));
        }
        out.put(", win ").num(header.window_size());
        if flags & URGENT != 0 {
            out.put(", urg ").num(header.urgent_pointer());
        }
        if header_len > HEADER {
            out.put(", options [");
            let options = Data {
                len: header_len - HEADER,
                ..data.after(HEADER)
            };
            let mut is_later_value = false;
            match tcp_options(options, base, &mut is_later_value, out) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(Cut) if !is_later_value => return Err(Cut),
                Err(Cut) => {
                    return out.put(" [|tcp]>").done();
                }
            }
        }
        out.put(", length ").num(payload);
        if payload == 0 {
            return Ok(());
        }
        if data.captured.len() < header_len {
            out.put(" [remaining caplen(").num(data.captured.len());
            out.put(") < header length(").num(header_len).put(")]");
            return Err(Cut);
        }
        if flags & RESET == 0 {
            self.tcp_payload(data.after(header_len), (source, destination), out);
        }
        Ok(())
    }
}

/// Prints the options; `false`: one has a length that cannot be.
fn tcp_options(
    options: Data<'_>,
    base: Base,
    is_later_value: &mut bool,
    out: &mut Text,
) -> Result<bool, Cut> {
    // Those of nearly all segments.
    if options.len == 12
        && let Some([1, 1, 8, 10, stamps @ ..]) = options.captured.first_chunk::<12>()
    {
        let stamps = Data::from(&stamps[..]);
        out.put("nop,nop,TS val ").num(stamps.u32(0)?);
        out.put(" ecr ").num(stamps.u32(4)?).byte(b']');
        return Ok(true);
    }
    let mut at = 0;
    while at < options.len {
        if at > 0 {
            out.byte(b',');
        }
        *is_later_value = false;
        let kind = options.u8(at)?;
        let size = match kind {
            0 | 1 => 1,
            _ => {
                let size = usize::from(options.u8(at + 1)?);
                if size < 2 || size > options.len - at {
                    return Ok(bad_option(at, out));
                }
                size
            }
        };
        let (value, body) = (options.after(at + 2), size.saturating_sub(2));
        *is_later_value = at > 0;
        // Like tcpdump, believe in the kind and not in the length.
        let room = value.len;
        let name = match kind {
            0 => "eol",
            1 => "nop",
            2 => "mss",
            3 => "wscale",
            4 => "sackOK",
            5 => "sack",
            6 => "echo",
            7 => "echoreply",
            8 => "TS",
            11 => "cc",
            12 => "ccnew",
            13 => "ccecho",
            19 => "md5",
            28 => "uto",
            29 => "tcp-ao",
            30 => "mptcp",
            34 => "tfo",
            253 | 254 => "exp",
            _ => "",
        };
        out.name_or(name, "unknown-", kind);
        // Bytes that the option's values take, where that does not depend on its length.
        let expected = match kind {
            2 if room >= 2 => {
                out.byte(b' ').num(value.u16(0)?);
                2
            }
            3 if room >= 1 => {
                out.byte(b' ').num(value.u8(0)?);
                1
            }
            4 => 0,
            5 if body % 8 == 0 => {
                out.byte(b' ').num(body / 8).byte(b' ');
                for edge in (0..body).step_by(8) {
                    let left = value.u32(edge)?.wrapping_sub(base.selective);
                    let right = value.u32(edge + 4)?.wrapping_sub(base.selective);
                    out.byte(b'{').num(left).byte(b':').num(right).byte(b'}');
                }
                body
            }
            5 => {
                out.put(" invalid sack");
                body
            }
            6 | 7 | 11 | 12 | 13 if room >= 4 => {
                out.byte(b' ').num(value.u32(0)?);
                4
            }
            8 if room >= 8 => {
                value.slice(0, 8)?;
                out.put(" val ").num(value.u32(0)?);
                out.put(" ecr ").num(value.u32(4)?);
                8
            }
            0 | 1 => body,
            2 | 3 | 6 | 7 | 8 | 11 | 12 | 13 => return Ok(bad_option(at, out)),
            _ => {
                let is_experiment = kind >= 253 && body >= 2 && value.u16(0)? == 0xf989;
                let (value, skipped) = match is_experiment {
                    true => (value.after(2), 2),
                    false => (value, 0),
                };
                *is_later_value = false;
                value.slice(0, body - skipped)?;
                out.put(match (is_experiment, kind, body - skipped) {
                    (true, _, 0) => "-tfo cookiereq",
                    (true, ..) => "-tfo cookie ",
                    (false, 34, 0) => "  cookiereq",
                    (false, 34, _) => "  cookie ",
                    (false, _, 0) => "",
                    _ => " 0x",
                });
                for &byte in value.slice(0, body - skipped)? {
                    out.hex_padded(byte.into(), 2);
                }
                body
            }
        };
        if kind > 1 && expected != body {
            out.put("[len ").num(size).byte(b']');
        }
        // Like tcpdump, go on after the bytes that this kind of option has.
        at += if kind > 1 { 2 + expected } else { 1 };
        if kind == 0 {
            break;
        }
    }
    out.byte(b']');
    Ok(true)
}

/// Prints that the option at this place is wrong, and returns `false`.
fn bad_option(at: usize, out: &mut Text) -> bool {
    out.put(if at > 0 { "[bad opt]]" } else { "[bad opt]" });
    false
}
