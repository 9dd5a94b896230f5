//! What the target checks: any text is a filter or an error; a filter's programs are valid, print and
//! parse, and never panic on the bytes after the first zero.

use forebay_net::filter::{Filter, View, bpf::Program};
use forebay_net::port::{Frame, LinkType};

const LINKS: [u16; 16] = [
    0, 1, 9, 12, 101, 104, 105, 108, 113, 119, 127, 163, 192, 228, 229, 276,
];

pub fn check(bytes: &[u8]) {
    let end = bytes.iter().position(|&byte| byte == 0);
    let (text, packet) = bytes.split_at(end.unwrap_or(bytes.len()));
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let filter = match Filter::without_hosts(text) {
        Ok(filter) => filter,
        Err(error) => {
            let span = error.span();
            assert!(span.start <= span.end && span.end <= text.len(), "{error}");
            return;
        }
    };
    for link in LINKS.map(LinkType) {
        for view in [View::Packet, View::Socket, View::Restored] {
            let Ok(program) = filter.compile(link, view, 96) else {
                continue;
            };
            let kept = match view {
                View::Restored => program.run_restored(&Frame::whole(packet), link),
                _ => program.run(packet, packet.len() as u32),
            };
            assert!(kept == 0 || kept == 96);
            let read: Program = program.numbers().to_string().parse().unwrap();
            assert_eq!(read.instructions(), program.instructions());
            assert!(!program.listing().to_string().is_empty());
        }
    }
}
