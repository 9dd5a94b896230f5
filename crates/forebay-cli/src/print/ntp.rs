//! NTP: one line, and with `-v` the clocks' state and times.

use super::{
    data::{Data, Printed},
    printer::Printer,
    text::Text,
};

const TIME_MESSAGE: usize = 48;
const CONTROL_MESSAGE: usize = 12;
/// Seconds from the beginning of NTP's era, 1900, to 1970.
const TO_1970: i64 = 2_208_988_800;
const MODES: [&str; 8] = [
    "unspecified",
    "symmetric active",
    "symmetric passive",
    "Client",
    "Server",
    "Broadcast",
    "Control Message",
    "Reserved",
];

impl Printer {
    pub(super) fn ntp(&mut self, data: Data<'_>, out: &mut Text) -> Printed {
        self.protocol = "ntp";
        let status = data.u8(0)?;
        let mode = usize::from(status & 7);
        out.put("NTPv").num(status >> 3 & 7).put(", ");
        out.put(MODES[mode]).put(", length ").num(data.len);
        if self.style.verbose == 0 {
            return Ok(());
        }
        let leap = ["", "+1s", "-1s", "clock unsynchronized"][usize::from(status >> 6)];
        out.put("\n\tLeap indicator: ").put(leap).put(" (");
        out.num(status & 0xc0).byte(b')');
        match mode {
            0..=5 if data.len < TIME_MESSAGE => out.put(" (invalid)").done(),
            0..=5 => time_message(data, out),
            6 if data.len < CONTROL_MESSAGE => out.put(" (invalid)").done(),
            6 => control_message(data, out),
            _ => Ok(()),
        }
    }
}

fn time_message(data: Data<'_>, out: &mut Text) -> Printed {
    let stratum = data.u8(1)?;
    out.put(", Stratum ").num(stratum).put(" (");
    out.put(match stratum {
        0 => "unspecified",
        1 => "primary reference",
        2..=15 => "secondary reference",
        _ => "reserved",
    });
    let poll = data.u8(2)?.cast_signed();
    out.put("), poll ").num(poll);
    match poll {
        0..=31 => drop(out.put(" (").num(1_u32 << poll).put("s)")),
        -31..0 => drop(out.put(" (1/").num(1_u32 << -poll).put("s)")),
        _ => {}
    }
    out.put(", precision ").num(data.u8(3)?.cast_signed());
    for (label, at) in [("\n\tRoot Delay: ", 4), (", Root dispersion: ", 8)] {
        let fraction = (u64::from(data.u16(at + 2)?) * 1_000_000) >> 16;
        out.put(label).num(data.u16(at)?);
        out.byte(b'.').padded(fraction, 6);
    }
    out.put(", Reference-ID: ");
    let reference: [u8; 4] = data.array(12)?;
    match stratum {
        0 if !matches!(reference[0], b' '..=b'~') => drop(out.put("(unspec)")),
        0 | 1 => {
            let end = reference.iter().position(|&byte| byte == 0).unwrap_or(4);
            out.foreign(&reference[..end]);
        }
        62 => return out.ipv4(reference).put(" INFO_QUERY").done(),
        63 => return out.ipv4(reference).put(" INFO_REPLY").done(),
        _ => drop(out.put("0x").hex_padded(data.u32(12)?.into(), 8)),
    }
    for (label, at) in [
        ("\n\t  Reference Timestamp:  ", 16),
        ("\n\t  Originator Timestamp: ", 24),
        ("\n\t  Receive Timestamp:    ", 32),
        ("\n\t  Transmit Timestamp:   ", 40),
    ] {
        time(out.put(label), u64::from_be_bytes(data.array(at)?));
    }
    let origin = u64::from_be_bytes(data.array(24)?);
    for (label, at) in [
        ("\n\t    Originator - Receive Timestamp:  ", 32),
        ("\n\t    Originator - Transmit Timestamp: ", 40),
    ] {
        let other = u64::from_be_bytes(data.array(at)?);
        match origin {
            0 => time(out.put(label), other),
            _ => {
                let sign = if other > origin { "+" } else { "-" };
                fixed(out.put(label).put(sign), origin.abs_diff(other));
            }
        }
    }
    let more = data.after(TIME_MESSAGE);
    match more.len {
        0 => {}
        4 | 20 | 24 => {
            out.put("\n\tKey id: ").num(more.u32(0)?);
            if more.len > 4 {
                out.put("\n\tAuthentication: ");
                for &byte in more.slice(4, more.len - 4)? {
                    out.hex_padded(byte.into(), 2);
                }
            }
        }
        len => drop(
            out.put("\n\t(")
                .num(len)
                .put(" more bytes after the header)"),
        ),
    }
    Ok(())
}

fn control_message(data: Data<'_>, out: &mut Text) -> Printed {
    let control = data.u8(1)?;
    let one_of = |bit: u8, names: [&'static str; 2]| names[usize::from(control & bit != 0)];
    out.put(", ").put(one_of(0x80, ["Request", "Response"]));
    out.put(", ").put(one_of(0x40, ["OK", "Error"]));
    out.put(", ").put(one_of(0x20, ["Last", "More"]));
    out.put(", OpCode=").num(control & 0x1f);
    out.put("\n\tSequence=").num(data.u16(2)?);
    let status = data.u16(4)?;
    out.put(if status == 0 {
        ", Status="
    } else {
        ", Status=0x"
    });
    out.hex(status.into()).put(", Assoc.=").num(data.u16(6)?);
    out.put(", Offset=").num(data.u16(8)?);
    let count = data.u16(10)?;
    out.put(", Count=").num(count);
    if data.len < CONTROL_MESSAGE + usize::from(count) {
        return out.put(" (invalid)").done();
    }
    if count > 0 {
        data.slice(CONTROL_MESSAGE, count.into())?;
        out.put("\n\tTO-BE-DONE: data not interpreted");
    }
    Ok(())
}

/// Seconds with 32 bits of fraction.
fn fixed(out: &mut Text, time: u64) {
    let fraction = ((time & 0xffff_ffff) * 1_000_000_000) >> 32;
    out.num(time >> 32).byte(b'.').padded(fraction, 9);
}

/// The time as a number, and as date and time.
fn time(out: &mut Text, time: u64) {
    fixed(out, time);
    let seconds = (time >> 32) as i64;
    if seconds > 0
        && let Ok(time) = jiff::Timestamp::from_second(seconds - TO_1970)
    {
        out.put(" (").put(&time.to_string()).byte(b')');
    }
}
