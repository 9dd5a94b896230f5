//! How the checks are run: by libFuzzer if cargo-fuzz compiles them, otherwise by a program, on the files named in its arguments.

use std::{env, fs, io};

#[cfg(fuzzing)]
#[doc(hidden)]
pub use libfuzzer_sys;

/// The rest of a target: what runs its check.
#[macro_export]
macro_rules! target {
    ($check:path) => {
        #[cfg(fuzzing)]
        $crate::libfuzzer_sys::fuzz_target!(|bytes: &[u8]| $check(bytes));

        #[cfg(not(fuzzing))]
        fn main() -> std::io::Result<()> {
            $crate::check_files($check)
        }
    };
}

/// Checks each file that is named in the arguments.
///
/// # Errors
/// A file cannot be read.
pub fn check_files(check: fn(&[u8])) -> io::Result<()> {
    for name in env::args_os().skip(1) {
        check(&fs::read(name)?);
    }
    Ok(())
}
