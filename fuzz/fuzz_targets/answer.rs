//! Whatever a server sends: see `answering`.
#![no_main]

mod answering;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| answering::check(bytes));
