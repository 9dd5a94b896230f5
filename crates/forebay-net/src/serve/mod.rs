//! PCAP-over-IP: sends the packets of a [share](crate::share) as a pcapng stream over TCP, for programs that cannot read a share.
//!
//! ```text
//!  ShareSource ──▶ tap ──▶ session ──▶ pcapng ──▶ socket of client 1      one thread a client, each with its own ledger
//!         └─▶ tap ──▶ session ──▶ pcapng ──▶ socket of client 2
//! ```
//! Each client has a few buffers. If it reads too slowly, these fill up, and then packets are overwritten before its tap has read them.
//! The ledger of the client counts them as lost. Bytes that a client sends are not read.

mod places;

use crate::{
    ledger::Ledger,
    port::MAX_SNAPLEN,
    session::{Control, Output, Session, SessionConfig, Summary},
    share::{ShareSource, TapConfig},
};
use forebay::{
    Error, Result,
    store::{Limit, StoreConfig},
    sync::Signal,
};
use places::{Holder, Holders, is_full};
use rustix::event::{PollFd, PollFlags, poll};
use std::{
    fs::File,
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{Receiver, Sender, channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// After each connection, so that a user who connects in a loop takes little of a processor.
const REST: Duration = Duration::from_millis(10);
/// Buffers of a client.
const BUFFERS: usize = 4;
const BUFFER_BYTES: usize = 512 << 10;
/// Packets reach a client after this time at the latest.
const FLUSH_EVERY: Duration = Duration::from_millis(100);
/// After an error of the system, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);
/// How long clients may read on after the capture has ended. One more second passes until what is left is given up.
const GRACE: Duration = Duration::from_secs(1);

/// A client that has left.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its address.
    pub address: SocketAddr,
    /// Its packets: `written` were sent, and `dropped.overrun` were lost because it read too slowly. The other drops were in its
    /// buffers when it left, and `unread` were not in them yet. Together these are `received`: all that were shared while it was connected.
    pub ledger: Ledger,
    /// How long it was connected.
    pub elapsed: Duration,
    /// Why it ended, unless the client left or the capture ended.
    pub error: Option<String>,
}

/// All clients of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Served {
    /// Clients that have left.
    pub clients: u64,
    /// Clients that were turned away because there was no place for them, or because of an error of the system.
    pub refused: u64,
    /// Packets sent to them.
    pub sent: u64,
    /// Packets that they lost because they read too slowly.
    pub lost: u64,
    /// Packets that were in their buffers when they left, and were not sent.
    pub unsent: u64,
    /// Packets that were shared before they left or the capture ended, and were not read for them any more.
    pub unread: u64,
}

/// Sends the packets of a share to every TCP client, as pcapng.
///
/// Up to 32 clients are served at the same time: up to 8 of one user of this machine or of one host, apart from root and the user of
/// this process. The last 8 places are theirs. Each client gets the packets from its connection on, and loses packets if it is slow;
/// nothing that it does holds up the capture or other clients. A client that closes its sending side counts as having left.
pub struct Server {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Served>>,
}

/// A socket that listens, and one that asks the kernel to which user a client belongs. In a program that enters a sandbox, make it before.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    holders: Holders,
}

impl From<TcpListener> for Bound {
    fn from(listener: TcpListener) -> Bound {
        Bound {
            listener,
            holders: Holders::new(),
        }
    }
}

impl Bound {
    /// The address at which it listens.
    ///
    /// # Errors
    /// As [`TcpListener::local_addr`].
    pub fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

#[derive(Debug)]
struct Shared {
    wake: Signal,
    is_ending: AtomicBool,
}

impl Server {
    /// Serves the clients of a [`TcpListener`] or [`Bound`]. `left` is called on the server's thread for each client that has left.
    ///
    /// # Errors
    /// The system has no more descriptors or threads.
    pub fn start(
        bound: impl Into<Bound>,
        source: &ShareSource,
        left: impl Fn(&Client) + Send + 'static,
    ) -> Result<Server> {
        let failed = |tried, error: std::io::Error| Error::new("serve", tried).because(error);
        let Bound { listener, holders } = bound.into();
        listener
            .set_nonblocking(true)
            .map_err(|error| failed("setting up the socket", error))?;
        let shared = Arc::new(Shared {
            wake: Signal::new()?,
            is_ending: AtomicBool::new(false),
        });
        let mut door = Door {
            listener,
            holders,
            source: source.clone(),
            shared: shared.clone(),
            clients: Vec::new(),
            served: Served::default(),
            left: Box::new(left),
            connections: 0,
            ended: channel(),
        };
        let thread = std::thread::Builder::new().name("forebay-serve".into());
        let thread = thread
            .spawn(move || door.run())
            .map_err(|error| failed("starting a thread", error))?;
        Ok(Server {
            shared,
            thread: Some(thread),
        })
    }

    /// Accepts no more clients, and waits until those that are left have read everything, for up to two seconds. Call it after
    /// the capture has ended.
    pub fn finish(mut self) -> Served {
        self.end()
    }

    fn end(&mut self) -> Served {
        self.shared.is_ending.store(true, Relaxed);
        self.shared.wake.raise();
        let thread = self.thread.take();
        thread.map_or(Served::default(), |thread| {
            thread.join().unwrap_or_default()
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// The state of the server's thread.
struct Door {
    listener: TcpListener,
    holders: Holders,
    source: ShareSource,
    shared: Arc<Shared>,
    clients: Vec<Serving>,
    served: Served,
    left: Box<dyn Fn(&Client) + Send>,
    /// Connections served so far.
    connections: u64,
    /// The numbers of clients whose threads are about to end.
    ended: (Sender<u64>, Receiver<u64>),
}

/// A connected client.
struct Serving {
    number: u64,
    address: SocketAddr,
    holder: Holder,
    began: Instant,
    /// A copy, to notice that the client has left while no packet is sent.
    socket: OwnedFd,
    is_leaving: bool,
    control: Control,
    thread: JoinHandle<Summary>,
}

impl Door {
    fn run(&mut self) -> Served {
        while !self.shared.is_ending.load(Relaxed) {
            let mut fds = vec![
                PollFd::from_borrowed_fd(self.shared.wake.as_fd(), PollFlags::IN),
                PollFd::new(&self.listener, PollFlags::IN),
            ];
            let staying = self.clients.iter().filter(|client| !client.is_leaving);
            fds.extend(staying.map(|client| PollFd::new(&client.socket, PollFlags::RDHUP)));
            if poll(&mut fds, None).is_err() {
                continue; // interrupted
            }
            let is_calling = !fds[1].revents().is_empty();
            let gone: Vec<_> = fds[2..].iter().map(|fd| !fd.revents().is_empty()).collect();
            let staying = self.clients.iter_mut().filter(|client| !client.is_leaving);
            for (client, _) in staying.zip(gone).filter(|(_, is_gone)| *is_gone) {
                client.is_leaving = true;
                // It may not read what is left: the second stop gives up what is not sent within a second.
                client.control.stop();
                client.control.stop();
            }
            self.shared.wake.clear();
            self.reap();
            if is_calling {
                self.accept();
                std::thread::sleep(REST);
            }
        }
        self.wait_for_the_rest();
        self.served
    }

    fn accept(&mut self) {
        let (socket, address) = match self.listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
            // Otherwise this thread would run all the time while the system has no descriptor left.
            Err(_) => return std::thread::sleep(PAUSE),
        };
        let local = socket.local_addr();
        let holder = local.map_or(Holder::User(None), |it| self.holders.of(address, it));
        if is_full(holder, self.clients.iter().map(|it| it.holder)) {
            self.served.refused += 1;
            return;
        }
        match self.serve(socket, address, holder) {
            Ok(client) => self.clients.push(client),
            Err(_) => self.served.refused += 1,
        }
    }

    fn serve(&mut self, socket: TcpStream, address: SocketAddr, holder: Holder) -> Result<Serving> {
        let failed = |error: std::io::Error| Error::new("serve", "serving a client").because(error);
        let copy = OwnedFd::from(socket.try_clone().map_err(failed)?);
        let of_tap = TapConfig::default();
        let tap = self.source.tap(&of_tap)?;
        let control = Control::new()?;
        let config = SessionConfig {
            store: StoreConfig {
                buffers: BUFFERS,
                buffer_bytes: BUFFER_BYTES,
                limit: Limit::Fixed,
                flush_every: FLUSH_EVERY,
                ..StoreConfig::default()
            },
            // The capture has cut the packets already.
            snaplen: MAX_SNAPLEN,
            ..SessionConfig::default()
        };
        let output = Output::Stream(File::from(OwnedFd::from(socket)), address.to_string());
        let ports = vec![Box::new(tap) as _];
        let session = Session::open(ports, output, config, of_tap.clock, control.clone())?;
        self.connections += 1;
        let number = self.connections;
        let ends = EndOfClient {
            number,
            ended: self.ended.0.clone(),
            shared: self.shared.clone(),
        };
        let thread = std::thread::Builder::new().name("forebay-client".into());
        let thread = thread.spawn(move || {
            // It ends, too, if the session panics.
            let _ends = ends;
            session.run(&mut |_| {})
        });
        Ok(Serving {
            number,
            address,
            holder,
            began: Instant::now(),
            socket: copy,
            is_leaving: false,
            control,
            thread: thread.map_err(failed)?,
        })
    }

    /// Counts and reports the clients whose sessions have ended.
    fn reap(&mut self) {
        for number in self.ended.1.try_iter() {
            let at = self.clients.iter().position(|it| it.number == number);
            let Some(at) = at else { continue };
            let client = self.clients.swap_remove(at);
            let has_left = |error: &Error| {
                matches!(error.raw_os_error(), Some(libc::EPIPE | libc::ECONNRESET))
            };
            let (ledger, error) = match client.thread.join() {
                Ok(summary) => {
                    let error = summary.store_error.or(summary.port_error);
                    let error = error.filter(|it| !has_left(it));
                    (summary.ledger, error.map(|it| it.to_string()))
                }
                Err(_) => (
                    Ledger::default(),
                    Some("its session panicked, and its packets are not counted".into()),
                ),
            };
            let client = Client {
                address: client.address,
                ledger,
                elapsed: client.began.elapsed(),
                error,
            };
            self.served.clients += 1;
            self.served.sent += client.ledger.written;
            self.served.lost += client.ledger.dropped.overrun;
            self.served.unsent += client.unsent();
            self.served.unread += client.ledger.unread;
            (self.left)(&client);
        }
    }

    fn wait_for_the_rest(&mut self) {
        let began = Instant::now();
        let mut gave_up = false;
        while !self.clients.is_empty() {
            if !gave_up && began.elapsed() >= GRACE {
                gave_up = true;
                for client in &self.clients {
                    // The second stop gives up what is not sent within a second.
                    client.control.stop();
                    client.control.stop();
                }
            }
            self.shared.wake.wait(Some(PAUSE));
            self.shared.wake.clear();
            self.reap();
        }
    }
}

impl Client {
    /// Packets that were in its buffers when it left.
    pub fn unsent(&self) -> u64 {
        self.ledger.dropped.known() - self.ledger.dropped.overrun
    }
}

/// Reports to the server's thread that a client's thread is about to end.
struct EndOfClient {
    number: u64,
    ended: Sender<u64>,
    shared: Arc<Shared>,
}

impl Drop for EndOfClient {
    fn drop(&mut self) {
        let _ = self.ended.send(self.number);
        self.shared.wake.raise();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        port::{Frame, Interface},
        session::tests::{opened, shared_session},
        share::{MIN_RING_BYTES, Publisher},
    };
    use std::{io::Read, sync::Mutex};

    #[test]
    fn tcp_clients_get_a_pcapng_stream_and_slow_ones_lose_only_their_own_packets() {
        let publisher = Publisher::new(MIN_RING_BYTES).unwrap();
        let source = publisher.source();
        let (ports, clock) = opened(&["sim:clock=virtual,count=40000,size=1000"]);
        let session = shared_session(ports, Output::Count, clock, publisher).0;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let clients = Arc::new(Mutex::new(Vec::new()));
        let left = clients.clone();
        let server = Server::start(listener, &source, move |client| {
            left.lock().unwrap().push(client.clone());
        })
        .unwrap();
        let connect = || TcpStream::connect(address).unwrap();
        let (mut reading, stalled, leaving) = (connect(), connect(), connect());
        let stalled_address = stalled.local_addr().unwrap();
        let mut first = [0; 100];
        let mut wait = connect();
        // Every client is served when the last one has its header.
        wait.read_exact(&mut first).unwrap();
        drop((leaving, wait));
        let reader = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            reading.read_to_end(&mut bytes).unwrap();
            forebay_testing::found::read(&bytes[..])
        });
        assert_eq!(session.run(&mut |_| {}).shared, Some(40_000));
        let served = server.finish();
        let found = reader.join().unwrap();
        drop(stalled);
        assert_eq!((served.clients, served.refused), (4, 0));
        let clients = clients.lock().unwrap();
        assert!(
            clients
                .iter()
                .all(|it| it.ledger.check().is_ok() && it.error.is_none())
        );
        let sent: u64 = clients.iter().map(|it| it.ledger.written).sum();
        assert_eq!(sent, served.sent);
        // The stream of the client that read has its packets and its losses.
        let whole = clients
            .iter()
            .find(|it| it.ledger.written == found.packets.len() as u64);
        let whole = whole.expect("its counts").ledger;
        assert_eq!(whole.received, 40_000);
        assert_eq!(
            found.statistics,
            [[40_000, whole.dropped.overrun, whole.written]]
        );
        assert_eq!(found.gaps(40_000).1, whole.dropped.overrun);
        let lost = |client: &Client| client.ledger.dropped.overrun;
        let stalled = clients.iter().find(|it| it.address == stalled_address);
        let stalled = stalled.expect("its counts");
        assert!(lost(stalled) > 0, "{stalled:?}");
        // From both ends: what was shared, and what became of it.
        let ledger = &stalled.ledger;
        let counted = ledger.written + ledger.unread + lost(stalled) + stalled.unsent();
        assert_eq!((ledger.received, counted), (40_000, 40_000));
        let unread = clients.iter().map(|it| it.ledger.unread).sum::<u64>();
        assert_eq!(served.unread, unread);
        assert_eq!(served.lost, clients.iter().map(lost).sum::<u64>());
        assert_eq!(
            served.unsent,
            clients.iter().map(Client::unsent).sum::<u64>()
        );
    }

    #[test]
    fn a_client_gets_the_longest_packets_whole() {
        let mut publisher = Publisher::new(8 << 20).unwrap();
        publisher.introduce(&Interface::default());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server::start(listener, &publisher.source(), |_| ()).unwrap();
        let mut client = TcpStream::connect(address).unwrap();
        let mut stream = vec![0; 4];
        client.read_exact(&mut stream).unwrap();
        let packet: Vec<u8> = (0..MAX_SNAPLEN).map(|at| (at % 251) as u8).collect();
        publisher.publish(0, &Frame::whole(&packet));
        publisher.finish(0);
        let reader = std::thread::spawn(move || client.read_to_end(&mut stream).map(|_| stream));
        assert_eq!(server.finish().sent, 1);
        let stream = reader.join().unwrap().unwrap();
        let is_whole = stream.windows(packet.len()).any(|it| it == packet);
        assert!(is_whole, "the packet was cut");
    }

    #[test]
    fn a_client_that_closed_its_sending_side_and_does_not_read_leaves() {
        let mut publisher = Publisher::new(MIN_RING_BYTES).unwrap();
        publisher.introduce(&Interface::default());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, left) = channel();
        let report = move |client: &Client| sender.send(client.clone()).unwrap();
        let server = Server::start(listener, &publisher.source(), report).unwrap();
        let mut client = TcpStream::connect(address).unwrap();
        client.read_exact(&mut [0; 4]).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let left = loop {
            publisher.publish(0, &Frame::whole(&[0; 60_000]));
            if let Ok(left) = left.recv_timeout(Duration::from_millis(1)) {
                break left;
            }
        };
        assert_eq!(left.ledger.check(), Ok(()));
        drop(client);
        publisher.finish(0);
        let served = server.finish();
        assert_eq!((served.clients, served.unsent), (1, left.unsent()));
    }
}
