//! Ctrl-Z and `fg`.

use crate::screens::tmux::Tmux;
use crate::support::*;

#[test]
fn a_whole_pipeline_is_suspended_and_goes_on() {
    let Some(tmux) = Tmux::new(80, 24) else {
        return;
    };
    tmux.enter("forebay capture -i sim:rate=1M -q -w - | forebay top -r -");
    for _ in 0..2 {
        tmux.shows("q quit");
        tmux.press("C-z");
        let shell = tmux.shows("Stopped");
        lacks(&shell, "q quit");
        tmux.enter("clear; jobs");
        tmux.waits_for(|screen| screen.starts_with("[1]+  Stopped"));
        tmux.enter("clear; fg");
    }
    tmux.shows("q quit");
    tmux.press("q");
    tmux.shows("packets counted");
}
