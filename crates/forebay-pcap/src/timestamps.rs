//! Time stamp types, with their names, and the precisions of times.

use crate::abi::PRECISION_NANO;
use std::ffi::{CStr, c_int};

/// By number, from 0: the name and a description.
const TYPES: [(&CStr, &CStr); 6] = [
    (c"host", c"Host"),
    (c"host_lowprec", c"Host, low precision"),
    (c"host_hiprec", c"Host, high precision"),
    (c"adapter", c"Adapter"),
    (c"adapter_unsynced", c"Adapter, not synced with system time"),
    (
        c"host_hiprec_unsynced",
        c"Host, high precision, not synced with system time",
    ),
];

/// The name and the description of a type.
pub fn described(number: c_int) -> Option<(&'static CStr, &'static CStr)> {
    TYPES.get(usize::try_from(number).ok()?).copied()
}

/// The type with this name, in upper or lower case.
pub fn numbered(name: &CStr) -> Option<c_int> {
    let is_it = |(its, _): &(&CStr, _)| its.to_bytes().eq_ignore_ascii_case(name.to_bytes());
    TYPES.iter().position(is_it).map(|at| at as c_int)
}

/// The unit of the fractions that a handle delivers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    #[default]
    Micro,
    Nano,
}

impl Precision {
    /// The precision with this number of `pcap/pcap.h`.
    pub fn numbered(number: c_int) -> Option<Precision> {
        match number {
            0 => Some(Precision::Micro),
            PRECISION_NANO => Some(Precision::Nano),
            _ => None,
        }
    }

    pub fn number(self) -> c_int {
        self as c_int
    }

    /// A fraction in this unit, in another one.
    pub fn converted(self, fraction: i64, other: Precision) -> i64 {
        match (self, other) {
            (Precision::Micro, Precision::Nano) => fraction * 1_000,
            (Precision::Nano, Precision::Micro) => fraction / 1_000,
            _ => fraction,
        }
    }

    /// The time in nanoseconds of these seconds and this fraction; the nearest one that there is.
    pub fn join(self, seconds: i64, fraction: i64) -> u64 {
        let unit = match self {
            Precision::Micro => 1_000,
            Precision::Nano => 1,
        };
        let time = i128::from(seconds) * 1_000_000_000 + i128::from(fraction) * unit;
        time.clamp(0, u64::MAX.into()) as u64
    }

    /// The seconds and the fraction of a time in nanoseconds.
    pub fn split(self, time_ns: u64) -> (i64, i64) {
        let (seconds, ns) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
        let fraction = match self {
            Precision::Micro => ns / 1_000,
            Precision::Nano => ns,
        };
        (seconds as i64, fraction as i64)
    }
}
