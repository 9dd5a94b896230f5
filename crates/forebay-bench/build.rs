//! Passes to the program the compiler's version, the target processor, and the versions of the crates that it compares with.

use std::{env, fs, process::Command};

/// Those that are measured.
const OTHERS: [&str; 10] = [
    "bytes",
    "crossbeam-channel",
    "crossbeam-queue",
    "forebay",
    "iceoryx2",
    "kanal",
    "nexus-queue",
    "ringbuf",
    "rtrb",
    "tokio",
];

fn main() {
    let rustc = env::var("RUSTC").unwrap_or("rustc".into());
    let version = Command::new(&rustc)
        .arg("--version")
        .output()
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string())
        .unwrap_or("an unknown compiler".into());
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let built_for = flags
        .split('\x1f')
        .find_map(|flag| flag.split("target-cpu=").nth(1))
        .unwrap_or("any x86-64");
    println!("cargo::rustc-env=FOREBAY_BENCH_COMPILER={version} for {built_for}");
    println!("cargo::rustc-env=FOREBAY_BENCH_VERSIONS={}", versions());
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={LOCKED}");
}

const LOCKED: &str = "../../Cargo.lock";

/// Each of the others with its version, as far as the lock file has them.
fn versions() -> String {
    let locked = fs::read_to_string(LOCKED).unwrap_or_default();
    let version = |name: &&str| {
        let (_, behind) = locked.split_once(&format!("name = \"{name}\"\nversion = \""))?;
        Some(format!("{name} {}", behind.split('"').next()?))
    };
    // The lock file has it also where it is not built.
    let is_built =
        |name: &&&str| **name != "iceoryx2" || env::var_os("CARGO_FEATURE_ICEORYX2").is_some();
    let versions: Vec<_> = OTHERS.iter().filter(is_built).filter_map(version).collect();
    versions.join(", ")
}
