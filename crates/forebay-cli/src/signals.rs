//! Signals reach whoever runs through a thread that does nothing else.

use anyhow::{Context, Result};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ},
    iterator::Signals,
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
};

/// How often we were asked to stop. Relaxed: it publishes nothing but itself.
static STOPS: AtomicU32 = AtomicU32::new(0);

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// INT, TERM, and HUP if it means nothing else: come to an end; the second time: now.
    Stop,
    /// USR1: tell the counts.
    Report,
    /// USR2: hand over what is buffered.
    Flush,
    /// HUP: go on to the next file.
    Rotate,
}

/// The file size limit becomes an error of the write, where it would kill us otherwise. It holds for buffers, too: they are
/// files to the kernel.
///
/// # Errors
/// The system refuses.
pub fn survive_the_file_size_limit() -> Result<()> {
    let heard = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
    heard.map(drop).context("cannot listen for signals")
}

/// From here on `act` is told when it is asked to stop, and asked what else is `wanted`. Other signals do as ever.
///
/// # Errors
/// The system has no more threads or descriptors.
pub fn listen(wanted: &[Asked], act: impl Fn(Asked) + Send + 'static) -> Result<()> {
    let mut heard = vec![SIGINT, SIGTERM];
    heard.extend(wanted.contains(&Asked::Report).then_some(SIGUSR1));
    heard.extend(wanted.contains(&Asked::Flush).then_some(SIGUSR2));
    // Where it asks for nothing but a file, it is heard under nohup too.
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
                    SIGUSR1 => act(Asked::Report),
                    SIGUSR2 => act(Asked::Flush),
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

/// How often INT, TERM or HUP asked us to stop.
pub fn stops() -> u32 {
    STOPS.load(Relaxed)
}

/// Whether we were started to ignore `signal`, as nohup does with HUP.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.unwrap_or(0) >> (signal - 1) & 1 == 1
}
