//! The answer to a value that a descriptor has no bits for: which, and what would fit. It imports the error only.

use crate::Error;
use std::fmt;

/// A value that does not fit its field. Nothing was cut: nothing was stored.
///
/// ```
/// use forebay::packet::{Desc, Facts};
/// let unfit = Desc::new(&Facts { len: 1 << 20, ..Facts::default() }).unwrap_err();
/// assert_eq!(unfit.to_string(), "length 1048576 does not fit a descriptor of 16 bytes: at most 1048575");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// What it was to be stored in, such as `a descriptor of 16 bytes`.
    pub target: &'static str,
    /// The field, such as `length`.
    pub field: &'static str,
    /// The value that was given.
    pub value: u64,
    /// What the field can hold.
    pub bound: Bound,
}

/// What a field can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Values from 0 to this one.
    AtMost(u64),
    /// Multiples of this.
    MultipleOf(u64),
}

impl Unfit {
    /// Checks `value` against the bits there are for it.
    #[inline(always)]
    pub(super) fn check_bits(
        target: &'static str,
        field: &'static str,
        value: u64,
        bits: u32,
    ) -> Result<(), Unfit> {
        let most = u64::MAX >> (64 - bits);
        if value > most {
            return Err(Unfit {
                target,
                field,
                value,
                bound: Bound::AtMost(most),
            });
        }
        Ok(())
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unfit {
            target,
            field,
            value,
            bound,
        } = self;
        match bound {
            Bound::AtMost(most) => {
                write!(f, "{field} {value} does not fit {target}: at most {most}")
            }
            Bound::MultipleOf(unit) => {
                write!(
                    f,
                    "{field} {value} does not fit {target}: only multiples of {unit}"
                )
            }
        }
    }
}

impl std::error::Error for Unfit {}

impl From<Unfit> for Error {
    fn from(unfit: Unfit) -> Error {
        let advice = match unfit.field {
            "address" => {
                "Use another layout, or map the memory lower (without a hint above 47 bits)"
            }
            "length" => "Use a layout with more bits for lengths, or cut the packet",
            _ => "Use a layout with more bits for it",
        };
        Error::new("packet descriptor", unfit.to_string()).advise(advice)
    }
}
