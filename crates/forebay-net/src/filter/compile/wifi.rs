//! 802.11: the frame control, up to four addresses, and a payload of 802.2 that only data frames have.

use super::{
    compiler::Compiler,
    load::{Base, Size},
    test::{Test, step},
};
use crate::filter::{
    ast::{Station, Wifi},
    bpf::code,
    error::Said,
    link::{CaptureHeader, LinkLayer},
};

/// Bits of the first byte of the frame control.
const CONTROL: u32 = 0x04;
const DATA: u32 = 0x08;
const TYPE: u32 = 0x0C;
const SUBTYPE: u32 = 0xF0;
const QOS: u32 = 0x80;
/// Bits of its second byte.
const TO_DS: u32 = 0x01;
const FROM_DS: u32 = 0x02;
const CTS: u32 = 0xC0;
const ACK: u32 = 0xD0;
/// The header of a data frame; four addresses make it longer, but libpcap does not look at that.
const HEADER_BYTES: u32 = 24;

/// The offsets of the four addresses.
const ADDRESSES: [u32; 4] = [4, 10, 16, 24];

impl Compiler {
    pub(super) fn is_wifi(&self) -> bool {
        matches!(self.layers.link, LinkLayer::Wifi(_))
    }

    pub(super) fn wifi(&mut self, test: &Wifi) -> Said<Test> {
        if !self.is_wifi() {
            let name = self.layers.link.name();
            return Err(format!("this needs 802.11, and this is link type {name}"));
        }
        Ok(match test {
            Wifi::Control(byte, value, mask) => {
                Test::masked(self.load(Base::Link, *byte, Size::Byte), *mask, *value)
            }
            Wifi::Address(station, address) => self.station(*station, *address),
        })
    }

    fn station(&self, station: Station, address: [u8; 6]) -> Test {
        let [first, second, third, fourth] = ADDRESSES.map(|at| self.address_is(at, address));
        let is_control = self.control_is(TYPE, CONTROL);
        let has_second = is_control
            .clone()
            .and(
                self.control_is(SUBTYPE, CTS)
                    .or(self.control_is(SUBTYPE, ACK)),
            )
            .not();
        match station {
            Station::Addr1 => first,
            Station::Addr2 => has_second.and(second),
            Station::Addr3 => is_control.not().and(third),
            Station::Addr4 => {
                let both = self.load(Base::Link, 1, Size::Byte);
                Test::masked(both, TO_DS | FROM_DS, TO_DS | FROM_DS).and(fourth)
            }
            Station::Receiver => self.has(0, DATA).and(first),
            Station::Transmitter => self.has(0, DATA).and(has_second).and(second),
        }
    }

    /// The address of the station that sent the frame, or of the one that gets it, beyond any access point. Control frames have none.
    pub(super) fn wifi_end(&self, is_source: bool, test: impl Fn(u32) -> Test) -> Test {
        let [first, second, third, fourth] = ADDRESSES;
        let is_data = self.has(0, DATA);
        let of_data_or_management = match is_source {
            true => {
                let relayed = Test::If(Box::new([self.has(1, TO_DS), test(fourth), test(third)]));
                [is_data.and(self.has(1, FROM_DS)), relayed, test(second)]
            }
            false => [is_data.and(self.has(1, TO_DS)), test(third), test(first)],
        };
        let not_control = self.has(0, CONTROL).not();
        not_control.and(Test::If(Box::new(of_data_or_management)))
    }

    pub(super) fn is_wifi_data(&self) -> Test {
        self.control_is(TYPE, DATA)
    }

    /// Steps that store in a cell where the payload starts.
    pub(super) fn wifi_payload(&self, cell: u8) -> Test {
        let header = self.layers.header;
        let begin = Test::Do(vec![
            match header.cell {
                Some(cell) => step(code::LD_MEM, cell.into()),
                None => step(code::LD_IMM, header.bytes),
            },
            step(code::ADD_K, HEADER_BYTES),
            step(code::ST, cell.into()),
        ]);
        let longer = Test::Do(vec![
            step(code::LD_MEM, cell.into()),
            step(code::ADD_K, 2),
            step(code::ST, cell.into()),
        ]);
        let mut data = Test::If(Box::new([self.has(0, QOS), longer, Test::Always(true)]));
        if self.layers.link.capture_header() == Some(CaptureHeader::Radiotap) {
            data = data.and(padding(cell));
        }
        let steps = Test::If(Box::new([self.is_wifi_data(), data, Test::Always(true)]));
        begin.and(steps)
    }

    /// Whether a byte of the frame control has one of these bits.
    fn has(&self, byte: u32, bits: u32) -> Test {
        Test::Value(self.load(Base::Link, byte, Size::Byte), code::JSET_K, bits)
    }

    fn control_is(&self, mask: u32, value: u32) -> Test {
        Test::masked(self.load(Base::Link, 0, Size::Byte), mask, value)
    }
}

/// Cards of Atheros pad the header to whole words, if a flag of radiotap says so. The fields of radiotap are little-endian. As in
/// libpcap, only the first word of present fields is known.
fn padding(cell: u8) -> Test {
    let present = |bit: u32| {
        let fields = vec![step(code::LD_ABS, 4)];
        Test::Value(fields, code::JSET_K, bit.swap_bytes())
    };
    let is_padded = |at| Test::Value(vec![step(code::LDB_ABS, at)], code::JSET_K, 0x20);
    let (flags, extended, timer) = (present(2), present(1 << 31), present(1));
    let is_padded = Test::If(Box::new([timer, is_padded(16), is_padded(8)]));
    let padded = Test::Do(vec![
        step(code::LD_MEM, cell.into()),
        step(code::ADD_K, 3),
        step(code::AND_K, !3),
        step(code::ST, cell.into()),
    ]);
    let is_padded = flags.and(extended.not()).and(is_padded);
    Test::If(Box::new([is_padded, padded, Test::Always(true)]))
}
