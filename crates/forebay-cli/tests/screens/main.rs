//! Screens as users see them, on a terminal of tmux.

mod flow_files;
#[path = "../support/mod.rs"]
mod support;
mod suspension;
mod tmux;
