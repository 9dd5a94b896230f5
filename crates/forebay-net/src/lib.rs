//! The wire: ports, capture formats, and the capture session.

pub mod af_packet;
pub mod link;
pub mod port;
mod sys;
