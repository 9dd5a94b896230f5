//! The limits of what is accepted around a body.

/// Maximum bytes of all heads before a body, including interim ones.
pub const HEAD_LIMIT_BYTES: usize = 64 << 10;

/// Maximum number of fields in a head.
pub const HEAD_LIMIT_FIELDS: usize = 128;

/// Maximum bytes of a line with a chunk's size and its extensions.
pub const LINE_LIMIT_BYTES: usize = 4 << 10;

/// Maximum bytes of all trailers.
pub const TRAILERS_LIMIT_BYTES: usize = 64 << 10;
