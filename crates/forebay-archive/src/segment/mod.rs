//! Segments: finished capture files, packed so that parts of them can be read alone.
//!
//! ```text
//!  zstd   │ block │ block │ … │ directory (skippable frame) │ seek table (skippable frame) │
//!  plain  │ block │ block │ … │ directory (a pcapng block that readers skip)               │
//! ```
//! A block has the records up to the first one that reaches [`BLOCK_BYTES`]. In a packed segment it is one zstd frame; the
//! seek table is that of the "zstd seekable format", and `zstd -d` returns the file as the capture wrote it. The directory
//! ([`Directory`]) holds what decoding a block alone needs: the sections and interfaces that precede it.
//!
//! The key of a segment contains the SHA-256 of the capture file, so the same file always has the same key.

mod directory;
mod key;
mod pack;
mod read;
mod salvage;
mod tail;

pub(crate) use directory::hex;
pub use directory::{Block, Directory};
pub use key::{FOLDER, date_and_hour, identity, is_sensor_name, key, keys, parse_key};
pub(crate) use key::{is_of_key, is_sha256};
pub use pack::{BLOCK_BYTES, Pack, Packed, pack};
pub use read::{decoder, next_record, unpack};
pub use salvage::Salvage;
pub use tail::{Tail, read_tail};
