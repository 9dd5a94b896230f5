//! `--share` and `--serve`: the readers of a capture in other programs.
//!
//! ```text
//!  bind ─▶ the session is opened with the publisher ─▶ start ─▶ it runs, and ends the share ─▶ finish: clients read what is left
//! ```
//! Names and ports are bound first, so that a conflict does not truncate an output file.

use super::{json, request::Request};
use crate::{
    output::{self, Stream, counted, note_wrapped, packets},
    usage::refuse,
};
use anyhow::{Context, Result};
use forebay_net::{
    serve::{self, Client, Served, Server},
    share::{Access, Bound, Listener, Publisher, ShareSource},
    units,
};
use nix::unistd::{Gid, Group};
use std::net::{SocketAddr, TcpListener};

/// The names and ports of a capture that is not running yet.
pub struct Sharing {
    /// Until the session is opened.
    publisher: Option<Publisher>,
    source: ShareSource,
    /// The memory for packets.
    bytes: u64,
    bound: Option<(Bound, Access)>,
    listener: Option<serve::Bound>,
}

/// The readers of a running capture.
pub struct Readers {
    listener: Option<Listener>,
    server: Option<(Server, SocketAddr)>,
}

/// What became of them.
pub struct Ended {
    /// The most readers of the share at the same time.
    pub max_readers: Option<u32>,
    /// The address of the server, and its clients.
    pub served: Option<(SocketAddr, Served)>,
}

impl Sharing {
    /// Binds names and ports, and allocates the memory; `None`: nothing is shared. What is in use is left out of a `request` that
    /// also has a file, see [`Request::goes_on`].
    ///
    /// # Errors
    /// A name or a port is in use, there is no such group, or there is too little memory.
    pub fn bind(request: &mut Request) -> Result<Option<Sharing>> {
        let offer = request.offer.as_ref();
        let group = offer.and_then(|it| it.group.as_deref());
        let access = Access {
            group: group.map(number_of_group).transpose()?,
        };
        let address = offer.and_then(|it| it.address);
        let bound = match request.share_name().map(Bound::new).transpose() {
            Err(error) => {
                request.goes_on(error.raw_os_error(), error.into())?;
                request.offer.iter_mut().for_each(|it| it.name = None);
                None
            }
            Ok(bound) => bound,
        };
        let listener = match address.map(TcpListener::bind).transpose() {
            Err(error) => {
                let code = error.raw_os_error();
                let what = address.map(|it| format!("--serve tcp:{it} cannot be bound"));
                request.goes_on(
                    code,
                    anyhow::Error::new(error).context(what.unwrap_or_default()),
                )?;
                request.offer.iter_mut().for_each(|it| it.address = None);
                None
            }
            Ok(listener) => listener.map(serve::Bound::from),
        };
        if bound.is_none() && listener.is_none() {
            request.offer = None;
        }
        let Some(publisher) = request.publisher()? else {
            return Ok(None);
        };
        Ok(Some(Sharing {
            source: publisher.source(),
            bytes: publisher.memory_bytes(),
            publisher: Some(publisher),
            bound: bound.map(|bound| (bound, access)),
            listener,
        }))
    }

    /// Takes the publisher, for the session.
    pub fn take_publisher(&mut self) -> Option<Publisher> {
        self.publisher.take()
    }

    /// Makes taps of what is shared.
    pub fn source(&self) -> ShareSource {
        self.source.clone()
    }

    /// Lets readers in.
    ///
    /// # Errors
    /// The system has no more descriptors or threads.
    pub fn start(self, request: &Request) -> Result<Readers> {
        let source = self.source;
        let offer = request.offer.as_ref();
        let is_quiet = request.is_quiet;
        let mut readers = Readers {
            listener: None,
            server: None,
        };
        if let Some((bound, access)) = self.bound {
            readers.listener = Some(bound.start(&source, access)?);
            if let (false, Some(name)) = (is_quiet, request.share_name()) {
                let users = match offer.and_then(|it| it.group.as_ref()) {
                    Some(group) => format!("root, this user and group {group}"),
                    None => "root and this user".into(),
                };
                let size = units::binary(self.bytes);
                note_wrapped(format_args!(
                    "sharing as {name}, {size}: {users} can read it with -i share:{name}"
                ));
            }
        }
        if let Some(listener) = self.listener {
            let address = listener.local_addr()?;
            let stream = request.object_stream();
            let report = move |client: &Client| left(client, is_quiet, stream);
            let server = Server::start(listener, &source, report)?;
            readers.server = Some((server, address));
            let picked = offer
                .and_then(|it| it.address)
                .is_some_and(|it| it.port() == 0);
            if !is_quiet || picked {
                note_wrapped(format_args!(
                    "serving on tcp:{address} (Wireshark: TCP@{address})"
                ));
            }
            if address.ip().is_loopback() && !is_quiet {
                note_wrapped("every user of this machine can read what is served");
            }
            if !address.ip().is_loopback() {
                output::warning(format_args!(
                    "every host that reaches {address} can read these packets: they are neither protected nor encrypted"
                ));
            }
        }
        Ok(readers)
    }
}

impl Readers {
    /// Waits, for up to two seconds, until the clients of the server have read what is left, and ends everything.
    pub fn finish(self) -> Ended {
        let served = self
            .server
            .map(|(server, address)| (address, server.finish()));
        Ended {
            max_readers: self.listener.map(|listener| listener.max_readers()),
            served,
        }
    }
}

impl Ended {
    /// Prints what readers got.
    pub fn print(&self, request: &Request, shared: u64) {
        if request.is_quiet {
            return;
        }
        if let (Some(readers), Some(name)) = (self.max_readers, request.share_name()) {
            let packets = packets(shared);
            let readers = match readers {
                0 => "no reader attached".into(),
                1 => "at most 1 reader".into(),
                _ => format!("at most {readers} readers at the same time"),
            };
            note_wrapped(format_args!("{packets} shared as {name}; {readers}"));
        }
        if let Some((_, served)) = self.served {
            let clients = counted(served.clients, "client", "clients");
            let refused = match served.refused {
                0 => String::new(),
                some => format!(", {some} more turned away"),
            };
            note_wrapped(format_args!(
                "{clients} served{refused}: {} sent, {} lost{}",
                output::packets(served.sent),
                served.lost,
                left_over(served.unsent, served.unread)
            ));
        }
    }
}

/// Packets that clients did not wait for.
fn left_over(unsent: u64, unread: u64) -> String {
    let some = [
        (unsent, "still buffered when a client left"),
        (unread, "shared before the end and not read"),
    ];
    let some = some.into_iter().filter(|(packets, _)| *packets > 0);
    some.map(|(packets, what)| format!(", {packets} {what}"))
        .collect()
}

/// Reports a client that has left.
fn left(client: &Client, is_quiet: bool, stream: Option<Stream>) {
    if let Some(stream) = stream {
        let _ = output::report(stream, &output::json(&json::client(client)));
    }
    let lost = client.ledger.dropped.overrun;
    let unread = client.ledger.unread;
    let left_over = left_over(client.unsent(), unread);
    if is_quiet && lost + unread == 0 {
        return;
    }
    let why = client.error.as_deref().unwrap_or("left");
    note_wrapped(format_args!(
        "client {} {why}: {} sent, {lost} lost{left_over}, {:.1} s",
        client.address,
        output::packets(client.ledger.written),
        client.elapsed.as_secs_f64(),
    ));
}

/// The number of a group that is given by name or number.
fn number_of_group(name: &str) -> Result<u32> {
    let found = Group::from_name(name).context("groups cannot be looked up")?;
    let number = || name.parse().ok().map(Gid::from_raw);
    match found.map(|group| group.gid).or_else(number) {
        Some(gid) => Ok(gid.as_raw()),
        None => refuse(format!("--share-group {name}: there is no such group")),
    }
}
