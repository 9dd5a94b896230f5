//! Replays the corpus of the fuzz targets for files.

#[path = "../../../../fuzz/fuzz_targets/reading.rs"]
mod reading;

#[test]
fn any_bytes_are_a_file_or_an_error() {
    let krate = concat!(env!("CARGO_MANIFEST_DIR"), "/../forebay-net");
    for corpus in ["fuzzed-pcap.hex", "fuzzed-pcapng.hex"] {
        forebay_testing::replay::replay(krate, corpus, 100, reading::check);
    }
}
