//! A connection to a running capture.

use super::place;
use crate::{output, shares};
use anyhow::{Context, Result, bail};
use forebay_net::port::Owner;
use nix::unistd::geteuid;
use rustix::net::{SendFlags, send, sockopt};
use serde_json::{Value, json};
use std::{
    ffi::OsStr,
    fs::File,
    io::{BufRead, BufReader, ErrorKind},
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// The longest wait for a whole answer, from the request on, or for `stop` from the answer's first byte on.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });
/// No answer is longer.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// A connection to a running capture.
pub struct Client {
    socket: BufReader<File>,
    name: String,
    patience: Duration,
}

impl Client {
    /// Connects to the capture of this name.
    ///
    /// # Errors
    /// No capture answers there.
    pub fn new(name: &OsStr) -> Result<Client> {
        let socket = place::reach(&place::find(name)?)?;
        warn_of_another_user(&socket, name);
        Ok(Client::of(socket, name, PATIENCE))
    }

    pub fn of(socket: OwnedFd, name: &OsStr, patience: Duration) -> Client {
        Client {
            socket: BufReader::new(socket.into()),
            name: name.to_string_lossy().into(),
            patience,
        }
    }

    /// The process that answers; `None`: it is in a container that this process does not see.
    pub fn process(&self) -> Option<u32> {
        let peer = Owner::of(self.socket.get_ref()).ok()?;
        (peer.pid > 0).then_some(peer.pid)
    }

    /// Sends a command and waits for the answer: for `stop` as long as the capture takes to end.
    ///
    /// # Errors
    /// The capture rejects the command, or does not answer.
    pub fn ask(&mut self, command: &str) -> Result<Value> {
        let name = &self.name;
        let socket = self.socket.get_ref();
        let mut object = json!({ "command": command });
        // A request that was given up is not carried out later. `stop` is not given up.
        if command != "stop" {
            let until = SystemTime::now() + self.patience.mul_f64(0.8);
            let until = until.duration_since(UNIX_EPOCH).unwrap_or_default();
            object["valid_until"] = until.as_secs_f64().into();
        }
        let request = format!("{object}\n");
        let sent = send(socket.as_fd(), request.as_bytes(), SendFlags::NOSIGNAL);
        sent.with_context(|| format!("{name}: the capture takes no request"))?;
        let line = self.line(command == "stop")?;
        let name = &self.name;
        if line.is_empty() {
            bail!("{name}: the capture ended without an answer");
        }
        let answer: Value =
            serde_json::from_slice(&line).with_context(|| format!("{name}: not an answer"))?;
        match answer["ok"] == true {
            true => Ok(answer),
            false => bail!("{name}: {}", answer["error"].as_str().unwrap_or("failed")),
        }
    }

    /// Reads a line, or what there is before the end. `waits`: its beginning may take any time. The other end is not trusted to stop sending.
    fn line(&mut self, waits: bool) -> Result<Vec<u8>> {
        let name = &self.name;
        let mut line = Vec::new();
        let mut deadline = (!waits).then(|| Instant::now() + self.patience);
        loop {
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                bail!(
                    "{name}: the capture does not answer: it is still starting, or it hangs. Nothing was done"
                );
            }
            let socket = self.socket.get_ref();
            sockopt::set_socket_timeout(socket, sockopt::Timeout::Recv, left)
                .context("a socket cannot be prepared")?;
            let read = match self.socket.fill_buf() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                read => read.with_context(|| format!("{name}: the answer cannot be read"))?,
            };
            deadline.get_or_insert_with(|| Instant::now() + self.patience);
            let end = read.iter().position(|byte| *byte == b'\n');
            line.extend_from_slice(&read[..end.unwrap_or(read.len())]);
            let count = end.map_or(read.len(), |end| end + 1);
            self.socket.consume(count);
            if end.is_some() || count == 0 {
                return Ok(line);
            }
            if line.len() > MAX_ANSWER_BYTES {
                bail!("{name}: the answer does not end. No capture answers like this");
            }
        }
    }
}

/// Warns if the process that answers belongs to another user and so may answer anything.
fn warn_of_another_user(socket: &OwnedFd, name: &OsStr) {
    let Ok(peer) = Owner::of(socket) else {
        return;
    };
    let owner = Owner { pid: 0, ..peer };
    if owner.uid != 0 && owner.uid != geteuid().as_raw() {
        output::warning(format_args!(
            "{}: the process that answers belongs to {}, and neither to you nor to root: its answer is what that user wants to show",
            name.to_string_lossy(),
            shares::user(owner),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_testing::folder::Folder;
    use std::{io::Write, os::unix::net::UnixListener, thread};

    /// What a request gets from a process that answers with these bytes, again and again, after each pause.
    fn asked(command: &str, bytes: Vec<u8>, pause: Duration) -> String {
        let folder = Folder::new();
        let path = folder.path("evil");
        let listener = UnixListener::bind(&path).unwrap();
        let answering = thread::spawn(move || {
            let mut socket = listener.accept().unwrap().0;
            while socket.write_all(&bytes).is_ok() {
                thread::sleep(pause);
            }
        });
        let mut client = Client::new(path.as_ref()).unwrap();
        let answer = client.ask(command);
        drop(client);
        answering.join().unwrap();
        answer.unwrap_err().to_string()
    }

    #[test]
    fn an_answer_without_end_is_given_up() {
        let (many, none) = (vec![b'x'; 1 << 20], Duration::ZERO);
        for command in ["status", "stop"] {
            let error = asked(command, many.clone(), none);
            assert!(error.contains("the answer does not end"), "{error}");
            let error = asked(command, vec![b'x'], Duration::from_millis(50));
            assert!(error.contains("does not answer"), "{error}");
        }
    }
}
