//! Whatever a packet holds: see `printing`.
#![no_main]

#[allow(dead_code)]
#[path = "../../crates/forebay-cli/src/print/mod.rs"]
mod print;
mod printing;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| printing::check(bytes));
