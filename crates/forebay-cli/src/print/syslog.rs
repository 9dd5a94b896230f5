//! Syslog: facility and severity; with `-v` also the message.

use super::{
    data::{Data, Printed},
    hex,
    printer::Printer,
    text::Text,
};

const SEVERITIES: [&str; 8] = [
    "emergency",
    "alert",
    "critical",
    "error",
    "warning",
    "notice",
    "info",
    "debug",
];
const FACILITIES: [&str; 24] = [
    "kernel", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron",
    "authpriv", "ftp", "ntp", "security", "console", "cron", "local0", "local1", "local2",
    "local3", "local4", "local5", "local6", "local7",
];
/// The largest number of digits of a priority.
const MAX_DIGITS: usize = 3;

impl Printer {
    pub(super) fn syslog(&mut self, data: Data<'_>, out: &mut Text) -> Printed {
        self.protocol = "syslog";
        if data.u8(0)? != b'<' {
            return out.put(" (invalid)").done();
        }
        let (mut priority, mut at) = (0_u16, 1);
        while at <= MAX_DIGITS && data.u8(at)?.is_ascii_digit() {
            priority = priority * 10 + u16::from(data.u8(at)? - b'0');
            at += 1;
        }
        if data.u8(at)? != b'>' {
            return out.put(" (invalid)").done();
        }
        let number = priority >> 3 & 0x7f;
        let severity = usize::from(priority & 7);
        let unknown = format!("unknown ({number})");
        let facility = *FACILITIES.get(usize::from(number)).unwrap_or(&&*unknown);
        if self.style.verbose == 0 {
            out.put("SYSLOG ").put(facility).byte(b'.');
            out.put(SEVERITIES[severity]).put(", length: ");
            return out.num(data.len).done();
        }
        out.put("SYSLOG, length: ").num(data.len);
        out.put("\n\tFacility ").put(facility);
        out.put(" (").num(number).put("), Severity ");
        out.put(SEVERITIES[severity]).put(" (").num(severity);
        out.put(")\n\tMsg: ");
        let message = data.after(at + 1);
        out.foreign(message.captured);
        if self.style.verbose > 1 {
            hex::hex(data.captured, out);
        }
        message.slice(0, message.len).map(drop)
    }
}
