//! A decoder of the chunked transfer coding that accepts input cut at any byte.
//!
//! Pure. Lines must end with CR LF; extensions and trailers are skipped.
//!
//! ```text
//!   1a;ext=1 CR LF   26 bytes   CR LF   0 CR LF   Trailer: x CR LF   CR LF
//!   └─ framing ────┘ └ data ──┘ └─ framing ─────────────────────────────┘ done
//! ```

use super::{
    Fault,
    limits::{LINE_LIMIT_BYTES, TRAILERS_LIMIT_BYTES},
};

/// The position of the next byte in the coding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Before the first digit of a size.
    #[default]
    SizeBegin,
    Size,
    /// Blanks after the size.
    Blanks,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// At the start of a trailer, or of the empty line.
    LineBegin,
    Trailer,
    TrailerLf,
    LastLf,
    Done,
}

/// A decoder at some position in a chunked body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunked {
    state: State,
    /// Remaining bytes of the chunk.
    left: u64,
    /// Bytes of this size line, or of all trailers.
    line_bytes: usize,
}

impl Chunked {
    /// Skips everything that is not data and returns the number of bytes skipped. Stops before data, at the end of the body, and
    /// at the end of `input`.
    ///
    /// # Errors
    /// The coding is invalid, or its lines are too long.
    pub fn framing(&mut self, input: &[u8]) -> Result<usize, Fault> {
        for (at, &byte) in input.iter().enumerate() {
            if matches!(self.state, State::Data | State::Done) {
                return Ok(at);
            }
            self.state = self.step(byte)?;
        }
        Ok(input.len())
    }

    /// The number of data bytes that come next; 0 if other bytes come next.
    pub fn left(&self) -> u64 {
        match self.state {
            State::Data => self.left,
            _ => 0,
        }
    }

    /// Records that `n` bytes of data were taken, at most [`left`](Self::left).
    pub fn took(&mut self, n: u64) {
        self.left -= n;
        if self.left == 0 {
            self.state = State::DataCr;
        }
    }

    /// Whether the last chunk and the trailers have been read.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    fn step(&mut self, byte: u8) -> Result<State, Fault> {
        use State::*;
        match self.state {
            SizeBegin | Size | Blanks | Extension | SizeLf => {
                self.count_line(LINE_LIMIT_BYTES, Fault::ChunkLineTooLong)?;
            }
            LineBegin | Trailer | TrailerLf => {
                self.count_line(TRAILERS_LIMIT_BYTES, Fault::TrailersTooLong)?;
            }
            _ => {}
        }
        Ok(match (self.state, byte) {
            (SizeBegin | Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                self.add_digit(byte)?;
                Size
            }
            (Size | Blanks, b' ' | b'\t') => Blanks,
            (Size | Blanks, b';') => Extension,
            (Size | Blanks | Extension, b'\r') => SizeLf,
            (Extension, b'\t' | b' '..=b'~' | 0x80..) => Extension,
            (SizeLf, b'\n') => {
                self.line_bytes = 0;
                if self.left > 0 { Data } else { LineBegin }
            }
            (SizeBegin | Size | Blanks | Extension | SizeLf, _) => return Err(Fault::BadChunkSize),
            (DataCr, b'\r') => DataLf,
            (DataLf, b'\n') => SizeBegin,
            (DataCr | DataLf, _) => return Err(Fault::BadChunkEnd),
            (LineBegin, b'\r') => LastLf,
            (Trailer, b'\r') => TrailerLf,
            (LineBegin | Trailer, b'\t' | b' '..=b'~' | 0x80..) => Trailer,
            (TrailerLf, b'\n') => LineBegin,
            (LastLf, b'\n') => Done,
            (LineBegin | Trailer | TrailerLf | LastLf, _) => return Err(Fault::BadTrailer),
            (Data | Done, _) => self.state,
        })
    }

    fn count_line(&mut self, limit: usize, fault: Fault) -> Result<(), Fault> {
        self.line_bytes += 1;
        if self.line_bytes > limit {
            return Err(fault);
        }
        Ok(())
    }

    fn add_digit(&mut self, byte: u8) -> Result<(), Fault> {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            _ => (byte | 0x20) - b'a' + 10,
        };
        let larger = self.left.checked_mul(16).ok_or(Fault::BadChunkSize)?;
        // A multiple of 16 has room for a digit.
        self.left = larger + u64::from(digit);
        Ok(())
    }
}
