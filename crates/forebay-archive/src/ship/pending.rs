//! A file that is partly shipped: it is packed, or its segment is in the archive.

use crate::segment::Packed;
use std::fs::File;

/// A file that is being shipped.
pub(super) struct Pending {
    /// The version of the file.
    pub(super) mark: String,
    pub(super) packed: Packed,
    /// The packed copy. `None`: the segment is in the archive, and was read back.
    pub(super) scratch: Option<File>,
    /// This run has created the segment.
    pub(super) is_new: bool,
}
