//! The keys.

use super::width::NARROW;
use ratatui::{Frame, layout::Rect, widgets::Paragraph};

const HELP: &str = "\
Tab, arrows, 1-4    flows, hosts, ports, protocols
r b p  R            sort by rate, bytes, packets; reverse
/  Esc              show only rows with a text; show all
j k, up, down       select a row; the wheel does it, too
PgUp PgDn  g G      a page; the first row, the last row
Enter, then w       details of the row; write the flow to a file
space               hold the screen; counting goes on
Ctrl-L  Ctrl-Z      draw the screen anew; suspend
q, Ctrl-C           quit

A flow is both directions between two endpoints: → is from
the first to the second one. A packet counts for both of
its hosts, and for the lower of its two ports. Sizes are
those on the wire. Rates of rows are averages over 10 s.
Up to 1,024 keys of each table are tracked. A + marks
counts that began when a key entered its table.";

/// For terminals of 40 columns and 10 rows.
const SHORT: &str = "\
Tab 1-4    flows hosts ports protocols
r b p  R   rate bytes packets; reverse
/  Esc     rows with a text; all rows
j k  g G   select; first row, last row
PgUp PgDn  a page
Enter  w   details; flow to a file
space      hold the screen
^L  ^Z     draw anew; suspend
q  ^C      quit";

fn text(width: u16) -> &'static str {
    match width {
        ..NARROW => SHORT,
        _ => HELP,
    }
}

/// Rows that it needs.
pub fn rows(width: u16) -> usize {
    text(width).lines().count()
}

pub fn draw(frame: &mut Frame<'_>, area: Rect) {
    frame.render_widget(Paragraph::new(text(area.width)), area);
}
