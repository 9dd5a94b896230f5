//! Rivals in C and C++: small programs that are compiled when needed and take samples on request.
//!
//! They are separate processes, since some of them take over a process (DPDK pins threads and reserves memory).
//!
//! ```text
//!   us ◀── "ready\n" ── rival
//!   us ── "single 1000000\n" ──▶ rival: does it, and times itself ── "5123456\n", nanoseconds ──▶ us
//! ```

use anyhow::{Context, Result, bail};
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

/// A rival that is running, and the folder it was made in: both go when it is dropped.
pub struct Native {
    child: Child,
    say: ChildStdin,
    hear: BufReader<ChildStdout>,
    folder: PathBuf,
}

/// How to make one.
pub struct Recipe<'a> {
    /// Its file name with .c or .cpp.
    pub file: &'a str,
    /// Its source, without `native.h`, which has the time and the pinning.
    pub source: &'a str,
    /// The package that pkg-config must know.
    pub pkg_config: Option<&'a str>,
    /// Libraries that it is linked with and that pkg-config does not know.
    pub libraries: &'a [&'a str],
    /// What Debian calls what it needs.
    pub debian: &'a str,
}

impl Native {
    /// Compiles and starts a rival.
    pub fn start(recipe: &Recipe<'_>) -> Result<Native> {
        let needs = || format!("needs {}", recipe.debian);
        let mut flags = Vec::new();
        if let Some(package) = recipe.pkg_config {
            let asked = Command::new("pkg-config")
                .args(["--cflags", "--libs", package])
                .output()
                .with_context(needs)?;
            if !asked.status.success() {
                bail!("{}", needs());
            }
            let text = String::from_utf8_lossy(&asked.stdout).into_owned();
            flags.extend(text.split_whitespace().map(String::from));
        }
        flags.extend(
            recipe
                .libraries
                .iter()
                .map(|library| format!("-l{library}")),
        );
        let folder = std::env::temp_dir().join(format!("forebay-bench-{}", std::process::id()));
        let folder = folder.join(recipe.file);
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let source = folder.join(recipe.file);
        let program = folder.join("rival");
        fs::write(
            &source,
            format!("{}{}", include_str!("native.h"), recipe.source),
        )
        .with_context(|| format!("writing {}", source.display()))?;
        let compiler = if recipe.file.ends_with(".c") {
            "gcc"
        } else {
            "g++"
        };
        let compiled = Command::new(compiler)
            .args(["-O3", "-march=native", "-w", "-o"])
            .arg(&program)
            .arg(&source)
            .args(&flags)
            .output()
            .with_context(|| format!("needs {compiler}"))?;
        if !compiled.status.success() {
            let said = String::from_utf8_lossy(&compiled.stderr).into_owned();
            if said.contains("No such file or directory") {
                bail!("{}", needs()); // a header or a library that is not there
            }
            bail!("{} does not compile: {}", recipe.file, said.trim());
        }
        let mut child = Command::new(&program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let say = child.stdin.take().context("it has a standard input")?;
        let hear = child.stdout.take().context("it has a standard output")?;
        let hear = BufReader::new(hear);
        let mut rival = Native {
            child,
            say,
            hear,
            folder,
        };
        rival
            .hear("ready")
            .with_context(|| format!("{} does not start", recipe.file))?;
        Ok(rival)
    }

    /// Runs `what` this number of times; returns the nanoseconds.
    pub fn sample(&mut self, what: &str, operations: u64) -> Result<f64> {
        writeln!(self.say, "{what} {operations}")
            .and_then(|()| self.say.flush())
            .context("the rival ended")?;
        let ns = self.hear("ns ")?;
        ns.parse()
            .with_context(|| format!("a rival took {ns:?} nanoseconds"))
    }

    /// What follows `word` on the next line that begins with it: some libraries greet on standard output.
    fn hear(&mut self, word: &str) -> Result<String> {
        loop {
            let mut line = String::new();
            if self.hear.read_line(&mut line).context("hearing a rival")? == 0 {
                bail!("the rival ended");
            }
            if let Some(rest) = line.strip_prefix(word) {
                return Ok(rest.trim().into());
            }
        }
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        // It is ours, and it only waits for us; what cannot be removed is a few files in the temporary folder.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
        if let Some(all) = self.folder.parent() {
            let _ = fs::remove_dir(all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rival_is_compiled_heard_and_cleaned_away() {
        let source = "#include <stdio.h>\nint main(void) { char what[9]; long n; puts(\"hello\\nready\"); fflush(stdout);\n\
                      while (scanf(\"%8s %ld\", what, &n) == 2) { printf(\"ns %ld\\n\", 2 * n); fflush(stdout); } }\n";
        let mut recipe = Recipe {
            file: "echo.c",
            source,
            pkg_config: None,
            libraries: &[],
            debian: "gcc",
        };
        let mut rival = Native::start(&recipe).unwrap();
        assert_eq!(rival.sample("twice", 21).unwrap(), 42.0);
        let folder = rival.folder.clone();
        drop(rival);
        assert!(!folder.exists());
        recipe.source = "not C";
        let wrong = Native::start(&recipe).err().unwrap().to_string();
        assert!(wrong.contains("does not compile"), "{wrong}");
        recipe.source = "#include <no-such-header-anywhere.h>\n";
        let missing = Native::start(&recipe).err().unwrap().to_string();
        assert_eq!(missing, "needs gcc");
        recipe.source = source;
        recipe.libraries = &["no-such-library-anywhere"];
        let missing = Native::start(&recipe).err().unwrap().to_string();
        assert_eq!(missing, "needs gcc");
        recipe.pkg_config = Some("no-such-package-anywhere");
        let missing = Native::start(&recipe).err().unwrap().to_string();
        assert!(missing.starts_with("needs "), "{missing}");
    }
}
