//! What fuzzing has grown, read again by the checks of its target.

#[path = "../../../fuzz/fuzz_targets/recovering.rs"]
mod recovering;

#[test]
fn record_files() {
    let krate = env!("CARGO_MANIFEST_DIR");
    forebay_testing::replay::replay(krate, "fuzzed-records.hex", 20, recovering::check);
}
