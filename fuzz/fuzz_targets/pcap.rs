//! Whatever a file in pcap claims: see `decoding`.
#![no_main]

mod decoding;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| decoding::check(bytes));
