//! The receiver thread, which reads the connection directly into the memory of a stream.
//!
//! ```text
//!   connection ─ read ─▶ reserve … commit ─▶ stream ─▶ peek, pop     time limit: silence while there is room to receive
//!        ▲                                                 │
//!        └────────── shut down when the reader has done ───┘
//! ```

use super::connection::Connection;
use forebay::{
    Error, Result,
    stream::{Reader, Writer, stream},
};
use std::{
    io::{self, ErrorKind, Read},
    net::{Shutdown, TcpStream},
    thread::{self, JoinHandle},
};

/// Free space to wait for before the next read, so that a slow output does not cause small reads.
const READ_BYTES: usize = 64 << 10;

/// The received bytes of a connection. Dropping it ends the connection and the thread.
pub(super) struct Incoming {
    reader: Reader,
    socket: TcpStream,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Incoming {
    /// Starts to receive into a stream of `buffer_bytes`.
    ///
    /// # Errors
    /// No memory, descriptor or thread is available.
    pub fn start(connection: Connection, buffer_bytes: usize) -> Result<Self> {
        let (writer, reader) = stream(buffer_bytes)?;
        let failed = |what: &'static str| move |e: io::Error| Error::new("http", what).because(e);
        let socket = connection.socket().try_clone();
        let socket = socket.map_err(failed("duplicating a socket's descriptor"))?;
        let thread = thread::Builder::new()
            .name("forebay-receive".into())
            .spawn(move || receive(connection, writer))
            .map_err(failed("starting the receiver thread"))?;
        Ok(Incoming {
            reader,
            socket,
            thread: Some(thread),
        })
    }

    /// The bytes that arrived and were not popped, in place.
    pub fn peek(&mut self) -> &[u8] {
        self.reader.peek()
    }

    /// Removes the first `n` bytes.
    pub fn pop(&mut self, n: usize) {
        self.reader.consume(n);
    }

    /// Waits until there are more than `n` bytes; false if there will not be.
    pub fn wait_beyond(&mut self, n: usize) -> bool {
        self.reader.wait_filled(n + 1) > n
    }

    /// The error that ended the stream, if it did not end because the server closed the connection properly. Call it after the
    /// last bytes.
    pub fn failure(&mut self) -> Option<io::Error> {
        match self.thread.take()?.join() {
            Ok(received) => received.err(),
            Err(_) => Some(io::Error::other("the receiver thread panicked")),
        }
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // The thread may wait for room, or for bytes: this ends both.
        self.reader.set_error();
        let _ = self.socket.shutdown(Shutdown::Both);
        self.failure();
    }
}

/// Receives until the server ends the connection, an error occurs, or the reader is dropped.
fn receive(mut connection: Connection, mut writer: Writer) -> io::Result<()> {
    while writer.wait_vacant(READ_BYTES) > 0 {
        let mut room = writer.reserve(usize::MAX);
        match connection.read(&mut room) {
            Ok(0) => {
                writer.close();
                break;
            }
            Ok(n) => drop(room.commit(n)),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                writer.set_error();
                return Err(error);
            }
        }
    }
    Ok(())
}
