//! Tells the program which compiler made it, and for which processor.

use std::{env, process::Command};

fn main() {
    let rustc = env::var("RUSTC").unwrap_or("rustc".into());
    let version = Command::new(rustc)
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
    println!("cargo::rerun-if-changed=build.rs");
}
