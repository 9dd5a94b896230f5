//! `forebay top` of a file: its tables, the details of a flow, and help.

use crate::screens::{SIZES, tmux::Tmux};
use crate::support::*;

#[test]
fn top_fits_the_terminal_and_shows_the_same_after_a_suspension() {
    for (width, height) in SIZES {
        let Some(tmux) = Tmux::new(width, height) else {
            return;
        };
        recorded(tmux.folder(), "a.pcapng", "rate=1M,count=3000");
        tmux.enter("forebay top a.pcapng");
        let table = tmux.draws("top", |it| it.contains("ended") && it.contains("q quit"));

        tmux.press("C-z");
        lacks(tmux.shows("Stopped"), "q quit");
        tmux.enter("clear; fg");
        tmux.waits_for(|it| it == table);

        tmux.press("Enter");
        tmux.draws("top-details", |it| it.contains("Enter back"));
        tmux.press("Enter");
        tmux.waits_for(|it| it == table);
        tmux.press("?");
        tmux.draws("top-help", |it| {
            it.contains("quit") && !it.contains("q quit ")
        });
        tmux.press("q");
        tmux.waits_for(|it| it == table);
        tmux.press("q");
        // The shell has its own screen back.
        lacks(tmux.shows("packets counted"), "q quit");
    }
}
