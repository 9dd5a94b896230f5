//! What a thread costs that waits and gets nothing: processor time over a while in which nothing happens.

use crate::method::{
    Effort,
    table::{Cell, Table},
};
use anyhow::{Result, anyhow};
use forebay::{
    stream::{Reader, StreamConfig, Writer, stream_with},
    sync::{Eventfd, Park, Spin, Wait},
};
use rustix::time::{ClockId, clock_gettime};
use std::{
    hint,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

/// Readers of empty streams and writers of full ones, each for a second.
///
/// # Errors
/// No memory for a stream.
pub fn run(effort: Effort) -> Result<Table> {
    let second = Duration::from_millis(effort.scaled(1000));
    let title = format!(
        "stream/idle: processor time of a thread that waits for {} ms in vain",
        second.as_millis()
    );
    let mut table = Table::new(title, &["ms", "% of one processor"]);
    let mut row = |name: &str, used: Duration| {
        let (used, second) = (used.as_secs_f64(), second.as_secs_f64());
        table.row(
            name,
            vec![
                Cell::number(used * 1e3, 3),
                Cell::number(used / second * 100.0, 3),
            ],
        );
    };
    row("forebay, parking, a reader", reader::<Park>(second)?);
    row("forebay, parking, a writer", writer::<Park>(second)?);
    row(
        "forebay, by a descriptor, a reader",
        reader::<Eventfd>(second)?,
    );
    row(
        "forebay, by a descriptor, a writer",
        writer::<Eventfd>(second)?,
    );
    row("forebay, spinning, a reader", reader::<Spin>(second)?);
    row(
        "rtrb, which has no way to wait: asked in a loop",
        rtrb(second)?,
    );
    Ok(table)
}

fn made<W: Wait>() -> Result<(Writer<W>, Reader<W>)> {
    Ok(stream_with(&StreamConfig::default())?)
}

fn reader<W: Wait + 'static>(second: Duration) -> Result<Duration> {
    let (writer, mut reader) = made::<W>()?;
    waiting(
        second,
        move || assert!(reader.peek_wait(1, None).is_empty()),
        || drop(writer),
    )
}

fn writer<W: Wait + 'static>(second: Duration) -> Result<Duration> {
    let (mut writer, reader) = made::<W>()?;
    writer.push(&vec![7; writer.capacity()]);
    waiting(
        second,
        move || assert_eq!(writer.wait_capacity(1, None), 0),
        || drop(reader),
    )
}

fn rtrb(second: Duration) -> Result<Duration> {
    let (_producer, consumer) = rtrb::RingBuffer::<u8>::new(1 << 16);
    let over = &AtomicBool::new(false);
    let asking = move || {
        while consumer.is_empty() && !over.load(Relaxed) {
            hint::spin_loop();
        }
    };
    waiting(second, asking, || over.store(true, Relaxed))
}

/// The processor time that a thread used for `wait`, which `end` puts an end to after a `second`.
fn waiting(second: Duration, wait: impl FnOnce() + Send, end: impl FnOnce()) -> Result<Duration> {
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let before = clock_gettime(ClockId::ThreadCPUTime);
            wait();
            clock_gettime(ClockId::ThreadCPUTime) - before
        });
        let begun = Instant::now();
        while let Some(left) = second.checked_sub(begun.elapsed()) {
            thread::sleep(left);
        }
        end();
        let used = waiting
            .join()
            .map_err(|_| anyhow!("the waiting thread panicked"))?;
        Ok(Duration::try_from(used)?)
    })
}
