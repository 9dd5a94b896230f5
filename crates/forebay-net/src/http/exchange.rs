//! The fetch itself: it asks, receives through a stream, follows redirects, and writes what was asked for.
//!
//! The bytes stay where they were received until they are written: `reply` says what the first ones are, they are written from
//! there, and popped. Read `incoming` for the other thread.

use super::{
    Config, Fault, Head, Shown, Stop, Url,
    connection::{Dialer, broken},
    incoming::Incoming,
    redirect::Trail,
    reply::{Part, Reply},
};
use forebay::{Error, Result};
use std::io::{self, ErrorKind, Write};

/// What happens during a fetch.
#[derive(Debug)]
pub enum Event<'a> {
    /// The answer sends us elsewhere, and we go.
    Redirected {
        /// Its head.
        head: &'a Head,
        /// Where we go.
        to: &'a Url,
    },
    /// The answer proper has begun; from here on there may be something to write.
    Begins {
        /// Its head.
        head: &'a Head,
        /// Bytes of its body, where the head told.
        body_length: Option<u64>,
    },
    /// So many bytes have been written in all.
    Written(u64),
}

/// What became of a fetch that did not fail.
#[derive(Debug)]
pub struct Answer {
    /// Where it came from in the end.
    pub url: Url,
    /// Its head. A [failure](Head::is_failure) by the server is an answer too.
    pub head: Head,
    /// Redirects on the way.
    pub redirects: usize,
    /// Bytes written, of the head and the framing too where those were asked for.
    pub written_bytes: u64,
    /// The reader of the output went away before all was written.
    pub reader_left: bool,
}

/// Fetches `url` and writes to `output` what `config` asks for, telling `events` of it; `stop` ends it early.
///
/// ```
/// use forebay_net::http::{Config, Stop, get};
/// use std::{io::{Read, Write}, net::TcpListener};
/// let server = TcpListener::bind("127.0.0.1:0").unwrap();
/// let url = format!("http://{}/", server.local_addr().unwrap()).parse()?;
/// std::thread::spawn(move || {
///     let (mut client, _) = server.accept().unwrap();
///     client.read(&mut [0; 1000]).unwrap();
///     client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").unwrap();
/// });
/// let mut body = Vec::new();
/// let answer = get(&url, &Config::default(), &mut body, &mut |_| {}, &Stop::default())?;
/// assert_eq!((answer.head.status, body.as_slice()), (200, &b"hello"[..]));
/// # Ok::<(), forebay::Error>(())
/// ```
///
/// # Errors
/// The connection, the answer or a redirect is not as it should be (what is wrong with an answer is a [`Fault`]), the answer
/// stops early, the output takes no more, or it was stopped. The message says how many bytes were written.
pub fn get(
    url: &Url,
    config: &Config,
    output: &mut dyn Write,
    events: &mut dyn FnMut(Event<'_>),
    stop: &Stop,
) -> Result<Answer> {
    config.validate()?;
    let mut dialer = Dialer::new(config)?;
    let mut trail = Trail::new(url.clone(), config);
    loop {
        let url = trail.current();
        let mut exchange = Exchange {
            incoming: ask(url, config, &mut dialer, stop)?,
            reply: Reply::default(),
            url: url.clone(),
            config,
            output: &mut *output,
            stop,
            written_bytes: 0,
            reader_left: false,
        };
        let (len, head) = exchange.head()?;
        if config.shown != Shown::Raw && trail.follow(&head)? {
            events(Event::Redirected {
                head: &head,
                to: trail.current(),
            });
            continue;
        }
        exchange.body(len, &head, events)?;
        return Ok(Answer {
            redirects: trail.redirects(),
            url: exchange.url,
            head,
            written_bytes: exchange.written_bytes,
            reader_left: exchange.reader_left,
        });
    }
}

/// Connects to the server of `url`, asks for it, and begins to receive.
fn ask(url: &Url, config: &Config, dialer: &mut Dialer<'_>, stop: &Stop) -> Result<Incoming> {
    let mut connection = dialer.dial(url, |socket| stop.watch(socket))?;
    let sent = connection.ask(url);
    sent.map_err(|e| broken(url, "sending the request", e, config.silence_limit))?;
    Incoming::start(connection, config.buffer_bytes)
}

/// One request and its answer.
struct Exchange<'a> {
    incoming: Incoming,
    reply: Reply,
    url: Url,
    config: &'a Config,
    output: &'a mut dyn Write,
    stop: &'a Stop,
    written_bytes: u64,
    reader_left: bool,
}

impl Exchange<'_> {
    /// Receives up to the end of the head, which stays in the stream; returns its length too.
    fn head(&mut self) -> Result<(usize, Head)> {
        loop {
            match self.next()? {
                Part::Head(len, head) => return Ok((len, head)),
                Part::Interim(len) => self.pass(len, self.config.shown == Shown::Raw)?,
                Part::More | Part::Framing(_) | Part::Body(_) | Part::End => {}
            }
        }
    }

    /// Receives the rest, and writes what is to be written.
    fn body(
        &mut self,
        head_len: usize,
        head: &Head,
        events: &mut dyn FnMut(Event<'_>),
    ) -> Result<()> {
        let shown = self.config.shown;
        if shown != Shown::Raw {
            if head.is_failure() && !self.config.failed_bodies {
                return Ok(());
            }
            let refuse = |what: &str| Err(Error::new(self.url.to_string(), what));
            match head.status {
                205 => return refuse("the server sends no content (status 205)"),
                206 => {
                    return refuse(
                        "the server sends a part (status 206), and was asked for the whole",
                    );
                }
                304 => {
                    return refuse(
                        "the server says that nothing has changed (status 304), and was not asked that",
                    );
                }
                _ => {}
            }
        }
        let body_length = self.reply.body_length();
        events(Event::Begins { head, body_length });
        self.pass(head_len, shown != Shown::Body)?;
        while !self.reader_left {
            match self.next()? {
                Part::End => break,
                Part::Framing(n) => self.pass(n, shown == Shown::Raw)?,
                Part::Body(n) => self.pass(n, true)?,
                Part::More | Part::Interim(_) | Part::Head(..) => continue,
            }
            events(Event::Written(self.written_bytes));
        }
        Ok(())
    }

    /// What the first bytes of the stream are, waiting for more where there are too few. `More`: look again.
    fn next(&mut self) -> Result<Part> {
        self.go_on()?;
        let content = self.incoming.peek();
        let len = content.len();
        let part = match self.reply.next(content) {
            Ok(part) => part,
            Err(fault) => return Err(self.failed(fault.to_string())),
        };
        if part != Part::More || self.incoming.wait_beyond(len) {
            return Ok(part);
        }
        match (self.reply.finish(len), self.incoming.failure()) {
            _ if self.stop.is_stopped() => Err(self.stopped()),
            (Ok(()), None) => Ok(Part::End),
            (Err(fault), None) => Err(self.failed(fault.to_string())),
            (finished, Some(cause)) => Err(self.interrupted(finished, cause)),
        }
    }

    /// Takes the first `n` bytes out of the stream, having written them if they are wanted.
    fn pass(&mut self, n: usize, wanted: bool) -> Result<()> {
        if !wanted {
            self.incoming.pop(n);
            return Ok(());
        }
        let mut left = n;
        while left > 0 && !self.reader_left {
            self.go_on()?;
            match self.output.write(&self.incoming.peek()[..left]) {
                Ok(0) => return Err(self.refused(ErrorKind::WriteZero.into())),
                Ok(written) => {
                    self.incoming.pop(written);
                    self.written_bytes += written as u64;
                    left -= written;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::BrokenPipe => self.reader_left = true,
                Err(error) => return Err(self.refused(error)),
            }
        }
        Ok(())
    }

    /// Fails if we are to stop.
    fn go_on(&self) -> Result<()> {
        match self.stop.is_stopped() {
            true => Err(self.stopped()),
            false => Ok(()),
        }
    }

    fn stopped(&self) -> Error {
        self.failed("was stopped".into())
    }

    /// Something is wrong with the answer.
    fn failed(&self, what: String) -> Error {
        Error::new(self.url.to_string(), what).advise(self.written())
    }

    /// The connection broke.
    fn interrupted(&self, finished: std::result::Result<(), Fault>, cause: io::Error) -> Error {
        let what = match finished {
            Err(fault) => fault.to_string(),
            // Without its proper end, a body up to the close of the connection may be cut.
            Ok(()) => format!(
                "the answer may be cut: {} bytes came",
                self.reply.body_bytes()
            ),
        };
        broken(&self.url, &what, cause, self.config.silence_limit).advise(self.written())
    }

    /// The output takes no more.
    fn refused(&self, cause: io::Error) -> Error {
        let error = Error::new(self.url.to_string(), "writing what came").because(cause);
        error.advise(self.written())
    }

    /// `4096 bytes of 10000 were written`.
    fn written(&self) -> String {
        let of = match self.reply.body_length() {
            Some(length) if self.config.shown == Shown::Body => format!(" of {length}"),
            _ => String::new(),
        };
        format!("{} bytes{of} were written", self.written_bytes)
    }
}
