//! Helpers of the tests: random numbers, folders, children that do not outlive a test, network namespaces, frames, an
//! independent reader of capture files, captures made by other programs, and a limit for calls that may never return.

pub mod blocks;
pub mod children;
pub mod dice;
pub mod folder;
pub mod foreign;
pub mod found;
pub mod lab;
pub mod limit;
pub mod replay;
pub mod sender;
