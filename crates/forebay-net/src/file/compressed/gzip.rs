//! gzip, decompressed by `flate2`.

use super::decompressor::{Decompressor, Failed, Progress};
use flate2::{Decompress, FlushDecompress, Status};

/// The largest window of the format, as a power of two.
const WINDOW_BITS: u8 = 15;

pub(super) struct Gzip(Decompress);

impl Gzip {
    pub fn new() -> Self {
        Gzip(Decompress::new_gzip(WINDOW_BITS))
    }
}

impl Decompressor for Gzip {
    fn name(&self) -> &'static str {
        "gzip"
    }

    fn step(
        &mut self,
        input: &[u8],
        output: &mut [u8],
        offset: u64,
        is_inside: bool,
    ) -> Result<Progress, Failed> {
        let is_later_member = !is_inside && offset > 0;
        if is_later_member {
            // Tapes and block devices pad with zeros.
            let zeros = input.iter().take_while(|&&byte| byte == 0).count();
            if zeros > 0 {
                return Ok(Progress {
                    read: zeros,
                    written: 0,
                    is_inside,
                });
            }
            *self = Gzip::new();
        }
        let (read, written) = (self.0.total_in(), self.0.total_out());
        match self.0.decompress(input, output, FlushDecompress::None) {
            Ok(status) => Ok(Progress {
                read: (self.0.total_in() - read) as usize,
                written: (self.0.total_out() - written) as usize,
                is_inside: status != Status::StreamEnd,
            }),
            Err(_) if is_later_member => {
                Err(Failed::at("gzip", "is followed by something else", offset))
            }
            Err(_) => Err(Failed::at("gzip", "is damaged", offset)),
        }
    }
}
