//! What fuzzing has grown, read again by the checks of its target.

#[path = "../../../fuzz/fuzz_targets/answering.rs"]
mod answering;

#[test]
fn answers() {
    let krate = env!("CARGO_MANIFEST_DIR");
    forebay_testing::replay::replay(krate, "fuzzed-answer.hex", 100, answering::check);
}
