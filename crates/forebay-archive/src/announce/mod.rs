//! Announcements: one message for each segment, in a stream of NATS JetStream.
//!
//! ```text
//!  ship ──▶ stream NAME, subject NAME.segments ──▶ one durable consumer ──▶ any number of indexers
//!                                                        └─ what cannot be indexed ──▶ stream NAME-failed, subject NAME.failed
//! ```
//! `ship` announces a segment that it has created and verified, so a sensor needs no access to the index. An indexer
//! ([`gather`](crate::gather)) reads the segment, commits its rows and then acknowledges the message. A message can be lost only with
//! the stream, and can be delivered any number of times: its segment is in the store, and rows are added once for each segment.

mod message;
mod queue;

pub use message::Announcement;
pub use queue::{Address, Queue, Taken};
