//! The errors of an output, as reported to users.

use crate::Error;
use std::io;

/// A failed sync, as reported to users. The caller adds the output's name.
pub(super) fn sync_error(cause: io::Error) -> Error {
    Error::new("", "syncing the file")
        .because(cause)
        .advise("Data already written may not survive a power cut")
}

/// A failed write, as reported to users. The caller adds the output's name.
pub(super) fn write_error(cause: io::Error) -> Error {
    let advice = match cause.raw_os_error() {
        Some(libc::ENOSPC) => "Make room, or write elsewhere",
        Some(libc::EDQUOT) => "The quota is used up: make room, or write elsewhere",
        Some(libc::EFBIG) => "The file size limit is reached (ulimit -f)",
        _ => "",
    };
    Error::new("", "writing").because(cause).advise(advice)
}
