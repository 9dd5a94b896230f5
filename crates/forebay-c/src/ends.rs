//! What the ends of all objects share: new handles, and time limits.

use crate::{
    border::{Place, limit},
    failure::{Code, Failure, Result},
    handles::{Handle, close, give},
};
use std::{
    ffi::c_int,
    time::{Duration, Instant},
};

/// Stores a new handle.
pub fn give_one<H: Handle>(object: H::Object, place: &Place<*mut H>) -> Result<c_int> {
    let full = || Failure::new(Code::NoMemory, "16 million handles exist");
    place.put(give::<H>(object).ok_or_else(full)?);
    Ok(0)
}

/// Stores two new handles; both, or none.
pub fn give_both<A: Handle, B: Handle>(
    ends: (A::Object, B::Object),
    places: (Place<*mut A>, Place<*mut B>),
) -> Result<c_int> {
    let full = || Failure::new(Code::NoMemory, "16 million handles exist");
    let first = give::<A>(ends.0).ok_or_else(full)?;
    if let Err(failure) = give_one::<B>(ends.1, &places.1) {
        let _ = close(first);
        return Err(failure);
    }
    places.0.put(first);
    Ok(0)
}

/// Takes a handle back.
pub fn destroy<H: Handle>(handle: *const H) -> Result<c_int> {
    close(handle)?;
    Ok(0)
}

/// Tries until it succeeds, or the time is over. An attempt waits for at most the given time, or without a limit.
pub fn patiently<T>(
    timeout_ns: i64,
    mut attempt: impl FnMut(Option<Duration>) -> Result<Option<T>>,
) -> Result<T> {
    // A limit that no clock reaches is none.
    let end = limit(timeout_ns).and_then(|limit| Instant::now().checked_add(limit));
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        if let Some(done) = attempt(left)? {
            return Ok(done);
        }
        if left.is_some_and(|left| left.is_zero()) {
            return Err(Code::TimedOut.into());
        }
    }
}
