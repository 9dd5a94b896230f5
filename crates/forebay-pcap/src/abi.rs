//! The types and numbers of `pcap/pcap.h`, with the layout that a C compiler gives them. A test has a C compiler
//! compare them with Debian's header.

use forebay_net::{filter::bpf::Instruction, port::Counts};
use std::ffi::{c_char, c_int, c_uchar, c_uint};

#[cfg(not(target_pointer_width = "64"))]
compile_error!(
    "the layouts of this file, such as that of struct timeval, are those of 64-bit systems"
);

/// The size of the buffers for messages that programs pass in.
pub const ERRBUF_SIZE: usize = 256;

pub const ERROR: c_int = -1;
pub const BREAK: c_int = -2;
pub const NOT_ACTIVATED: c_int = -3;
pub const ACTIVATED: c_int = -4;
pub const NO_SUCH_DEVICE: c_int = -5;
pub const RFMON_NOTSUP: c_int = -6;
pub const PERM_DENIED: c_int = -8;
pub const IFACE_NOT_UP: c_int = -9;
pub const TSTAMP_PRECISION_NOTSUP: c_int = -12;
pub const WARNING_TSTAMP_TYPE_NOTSUP: c_int = 3;

pub const TSTAMP_HOST: c_int = 0;
pub const TSTAMP_ADAPTER_UNSYNCED: c_int = 4;
pub const PRECISION_NANO: c_int = 1;

pub const IF_LOOPBACK: u32 = 1;
pub const IF_UP: u32 = 2;
pub const IF_RUNNING: u32 = 4;
pub const IF_WIRELESS: u32 = 8;
pub const IF_CONNECTED: u32 = 0x10;
pub const IF_DISCONNECTED: u32 = 0x20;
pub const IF_NOT_APPLICABLE: u32 = 0x30;

/// `PROTO_UNDEF`: no protocol, or any.
pub const ANY_PROTOCOL: c_int = -1;

/// `struct pcap_pkthdr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketHeader {
    pub seconds: i64,
    /// Microseconds, or nanoseconds if the handle has that precision.
    pub fraction: i64,
    pub caplen: u32,
    pub len: u32,
}

/// `struct pcap_stat`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub received: c_uint,
    pub dropped: c_uint,
    pub interface_dropped: c_uint,
}

impl From<Counts> for Stats {
    /// A count that does not fit stays at the largest number, and one that is not known is 0.
    fn from(counts: Counts) -> Stats {
        let saturated = |count| c_uint::try_from(count).unwrap_or(c_uint::MAX);
        Stats {
            received: saturated(counts.received),
            dropped: saturated(counts.dropped.unwrap_or(0)),
            interface_dropped: saturated(counts.interface_dropped.unwrap_or(0)),
        }
    }
}

/// `struct forebay_pcap_stats64` of `forebay/pcap.h`. A count that is not known is the largest number.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats64 {
    pub size: u64,
    pub received: u64,
    pub delivered: u64,
    pub waiting: u64,
    pub filtered: u64,
    pub left_out: u64,
    pub kernel: u64,
    pub rx_ring: u64,
    pub fill_ring: u64,
    pub peer: u64,
    pub overrun: u64,
    pub interface_dropped: u64,
    pub outages: u64,
    pub outage_ns: u64,
}

/// `struct bpf_program`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BpfProgram {
    pub len: c_uint,
    pub instructions: *mut Instruction,
}

/// `struct pcap_addr`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Address {
    pub next: *mut Address,
    pub address: *mut libc::sockaddr,
    pub netmask: *mut libc::sockaddr,
    pub broadcast: *mut libc::sockaddr,
    pub destination: *mut libc::sockaddr,
}

/// `struct pcap_if`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Device {
    pub next: *mut Device,
    pub name: *mut c_char,
    pub description: *mut c_char,
    pub addresses: *mut Address,
    pub flags: c_uint,
}

/// `struct eproto`.
#[repr(C)]
pub struct EtherProtocol {
    pub name: *const c_char,
    pub number: u16,
}

/// `struct pcap_etherent`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EtherEntry {
    pub address: [u8; 6],
    pub name: [c_char; 122],
}

/// `pcap_handler`.
pub type Handler = Option<unsafe extern "C" fn(*mut c_uchar, *const PacketHeader, *const c_uchar)>;

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// Statements in C that this structure is as in the header.
    macro_rules! same_layout {
        ($ours:ty = $theirs:literal: $($field:ident = $their_field:literal),*) => {{
            let mut lines = vec![format!(
                "_Static_assert(sizeof({}) == {}, \"size\");", $theirs, size_of::<$ours>()
            )];
            $(lines.push(format!(
                "_Static_assert(offsetof({}, {}) == {}, \"{0}.{1}\");",
                $theirs, $their_field, offset_of!($ours, $field)
            ));)*
            lines.join("\n")
        }};
    }

    #[test]
    fn counts_stop_at_the_largest_number_of_32_bits() {
        let counts = Counts {
            received: 1 << 32,
            dropped: Some(u64::from(u32::MAX)),
            interface_dropped: Some(u64::MAX),
            ..Counts::default()
        };
        let stats = Stats {
            received: u32::MAX,
            dropped: u32::MAX,
            interface_dropped: u32::MAX,
        };
        assert_eq!(Stats::from(counts), stats);
        assert_eq!(Stats::from(Counts::default()), Stats::default());
    }

    #[test]
    fn structures_and_numbers_are_those_of_debians_header() {
        if !std::path::Path::new("/usr/include/pcap/pcap.h").exists() {
            return forebay_testing::children::skip("libpcap0.8-dev");
        }
        let layouts = [
            same_layout!(PacketHeader = "struct pcap_pkthdr": seconds = "ts.tv_sec", fraction = "ts.tv_usec", caplen = "caplen", len = "len"),
            same_layout!(Stats = "struct pcap_stat": received = "ps_recv", dropped = "ps_drop", interface_dropped = "ps_ifdrop"),
            same_layout!(Stats64 = "struct forebay_pcap_stats64": size = "size", received = "received", delivered = "delivered", waiting = "waiting", filtered = "filtered", left_out = "left_out", kernel = "kernel", rx_ring = "rx_ring", fill_ring = "fill_ring", peer = "peer", overrun = "overrun", interface_dropped = "interface_dropped", outages = "outages", outage_ns = "outage_ns"),
            same_layout!(BpfProgram = "struct bpf_program": len = "bf_len", instructions = "bf_insns"),
            same_layout!(Instruction = "struct bpf_insn": code = "code", jump_true = "jt", jump_false = "jf", k = "k"),
            same_layout!(Address = "struct pcap_addr": next = "next", address = "addr", netmask = "netmask", broadcast = "broadaddr", destination = "dstaddr"),
            same_layout!(Device = "struct pcap_if": next = "next", name = "name", description = "description", addresses = "addresses", flags = "flags"),
            same_layout!(EtherProtocol = "struct eproto": name = "s", number = "p"),
            same_layout!(EtherEntry = "struct pcap_etherent": address = "addr", name = "name"),
        ];
        let numbers = [
            ("PCAP_ERRBUF_SIZE", ERRBUF_SIZE as i64),
            ("PCAP_ERROR", ERROR.into()),
            ("PCAP_ERROR_BREAK", BREAK.into()),
            ("PCAP_ERROR_NOT_ACTIVATED", NOT_ACTIVATED.into()),
            ("PCAP_ERROR_ACTIVATED", ACTIVATED.into()),
            ("PCAP_ERROR_NO_SUCH_DEVICE", NO_SUCH_DEVICE.into()),
            ("PCAP_ERROR_RFMON_NOTSUP", RFMON_NOTSUP.into()),
            ("PCAP_ERROR_PERM_DENIED", PERM_DENIED.into()),
            ("PCAP_ERROR_IFACE_NOT_UP", IFACE_NOT_UP.into()),
            (
                "PCAP_ERROR_TSTAMP_PRECISION_NOTSUP",
                TSTAMP_PRECISION_NOTSUP.into(),
            ),
            (
                "PCAP_WARNING_TSTAMP_TYPE_NOTSUP",
                WARNING_TSTAMP_TYPE_NOTSUP.into(),
            ),
            ("PCAP_TSTAMP_HOST", TSTAMP_HOST.into()),
            (
                "PCAP_TSTAMP_ADAPTER_UNSYNCED",
                TSTAMP_ADAPTER_UNSYNCED.into(),
            ),
            ("PCAP_TSTAMP_PRECISION_NANO", PRECISION_NANO.into()),
            ("PCAP_IF_LOOPBACK", IF_LOOPBACK.into()),
            ("PCAP_IF_UP", IF_UP.into()),
            ("PCAP_IF_RUNNING", IF_RUNNING.into()),
            ("PCAP_IF_WIRELESS", IF_WIRELESS.into()),
            ("PCAP_IF_CONNECTION_STATUS_CONNECTED", IF_CONNECTED.into()),
            (
                "PCAP_IF_CONNECTION_STATUS_DISCONNECTED",
                IF_DISCONNECTED.into(),
            ),
            (
                "PCAP_IF_CONNECTION_STATUS_NOT_APPLICABLE",
                IF_NOT_APPLICABLE.into(),
            ),
            ("PROTO_UNDEF", ANY_PROTOCOL.into()),
        ];
        let numbers =
            numbers.map(|(name, ours)| format!("_Static_assert({name} == {ours}, \"{name}\");"));
        let text = format!(
            "#include <stddef.h>\n#include <pcap/pcap.h>\n#include <pcap/namedb.h>\n#include <forebay/pcap.h>\n\
             struct eproto {{ const char *s; u_short p; }};\n{}\n{}\n",
            layouts.join("\n"),
            numbers.join("\n")
        );
        let folder = forebay_testing::folder::Folder::new();
        let source = folder.file("layout.c", text);
        let mut compiler = std::process::Command::new("cc");
        compiler.args(["-I", concat!(env!("CARGO_MANIFEST_DIR"), "/include")]);
        let output = compiler.args(["-fsyntax-only", &source]).output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
