//! Screens as users see them, on a terminal of tmux.

#[path = "../support/mod.rs"]
mod support;
mod suspension;
mod tmux;
