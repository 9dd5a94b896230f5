//! One client of the control socket or of the metrics: its request, its response, and its limits.
//!
//! | Limit | Control | Metrics |
//! |---|---|---|
//! | longest request | a line of 4 KiB | a head of 8 KiB |
//! | time for a request | 60 s | 5 s |
//! | time to take a response | 5 s | 5 s |
//!
//! A client gets its next response after it took the last one, so that nothing accumulates for a client that never reads. In one round at
//! most 4 KiB are read from it, so that a client that sends without end does not keep others from being served.

use super::{
    desk::{Desk, error},
    http::{self, HttpRequest},
    scrapers::Peer,
};
use rustix::{
    event::PollFlags,
    io::{Errno, read},
    net::{SendFlags, send},
};
use serde_json::{Value, json};
use std::{
    net::IpAddr,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

const MAX_LINE: usize = 4 << 10;
const IDLE: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(5);

/// The protocol of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Control,
    Metrics,
}

pub struct Connection {
    pub socket: OwnedFd,
    pub protocol: Protocol,
    /// What `poll` reported last.
    pub happened: PollFlags,
    address: Option<IpAddr>,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Bytes of `output` that the client took.
    sent: usize,
    /// The client sends nothing more.
    is_read: bool,
    /// Close the connection after this response.
    is_last: bool,
    /// The client is answered when the capture has ended.
    pub waits: bool,
    /// When the connection is closed, unless it `waits`.
    pub deadline: Instant,
    /// The response has the metrics.
    is_scrape: bool,
    /// The `User-Agent` of the request.
    agent: Vec<u8>,
    /// The response has the final counts.
    is_final: bool,
}

impl Connection {
    pub fn new(socket: OwnedFd, protocol: Protocol, address: Option<IpAddr>, now: Instant) -> Self {
        let patience = match protocol {
            Protocol::Control => IDLE,
            Protocol::Metrics => PATIENCE,
        };
        Connection {
            socket,
            protocol,
            // Its request has usually arrived, too.
            happened: PollFlags::IN,
            address,
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
            is_read: false,
            is_last: false,
            waits: false,
            deadline: now + patience,
            is_scrape: false,
            agent: Vec::new(),
            is_final: false,
        }
    }

    /// What to wait for. A client that closed its connection is noticed in any case.
    pub fn wanted(&self) -> PollFlags {
        if self.is_sending() {
            PollFlags::OUT
        } else if self.is_read || self.waits {
            PollFlags::empty()
        } else {
            PollFlags::IN
        }
    }

    pub fn is_sending(&self) -> bool {
        self.sent < self.output.len()
    }

    /// Reads, answers and writes as far as possible without waiting. `false`: the connection ends.
    pub fn go_on(&mut self, desk: &mut Desk, now: Instant) -> bool {
        let has_left = self.waits && self.happened.intersects(PollFlags::HUP | PollFlags::ERR);
        !has_left && self.advance(desk, now) && (self.waits || now < self.deadline)
    }

    fn advance(&mut self, desk: &mut Desk, now: Instant) -> bool {
        let mut has_read = false;
        loop {
            while self.is_sending() {
                match send(&self.socket, &self.output[self.sent..], SendFlags::NOSIGNAL) {
                    Ok(sent) => self.sent += sent,
                    Err(Errno::AGAIN) => return true,
                    Err(Errno::INTR) => {}
                    Err(_) => return false,
                }
            }
            if !self.output.is_empty() {
                if std::mem::take(&mut self.is_scrape) {
                    let peer = Peer {
                        address: self.address,
                        agent: std::mem::take(&mut self.agent),
                    };
                    desk.scrapers.served(peer, self.is_final, now);
                }
                self.output.clear();
                self.sent = 0;
                self.deadline = now + IDLE;
            }
            if self.is_last {
                return false;
            }
            if self.waits {
                if !desk.latest.is_final() {
                    return true;
                }
                let snapshot = desk.latest.get();
                let code = snapshot.exit_code;
                match snapshot.summary {
                    None => return true,
                    Some(summary) => {
                        self.waits = false;
                        let answer = json!({ "ok": true, "summary": summary, "exit_code": code });
                        self.reply(&answer, now);
                        continue;
                    }
                }
            }
            if self.answer(desk, now) {
                continue;
            }
            if self.is_read {
                return false;
            }
            // Other clients have their turn before this one is read again. What it has sent until then makes `poll` return at once.
            if std::mem::replace(&mut has_read, true) {
                return true;
            }
            let mut bytes = [0; 4096];
            match read(&self.socket, &mut bytes) {
                Ok(0) => self.is_read = true,
                Ok(read) => self.input.extend_from_slice(&bytes[..read]),
                Err(Errno::AGAIN) => return true,
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    /// Processes one request; `false`: there is no complete one.
    fn answer(&mut self, desk: &mut Desk, now: Instant) -> bool {
        match self.protocol {
            Protocol::Control => self.answer_line(desk, now),
            Protocol::Metrics => self.answer_http(desk, now),
        }
    }

    fn answer_line(&mut self, desk: &mut Desk, now: Instant) -> bool {
        let end = self.input.iter().position(|&byte| byte == b'\n');
        let line: Vec<u8> = match end {
            Some(end) if end <= MAX_LINE => self.input.drain(..=end).collect(),
            None if self.is_read && !self.input.is_empty() => std::mem::take(&mut self.input),
            None if self.input.len() <= MAX_LINE => return false,
            _ => {
                self.is_last = true;
                self.reply(&error("a request has at most 4096 bytes"), now);
                return true;
            }
        };
        if line.trim_ascii().is_empty() {
            return true;
        }
        match desk.answer(&line) {
            Some(answer) => self.reply(&answer, now),
            None => self.waits = true,
        }
        true
    }

    fn answer_http(&mut self, desk: &mut Desk, now: Instant) -> bool {
        // A page of a browser may have this machine look for another one (DNS rebinding).
        let is_local = desk.metrics.is_some_and(|at| at.ip().is_loopback());
        self.output = match http::parse(&self.input, is_local) {
            HttpRequest::Incomplete => return false,
            HttpRequest::Other(response) => response,
            HttpRequest::Metrics {
                form,
                only_head,
                agent,
            } => {
                self.agent = agent;
                let (text, is_final) = desk.scrape(form);
                (self.is_scrape, self.is_final) = (!only_head, is_final);
                http::response("200 OK", form.content_type(), &text, only_head)
            }
        };
        self.is_last = true;
        self.deadline = now + PATIENCE;
        true
    }

    fn reply(&mut self, answer: &Value, now: Instant) {
        self.output = crate::output::json(answer).into_bytes();
        self.output.push(b'\n');
        self.deadline = now + PATIENCE;
    }
}
