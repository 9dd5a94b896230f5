//! Signals reach the session through its control, from a thread that does nothing else.

use anyhow::{Context, Result};
use forebay_net::session::Control;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ},
    iterator::Signals,
};

/// From here on: INT, TERM and HUP stop (twice: give up), USR1 reports, USR2 flushes. XFSZ would
/// kill us at the file size limit; heard, it leaves an error of the write.
pub fn listen(control: &Control) -> Result<()> {
    let mut heard = vec![SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ];
    if !is_ignored(SIGHUP) {
        heard.push(SIGHUP);
    }
    let mut signals = Signals::new(heard).context("cannot listen for signals")?;
    let control = control.clone();
    std::thread::Builder::new()
        .name("forebay-signals".into())
        .spawn(move || {
            for signal in signals.forever() {
                match signal {
                    SIGUSR1 => control.report(),
                    SIGUSR2 => control.flush(),
                    SIGXFSZ => {}
                    _ => control.stop(),
                }
            }
        })
        .context("cannot start a thread for signals")?;
    Ok(())
}

/// Whether we were started to ignore `signal`, as nohup does with HUP.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.unwrap_or(0) >> (signal - 1) & 1 == 1
}
