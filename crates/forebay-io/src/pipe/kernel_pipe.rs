//! The size of kernel pipes.

use std::os::fd::AsFd;

/// The size of a large kernel pipe, which every user may have.
pub(super) const LARGE: usize = 1 << 20;

/// Whether a kernel pipe already has room for [`LARGE`] bytes.
pub(super) fn is_large(pipe: impl AsFd) -> bool {
    rustix::pipe::fcntl_getpipe_size(pipe).is_ok_and(|size| size >= LARGE)
}

/// Enlarges a kernel pipe, which saves wake-ups. Returns whether it is large now.
///
/// The pipe belongs to other programs as well, and its size is part of a contract: a producer that lends memory with
/// `vmsplice(2)` knows that the memory is free again after it has written as many bytes as the pipe holds. In a larger pipe it
/// would overwrite bytes that are not read yet. Therefore a pipe is enlarged only if its pages are spliced and held in other
/// pipes, which breaks that contract anyway ([`PipeConfig::splice`](super::PipeConfig::splice) documents this). If bytes are copied, no pipe is resized.
pub(super) fn enlarge(pipe: impl AsFd) -> bool {
    is_large(&pipe) || rustix::pipe::fcntl_setpipe_size(&pipe, LARGE).is_ok()
}
