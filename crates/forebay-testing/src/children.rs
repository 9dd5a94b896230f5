//! Child processes of tests: this program again in a role, killed when its test ends, or another program with a small disk.
#![allow(missing_docs)]

use crate::dice::{in_ci, rounds};
use std::{
    env, fs, io,
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

/// The variable with the folder in which a child works.
pub const FOLDER: &str = "FOREBAY_FOLDER";

/// This program again, running the ignored test of that name on its main thread. From a second thread, ThreadSanitizer reports a race
/// in the standard library, which is suppressed, but takes a second to find the names for.
pub fn role(test: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args([
            "--exact",
            test,
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

/// A child that does not outlive its test.
pub struct Mortal(pub Child);

impl Mortal {
    pub fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    /// Waits until it has exited, and requires that it exited with success.
    pub fn ends_well(&mut self) {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                break status;
            }
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "a child did not exit within a minute"
            );
            thread::sleep(Duration::from_millis(1));
        };
        assert!(status.success(), "{status}");
    }

    #[allow(unsafe_code)]
    pub fn signal(&self, signal: libc::c_int) {
        // SAFETY: a child of ours that was not waited for, so the id is still its own.
        assert_eq!(unsafe { libc::kill(self.0.id() as libc::pid_t, signal) }, 0);
    }
}

impl Drop for Mortal {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Number of moments of each kind to try: `FOREBAY_MOMENTS`, or [`rounds`] of `few` if that is not set.
pub fn moments(few: u64) -> u64 {
    let said = env::var("FOREBAY_MOMENTS").ok();
    said.map_or_else(
        || rounds(few),
        |text| text.parse().expect("FOREBAY_MOMENTS is a number"),
    )
}

/// Reports that a test did not run, and why. CI has everything that tests need, so there it is a failure.
pub fn skip(what: &str) {
    assert!(!in_ci(), "CI should have {what}");
    println!("skipped: needs {what}");
}

/// Runs a program with its arguments (other settings of `program` are ignored) on a disk of `size`, in the format of `mount`.
/// The disk is mounted at `folder`, which the variable [`FOLDER`] names, in a mount namespace that ends with the program. Pass
/// the result to [`on_small_disk`].
pub fn with_small_disk(folder: &Path, size: &str, program: &Command) -> Command {
    fs::create_dir_all(folder).unwrap();
    let script =
        format!("mount -t tmpfs -o size={size} none \"${FOLDER}\" || exit 77; exec \"$@\"");
    let mut command = Command::new("unshare");
    command
        .args(["-m", "sh", "-c", &script, "sh"])
        .arg(program.get_program())
        .args(program.get_args())
        .env(FOLDER, folder)
        .stdin(Stdio::null());
    command
}

/// The output of the program; `None`, with a message, if it could have no disk.
pub fn on_small_disk(output: io::Result<Output>) -> Option<Output> {
    let Ok(output) = output else {
        skip("unshare");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) || said.contains("unshare") {
        skip("the right to mount a tmpfs");
        return None;
    }
    Some(output)
}
