//! The ends as tokio's traits (cargo feature `tokio`).
//!
//! These wait by being polled again, where `io` blocks. They need only tokio's traits, not its runtime.
//!
//! ```text
//!   AsyncWrite:  puts in at least one byte     shutdown = close     ended? BrokenPipe, or the error that was set
//!   AsyncRead:   content ─▶ then: closed? nothing   error set? that error   writer dropped? UnexpectedEof
//! ```

use super::{Reader, Writer};
use crate::sync::Task;
use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};

/// ```
/// use forebay::{stream::{stream_with, StreamConfig}, sync::Task};
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let (mut writer, mut reader) = stream_with::<Task>(&StreamConfig::default())?;
/// let task = tokio::spawn(async move {
///     writer.write_all(&[7; 1_000_000]).await?;
///     writer.shutdown().await // closes it
/// });
/// let mut all = Vec::new();
/// reader.read_to_end(&mut all).await?;
/// assert_eq!(all.len(), 1_000_000);
/// task.await??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl AsyncRead for Reader<Task> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        target: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if target.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let content = ready!(self.as_mut().poll_fill_buf(context))?;
        let n = content.len().min(target.remaining());
        target.put_slice(&content[..n]);
        Reader::consume(&mut self, n);
        Poll::Ready(Ok(()))
    }
}

impl AsyncBufRead for Reader<Task> {
    fn poll_fill_buf(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let reader = self.get_mut();
        if ready!(reader.poll_peek(context)).is_empty() {
            reader.end_well()?;
        }
        Poll::Ready(Ok(reader.peek()))
    }

    fn consume(mut self: Pin<&mut Self>, n: usize) {
        Reader::consume(&mut self, n);
    }
}

impl AsyncWrite for Writer<Task> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let pushed = self.push_slice(bytes);
            if pushed > 0 || bytes.is_empty() {
                return Poll::Ready(Ok(pushed));
            }
            if ready!(self.poll_vacant(context)) == 0 {
                return Poll::Ready(Err(self.refusal()));
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.close();
        Poll::Ready(Ok(()))
    }
}
