//! The exported functions. A file has one kind of object, in the order of `forebay.h`.

mod queue;
mod ring;
mod status;
mod stream;

pub use queue::*;
pub use ring::*;
pub use status::*;
pub use stream::*;
