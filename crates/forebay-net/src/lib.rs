//! The wire: ports, capture formats, and the capture session.

pub mod format;
pub mod ledger;
pub mod open;
pub mod port;
pub mod session;
pub mod sim;
pub mod units;
