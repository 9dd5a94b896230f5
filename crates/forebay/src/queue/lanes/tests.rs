use super::{Ending::Broken, *};
use crate::sys::{page_size, passing, sealed};
use rustix::{
    io::Errno,
    net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg},
};
use std::{
    io::{ErrorKind, Read, Write},
    mem,
    net::{TcpListener, TcpStream},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    thread,
    time::{Duration, Instant},
};

const SOON: Duration = Duration::from_millis(1);
/// A time limit that is never reached if the test passes.
const LATER: Duration = Duration::from_secs(20);

fn hub() -> Hub {
    Hub::new(&LanesConfig::default()).unwrap()
}

/// Joins a sender with a lane of `capacity` bytes. Also returns its number at the hub and a second descriptor of its socket.
fn join(hub: &Hub, capacity: usize) -> (Sender, Peer, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let socket = theirs.try_clone().unwrap();
    let attaching = thread::spawn(move || Sender::attach_timeout(theirs, capacity, LATER));
    let peer = hub.accept_timeout(ours, LATER).unwrap();
    (attaching.join().unwrap().unwrap(), peer, socket)
}

/// Receives the end of the next lane that ends.
fn ended(hub: &Hub) -> ((Peer, Ending), LaneStats) {
    match hub.recv_timeout(&mut [0; 64], LATER) {
        Err(RecvError::Ended {
            peer,
            ending,
            stats,
        }) => ((peer, ending), stats),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_message_goes_to_one_of_several_threads_in_its_senders_order() {
    const MESSAGES: u64 = 20_000;
    let hub = hub();
    let senders: Vec<_> = (0..3).map(|_| join(&hub, 4096).0).collect();
    thread::scope(|scope| {
        for mut sender in senders {
            scope.spawn(move || {
                for number in 0..MESSAGES {
                    let len = 8 + number as usize % 50;
                    let mut message = number.to_ne_bytes().repeat(8);
                    message.truncate(len);
                    sender.send_timeout(&message, LATER).unwrap();
                }
            });
        }
        let receivers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let mut buffer = [0; 64];
                    let (mut last, mut count, mut ends) = ([None; 3], 0, 0);
                    loop {
                        match hub.recv_timeout(&mut buffer, LATER) {
                            Ok(ReceivedFrom {
                                len,
                                peer,
                                sequence,
                            }) => {
                                let expected = sequence.to_ne_bytes().repeat(8);
                                assert_eq!(buffer[..len], expected[..len]);
                                assert_eq!(len, 8 + sequence as usize % 50);
                                let last = &mut last[peer.number() as usize];
                                assert!(*last < Some(sequence), "{peer}");
                                *last = Some(sequence);
                                count += 1;
                            }
                            Err(RecvError::Ended { ending, stats, .. }) => {
                                assert_eq!((ending, stats.received), (Ending::Closed, MESSAGES));
                                ends += 1;
                                if hub.stats().is_empty() {
                                    hub.close();
                                }
                            }
                            Err(RecvError::Closed) => return (count, ends),
                            Err(error) => panic!("{error}"),
                        }
                    }
                })
            })
            .collect();
        let counts = receivers.into_iter().map(|thread| thread.join().unwrap());
        let sum = counts.fold((0, 0), |sum, some| (sum.0 + some.0, sum.1 + some.1));
        assert_eq!(sum, (3 * MESSAGES, 3));
    });
}

#[test]
fn neither_side_of_a_lane_that_holds_three_messages_sleeps_on() {
    const MESSAGES: u64 = 50_000;
    let hub = hub();
    let (mut sender, ..) = join(&hub, 1);
    let message = vec![7; sender.largest() / 3];
    let sending = thread::spawn(move || {
        for _ in 0..MESSAGES {
            sender.send_timeout(&message, LATER).unwrap();
        }
        sender
    });
    let mut buffer = vec![0; 4096];
    for sequence in 0..MESSAGES {
        assert_eq!(
            hub.recv_timeout(&mut buffer, LATER).unwrap().sequence,
            sequence
        );
    }
    drop(sending.join().unwrap());
}

#[test]
fn a_full_lane_costs_the_others_one_message_a_round() {
    let hub = hub();
    let (mut flood, noisy, _) = join(&hub, 1 << 16);
    let (mut calm, quiet, _) = join(&hub, 1);
    while flood.try_send(b"flood") == Ok(()) {}
    for _ in 0..10 {
        calm.try_send(b"calm").unwrap();
        let mut peers = [0, 1].map(|_| hub.try_recv(&mut [0; 8]).unwrap().peer);
        peers.sort();
        assert_eq!(peers, [noisy, quiet]);
    }
    let stats = hub.stats();
    assert_eq!((stats[1].received, stats[1].received_bytes), (10, 40));
    assert_eq!(
        stats[0].queued_bytes,
        flood.capacity_bytes() / 16 * 16 - 160
    );
}

#[test]
fn a_message_longer_than_the_buffer_stays_and_lets_others_pass() {
    let hub = hub();
    let (mut long, first, _) = join(&hub, 1);
    let (mut short, second, _) = join(&hub, 1);
    long.try_send([7; 100]).unwrap();
    short.try_send([8; 10]).unwrap();
    let too_small = Err(RecvError::TooSmall {
        peer: first,
        needed: 100,
    });
    assert_eq!(hub.try_recv(&mut [0; 10]), too_small);
    assert_eq!(hub.try_recv(&mut [0; 10]).unwrap().peer, second);
    assert_eq!(hub.try_recv(&mut [0; 10]), too_small);
    assert_eq!(hub.try_recv(&mut [0; 100]).unwrap().len, 100);
    assert_eq!(hub.try_recv(&mut [0; 100]), Err(RecvError::Empty));
    assert_eq!(
        hub.recv_timeout(&mut [0; 100], SOON),
        Err(RecvError::TimedOut)
    );
    assert_eq!(
        hub.recv_deadline(&mut [0; 100], Instant::now()),
        Err(RecvError::TimedOut)
    );
    let largest = short.largest();
    assert_eq!(
        short.try_send(vec![0; largest + 1]),
        Err(SendError::TooLong { largest })
    );
}

#[test]
fn a_closed_and_a_dead_sender_are_reported_differently_after_their_last_message() {
    let hub = hub();
    let (mut sender, closes, _) = join(&hub, 1);
    sender.try_send(b"last words").unwrap();
    drop(sender);
    assert_eq!(hub.try_recv(&mut [0; 10]).unwrap().peer, closes);
    let (end, stats) = ended(&hub);
    assert_eq!(end, (closes, Ending::Closed));
    assert_eq!((stats.received, stats.received_bytes), (1, 10));

    let (mut sender, dies, socket) = join(&hub, 1);
    sender.try_send(b"last words").unwrap();
    // As if its process was killed: the sender stays until the test ends, and says nothing.
    socket.shutdown(std::net::Shutdown::Both).unwrap();
    assert_eq!(hub.try_recv(&mut [0; 10]).unwrap().peer, dies);
    assert_eq!(ended(&hub).0, (dies, Ending::Died));
    assert!(hub.stats().is_empty());
}

#[test]
fn a_sender_learns_that_its_hub_closed_or_expelled_it() {
    let hub = hub();
    let fill = |sender: &mut Sender| while sender.try_send(b"x") == Ok(()) {};
    let (mut sender, peer, _) = join(&hub, 1);
    fill(&mut sender);
    assert_eq!(sender.send_timeout(b"x", SOON), Err(SendError::TimedOut));
    assert_eq!(
        sender.send_deadline(b"x", Instant::now()),
        Err(SendError::TimedOut)
    );
    assert_eq!(sender.try_send(b"x"), Err(SendError::Full));
    assert!(hub.expel(peer).is_some());
    assert_eq!(hub.expel(peer), None);
    let expelled = Err(SendError::Ended(Ending::Expelled));
    assert_eq!(sender.send(b"x"), expelled);
    assert_eq!(sender.send(b""), expelled);

    let (mut sender, ..) = join(&hub, 1);
    fill(&mut sender);
    thread::scope(|scope| {
        let waits = scope.spawn(|| sender.send(b"x"));
        let receiver = scope.spawn(|| {
            loop {
                match hub.recv(&mut [0; 8]) {
                    Ok(_) => {}
                    Err(error) => return error,
                }
            }
        });
        while !hub.stats().iter().all(|lane| lane.queued_bytes == 0) {
            thread::yield_now();
        }
        assert_eq!(waits.join().unwrap(), Ok(())); // there was room by then
        hub.close();
        assert_eq!(receiver.join().unwrap(), RecvError::Closed);
    });
    let closed = Err(SendError::Ended(Ending::Closed));
    assert_eq!(
        (0..10_000)
            .map(|_| sender.send(b"x"))
            .find(|sent| sent.is_err()),
        Some(closed)
    );
    assert_eq!(hub.try_recv(&mut []), Err(RecvError::Closed));
    let (ours, theirs) = UnixStream::pair().unwrap();
    let attaching = thread::spawn(move || Sender::attach_timeout(theirs, 1, LATER));
    let error = hub.accept_timeout(ours, LATER).unwrap_err().to_string();
    assert!(error.contains("closed"), "{error}");
    drop(attaching.join().unwrap());
}

/// The note of a sender that offers a lane of `len` bytes.
fn note(len: usize) -> Vec<u8> {
    let mut note = b"forebayL".to_vec();
    note.extend(1_u32.to_ne_bytes());
    note.extend(1_u32.to_ne_bytes());
    note.extend((len as u64).to_ne_bytes());
    note
}

/// The error of a hub that is asked to accept a peer that sends `text` with these descriptors.
fn refusal(hub: &Hub, text: &[u8], descriptors: &[BorrowedFd<'_>]) -> crate::Error {
    let (ours, theirs) = UnixStream::pair().unwrap();
    send_all(&theirs, text, descriptors);
    hub.accept_timeout(ours, LATER).unwrap_err()
}

fn send_all(socket: &UnixStream, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
    send_flagged(socket, bytes, descriptors, SendFlags::empty()).unwrap();
}

fn send_flagged(
    socket: &UnixStream,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> rustix::io::Result<usize> {
    let mut space = vec![mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
    let bytes = [std::io::IoSlice::new(bytes)];
    sendmsg(socket, &bytes, &mut control, flags)
}

#[test]
fn a_peer_that_is_not_a_sender_is_refused_with_a_reason() {
    let hub = Hub::new(&LanesConfig {
        max_peers: 1,
        ..LanesConfig::default()
    })
    .unwrap();
    let len = 4 * page_size();
    let (lane, _mapping) = sealed::make("test", len).unwrap();
    let lane = lane.as_fd();
    let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
    let whole = note(len);
    for (says, text, descriptors) in [
        (
            "something else",
            &b"GET / HTTP/1.0\r\n\r\n and more of it"[..],
            &[][..],
        ),
        ("something else", &whole[..20], &[lane]),
        ("something else", &whole, &[lane; 2]),
        ("something else", &whole, &[lane; 50]),
        ("sent no descriptor", &whole, &[]),
        ("not memory that can be sealed", &whole, &[file.as_fd()]),
        ("has 16384 bytes", &note(2 * len), &[lane]),
        ("whole pages", &note(len + 8), &[lane]),
        ("whole pages", &note(0), &[lane]),
        ("more than", &note(1 << 40), &[lane]),
        ("more than", &note(usize::MAX), &[lane]),
    ] {
        let error = refusal(&hub, text, descriptors).to_string();
        let says = says.replace("16384", &len.to_string());
        assert!(error.contains(&says), "{error}");
    }
    let (ours, theirs) = UnixStream::pair().unwrap();
    let error = hub.accept_timeout(ours, SOON).unwrap_err();
    assert_eq!(error.cause().unwrap().kind(), ErrorKind::TimedOut);
    drop(theirs);
    let (ours, _) = UnixStream::pair().unwrap();
    let error = hub.accept_timeout(ours, LATER).unwrap_err();
    assert_eq!(error.cause().unwrap().kind(), ErrorKind::UnexpectedEof);

    let (mut sender, ..) = join(&hub, 1);
    sender.try_send(b"still there").unwrap();
    assert_eq!(hub.try_recv(&mut [0; 11]).unwrap().len, 11);
    let error = refusal(&hub, &whole, &[lane]).to_string();
    assert!(error.contains("maximum number of peers"), "{error}");
}

#[test]
fn a_refused_sender_gets_the_reason() {
    let small = LanesConfig {
        max_peers: 1,
        max_lane_bytes: 1 << 16,
    };
    let hub = Hub::new(&small).unwrap();
    let try_join = |capacity| {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let attaching = thread::spawn(move || Sender::attach_timeout(theirs, capacity, LATER));
        let _ = hub.accept_timeout(ours, LATER);
        attaching
            .join()
            .unwrap()
            .map(drop)
            .map_err(|error| error.to_string())
    };
    assert!(try_join(1 << 17).unwrap_err().contains("max_lane_bytes"));
    assert_eq!(try_join(1 << 16), Ok(()));
    assert!(try_join(1).unwrap_err().contains("max_peers"));
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let error = Sender::attach_timeout(ours, 1, SOON).unwrap_err();
    assert_eq!(error.cause().unwrap().kind(), ErrorKind::TimedOut);
    assert!(Sender::attach_timeout(UnixStream::pair().unwrap().0, 0, SOON).is_err());
}

#[test]
fn a_peer_whose_socket_says_too_much_loses_its_lane_and_no_other() {
    let hub = hub();
    let (mut calm, ..) = join(&hub, 1);
    let (_sender, noisy, mut socket) = join(&hub, 1);
    socket.write_all(&[1; 100]).unwrap();
    assert_eq!(ended(&hub).0, (noisy, Broken(Fault::Noise)));
    let (_sender, generous, socket) = join(&hub, 1);
    send_all(&socket, b"x", &[socket.as_fd()]);
    assert_eq!(ended(&hub).0, (generous, Broken(Fault::Descriptors)));
    calm.try_send(b"calm").unwrap();
    assert_eq!(hub.try_recv(&mut [0; 4]).unwrap().len, 4);
}

#[test]
fn a_byte_out_of_band_is_a_byte_like_any_other_and_hides_nothing() {
    let hub = hub();
    let (_sender, generous, socket) = join(&hub, 1);
    if send_flagged(&socket, b"x", &[socket.as_fd()], SendFlags::OOB) == Err(Errno::OPNOTSUPP) {
        eprintln!("skipped: needs a kernel with out-of-band bytes over Unix sockets");
        return;
    }
    assert_eq!(ended(&hub).0, (generous, Broken(Fault::Descriptors)));
    let (_sender, noisy, socket) = join(&hub, 1);
    for _ in 0..10 {
        send_flagged(&socket, b"x", &[], SendFlags::OOB).unwrap();
    }
    assert_eq!(ended(&hub).0, (noisy, Broken(Fault::Noise)));
    // Before the greeting, where it would be lost together with it.
    let (lane, _mapping) = sealed::make("test", page_size()).unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    send_flagged(&theirs, b"x", &[theirs.as_fd()], SendFlags::OOB).unwrap();
    send_all(&theirs, &note(page_size()), &[lane.as_fd()]);
    let error = hub.accept_timeout(ours, LATER).unwrap_err().to_string();
    assert!(error.contains("something else"), "{error}");
}

#[test]
fn a_message_and_an_end_signal_a_poll_loop() {
    let hub = hub();
    let (mut sender, ..) = join(&hub, 1);
    while !hub.arm() {}
    sender.try_send(b"x").unwrap();
    passing::wait_readable(&hub, None);
    assert!(!hub.arm());
    hub.try_recv(&mut [0; 1]).unwrap();
    assert!(hub.arm());
    drop(sender);
    passing::wait_readable(&hub, None);
    assert!(!hub.arm());
    assert_eq!(ended(&hub).0.1, Ending::Closed);
    assert!(hub.arm());
    hub.close();
    assert!(!hub.arm());
}

/// A TCP socket whose last descriptor takes 30 s to close, and the sockets that cause this. `None` without a loopback interface.
fn lingering() -> Option<(OwnedFd, (TcpListener, TcpStream))> {
    let listener = TcpListener::bind("127.0.0.1:0").ok()?;
    let mut socket = TcpStream::connect(listener.local_addr().ok()?).ok()?;
    let (other, _) = listener.accept().ok()?;
    socket.set_nonblocking(true).unwrap();
    while socket.write(&[0; 1 << 16]).is_ok() {}
    let linger = Some(Duration::from_secs(30));
    rustix::net::sockopt::set_socket_linger(&socket, linger).unwrap();
    Some((socket.into(), (listener, other)))
}

#[test]
fn closing_a_slow_descriptor_delays_no_call() {
    let hub = hub();
    let begun = Instant::now();
    let mut keep = Vec::new();
    // With a greeting, with other bytes, among many descriptors, and with a ring.
    for (text, copies) in [
        (note(page_size()), 1),
        (vec![0], 1),
        (note(page_size()), 50),
    ] {
        let Some((slow, kept)) = lingering() else {
            eprintln!("skipped: needs a loopback interface");
            return;
        };
        keep.push(kept);
        let (ours, theirs) = UnixStream::pair().unwrap();
        send_all(&theirs, &text, &vec![slow.as_fd(); copies]);
        close_but_not_last(slow);
        hub.accept_timeout(ours, LATER).unwrap_err();
    }
    let (sender, peer, socket) = join(&hub, 1);
    let (slow, _kept) = lingering().unwrap();
    send_all(&socket, b"x", &[slow.as_fd()]);
    close_but_not_last(slow);
    assert_eq!(ended(&hub).0.0, peer);
    drop((sender, socket));
    assert!(begun.elapsed() < Duration::from_secs(25));
}

#[test]
fn a_descriptor_that_takes_long_to_close_holds_up_no_other() {
    let hub = hub();
    let mut keep = Vec::new();
    for _ in 0..3 {
        let Some((slow, kept)) = lingering() else {
            eprintln!("skipped: needs a loopback interface");
            return;
        };
        keep.push(kept);
        let (mut reader, writer) = std::io::pipe().unwrap();
        for descriptor in [slow, writer.into()] {
            let (ours, theirs) = UnixStream::pair().unwrap();
            send_all(&theirs, &note(page_size()), &[descriptor.as_fd()]);
            close_but_not_last(descriptor);
            hub.accept_timeout(ours, LATER).unwrap_err();
        }
        // End of file on the pipe: every other descriptor of it is closed. The slow ones would close when `keep` is dropped.
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }
}

/// Closes this process's descriptor of a file that is also in a socket's queue.
fn close_but_not_last(descriptor: OwnedFd) {
    drop(descriptor);
}
