//! A limit for what would wait forever if the code under test has a fault.

use std::{panic, sync::mpsc, thread, time::Duration};

/// Runs `body` on another thread and returns its result. It is for calls that return soon, or never: a test then fails instead of
/// hanging.
///
/// # Panics
/// If `body` panics, or has not returned after a minute. Its thread then goes on until the tests have ended.
pub fn within_a_minute<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || {
        let _ = sender.send(body());
    });
    match receiver.recv_timeout(Duration::from_secs(60)) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it has not returned within a minute"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            panic::resume_unwind(thread.join().expect_err("it returned no result"))
        }
    }
}
