//! Notes the commit that is built, for `--version` and the manual pages. Nothing is noted without git, and in a packaged crate.

use std::process::Command;

/// What git prints, in one line.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let version = env!("CARGO_PKG_VERSION");
    // A packaged crate may lie in a repository that has nothing to do with it.
    let is_ours = git(&["ls-files", "--error-unmatch", "build.rs"]).is_some();
    let commit = git(&["log", "-1", "--format=%h %cs"]).filter(|_| is_ours);
    let (version, date) = match &commit {
        Some(commit) => (
            format!("{version} ({commit})"),
            commit.split(' ').next_back().unwrap_or_default(),
        ),
        None => (version.to_owned(), ""),
    };
    println!("cargo::rustc-env=FOREBAY_VERSION={version}");
    println!("cargo::rustc-env=FOREBAY_DATE={date}");
    // It changes with every commit and every checkout.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|_| is_ours) {
        println!("cargo::rerun-if-changed={log}");
    }
}
