//! What the tests share.

pub mod children;
pub mod dice;
