//! Standard output and standard error: lines, the display, and text that is safe to show on a terminal.
//!
//! Everything that this command prints passes through here. [`start`] creates threads that print ([`printer`]), so that a
//! terminal or a pipe that nobody reads never holds up a thread that moves data. [`finish`] waits for what is left.

mod escape;
mod meter;
mod notes;
mod printer;
mod progress;
mod reports;
mod terminal;
mod time_left;

pub use escape::{json, plain};
pub use forebay_net::units::counted;
pub use meter::Meter;
pub use notes::{
    answer, causes, error, note, note_wrapped, packets, say_fitted, say_wrapped, some_of, warning,
};
pub use printer::{
    Stream, finish, hide, keep, report, say, settle, show, start, summary, write_whole,
};
pub use progress::{Fields, Layout, Line, percent, wrapped, wrapped_at};
pub use reports::{Form, report_on};
pub use terminal::rows_of_stderr;
pub use time_left::{TimeLeft, clock};
