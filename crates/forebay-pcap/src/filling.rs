//! Reads as many bytes of a capture file as its next part needs, and reports failures in libpcap's words.

use crate::{failure::Failure, stdio::error_text};
use std::io::{self, Read};

/// Reads until there are `needed` bytes. `false`: the end comes before that.
pub fn read_more(from: &mut impl Read, bytes: &mut Vec<u8>, needed: usize) -> io::Result<bool> {
    while bytes.len() < needed {
        let had = bytes.len();
        bytes.resize(needed, 0);
        let read = from.read(&mut bytes[had..]);
        bytes.truncate(had + *read.as_ref().unwrap_or(&0));
        if read? == 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reads the beginning of a file, until there are `needed` bytes.
pub fn fill(
    from: &mut impl Read,
    bytes: &mut Vec<u8>,
    needed: usize,
    what: &str,
) -> Result<(), Failure> {
    loop {
        match read_more(from, bytes, needed) {
            Ok(true) => return Ok(()),
            Ok(false) => {
                let got = bytes.len();
                return Err(format!(
                    "truncated dump file; tried to read {needed} {what}, only got {got}"
                )
                .into());
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(&error)),
        }
    }
}

/// The failure for an error of a file.
pub fn failed(error: &io::Error) -> Failure {
    match error.raw_os_error() {
        Some(number) => {
            let text = error_text(number);
            format!("error reading dump file: {}", text.to_string_lossy()).into()
        }
        None => format!("error reading dump file: {error}").into(),
    }
}
