//! The thread that serves the control socket, the metrics and their file.

use super::{
    connection::{Connection, Protocol},
    desk::Desk,
    file::{self, MetricsFile},
};
use crate::{control::place::Bound, output, signals};
use forebay::sync::Signal;
use forebay_net::port::Owner;
use nix::unistd::geteuid;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::{SocketFlags, acceptfrom_with},
};
use std::{
    net::{SocketAddr, TcpListener},
    os::fd::{AsFd, BorrowedFd},
    sync::Arc,
    time::{Duration, Instant},
};

/// Connections of each protocol.
const MAX_CLIENTS: usize = 32;
/// The pause after an error of `accept`, such as too many open files.
const PAUSE: Duration = Duration::from_secs(1);
/// How long clients may take the final counts.
const GRACE: Duration = Duration::from_secs(1);
/// How often an interrupt is looked for while the final counts wait for a scrape.
const LINGER_STEP: Duration = Duration::from_millis(50);

pub struct Server {
    pub desk: Desk,
    pub control: Option<Bound>,
    pub metrics: Option<TcpListener>,
    pub file: Option<MetricsFile>,
    /// Raised when the final counts are published.
    pub ended: Arc<Signal>,
    /// Print it when the process waits for the last scrape.
    pub announces: bool,
    /// Users that may control the capture, besides root.
    pub owner: u32,
}

impl Server {
    /// Serves until the final counts are published, and then a little longer for those that wait for them.
    pub fn run(mut self) {
        let mut clients: Vec<Connection> = Vec::new();
        let mut next_file = Instant::now() + file::EVERY;
        let mut paused_until = Instant::now();
        let mut ending: Option<(Instant, u32)> = None;
        loop {
            let now = Instant::now();
            if ending.is_none() && self.ended.is_raised() {
                ending = Some((now, signals::stops()));
                self.write_file();
                // Requests that arrived before the end are answered, too.
                self.round(&mut clients, true, false, Some(now));
            }
            if let Some((since, stops)) = ending
                && !self.lingers(&clients, since, stops, now)
            {
                return;
            }
            if now >= next_file && ending.is_none() {
                self.write_file();
                next_file = now + file::EVERY;
            }
            let deadlines = clients.iter().filter(|client| !client.waits);
            let mut until = deadlines.map(|client| client.deadline).min();
            if ending.is_some() {
                until = Some(now + LINGER_STEP);
            } else if self.file.is_some() {
                until = Some(until.map_or(next_file, |until| until.min(next_file)));
            }
            let is_paused = now < paused_until;
            if is_paused {
                until = Some(until.map_or(paused_until, |until| until.min(paused_until)));
            }
            if !self.round(&mut clients, !is_paused, ending.is_none(), until) {
                paused_until = Instant::now() + PAUSE;
            }
        }
    }

    /// Waits until something happens, accepts clients if it `listens`, and serves each. With `awaits_end` it does not wait longer than
    /// until the final counts are published, also if this was before the call. `false`: the system has no room for more clients at the
    /// moment.
    pub fn round(
        &mut self,
        clients: &mut Vec<Connection>,
        listens: bool,
        awaits_end: bool,
        until: Option<Instant>,
    ) -> bool {
        let mut has_room = true;
        let ready = self.wait(clients, listens, awaits_end, until);
        let now = Instant::now();
        for (protocol, is_ready) in [Protocol::Control, Protocol::Metrics]
            .into_iter()
            .zip(ready)
        {
            has_room &= !is_ready || self.accept(protocol, clients, now);
        }
        let desk = &mut self.desk;
        clients.retain_mut(|client| {
            let rests = client.happened.is_empty() && !client.waits && now < client.deadline;
            rests || client.go_on(desk, now)
        });
        has_room
    }

    /// Waits for the listeners and the clients. Each client holds what happened to it; returned is whether the listeners are ready.
    fn wait(
        &self,
        clients: &mut [Connection],
        listens: bool,
        awaits_end: bool,
        until: Option<Instant>,
    ) -> [bool; 2] {
        // Once raised, it stays readable.
        let ended = self.ended.as_fd();
        let flags = |is_wanted| match is_wanted {
            true => PollFlags::IN,
            false => PollFlags::empty(),
        };
        let control = self.control.as_ref().map(|bound| bound.listener.as_fd());
        let metrics = self.metrics.as_ref().map(AsFd::as_fd);
        let mut fds = vec![PollFd::from_borrowed_fd(ended, flags(awaits_end))];
        let listeners: [Option<BorrowedFd<'_>>; 2] = [control, metrics];
        for listener in listeners {
            let wanted = flags(listens && listener.is_some());
            fds.push(PollFd::from_borrowed_fd(listener.unwrap_or(ended), wanted));
        }
        let sockets = clients.iter();
        fds.extend(sockets.map(|client| PollFd::new(&client.socket, client.wanted())));
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        // Up to the next millisecond, so that the deadline has passed.
        let left = left.map(|left| left + Duration::from_millis(1));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let is_reliable = poll(&mut fds, timeout.as_ref()).is_ok();
        let happened = fds.iter().map(|fd| match is_reliable {
            true => fd.revents(),
            false => PollFlags::empty(),
        });
        let mut happened = happened.collect::<Vec<_>>().into_iter().skip(1);
        let ready = [(); 2].map(|()| happened.next().is_some_and(|flags| !flags.is_empty()));
        for (client, happened) in clients.iter_mut().zip(happened) {
            client.happened = happened;
        }
        ready
    }

    /// Accepts clients that wait; `false`: the system has no room for more at the moment.
    fn accept(&self, protocol: Protocol, clients: &mut Vec<Connection>, now: Instant) -> bool {
        let listener = match protocol {
            Protocol::Control => self.control.as_ref().map(|bound| bound.listener.as_fd()),
            Protocol::Metrics => self.metrics.as_ref().map(AsFd::as_fd),
        };
        let Some(listener) = listener else {
            return true;
        };
        for _ in 0..MAX_CLIENTS {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let (socket, address) = match acceptfrom_with(listener, flags) {
                Ok(accepted) => accepted,
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return true,
                Err(_) => return false,
            };
            if protocol == Protocol::Control {
                let user = Owner::of(&socket).map(|peer| peer.uid);
                let allowed = [0, self.owner, geteuid().as_raw()];
                if !user.is_ok_and(|user| allowed.contains(&user)) {
                    continue;
                }
            }
            let address = address.and_then(|address| SocketAddr::try_from(address).ok());
            let address = address.map(|address| address.ip());
            let newest = Connection::new(socket, protocol, address, now);
            let is_same = |client: &Connection| client.protocol == protocol;
            if clients.iter().filter(|client| is_same(client)).count() >= MAX_CLIENTS {
                // The one that has done nothing for the longest time goes, if possible none that is being answered.
                let idle = clients.iter().enumerate();
                let idle = idle.filter(|(_, client)| is_same(client) && !client.waits);
                match idle.min_by_key(|(_, client)| (client.is_sending(), client.deadline)) {
                    Some((at, _)) => drop(clients.remove(at)),
                    None => continue,
                }
            }
            clients.push(newest);
        }
        true
    }

    fn write_file(&mut self) {
        if let Some(file) = &mut self.file {
            let written = self.desk.write(file);
            file.renew(written);
        }
    }

    /// Whether a client still waits for the final counts, `since` the capture ended.
    fn lingers(
        &mut self,
        clients: &[Connection],
        since: Instant,
        stops: u32,
        now: Instant,
    ) -> bool {
        if signals::stops() > stops {
            return false;
        }
        let is_waiting = |client: &Connection| client.waits || client.is_sending();
        if now < since + GRACE && clients.iter().any(is_waiting) {
            return true;
        }
        let Some(until) = self.desk.lingers_until(since).filter(|&until| now < until) else {
            return false;
        };
        if self.metrics.is_some() && std::mem::take(&mut self.announces) {
            let seconds = (until - now).as_secs() + 1;
            output::note(format_args!(
                "waiting up to {seconds} s for the last scrape of the metrics; interrupt to end now"
            ));
        }
        self.metrics.is_some()
    }
}
