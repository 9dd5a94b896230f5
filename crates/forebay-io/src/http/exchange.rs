//! The fetch itself: sends the request, receives through a stream, follows redirects, and writes the selected bytes.
//!
//! Bytes stay in the stream's memory until they are written: `reply` classifies the first ones, they are written from there, and
//! then popped. The receiver thread is in `incoming`.

use super::{
    Fault, Head, HttpConfig, Shown, Stop, Url,
    connection::{Dialer, broken},
    incoming::Incoming,
    redirect::Trail,
    reply::{Part, Reply},
    version::{Kept, Rest},
};
use forebay::{Error, Result};
use std::io::{self, ErrorKind, Write};

/// An event during a fetch.
#[derive(Debug)]
pub enum Event<'a> {
    /// The response is a redirect, which is followed.
    Redirected {
        /// Its head.
        head: &'a Head,
        /// The redirect's target.
        to: &'a Url,
    },
    /// The final response has begun; its body follows.
    Begins {
        /// Where it is from, after redirects.
        url: &'a Url,
        /// Its head.
        head: &'a Head,
        /// Length of its body in bytes, if the head declares it.
        body_length: Option<u64>,
        /// Bytes before it that are [kept](HttpConfig::kept); 0: the body is the whole.
        kept_bytes: u64,
    },
    /// Total bytes written so far.
    Written(u64),
}

/// The result of a successful fetch.
#[derive(Debug)]
pub struct Answer {
    /// The final URL, after redirects.
    pub url: Url,
    /// Its head. A [failure](Head::is_failure) reported by the server is a response, too.
    pub head: Head,
    /// Number of redirects followed.
    pub redirects: usize,
    /// Bytes written, including head and framing if those were requested.
    pub written_bytes: u64,
    /// Nothing follows what was [kept](HttpConfig::kept): it is the whole.
    pub was_whole: bool,
    /// The reader of the output closed it before everything was written.
    pub reader_left: bool,
}

/// Fetches `url` and writes to `output` what `config` selects. Reports events to `events`; `stop` ends the fetch early.
///
/// ```
/// use forebay_io::http::{HttpConfig, Stop, get};
/// use std::{io::{Read, Write}, net::TcpListener};
/// let server = TcpListener::bind("127.0.0.1:0").unwrap();
/// let url = format!("http://{}/", server.local_addr().unwrap()).parse()?;
/// std::thread::spawn(move || {
///     let (mut client, _) = server.accept().unwrap();
///     client.read(&mut [0; 1000]).unwrap();
///     client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").unwrap();
/// });
/// let mut body = Vec::new();
/// let answer = get(&url, &HttpConfig::default(), &mut body, &mut |_| {}, &Stop::default())?;
/// assert_eq!((answer.head.status, body.as_slice()), (200, &b"hello"[..]));
/// # Ok::<(), forebay::Error>(())
/// ```
///
/// # Errors
/// - The connection failed.
/// - The response or a redirect is invalid (the error of an invalid response is a [`Fault`]), or the response ended early.
/// - The output failed.
/// - The fetch was stopped.
///
/// The message contains the number of bytes written.
pub fn get(
    url: &Url,
    config: &HttpConfig,
    output: &mut dyn Write,
    events: &mut dyn FnMut(Event<'_>),
    stop: &Stop,
) -> Result<Answer> {
    config.validate()?;
    let mut dialer = Dialer::new(config)?;
    let mut trail = Trail::new(url.clone(), config);
    let first = url;
    loop {
        let url = trail.current();
        let asked = config
            .kept
            .as_ref()
            .and_then(|kept| Some((kept, kept.fields(first, url)?)));
        let mut fields: String = config
            .fields
            .iter()
            .filter_map(|it| it.line(first, url))
            .collect();
        fields.extend(asked.iter().map(|(_, fields)| &**fields));
        let mut exchange = Exchange {
            incoming: ask(url, &fields, config, &mut dialer, stop)?,
            kept: asked.map(|(kept, _)| kept),
            reply: Reply::default(),
            url: url.clone(),
            config,
            output: &mut *output,
            stop,
            written_bytes: 0,
            rest: None,
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
            was_whole: exchange.rest == Some(Rest::None),
            reader_left: exchange.reader_left,
        });
    }
}

/// Connects to the server of `url`, sends the request, and starts to receive.
fn ask(
    url: &Url,
    fields: &str,
    config: &HttpConfig,
    dialer: &mut Dialer<'_>,
    stop: &Stop,
) -> Result<Incoming> {
    let mut connection = dialer.dial(url, |socket| stop.watch(socket))?;
    let sent = connection.ask(url, &dialer.target(url), fields);
    sent.map_err(|e| broken(url, "sending the request", e, config.silence_limit))?;
    Incoming::start(connection, config.buffer_bytes)
}

struct Exchange<'a> {
    incoming: Incoming,
    reply: Reply,
    url: Url,
    config: &'a HttpConfig,
    output: &'a mut dyn Write,
    stop: &'a Stop,
    /// The beginning whose rest was asked for, and what the response means to it.
    kept: Option<&'a Kept>,
    rest: Option<Rest>,
    written_bytes: u64,
    reader_left: bool,
}

impl Exchange<'_> {
    /// Receives up to the end of the head, which stays in the stream. Also returns its length.
    fn head(&mut self) -> Result<(usize, Head)> {
        loop {
            match self.next()? {
                Part::Head(len, head) => return Ok((len, head)),
                Part::Interim(len) => self.pass(len, self.config.shown == Shown::Raw)?,
                Part::More | Part::Framing(_) | Part::Body(_) | Part::End => {}
            }
        }
    }

    /// Receives the rest, and writes the selected bytes.
    fn body(
        &mut self,
        head_len: usize,
        head: &Head,
        events: &mut dyn FnMut(Event<'_>),
    ) -> Result<()> {
        let shown = self.config.shown;
        if let Some(kept) = self.kept {
            let rest = kept.rest(head, self.reply.body_length());
            match *self.rest.insert(rest.map_err(|what| self.misfit(what))?) {
                Rest::Changed if matches!(head.status, 206 | 416) => return Ok(()),
                Rest::None => return Ok(()),
                _ => {}
            }
        }
        let left = match self.rest {
            Some(Rest::Follows(left)) => Some(left),
            _ => None,
        };
        if shown != Shown::Raw {
            if head.is_failure() && !self.config.failed_bodies {
                return Ok(());
            }
            let refuse = |what: &str| Err(Error::new(self.url.to_string(), what));
            match head.status {
                // Also of a part that was not to follow: what is there stays.
                204 if self.kept.is_some() => {
                    return refuse("the server sends no content (status 204)");
                }
                205 => return refuse("the server sends no content (status 205)"),
                206 if left.is_none() => {
                    return refuse(
                        "the server sends a part (status 206), although the whole was requested",
                    );
                }
                304 => {
                    return refuse(
                        "the server reports that nothing has changed (status 304), to an unconditional request",
                    );
                }
                _ => {}
            }
        }
        let body_length = left.or(self.reply.body_length());
        let kept_bytes = self
            .kept
            .filter(|_| left.is_some())
            .map_or(0, |it| it.bytes);
        events(Event::Begins {
            url: &self.url,
            head,
            body_length,
            kept_bytes,
        });
        self.pass(head_len, shown != Shown::Body)?;
        while !self.reader_left {
            match self.next()? {
                Part::End if left.is_some_and(|left| left != self.reply.body_bytes()) => {
                    return Err(self.failed("the response ends before its range".into()));
                }
                Part::End => break,
                Part::Body(_) if left.is_some_and(|left| left < self.reply.body_bytes()) => {
                    return Err(self.failed("the response is longer than its range".into()));
                }
                Part::Framing(n) => self.pass(n, shown == Shown::Raw)?,
                Part::Body(n) => self.pass(n, true)?,
                Part::More | Part::Interim(_) | Part::Head(..) => continue,
            }
            events(Event::Written(self.written_bytes));
        }
        Ok(())
    }

    /// Classifies the first bytes of the stream. Waits for more bytes if there are too few. `More`: call again.
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

    /// Removes the first `n` bytes from the stream, after writing them if `wanted`.
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

    /// Fails if a stop was requested.
    fn go_on(&self) -> Result<()> {
        match self.stop.is_stopped() {
            true => Err(self.stopped()),
            false => Ok(()),
        }
    }

    /// A response that does not continue what was kept.
    fn misfit(&self, what: String) -> Error {
        Error::new(self.url.to_string(), what)
            .advise("What was kept is as it was. Without -C - the whole is fetched")
    }

    fn stopped(&self) -> Error {
        self.failed("was stopped".into())
    }

    /// An error in the response.
    fn failed(&self, what: String) -> Error {
        Error::new(self.url.to_string(), what).advise(self.written())
    }

    /// An error of the connection.
    fn interrupted(&self, finished: std::result::Result<(), Fault>, cause: io::Error) -> Error {
        let what = match finished {
            Err(fault) => fault.to_string(),
            // Without TLS's own end marker, a body that lasts until the connection closes may be truncated.
            Ok(()) => format!(
                "the response may be truncated: {} bytes arrived",
                self.reply.body_bytes()
            ),
        };
        broken(&self.url, &what, cause, self.config.silence_limit).advise(self.written())
    }

    /// An error of the output.
    fn refused(&self, cause: io::Error) -> Error {
        let error = Error::new(self.url.to_string(), "writing the response").because(cause);
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
