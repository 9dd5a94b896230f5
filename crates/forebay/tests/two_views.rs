//! The compiler treats two views of one page as different memory. A program shows that, and that our barrier prevents it.
//!
//! The program is compiled here with `rustc -O`, since a test build without optimisation shows nothing.

use std::{env, path::Path, process::Command};

#[test]
fn a_stale_value_is_read_through_the_other_view_unless_views_are_settled() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/two_views/program.rs");
    let program =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("two_views-{}", std::process::id()));
    let compiler = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let compiled = Command::new(compiler)
        .args(["-O", "--edition", "2024", "-o"])
        .args([&program, &source])
        .output()
        .expect("rustc exists, since it compiled this test");
    assert!(
        compiled.status.success(),
        "{}",
        String::from_utf8_lossy(&compiled.stderr)
    );
    let run = Command::new(&program).output().unwrap();
    std::fs::remove_file(&program).unwrap();
    assert!(run.status.success(), "{run:?}");
    let told = String::from_utf8_lossy(&run.stdout);
    // The value of the byte is 2. Reading 1 without the barrier is the fault. If a future compiler no longer shows it, the rule
    // of two views is still right, but this test no longer proves that it is needed: then find a program that does.
    assert_eq!(told.trim(), "without: 1, settled: 2");
}
