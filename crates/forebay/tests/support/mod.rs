//! What the tests share.

pub mod dice;
