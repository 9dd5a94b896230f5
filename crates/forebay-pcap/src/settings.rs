//! What a program asks for between `pcap_create` and `pcap_activate`.

use crate::{abi, timestamps::Precision};
use std::ffi::{CString, c_int};

/// A device that is not open yet, and how it is to be opened.
#[derive(Clone, Debug)]
pub struct Settings {
    pub device: CString,
    pub snaplen: c_int,
    pub promiscuous: bool,
    pub monitor: bool,
    /// Milliseconds.
    pub timeout: c_int,
    /// Bytes; 0: the default.
    pub buffer: c_int,
    pub immediate: bool,
    pub tstamp_type: c_int,
    pub precision: Precision,
    pub nonblocking: bool,
    /// An Ethernet protocol; 0: all.
    pub protocol: c_int,
}

impl Settings {
    pub fn of(device: CString) -> Settings {
        Settings {
            device,
            snaplen: 262_144,
            promiscuous: false,
            monitor: false,
            timeout: 0,
            buffer: 0,
            immediate: false,
            tstamp_type: abi::TSTAMP_HOST,
            precision: Precision::Micro,
            nonblocking: false,
            protocol: 0,
        }
    }
}
