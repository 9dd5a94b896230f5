//! Signals are handled by a thread that does nothing else.

use anyhow::{Context, Result};
use signal_hook::{
    consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGXFSZ},
    iterator::Signals,
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
};

/// How often a stop was requested. Relaxed: it publishes nothing but itself.
static STOPS: AtomicU32 = AtomicU32::new(0);

/// The meaning of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// INT, TERM, and HUP without another meaning: finish; the second time, stop now.
    Stop,
    /// USR1: print the counts.
    Report,
    /// USR1, instead of the counts: trigger the recorder.
    Trigger,
    /// USR2: flush.
    Flush,
    /// HUP: start the next file.
    Rotate,
    /// TSTP: restore the terminal, and stop the process.
    Suspend,
    /// CONT: the process was stopped, and runs again.
    Resume,
}

/// Turns the file size limit into an error of the write, instead of a signal that ends the process. The limit also holds for
/// buffers in memory, which are files to the kernel.
///
/// # Errors
/// The system rejects the request.
pub fn survive_the_file_size_limit() -> Result<()> {
    let heard = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
    heard.map(drop).context("cannot listen for signals")
}

/// From here on, `act` is called when a stop, or one of the other `wanted` actions, is requested. Other signals are unchanged.
///
/// # Errors
/// The system has no more threads or descriptors.
pub fn listen(wanted: &[Asked], act: impl Fn(Asked) + Send + 'static) -> Result<()> {
    let mut heard = vec![SIGINT, SIGTERM];
    let usr1 = [Asked::Trigger, Asked::Report];
    let usr1 = usr1.into_iter().find(|asked| wanted.contains(asked));
    heard.extend(usr1.map(|_| SIGUSR1));
    heard.extend(wanted.contains(&Asked::Flush).then_some(SIGUSR2));
    let suspends = wanted.contains(&Asked::Suspend) && !is_ignored(SIGTSTP);
    heard.extend(suspends.then_some(SIGTSTP));
    heard.extend(wanted.contains(&Asked::Resume).then_some(SIGCONT));
    // A HUP that only means the next file is handled under nohup, too.
    let rotates = wanted.contains(&Asked::Rotate);
    if rotates || !is_ignored(SIGHUP) {
        heard.push(SIGHUP);
    }
    let mut signals = Signals::new(heard).context("cannot listen for signals")?;
    std::thread::Builder::new()
        .name("forebay-signals".into())
        .spawn(move || {
            for signal in signals.forever() {
                match signal {
                    SIGUSR1 => usr1.into_iter().for_each(&act),
                    SIGUSR2 => act(Asked::Flush),
                    SIGTSTP => act(Asked::Suspend),
                    SIGCONT => act(Asked::Resume),
                    SIGHUP if rotates => act(Asked::Rotate),
                    _ => {
                        STOPS.fetch_add(1, Relaxed);
                        act(Asked::Stop);
                    }
                }
            }
        })
        .context("cannot start a thread for signals")?;
    Ok(())
}

/// How often INT, TERM or HUP requested a stop.
pub fn stops() -> u32 {
    STOPS.load(Relaxed)
}

/// Whether the parent made this process ignore `signal`, as nohup does with HUP.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.unwrap_or(0) >> (signal - 1) & 1 == 1
}
