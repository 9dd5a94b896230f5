//! Code shared by the tests.

pub mod children;
pub mod dice;
