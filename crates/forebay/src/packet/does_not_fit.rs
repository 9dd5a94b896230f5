//! The error for a value that does not fit into a descriptor's field: the value, and the largest one that fits.

use crate::{Error, error::Code};
use std::fmt;

/// A value that does not fit its field of a [`Desc`](super::Desc). Nothing was stored.
///
/// ```
/// use forebay::packet::{Desc, Facts};
/// let error = Desc::new(&Facts { len: 1 << 20, ..Facts::default() }).unwrap_err();
/// assert_eq!(error.to_string(), "length 1048576 does not fit a descriptor: at most 1048575");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DoesNotFit {
    /// The field, such as `length`.
    pub field: &'static str,
    /// The value that was given.
    pub value: u64,
    /// The largest value of the field.
    pub max: u64,
}

impl DoesNotFit {
    /// Checks `value` against the bits that it may use: 1 to 63.
    #[inline(always)]
    pub(super) fn check_bits(field: &'static str, value: u64, bits: u32) -> Result<(), DoesNotFit> {
        let max = (1 << bits) - 1;
        if value > max {
            return Err(DoesNotFit { field, value, max });
        }
        Ok(())
    }
}

impl fmt::Display for DoesNotFit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DoesNotFit { field, value, max } = self;
        write!(
            f,
            "{field} {value} does not fit a descriptor: at most {max}"
        )
    }
}

impl std::error::Error for DoesNotFit {}

impl DoesNotFit {
    /// Its number: see [`Code`].
    pub fn code(&self) -> Code {
        Code::TooLong
    }
}

impl From<DoesNotFit> for Error {
    fn from(error: DoesNotFit) -> Error {
        let advice = match error.field {
            "length" => "Cut the packet",
            _ => "Make the pool of fewer slots",
        };
        Error::coded(error.code(), "packet descriptor", error.to_string()).advise(advice)
    }
}
