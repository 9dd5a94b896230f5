//! Whatever an expression claims: see `filtering`.
#![no_main]

mod filtering;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| filtering::check(bytes));
