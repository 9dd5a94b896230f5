//! Whatever a record file holds: see `recovering`.
#![no_main]

mod recovering;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| recovering::check(bytes));
