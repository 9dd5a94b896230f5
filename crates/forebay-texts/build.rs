//! Passes the compiler's assembly of the two copies of *A Tale of Two Copies* to the program.

use std::{env, fs, process::Command};

const COPIES: &str = "src/append/copies.rs";

/// Writes the assembly to `copies.s`, which is empty if that fails.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={COPIES}");
    let rustc = env::var("RUSTC").unwrap_or("rustc".into());
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let target = format!("{}/copies.s", env::var("OUT_DIR").expect("cargo sets it"));
    let compiled = Command::new(rustc)
        .args([
            "--crate-type=lib",
            "--edition=2024",
            "-Copt-level=3",
            "-Cpanic=abort",
            COPIES,
        ])
        .args(
            flags
                .split('\x1f')
                .filter(|flag| flag.contains("target-cpu=")),
        )
        .args(["--emit=asm", "-o", &target])
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        fs::write(target, "").expect("cargo has made the folder");
    }
}
