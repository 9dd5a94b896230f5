//! The thread that writes lines to standard output.

use super::{composer::Composer, message, shared::Shared};
use crate::output::{self, write_whole};
use forebay::queue::{RecvError, spsc::Receiver};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    fs::File,
    io, mem,
    sync::{Arc, PoisonError, atomic::Ordering::Relaxed},
    time::Duration,
};

/// While no packet comes, this often it is checked whether the reader has left.
const IDLE: Duration = Duration::from_millis(500);
/// Output is written when this much is ready, or when no packet waits.
pub const WRITE_BYTES: usize = 64 << 10;

pub struct Writer {
    /// `None`: the messages are lines.
    pub composer: Option<Composer>,
    pub output: File,
    /// Composed lines are written when there is this much text, or when no packet waits.
    pub write_bytes: usize,
    pub shared: Arc<Shared>,
}

impl Writer {
    /// Writes lines until the session has ended, or the user has had enough.
    pub fn run(&mut self, mut receiver: Receiver) -> io::Result<()> {
        while !self.shared.is_abandoned.load(Relaxed) {
            match receiver.try_take() {
                Ok(message) => {
                    self.take(&message)?;
                    continue;
                }
                Err(RecvError::Empty) => {}
                Err(_) => return self.write_last(),
            }
            self.write()?;
            match receiver.take_timeout(IDLE) {
                Ok(message) => self.take(&message)?,
                Err(RecvError::TimedOut) if self.reader_has_left() => {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
                Err(RecvError::TimedOut) => {}
                Err(_) => return self.write_last(),
            }
        }
        Ok(())
    }

    /// Whether the other side of a pipe or socket is gone, which the next write would notice.
    fn reader_has_left(&self) -> bool {
        let mut fds = [PollFd::new(&self.output, PollFlags::empty())];
        let polled = poll(&mut fds, Some(&Timespec::default()));
        let gone = PollFlags::ERR | PollFlags::HUP;
        polled.is_ok() && fds[0].revents().intersects(gone)
    }

    fn take(&mut self, message: &[u8]) -> io::Result<()> {
        if self.composer.is_some() {
            let taken = self.print(message);
            self.shared.taken.fetch_add(message.len() as u64, Relaxed);
            return taken;
        }
        let Some((text, packets)) = message::lines(message) else {
            return Ok(());
        };
        // In pieces, so that what a slow reader takes is counted.
        for piece in text.chunks(WRITE_BYTES) {
            write_whole(&self.output, piece)?;
            self.shared.taken.fetch_add(piece.len() as u64, Relaxed);
        }
        self.shared.printed.fetch_add(packets, Relaxed);
        Ok(())
    }

    fn print(&mut self, message: &[u8]) -> io::Result<()> {
        let Some((packet, missed)) = message::packet(message) else {
            return Ok(());
        };
        if missed > 0 {
            self.write()?;
            output::note(not_shown(missed));
        }
        let Some(composer) = &mut self.composer else {
            return Ok(());
        };
        composer.print(&packet);
        match composer.text.len() >= self.write_bytes {
            true => self.write(),
            false => Ok(()),
        }
    }

    /// Writes the lines composed here.
    fn write(&mut self) -> io::Result<()> {
        let Some(composer) = &mut self.composer else {
            return Ok(());
        };
        let (text, packets) = (composer.text.bytes(), mem::take(&mut composer.packets));
        let written = write_lines(&self.output, &self.shared, text, packets);
        composer.text.clear();
        written
    }

    /// Writes the lines that follow the last message.
    fn write_last(&mut self) -> io::Result<()> {
        self.write()?;
        let last = self.shared.last.lock();
        let (text, packets) = mem::take(&mut *last.unwrap_or_else(PoisonError::into_inner));
        write_lines(&self.output, &self.shared, &text, packets)
    }
}

fn write_lines(output: &File, shared: &Shared, text: &[u8], packets: u64) -> io::Result<()> {
    write_whole(output, text)?;
    shared.printed.fetch_add(packets, Relaxed);
    Ok(())
}

/// `1,204 packets not shown`
pub fn not_shown(count: u64) -> String {
    let mut digits = count.to_string();
    let mut at = digits.len();
    while at > 3 {
        at -= 3;
        digits.insert(at, ',');
    }
    let packets = if count == 1 { "packet" } else { "packets" };
    format!("{digits} {packets} not shown")
}

#[cfg(test)]
mod tests {
    use super::not_shown;

    #[test]
    fn counts_are_grouped() {
        assert_eq!(not_shown(1), "1 packet not shown");
        assert_eq!(not_shown(999), "999 packets not shown");
        assert_eq!(not_shown(1204), "1,204 packets not shown");
        assert_eq!(not_shown(1_000_000), "1,000,000 packets not shown");
    }
}
