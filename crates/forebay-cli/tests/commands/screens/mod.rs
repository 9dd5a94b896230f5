//! Screens as users see them, on a terminal of tmux. Whole screens are compared with `screens/screens`; numbers that differ each
//! time are masked.
//!
//! `FOREBAY_WRITE_SCREENS=1 cargo test -p forebay-cli --test commands screens::` writes these files anew.

mod flow_files;
mod lines;
mod suspension;
mod tmux;
mod top;

const SIZES: [(u16, u16); 2] = [(80, 24), (40, 10)];
