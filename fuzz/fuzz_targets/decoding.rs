//! What both targets check: no panic, frames that keep their promises, and the same answer whether
//! the decoder sees everything at once, only as much as it asked for, or one byte more at a time.

use forebay_net::format::read::{Decoder, Step, Zeros};

/// A frame's place, lengths, time, interface, direction and drops.
type Seen = (usize, usize, u32, u64, u32, u8, u64);

/// Decodes `bytes`. The decoder first sees `shown` of them, and `more` further each time it asks.
fn decode(bytes: &[u8], shown: usize, more: usize) -> (Vec<Seen>, Result<usize, String>) {
    let mut seen = Vec::new();
    let mut decoder = match Decoder::begin(bytes) {
        Ok(Some(decoder)) => decoder,
        Ok(None) => return (seen, Ok(0)),
        Err(fault) => return (seen, Err(fault.describe(0, 0))),
    };
    let (mut at, mut end) = (0, shown.min(bytes.len()));
    loop {
        let quick = decoder.packet(&bytes[at..end]);
        let step = match decoder.next(&bytes[at..end]) {
            Ok(step) => step,
            Err(fault) => return (seen, Err(fault.describe(at as u64, 0))),
        };
        match step {
            Step::Packet(frame, len) => {
                assert!(frame.wire_len as usize >= frame.data.len());
                assert!((frame.interface as usize) < decoder.interfaces().len());
                assert!(len <= end - at && len > 0 && frame.data.len() <= len);
                assert!(quick.is_none_or(|quick| quick == (frame, len)));
                let drops = frame.dropped_before;
                let lens = (frame.data.len(), frame.wire_len);
                let direction = frame.direction as u8;
                seen.push((
                    at,
                    lens.0,
                    lens.1,
                    frame.time_ns,
                    frame.interface,
                    direction,
                    drops,
                ));
                let is_empty = lens.0 == 0;
                at += len;
                if is_empty {
                    decoder.took_empty();
                }
            }
            Step::Other(len) | Step::Described(len) => {
                assert!(quick.is_none() && len <= end - at && len > 0);
                at += len;
            }
            Step::Zeros => match decoder.classify_zeros(&bytes[at..end], end == bytes.len()) {
                Zeros::Packets => {}
                Zeros::End => return (seen, Ok(at)),
                Zeros::More(needed) => {
                    assert!(quick.is_none() && needed > end - at);
                    let asked = if more == 0 { at + needed } else { end + more };
                    end = asked.min(bytes.len());
                }
            },
            Step::More(needed) => {
                assert!(quick.is_none() && needed > end - at && needed <= 16 << 20 | 64);
                if end == bytes.len() {
                    return (seen, Ok(at));
                }
                let asked = if more == 0 { at + needed } else { end + more };
                end = asked.min(bytes.len());
            }
        }
        assert_eq!(decoder.recorded().len(), decoder.interfaces().len());
    }
}

pub fn check(bytes: &[u8]) {
    let whole = decode(bytes, bytes.len(), 0);
    assert_eq!(decode(bytes, 0, 0), whole, "as much as it asks for");
    if bytes.len() < 2000 {
        assert_eq!(decode(bytes, 0, 1), whole, "byte by byte");
    }
}
