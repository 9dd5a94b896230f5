//! Link types whose packets start with a capture header: `link[…]` counts after it, as in tcpdump.

use crate::{Corpus, compiled, corpus::Packet, none_differ, oracle_is_there};
use forebay_testing::dice::Dice;

const EXPRESSIONS: [&str; 9] = [
    "link[0] = 0x80",
    "not link[0] = 0x80",
    "wlan[1] & 3 = 2",
    "ether[0:4] > 0x80000000",
    "less 60 or link[0] = 0x80",
    "link[0] = 0x80 or less 60",
    "link[link[2]:2] != 0",
    "byte 0 = 0x80",
    "greater 1",
];

/// An 802.11 or Ethernet header, after the capture header of each of these link types.
fn packet(dice: &mut Dice, link: u16) -> Packet {
    let extra = dice.one_of(&[0_u8, 0, 8, 30]);
    let little = [0, 0, 8 + extra, 0];
    let mut before = match link {
        127 => [&little[..], &[0; 4]].concat(),
        192 => {
            let inner = dice.one_of(&[105_u32, 105, 105, 1]);
            [&little[..], &inner.to_le_bytes()].concat()
        }
        163 => [[0x80, 0x21, 0x10, 1], [0, 0, 0, 8 + extra]].concat(),
        119 if dice.below(2) == 0 => [[0x80, 0x21, 0x10, 2], [0, 0, 0, 8 + extra]].concat(),
        119 => vec![0x41; 144 - usize::from(extra)],
        _ => dice.bytes(8),
    };
    before.extend(vec![9; extra.into()]);
    before.push(dice.one_of(&[0x80, 0x80, 8, 0x40]));
    let len = dice.one_of(&[0, 1, 5, 30, 80]);
    before.extend(dice.bytes(len));
    // Truncated at every offset, also inside the capture header.
    let cut = dice.one_of(&[2, 4, 7, 9, 400, 400, 400]);
    let wire_len = before.len() as u32;
    before.truncate(cut);
    Packet {
        data: before,
        wire_len,
    }
}

#[test]
fn bytes_of_the_link_are_counted_after_the_header_of_the_capture() {
    if !oracle_is_there() {
        return;
    }
    let mut wrong = Vec::new();
    let mut asked = 0;
    for link in 0..=300 {
        let mut dice = Dice(0x5EED ^ u64::from(link));
        let packets: Vec<_> = (0..200).map(|_| packet(&mut dice, link)).collect();
        let corpus = Corpus::with(link, packets);
        let has_header = matches!(link, 119 | 127 | 163 | 192 | 240 | 241);
        let step = if has_header { 1 } else { EXPRESSIONS.len() };
        for expression in EXPRESSIONS.into_iter().step_by(step) {
            let Ok(expected) = corpus.kept_by_tcpdump(expression) else {
                continue;
            };
            asked += 1;
            match compiled(expression, link) {
                Ok(program) if corpus.kept(&program) == expected => {}
                Ok(program) => wrong.push(format!(
                    "link {link}: {expression}: keeps {}, tcpdump {}",
                    corpus.kept(&program).len(),
                    expected.len()
                )),
                Err(error) => wrong.push(format!("link {link}: {expression}: {error}")),
            }
        }
    }
    none_differ(&wrong);
    assert!(asked > 100, "{asked}");
}
