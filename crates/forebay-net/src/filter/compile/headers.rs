//! Capture headers before the link header. The start of the link header is computed before any test.
//!
//! As in libpcap, the length of the capture header is loaded first, and only if the expression reads bytes of the link. So a
//! packet that ends within this header is then rejected, whatever else the expression tests.

use super::{
    compiler::Compiler,
    test::{Test, step},
};
use crate::filter::{
    bpf::code,
    error::Said,
    link::{CaptureHeader, LinkLayer, Offset},
};

/// The first word of an AVS header, without the version number.
const AVS_MAGIC: u32 = 0x8021_1000;
const AVS_MASK: u32 = 0xffff_f000;
const PRISM_BYTES: u32 = 144;
/// The word of a PPI header that means 802.11, as a big-endian load reads it.
const PPI_IS_802_11: u32 = 105_u32.swap_bytes();

/// Steps that find headers whose offsets differ from packet to packet.
pub(super) struct Starts {
    header: Option<Test>,
    payload: Option<Test>,
    link: LinkLayer,
}

impl Compiler {
    /// Moves the link header after the capture header, and the payload of 802.11 after its header.
    pub(super) fn starts(&mut self) -> Said<Starts> {
        let header = self.capture_header()?;
        let mut starts = Starts {
            header,
            payload: None,
            link: self.layers.link,
        };
        if self.is_wifi() {
            let cell = self.offset_cell()?;
            starts.payload = Some(self.wifi_payload(cell));
            self.reads_link.set(false);
            self.layers.protocol.cell = Some(cell);
            self.layers.payload.cell = Some(cell);
        }
        Ok(starts)
    }

    fn capture_header(&mut self) -> Said<Option<Test>> {
        let Some(header) = self.layers.link.capture_header() else {
            return Ok(None);
        };
        if let CaptureHeader::Fixed(bytes) = header {
            self.layers.header = Offset::at(bytes);
            return Ok(None);
        }
        let cell = self.offset_cell()?;
        self.layers.header.cell = Some(cell);
        let keep = step(code::ST, cell.into());
        let word_at_4 = Test::Do(vec![step(code::LD_ABS, 4), keep]);
        Ok(Some(match header {
            CaptureHeader::Fixed(_) | CaptureHeader::Avs => word_at_4,
            CaptureHeader::Prism => {
                let magic = vec![step(code::LD_ABS, 0)];
                let usual = Test::Do(vec![step(code::LD_IMM, PRISM_BYTES), keep]);
                let is_avs = Test::masked(magic, AVS_MASK, AVS_MAGIC);
                Test::If(Box::new([is_avs, word_at_4, usual]))
            }
            CaptureHeader::Radiotap | CaptureHeader::Ppi => Test::Do(vec![
                step(code::LDB_ABS, 3),
                step(code::LSH_K, 8),
                step(code::TAX, 0),
                step(code::LDB_ABS, 2),
                step(code::OR_K | 0x08, 0), // with X instead of a constant
                keep,
            ]),
        }))
    }

    /// `test`, preceded by the steps that it needs. The payload of a PPI header must be 802.11.
    pub(super) fn after(&self, starts: Starts, test: Test) -> Test {
        let reads_payload = self.reads_payload.get() && starts.payload.is_some();
        let test = match starts.payload {
            Some(payload) if reads_payload => payload.and(test),
            _ => test,
        };
        let test = match starts.header {
            Some(header) if self.reads_link.get() || reads_payload => header.and(test),
            _ => test,
        };
        if starts.link.capture_header() != Some(CaptureHeader::Ppi) {
            return test;
        }
        Test::equal(vec![step(code::LD_ABS, 4)], PPI_IS_802_11).and(test)
    }
}
