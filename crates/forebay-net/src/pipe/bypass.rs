//! Around the buffer while nothing is in it: from pipe to pipe by `splice(2)`, which hands over pages and copies no byte.
//!
//! ```text
//!   input ══▶ pipe ═══════ splice ══════▶ pipe ══▶ output        the stream is empty: the thread that fills passes bytes on
//!              └─▶ read ─▶ stream ─▶ write ─┘                    the output is full: it reads, and the other thread writes
//! ```
//!
//! **Who may write to the output?** The thread that drains, as long as the stream has content; the thread that fills, while it
//! has none. There is no flag to agree on, since the stream says it. Only the filler puts bytes in, so an empty stream stays
//! empty until it does; the drainer pops bytes only *behind* the write that got rid of them, and that pop is what the filler
//! acquires as it sees the stream empty. So all that was ever put in is written, and the drainer has nothing in hand and
//! sleeps until the next byte. The filler puts that in when its last splice has returned; the drainer acquires it with the
//! byte. So each byte goes behind all that were read before it. Nobody is woken to change over, and nobody waits for it.
//!
//! The bypass only ever says how many bytes it moved. All that goes wrong is left to be met again by those who report it:
//! the reading of the input, and the drainer, which writes to the output and watches whether its reader is there.
//!
//! **Where it is open.** Pages in a pipe belong to nobody else as a rule, so handing them on changes nothing for anyone. Pages of
//! a file do: who writes to the file would change what is under way. And writing to a file may wait, which holds up the
//! reading. So it goes from pipes to a pipe; and only where each byte may go as it comes: no other output, check sum, limit,
//! watermark or block size. The exception to the rule nobody can see from here: pages that the producer lent to the pipe
//! (`vmsplice`), and writes into again once the pipe is empty. For those there is [`Config::splice`].

use super::{Config, Input, Output};
use rustix::{
    io::{Errno, Result},
    pipe::{SpliceFlags, splice},
};
use std::os::fd::{AsFd, OwnedFd};

/// The way around the buffer.
#[derive(Debug)]
pub(super) struct Bypass {
    output: OwnedFd,
}

impl Bypass {
    /// The way to `outputs`, where `config` leaves it open; `None` where there is none.
    pub fn to(outputs: &[Output], config: &Config) -> Option<Bypass> {
        let passes_as_it_comes = config.splice
            && config.block_bytes.is_none()
            && config.start_writing == 0
            && config.read_rate.is_none()
            && config.write_rate.is_none()
            && config.hash.is_none();
        match outputs {
            [output] if passes_as_it_comes && output.is_pipe() => {
                let output = output.as_fd().try_clone_to_owned().ok()?;
                Some(Bypass { output })
            }
            _ => None,
        }
    }

    /// Moves up to `most` bytes, none of which are waited for: `None` where the output takes none now. 0 is the input's end.
    ///
    /// # Errors
    /// As `splice(2)`. It is not told to anyone: see above.
    pub fn pass(&self, input: &Input, most: usize) -> Result<Option<usize>> {
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        match splice(input, None, &self.output, None, most, flags) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(cause) => Err(cause),
        }
    }
}
