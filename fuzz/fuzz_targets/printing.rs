//! What the target checks: any bytes are printed without a panic, as lines that control no terminal, and as one JSON object.

use crate::print::{Columns, Dump, Form, Layout, Packet, Printer, Style, Text, Times};
use forebay_net::port::{Direction, LinkType};

const LINKS: [u16; 12] = [1, 1, 1, 0, 9, 101, 108, 113, 228, 276, 50, 147];

/// The first bytes choose the link type, the style and the length on the wire; the packet follows.
pub fn check(bytes: &[u8]) {
    let Some(([link, style, more], data)) = bytes.split_first_chunk::<3>() else {
        return;
    };
    let forms = [
        Form::None,
        Form::None,
        Form::Hex,
        Form::HexAndText,
        Form::Text,
    ];
    let style = Style {
        times: Times::of_letters(more >> 4 & 7).unwrap_or_default(),
        nanoseconds: more & 8 != 0,
        link_header: style & 1 != 0,
        verbose: style >> 1 & 3,
        brief: style & 8 != 0,
        dump: Dump {
            form: forms[usize::from(more & 7) % forms.len()],
            with_link: more & 128 != 0,
        },
        absolute_sequence: style & 16 != 0,
        no_checksums: style & 32 != 0,
        numbers: style & 64 != 0,
        interfaces: style & 128 != 0,
        names: more & 4 != 0,
        colours: false,
    };
    let packet = Packet {
        link: LinkType(LINKS[usize::from(*link) % LINKS.len()]),
        interface: "e\u{1b}th",
        direction: Direction::Unknown,
        time_ns: 1,
        data,
        captured: data.len() as u32,
        wire_len: data.len() as u32 + u32::from(link >> 4) * 100,
    };
    let mut text = Text::default();
    let mut printer = Printer::new(style);
    for _ in 0..2 {
        printer.line(&packet, &mut text);
    }
    let shown = text.bytes();
    assert_eq!(shown.last(), Some(&b'\n'));
    let is_safe = |byte: &u8| matches!(byte, b'\t' | b'\n' | b' '..=b'~');
    assert!(shown.iter().all(is_safe), "{}", shown.escape_ascii());
    let mut object = Text::default();
    let escape = serde_json::Value::to_string;
    Layout::JsonLines.print(&mut printer, &packet, escape, &mut object);
    let object: serde_json::Value = serde_json::from_slice(object.bytes()).unwrap();
    assert_eq!(object["captured"], data.len());
    let mut row = Text::default();
    let columns = Columns::new(&["info".into(), "interface".into()], false).unwrap();
    Layout::Rows(columns).print(&mut printer, &packet, escape, &mut row);
    let is_one_row = row.bytes().iter().filter(|&&byte| byte == b'\n').count() == 1;
    assert!(is_one_row && row.bytes().iter().all(is_safe));
}
