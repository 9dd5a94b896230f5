//! Signals reach the session through its control, from a thread that does nothing else.

use anyhow::{Context, Result};
use forebay_net::session::Control;
use signal_hook::{
    consts::{SIGINT, SIGTERM, SIGUSR1, SIGUSR2},
    iterator::Signals,
};

/// From here on: INT and TERM stop (twice: give up), USR1 reports, USR2 flushes.
pub fn listen(control: &Control) -> Result<()> {
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGUSR1, SIGUSR2]).context("cannot listen for signals")?;
    let control = control.clone();
    std::thread::Builder::new()
        .name("forebay-signals".into())
        .spawn(move || {
            for signal in signals.forever() {
                match signal {
                    SIGUSR1 => control.report(),
                    SIGUSR2 => control.flush(),
                    _ => control.stop(),
                }
            }
        })
        .context("cannot start a thread for signals")?;
    Ok(())
}
