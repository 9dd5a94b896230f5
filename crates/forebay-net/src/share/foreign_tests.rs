//! Processes on the other side of the socket that send descriptors which take an hour to close.

use super::{
    handshake::{self, ShareAnswer, ShareLink},
    listener::Bound,
    tests::{name, publisher},
    *,
};
use crate::port::Port;
use forebay::foreign::Foreign;
use forebay_testing::limit::within_a_minute;
use rustix::{
    io::Errno,
    net::{
        AddressFamily, SocketFlags, SocketType, accept, bind, connect, listen, socket_with, sockopt,
    },
};
use std::{
    io::{ErrorKind, Write},
    net::{TcpListener, TcpStream},
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// A TCP socket whose last copy takes an hour to close, or until the other end, which is returned too, is dropped.
fn lingering() -> (Foreign, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut full = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (other_end, _) = listener.accept().unwrap();
    full.set_nonblocking(true).unwrap();
    let error = loop {
        if let Err(error) = full.write_all(&[0; 1 << 16]) {
            break error;
        }
    };
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    full.set_nonblocking(false).unwrap();
    sockopt::set_socket_linger(&full, Some(Duration::from_secs(3600))).unwrap();
    (Foreign::new(full.into()), other_end)
}

/// What a list shows of these shares. It asks no shares of other tests, which may be squatters.
fn asked(names: &[ShareName]) -> Vec<Listed> {
    list::ask(names, Instant::now() + Duration::from_secs(5))
}

/// A Unix socket that has the name of a share, as any process may bind one.
pub(super) fn squatter(name: &ShareName, backlog: i32) -> OwnedFd {
    let (unix, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let socket = socket_with(unix, kind, SocketFlags::CLOEXEC, None).unwrap();
    bind(&socket, &name.address().unwrap()).unwrap();
    listen(&socket, backlog).unwrap();
    socket
}

#[test]
fn closing_a_socket_with_such_a_descriptor_takes_long() {
    // Otherwise the tests below would prove nothing.
    let (descriptor, other_end) = lingering();
    let (sender, closed) = mpsc::channel();
    thread::spawn(move || {
        drop(descriptor.trusted());
        sender.send(())
    });
    let limit = Duration::from_millis(300);
    assert!(closed.recv_timeout(limit).is_err(), "it closes at once");
    drop(other_end);
    closed.recv_timeout(Duration::from_secs(60)).unwrap();
}

#[test]
fn descriptors_sent_to_a_publisher_delay_neither_its_end_nor_its_other_readers() {
    let name = name("readers");
    let publisher = publisher();
    let bound = Bound::new(&name).unwrap();
    bound.let_descriptors_in();
    let attack = |link: &ShareLink| {
        let (descriptor, other_end) = lingering();
        link.send_for_tests(&[1], &[descriptor.as_fd()]).unwrap();
        other_end
    };
    // It sends before it is accepted, and leaves.
    let gone = ShareLink::to(&name).unwrap();
    let mut other_ends = vec![attack(&gone)];
    drop(gone);
    let listener = bound.start(&publisher.source(), Access::default()).unwrap();
    // It is a reader.
    let reader = ShareLink::to(&name).unwrap();
    assert!(reader.greeting(&name).unwrap().answer == ShareAnswer::Welcome);
    other_ends.push(attack(&reader));
    // A reader that leaves.
    let leaving = ShareLink::to(&name).unwrap();
    assert_eq!(leaving.greeting(&name).unwrap().memory.len(), 1);
    other_ends.push(attack(&leaving));
    drop(leaving);
    let other = name.clone();
    within_a_minute(move || attach(&other, &TapConfig::default()).map(drop)).unwrap();
    within_a_minute(move || drop(listener));
    // The name is free.
    let bound = Bound::new(&name).unwrap();
    bound.let_descriptors_in();
    // It was never accepted.
    let early = ShareLink::to(&name).unwrap();
    other_ends.push(attack(&early));
    within_a_minute(move || drop(bound));
    Bound::new(&name).unwrap();
}

#[test]
fn a_publisher_refuses_descriptors_where_the_kernel_can() {
    let name = name("refused");
    let bound = Bound::new(&name).unwrap();
    let link = ShareLink::to(&name).unwrap();
    let sent = link.send_for_tests(&[1], &[link.as_fd()]);
    match crate::sys::accept_descriptors(link.as_fd(), false) {
        Ok(()) => assert_eq!(sent, Err(Errno::PERM)),
        Err(_) => eprintln!("skipped: needs Linux 6.16"),
    }
    assert_eq!(link.send_for_tests(&[1], &[]), Ok(()));
    drop(bound);
}

#[test]
fn a_process_with_the_name_cannot_delay_its_readers_with_descriptors() {
    let name = name("squatter");
    let socket = squatter(&name, 5);
    let hello = handshake::hello(ShareAnswer::Welcome, &Status::default());
    let good = publisher();
    let memory = good.source();
    // For each connection: the first message with its descriptors, and one more message.
    let answers = move |first: &[u8], is_good: bool| {
        let peer = accept(&socket).unwrap();
        let pairs = [lingering(), lingering()];
        let some = [memory.0.descriptors()[0], pairs[0].0.as_fd()];
        let some = if is_good { &some[..1] } else { &some[1..] };
        handshake::send(&peer, first, some).unwrap();
        let _ = handshake::send(&peer, b"more", &[pairs[1].0.as_fd()]);
        (peer, pairs.map(|(_, other_end)| other_end))
    };
    let attaching = |name: &ShareName| {
        let name = name.clone();
        thread::spawn(move || within_a_minute(move || attach(&name, &TapConfig::default())))
    };

    let attached = attaching(&name);
    let _noise = answers(b"noise", false);
    let error = attached.join().unwrap().err().unwrap().to_string();
    assert!(error.contains("does not share packets"), "{error}");

    let attached = attaching(&name);
    let _no_memory = answers(&hello, false);
    let error = attached.join().unwrap().err().unwrap().to_string();
    assert!(error.contains("memory that can be sealed"), "{error}");

    let attached = attaching(&name);
    let _more = answers(&hello, true);
    let tap = attached.join().unwrap().unwrap();
    assert_eq!(tap.interfaces().len(), 1);
    within_a_minute(move || drop(tap));

    let other = name.clone();
    let listing = thread::spawn(|| within_a_minute(|| asked(&[other])));
    let _listed = answers(&hello, false);
    let listed = listing.join().unwrap();
    let listed = listed.into_iter().find(|it| it.name == name).unwrap();
    assert_eq!(listed.is_permitted, Some(true));
}

#[test]
fn shares_that_do_not_answer_are_listed_and_delay_no_others() {
    let (silent, full, good) = (name("silent"), name("full"), name("good"));
    let _silent = squatter(&silent, 5);
    let _full = squatter(&full, 0);
    let waiting: Vec<_> = std::iter::from_fn(|| {
        let (unix, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let socket = socket_with(unix, kind, SocketFlags::NONBLOCK, None).unwrap();
        connect(&socket, &full.address().unwrap())
            .ok()
            .map(|()| socket)
    })
    .collect();
    assert!(!waiting.is_empty());
    let publisher = publisher();
    let _listener = Listener::start(&good, &publisher.source(), Access::default()).unwrap();
    let names = [silent.clone(), full.clone(), good.clone()];
    let listed = within_a_minute(move || asked(&names));
    let found = |name: &ShareName| listed.iter().find(|it| it.name == *name).unwrap();
    assert_eq!(found(&good).is_permitted, Some(true));
    let own = std::process::id();
    assert_eq!(found(&silent).owner.map(|it| it.pid), Some(own));
    assert_eq!(found(&silent).is_permitted, None);
    assert_eq!(found(&full).owner, None);
    assert_eq!(found(&full).is_permitted, None);
}

#[test]
fn a_user_who_connects_in_a_loop_is_slowed_down_and_others_still_get_an_answer() {
    let name = name("flood");
    let publisher = publisher();
    let _listener = Listener::start(&name, &publisher.source(), Access::default()).unwrap();
    let (flooded, is_over) = (name.clone(), Arc::new(AtomicBool::new(false)));
    let over = is_over.clone();
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: needs root, to become another user");
    }
    let flood = thread::spawn(move || {
        // Of this thread, which then ends.
        rustix::thread::set_thread_uid(rustix::fs::Uid::from_raw(65_534)).unwrap();
        let (began, mut connected) = (Instant::now(), 0);
        while !over.load(Relaxed) {
            connected += u128::from(handshake::ShareLink::to(&flooded).is_ok());
        }
        (connected, began.elapsed())
    });
    for _ in 0..5 {
        thread::sleep(Duration::from_millis(40));
        let found = asked(std::slice::from_ref(&name));
        assert_eq!(found[0].is_permitted, Some(true));
    }
    is_over.store(true, Relaxed);
    let (connected, time) = flood.join().unwrap();
    // One for each rest of the listener, and those that still wait.
    assert!(
        connected <= time.as_millis() + 66,
        "{connected} in {time:?}"
    );
}
