//! What a function returns that could not do its work, and the text for `pcap_geterr`.

use crate::abi;
use std::{
    ffi::{CStr, c_int},
    io,
};

/// An error code of `pcap/pcap.h`, and a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub code: c_int,
    pub text: String,
}

impl Failure {
    pub fn new(code: c_int, text: impl Into<String>) -> Failure {
        Failure {
            code,
            text: text.into(),
        }
    }

    pub fn not_activated() -> Failure {
        Failure::new(abi::NOT_ACTIVATED, "This handle hasn't been activated yet")
    }

    pub fn activated() -> Failure {
        Failure::new(
            abi::ACTIVATED,
            "can't perform operation on activated capture",
        )
    }
}

/// A failure with the general code.
impl<T: Into<String>> From<T> for Failure {
    fn from(text: T) -> Failure {
        Failure::new(abi::ERROR, text)
    }
}

/// The sentence for a code, as `pcap_statustostr` returns it.
pub fn status_text(code: c_int) -> Option<&'static CStr> {
    Some(match code {
        1 => c"Generic warning",
        2 => c"That device doesn't support promiscuous mode",
        3 => c"That type of time stamp is not supported by that device",
        -1 => c"Generic error",
        -2 => c"Loop terminated by pcap_breakloop",
        -3 => c"The pcap_t has not been activated",
        -4 => c"The setting can't be changed after the pcap_t is activated",
        -5 => c"No such device exists",
        -6 => c"That device doesn't support monitor mode",
        -7 => c"That operation is supported only in monitor mode",
        -8 => c"You don't have permission to perform this capture on that device",
        -9 => c"That device is not up",
        -10 => c"That device doesn't support setting the time stamp type",
        -11 => c"You don't have permission to capture in promiscuous mode on that device",
        -12 => c"That device doesn't support that time stamp precision",
        _ => return None,
    })
}

/// The failure of a port, with libpcap's code.
pub fn of_port(error: &forebay::Error) -> Failure {
    let text = error.to_string();
    let code = match error.kind() {
        io::ErrorKind::NotFound => abi::NO_SUCH_DEVICE,
        io::ErrorKind::PermissionDenied => abi::PERM_DENIED,
        io::ErrorKind::NetworkDown => abi::IFACE_NOT_UP,
        _ => abi::ERROR,
    };
    Failure::new(code, text)
}
