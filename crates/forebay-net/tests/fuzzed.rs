//! What fuzzing has grown, read again by the checks of its targets.

#[path = "../../../fuzz/fuzz_targets/decoding.rs"]
mod decoding;
#[path = "../../../fuzz/fuzz_targets/filtering.rs"]
mod filtering;

/// More than a hundred inputs.
fn replay(name: &str, check: fn(&[u8])) {
    forebay_testing::replay::replay(env!("CARGO_MANIFEST_DIR"), name, 100, check);
}

#[test]
fn classic_files() {
    replay("fuzzed-pcap.hex", decoding::check);
}

#[test]
fn pcapng_files() {
    replay("fuzzed-pcapng.hex", decoding::check);
}

#[test]
fn filters() {
    replay("fuzzed-filter.hex", filtering::check);
}
