//! The wire: ports, capture formats, and the capture session.

pub mod af_packet;
pub mod format;
pub mod ledger;
pub mod link;
pub mod open;
pub mod port;
pub mod session;
pub mod sim;
mod sys;
pub mod units;
