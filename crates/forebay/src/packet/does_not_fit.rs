//! The error for a value that does not fit into a descriptor's field: which value, and what would fit.

use crate::Error;
use std::fmt;

/// A value that does not fit its field. Nothing was stored.
///
/// ```
/// use forebay::packet::{Desc, Facts};
/// let unfit = Desc::new(&Facts { len: 1 << 20, ..Facts::default() }).unwrap_err();
/// assert_eq!(unfit.to_string(), "length 1048576 does not fit a descriptor of 16 bytes: at most 1048575");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoesNotFit {
    /// The target, such as `a descriptor of 16 bytes`.
    pub target: &'static str,
    /// The field, such as `length`.
    pub field: &'static str,
    /// The value that was given.
    pub value: u64,
    /// What the field can hold.
    pub bound: Bound,
}

/// The range of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Values from 0 to this one.
    AtMost(u64),
    /// Values from this one upwards.
    AtLeast(u64),
    /// This value only.
    Only(u64),
    /// Multiples of this.
    MultipleOf(u64),
    /// Data in one slot, not a chain.
    OneSlot,
}

impl DoesNotFit {
    /// Checks `value` against the bits that it may use.
    #[inline(always)]
    pub(super) fn check_bits(
        target: &'static str,
        field: &'static str,
        value: u64,
        bits: u32,
    ) -> Result<(), DoesNotFit> {
        // A layout may have no bits for it at all.
        let most = u64::MAX.checked_shr(64 - bits).unwrap_or(0);
        if value > most {
            return Err(DoesNotFit {
                target,
                field,
                value,
                bound: Bound::AtMost(most),
            });
        }
        Ok(())
    }
}

impl fmt::Display for DoesNotFit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DoesNotFit {
            target,
            field,
            value,
            bound,
        } = self;
        write!(f, "{field} {value} does not fit {target}: ")?;
        match bound {
            Bound::AtMost(most) => write!(f, "at most {most}"),
            Bound::AtLeast(least) => write!(f, "at least {least}"),
            Bound::Only(only) => write!(f, "only {only}"),
            Bound::MultipleOf(unit) => write!(f, "only multiples of {unit}"),
            Bound::OneSlot => f.write_str("only data in one slot, and this is a chain"),
        }
    }
}

impl std::error::Error for DoesNotFit {}

impl From<DoesNotFit> for Error {
    fn from(unfit: DoesNotFit) -> Error {
        let advice = match (unfit.field, unfit.bound) {
            (_, Bound::OneSlot) => "Copy the packet into one slot of a pool with larger ones",
            ("address", Bound::MultipleOf(_)) => {
                "Use another layout, or have slots and data begin at such a multiple"
            }
            ("address", _) => {
                "Use another layout, or map the memory lower (without a hint above 47 bits)"
            }
            ("length", _) => "Use a layout with more bits for lengths, or cut the packet",
            ("flags", _) => "Clear all flags but VALID, FLAG2 and FLAG3 first",
            ("headroom", _) => "Let the packet's data begin in its slot",
            ("pool", _) => "Use the `Payloads` of the pool that the packet is of",
            _ => "Use a layout with more bits for it",
        };
        Error::new("packet descriptor", unfit.to_string()).advise(advice)
    }
}
