//! What the ends of all objects share: how they are given to the program and taken back.

use crate::{
    border::Place,
    failure::{Failure, Result},
    handles::{Handle, close, give, take},
};
use forebay::error::Code;
use std::convert::Infallible;

/// Stores a new handle.
pub fn give_one<H: Handle>(object: H::Object, place: &Place<*mut H>) -> Result<()> {
    let full = || Failure::new(Code::NoMemory, "16 million handles exist");
    place.put(give::<H>(object).ok_or_else(full)?);
    Ok(())
}

/// Stores two new handles; both, or none.
pub fn give_both<A: Handle, B: Handle>(
    ends: (A::Object, B::Object),
    places: (Place<*mut A>, Place<*mut B>),
) -> Result<()> {
    let full = || Failure::new(Code::NoMemory, "16 million handles exist");
    let first = give::<A>(ends.0).ok_or_else(full)?;
    if let Err(failure) = give_one::<B>(ends.1, &places.1) {
        let _ = close(first);
        return Err(failure);
    }
    places.0.put(first);
    Ok(())
}

/// Takes a handle back.
pub fn destroy<H: Handle>(handle: *const H) -> Result<()> {
    Ok(close(handle)?)
}

/// Takes a handle back, and returns its object. `FOREBAY_BUSY`: another call is inside, and nothing has happened.
pub fn take_back<H: Handle>(handle: *const H) -> Result<H::Object> {
    let Ok(object) = take(handle, Ok::<_, (_, Infallible)>)?;
    Ok(object)
}
