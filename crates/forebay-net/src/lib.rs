//! The wire: ports, capture formats, and the capture session.

pub mod port;
