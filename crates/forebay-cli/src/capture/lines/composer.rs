//! Composes the lines of packets.

use crate::{
    output,
    print::{Layout, Packet, Printer, Text},
};

/// A printer, and the lines that it has printed since they were last taken.
pub struct Composer {
    printer: Printer,
    layout: Layout,
    pub text: Text,
    /// Packets whose lines are in `text`.
    pub packets: u64,
}

impl Composer {
    pub fn new(printer: Printer, layout: Layout) -> Composer {
        let mut text = Text::default();
        layout.head(&mut text);
        Composer {
            printer,
            layout,
            text,
            packets: 0,
        }
    }

    pub fn print(&mut self, packet: &Packet<'_>) {
        let (printer, text) = (&mut self.printer, &mut self.text);
        self.layout.print(printer, packet, output::json, text);
        self.packets += 1;
    }
}
