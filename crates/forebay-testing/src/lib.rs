//! Helpers of the tests: random numbers, folders, children that do not outlive a test, network namespaces, frames, and an
//! independent reader of capture files.

pub mod blocks;
pub mod children;
pub mod dice;
pub mod folder;
pub mod found;
pub mod lab;
pub mod replay;
pub mod sender;
