use super::{
    wire::{Head, MAX_INTERFACES, Note},
    *,
};
use crate::{
    port::{Frame, Interface, Port, Wake},
    session::{
        Output, Session, SessionConfig, Summary,
        tests::{opened, session, shared_session},
    },
    sim::{Sim, Spec},
};
use forebay::{
    ring::broadcast::{BroadcastConfig, Producer},
    time::Clock,
};
use std::{
    ops::Range,
    sync::mpsc,
    time::{Duration, Instant},
};

const RING: u64 = MIN_RING_BYTES;

/// A session of `count` simulated packets of `size` bytes, in virtual time.
fn capture(count: u64, size: u32, publisher: Publisher) -> Session {
    let name = format!("sim:clock=virtual,count={count},size={size}");
    let (ports, clock) = opened(&[&name]);
    shared_session(ports, Output::Count, clock, publisher).0
}

/// What a session reads from a share: its summary, and the time and gap of each packet.
fn read(tap: Tap) -> (Summary, Vec<(u64, u64)>) {
    read_with(tap, |_| ())
}

fn read_with(tap: Tap, set: impl FnOnce(&mut SessionConfig)) -> (Summary, Vec<(u64, u64)>) {
    let clock = tap.info().clock.unwrap();
    let (session, _) = session(vec![Box::new(tap)], Output::Count, clock, set);
    let (sender, receiver) = mpsc::channel();
    let summary = session
        .each(move |frame, _| sender.send((frame.time_ns, frame.dropped_before)).is_ok())
        .run(&mut |_| {});
    assert_eq!(summary.ledger.check(), Ok(()));
    (summary, receiver.iter().collect())
}

fn frame(time_ns: u64, data: &[u8]) -> Frame<'_> {
    Frame {
        time_ns,
        ..Frame::whole(data)
    }
}

/// Publishes small packets with these times.
fn publish(publisher: &mut Publisher, times: Range<u64>) {
    times.for_each(|time| publisher.publish(0, &frame(time, &[0; 60])));
}

/// A capture whose disk is full goes on to empty its source, and shares nothing more.
#[test]
fn packets_that_came_after_the_output_failed_are_in_the_counts_of_readers() {
    let publisher = Publisher::new(64 << 20).unwrap();
    let source = publisher.source();
    let (ports, clock) = opened(&["sim:clock=virtual,count=200k"]);
    let full = std::fs::File::create("/dev/full").unwrap();
    let output = Output::Stream(full, "full".into());
    let (session, _) = shared_session(ports, output, clock, publisher);
    let tap = oldest(&source);
    let summary = session.run(&mut |_| {});
    let ledger = summary.ledger;
    assert!(summary.store_error.is_some() && ledger.dropped.disk > 0);
    let seen = read(tap).0.ledger;
    assert!(seen.interface_dropped > Some(0));
    assert_eq!(
        seen.received + seen.dropped.known() + seen.interface_dropped.unwrap(),
        ledger.received
    );
}

/// A tap from the oldest packet on.
fn oldest(source: &ShareSource) -> Tap {
    let config = TapConfig {
        begin: Begin::Oldest,
        ..TapConfig::default()
    };
    source.tap(&config).unwrap()
}

/// A publisher that knows one interface.
pub(super) fn publisher() -> Publisher {
    let mut publisher = Publisher::new(RING).unwrap();
    assert_eq!(publisher.introduce(&Interface::default()), 0);
    publisher
}

#[test]
fn four_readers_see_every_packet_each_through_its_own_filter() {
    let publisher = Publisher::new(16 << 20).unwrap();
    let source = publisher.source();
    let session = capture(10_000, 200, publisher);
    let taps = [(); 4].map(|()| source.tap(&TapConfig::default()).unwrap());
    let summary = session.run(&mut |_| {});
    assert_eq!(
        (summary.shared, summary.ledger.counted),
        (Some(10_000), 10_000)
    );
    let mut times = Vec::new();
    for (tap, filter) in taps.into_iter().zip(["", "udp", "tcp", "udp or not udp"]) {
        let (summary, packets) = read_with(tap, |it| {
            it.filter = (!filter.is_empty()).then(|| filter.parse().unwrap());
        });
        assert!(summary.is_fine(), "{summary:?}");
        let ledger = summary.ledger;
        assert_eq!(ledger.received, 10_000);
        assert_eq!(ledger.counted + ledger.filtered, 10_000);
        assert_eq!(
            (ledger.dropped.known(), ledger.interface_dropped),
            (0, Some(0))
        );
        times.push(packets.len());
    }
    assert_eq!((times[0], times[3]), (10_000, 10_000));
    assert_eq!(times[1] + times[2], 10_000, "{times:?}");
}

#[test]
fn a_reader_that_was_overtaken_counts_exactly_the_packets_that_it_missed() {
    let publisher = Publisher::new(RING).unwrap();
    let source = publisher.source();
    let session = capture(20_000, 1000, publisher);
    let slow = source.tap(&TapConfig::default()).unwrap();
    assert_eq!(session.run(&mut |_| {}).shared, Some(20_000));
    let (summary, packets) = read(slow);
    let lost = summary.ledger.dropped.overrun;
    assert!(lost > 0 && summary.ledger.dropped.kernel == Some(0));
    assert_eq!(summary.ledger.received, 20_000);
    assert_eq!(packets.len() as u64 + lost, 20_000);
    // The packet after the gap reports it, and no other.
    let gaps: Vec<_> = packets.iter().map(|(_, gap)| *gap).collect();
    assert_eq!((gaps[0], gaps.iter().sum()), (lost, lost));
}

#[test]
fn losses_of_the_capture_are_separate_from_those_of_its_readers() {
    let mut publisher = publisher();
    publisher.set_lost(7);
    let tap = publisher.source().tap(&TapConfig::default()).unwrap();
    publisher.publish(0, &frame(1, &[0; 60]));
    publisher.set_lost(12);
    publisher.publish(0, &frame(2, &[0; 60]));
    publisher.publish(99, &frame(3, &[0; 60])); // an interface that does not exist
    publisher.finish(20);
    let (summary, packets) = read(tap);
    assert_eq!(packets.len(), 2);
    assert_eq!(summary.ledger.received, 2);
    assert_eq!(summary.ledger.dropped.known(), 0);
    // 5, 8 more at the end, and the one that could not be shared; not the 7 before the tap began.
    assert_eq!(summary.ledger.interface_dropped, Some(14));
}

#[test]
fn a_tap_of_the_past_counts_what_was_lost_since_its_first_packet_even_after_the_end() {
    let mut publisher = publisher();
    publisher.set_lost(7);
    publisher.publish(0, &frame(1, &[0; 60]));
    let source = publisher.source();
    publisher.finish(20);
    let (summary, packets) = read(oldest(&source));
    assert_eq!(packets, [(1, 0)]);
    assert_eq!(summary.ledger.interface_dropped, Some(13));
}

#[test]
fn impossible_losses_that_are_shared_on_do_not_end_readers() {
    let mut publisher = publisher();
    let tap = publisher.source().tap(&TapConfig::default()).unwrap();
    publisher.set_lost(u64::MAX);
    publisher.publish(99, &frame(1, &[0; 60])); // one more is lost
    publisher.publish(0, &frame(2, &[0; 60]));
    publisher.finish(u64::MAX);
    let (summary, packets) = read(tap);
    assert!(summary.is_fine(), "{summary:?}");
    assert_eq!(packets, [(2, 0)]);
}

#[test]
fn a_tap_can_begin_in_the_past_and_end_at_a_time() {
    let mut publisher = publisher();
    publish(&mut publisher, 0..100);
    let tap = |begin, end_ns: Option<u64>| {
        let config = TapConfig {
            begin,
            end: end_ns.map(End::at),
            ..TapConfig::default()
        };
        publisher.source().tap(&config).unwrap()
    };
    let taps = [
        (tap(Begin::Oldest, None), 0..100),
        (tap(Begin::At(30), None), 30..100),
        (tap(Begin::At(30), Some(69)), 30..70),
        (tap(Begin::Oldest, Some(200)), 0..100),
        (tap(Begin::At(500), None), 0..0),
    ];
    drop(publisher);
    for (tap, expected) in taps {
        let (summary, packets) = read(tap);
        assert!(summary.is_fine(), "{summary:?}");
        assert!(
            packets
                .into_iter()
                .eq(expected.clone().map(|time| (time, 0)))
        );
        assert_eq!(summary.ledger.received, expected.count() as u64);
    }
}

#[test]
fn what_was_overwritten_before_the_beginning_is_no_loss() {
    let mut publisher = publisher();
    let tap = oldest(&publisher.source());
    for time in 0..10_000 {
        publisher.publish(0, &frame(time, &[0; 500]));
    }
    drop(publisher);
    let (summary, packets) = read(tap);
    assert_eq!(summary.ledger.dropped.known(), 0);
    assert_eq!(packets.last(), Some(&(9999, 0)));
}

#[test]
fn a_stopped_tap_reads_what_was_published_until_then_and_not_more() {
    let mut publisher = publisher();
    let mut tap = publisher.source().tap(&TapConfig::default()).unwrap();
    publish(&mut publisher, 0..10);
    tap.stop().unwrap();
    publish(&mut publisher, 10..20);
    let mut burst = tap.receive(100).unwrap();
    let mut times = Vec::new();
    while let Some(frame) = burst.next_frame() {
        times.push(frame.time_ns);
    }
    drop(burst);
    assert!(times.into_iter().eq(0..10));
    assert!(matches!(tap.arm(), Ok(Wake::End)));
    assert_eq!(tap.counts().received, 10);
}

#[test]
fn packets_that_were_overwritten_after_a_stop_are_not_lost() {
    let mut publisher = publisher();
    let mut tap = publisher.source().tap(&TapConfig::default()).unwrap();
    publish(&mut publisher, 0..10);
    tap.stop().unwrap();
    for time in 10..10_000 {
        publisher.publish(0, &frame(time, &[0; 500]));
    }
    assert!(tap.receive(100).unwrap().next_frame().is_none());
    assert!(matches!(tap.arm(), Ok(Wake::End)));
    let counts = tap.counts();
    assert_eq!((counts.received, counts.dropped), (10, Some(10)));
}

#[test]
fn interfaces_may_come_late_and_are_known_to_readers_that_come_later() {
    let mut publisher = publisher();
    let named = |number: u32| Interface {
        name: format!("veth{number}"),
        ..Interface::default()
    };
    let early = publisher.source().tap(&TapConfig::default()).unwrap();
    for number in 1..MAX_INTERFACES as u32 {
        assert_eq!(publisher.introduce(&named(number)), number);
        publisher.publish(number, &frame(1, &[0; 60]));
    }
    let too_many = publisher.introduce(&named(9999));
    publisher.publish(too_many, &frame(1, &[0; 60]));
    let late = publisher.source().tap(&TapConfig::default()).unwrap();
    publisher.publish(MAX_INTERFACES as u32 - 1, &frame(1, &[0; 60]));
    publisher.finish(0);
    for (tap, packets) in [(early, MAX_INTERFACES as u64), (late, 1)] {
        let (summary, _) = read(tap);
        assert!(summary.is_fine(), "{summary:?}");
        assert_eq!(summary.ledger.counted, packets);
        let interfaces = &summary.sources[0].interfaces;
        assert_eq!(interfaces.len(), MAX_INTERFACES);
        assert_eq!(interfaces[17].name, "veth17");
    }
}

/// A ring with these notes and messages, as a hostile process may make it, and its tap.
fn hostile(notes: &[Vec<u8>], messages: &[Vec<u8>]) -> Result<Tap> {
    let config = BroadcastConfig {
        data_bytes: 8 << 20,
        messages: 100,
        note_bytes: 1 << 20,
    };
    let mut producer = Producer::new(&config).unwrap();
    for note in notes {
        producer.note(note).unwrap();
    }
    let reader = producer.reader().unwrap();
    let tap = Tap::new(
        "share:bad".into(),
        Incoming::of_packets(reader),
        None,
        None,
        &TapConfig::default(),
    );
    for message in messages {
        producer.publish(&[message]).unwrap();
    }
    tap
}

#[test]
fn a_hostile_publisher_causes_an_error_that_says_why() {
    let refused = |notes: &[Vec<u8>], why: &str| {
        let error = hostile(notes, &[]).err().expect("refused").to_string();
        assert!(
            error.starts_with("share:bad: the share is damaged"),
            "{error}"
        );
        assert!(error.contains(why), "{error}");
    };
    refused(&[], "no interface");
    refused(&[vec![]], "unknown kind");
    refused(&[vec![9; 100]], "unknown kind");
    refused(&[vec![1; 19]], "incomplete");
    let interface = Note::Interface(Interface::default()).bytes();
    refused(&vec![interface.clone(); MAX_INTERFACES + 1], "too many");

    let head = Head {
        wire_len: 4,
        ..Head::default()
    };
    let with = |head: Head, len: usize| [head.bytes().to_vec(), vec![7; len]].concat();
    let unknown = Head {
        interface: 1,
        ..head
    };
    let endless = Head {
        lost: u64::MAX,
        ..head
    };
    let cases = [
        (vec![1, 2, 3], "shorter"),
        (with(head, 5), "more bytes"),
        (with(unknown, 4), "not described"),
        (with(endless, 4), "impossible"),
        (vec![0; 1_200_000], "too long"),
    ];
    for (message, why) in cases {
        let messages = [with(head, 4), message, with(head, 4)];
        let tap = hostile(std::slice::from_ref(&interface), &messages).unwrap();
        let (summary, packets) = read(tap);
        assert_eq!(packets.len(), 1, "what came before is kept");
        let error = summary.port_error.expect("an error").to_string();
        assert!(error.contains(why), "{error}");
    }
}

pub(super) fn name(of: &str) -> ShareName {
    format!("test-{of}-{}", std::process::id()).parse().unwrap()
}

#[test]
fn a_name_has_one_owner_and_is_free_again_when_its_listener_ends() {
    let name = name("owner");
    let missing = attach(&name, &TapConfig::default()).err().unwrap();
    assert!(
        missing.to_string().contains("no capture shares"),
        "{missing}"
    );

    let mut publisher = publisher();
    publisher.publish(0, &frame(1, &[0; 60]));
    let listener = Listener::start(&name, &publisher.source(), Access::default()).unwrap();
    let taken = Listener::start(&name, &publisher.source(), Access::default());
    let taken = taken.unwrap_err().to_string();
    assert!(taken.contains("another process has this name"), "{taken}");

    let tap = attach(&name, &TapConfig::default()).unwrap();
    let owner = tap.info().owner.unwrap();
    assert_eq!(owner.pid, std::process::id());
    assert_eq!(owner.uid, rustix::process::geteuid().as_raw());
    // Other shares are not asked: they belong to other tests.
    let asked = || {
        let end = Instant::now() + handshake::PATIENCE;
        list::ask(std::slice::from_ref(&name), end)
    };
    let listed = || asked().pop().unwrap();
    // The publisher's thread counts the reader a moment after it has attached.
    while listed().status.unwrap().readers == 0 {
        std::thread::yield_now();
    }
    let listed = listed();
    assert_eq!(
        (listed.owner, listed.is_permitted),
        (Some(owner), Some(true))
    );
    let status = listed.status.unwrap();
    assert_eq!((status.readers, status.packets), (1, 1));

    publisher.publish(0, &frame(2, &[0; 60]));
    drop(publisher);
    drop(listener);
    let (summary, packets) = read(tap);
    assert!(summary.is_fine(), "{summary:?}");
    assert_eq!(packets, [(2, 0)]);
    assert!(asked().is_empty());
    let publisher = super::tests::publisher();
    Listener::start(&name, &publisher.source(), Access::default()).unwrap();
}

#[test]
fn a_publisher_that_vanishes_is_reported_after_its_last_packet() {
    let name = name("vanishes");
    let mut publisher = publisher();
    let listener = Listener::start(&name, &publisher.source(), Access::default()).unwrap();
    let tap = attach(&name, &TapConfig::default()).unwrap();
    publisher.publish(0, &frame(1, &[0; 60]));
    drop(listener); // as the kernel does when it is killed: the ring stays open
    let (summary, packets) = read(tap);
    assert_eq!(packets, [(1, 0)]);
    let error = summary.port_error.expect("an error").to_string();
    assert!(error.contains("was killed"), "{error}");
    drop(publisher);
}

#[test]
fn readers_that_send_garbage_or_never_read_disturb_nobody() {
    let name = name("garbage");
    let mut publisher = publisher();
    let _listener = Listener::start(&name, &publisher.source(), Access::default()).unwrap();
    let mut tap = attach(&name, &TapConfig::default()).unwrap();
    let links: Vec<_> = (0..50)
        .map(|_| handshake::ShareLink::to(&name).unwrap())
        .collect();
    for link in &links {
        while link.send_for_tests(&[0xff; 1000], &[]).is_ok() {}
    }
    for _ in 0..1000 {
        drop(handshake::ShareLink::to(&name));
    }
    let others: Vec<_> = (0..20)
        .map(|_| attach(&name, &TapConfig::default()))
        .collect();
    assert!(others.iter().all(Result::is_ok));
    publisher.publish(0, &frame(1, &[0; 60]));
    assert!(tap.receive(1).unwrap().next_frame().is_some());
    drop((links, others));
}

/// Requires that a reader that got these descriptors can write none of them, nor change their lengths.
pub(super) fn cannot_be_written(memory: Vec<Foreign>) {
    use std::{fs::OpenOptions, os::fd::AsRawFd, os::unix::fs::FileExt};
    let denied = |result: std::io::Result<usize>| {
        let error = result.unwrap_err().raw_os_error();
        // EPERM from the seals; the others from a descriptor that can only be read.
        assert!(
            matches!(error, Some(libc::EPERM | libc::EBADF | libc::EINVAL)),
            "{error:?}"
        );
    };
    for memory in memory {
        let memory = std::fs::File::from(memory.trusted());
        denied(memory.write_at(&[1], 0));
        denied(memory.set_len(0).map(|()| 0));
        let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
        if let Ok(again) = OpenOptions::new().write(true).open(path) {
            denied(again.write_at(&[1], 0));
        }
    }
}

#[test]
fn readers_cannot_write_the_memory_and_their_number_is_limited() {
    let name = name("limit");
    let publisher = publisher();
    let _listener = Listener::start(&name, &publisher.source(), Access::default()).unwrap();
    let connect = || {
        let link = handshake::ShareLink::to(&name).unwrap();
        let greeting = link.greeting(&name).unwrap();
        (link, greeting)
    };
    let (_link, greeting) = connect();
    assert_eq!(greeting.memory.len(), 1);
    cannot_be_written(greeting.memory);
    let others: Vec<_> = (0..255).map(|_| connect()).collect();
    assert!(
        others
            .iter()
            .all(|(_, it)| it.answer == ShareAnswer::Welcome)
    );
    let (_, refused) = connect();
    assert!(refused.answer == ShareAnswer::TooMany && refused.memory.is_empty());
    let error = attach(&name, &TapConfig::default()).err().unwrap();
    assert!(error.to_string().contains("as many readers"), "{error}");
    drop(others);
    while connect().1.answer != ShareAnswer::Welcome {
        std::thread::yield_now();
    }
}

#[test]
fn a_user_of_the_group_gets_32_readers_and_leaves_the_others_their_places() {
    use rustix::{
        process::{Gid, Uid},
        thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid},
    };
    if !rustix::process::geteuid().is_root() {
        return forebay_testing::children::skip("root, to become other users");
    }
    let name = name("users");
    let publisher = publisher();
    let group = Gid::from_raw(1);
    let access = Access { group: Some(1) };
    let _listener = Listener::start(&name, &publisher.source(), access).unwrap();
    let connect = || {
        let link = handshake::ShareLink::to(&name).unwrap();
        let answer = link.greeting(&name).unwrap().answer;
        (link, answer)
    };
    let readers_of = |uid: u32, number: usize| {
        let thread = || {
            let uid = Uid::from_raw(uid);
            // For this thread only.
            set_thread_groups(&[]).unwrap();
            set_thread_res_gid(group, group, group).unwrap();
            set_thread_res_uid(uid, uid, uid).unwrap();
            (0..number).map(|_| connect()).collect::<Vec<_>>()
        };
        std::thread::scope(|threads| threads.spawn(thread).join().unwrap())
    };
    let mut first = readers_of(1, 33);
    let refused = first.pop().unwrap();
    assert!(first.iter().all(|it| it.1 == ShareAnswer::Welcome));
    assert!(refused.1 == ShareAnswer::TooMany);
    assert!(readers_of(2, 1)[0].1 == ShareAnswer::Welcome);
    assert!(connect().1 == ShareAnswer::Welcome);
    // Its place is free when one has left.
    drop(first.pop());
    while readers_of(1, 1)[0].1 != ShareAnswer::Welcome {
        std::thread::yield_now();
    }
}

#[test]
fn a_process_with_the_name_that_is_no_publisher_is_reported() {
    let name = name("other");
    let socket = foreign_tests::squatter(&name, 5);
    let answering = std::thread::spawn(move || {
        for answer in [&b"hello"[..], &[]] {
            let peer = rustix::net::accept(&socket).unwrap();
            let _ = handshake::send(&peer, answer, &[]);
        }
    });
    for _ in 0..2 {
        let error = attach(&name, &TapConfig::default()).err().unwrap();
        assert!(
            error.to_string().contains("does not share packets"),
            "{error}"
        );
    }
    answering.join().unwrap();
}

#[test]
fn a_share_that_fails_does_not_end_a_reader_of_several() {
    let interface = Note::Interface(Interface::default()).bytes();
    let bad = hostile(&[interface], &[vec![1; 3]]).unwrap();
    let mut good = publisher();
    let clock = bad.info().clock.unwrap();
    let config = TapConfig {
        clock: clock.clone(),
        ..TapConfig::default()
    };
    let tap = good.source().tap(&config).unwrap();
    let ports: Vec<Box<dyn Port>> = vec![Box::new(bad), Box::new(tap)];
    let (session, _) = session(ports, Output::Count, clock, |_| ());
    let publishing = std::thread::spawn(move || {
        // The reader has found the damage by then.
        std::thread::sleep(Duration::from_millis(300));
        publish(&mut good, 0..100);
        good.finish(0);
    });
    let summary = session.run(&mut |_| {});
    publishing.join().unwrap();
    assert_eq!(summary.ledger.counted, 100);
    let error = summary.port_error.unwrap().to_string();
    assert!(
        error.starts_with("share:bad: the share is damaged"),
        "{error}"
    );
}

#[test]
fn a_tap_sees_a_simulated_card_as_it_was() {
    // Late packets of a real clock: the publisher runs in another thread while the tap is read.
    let publisher = Publisher::new(8 << 20).unwrap();
    let source = publisher.source();
    let clock = Clock::real();
    let spec: Spec = "rate=1G,count=20000".parse().unwrap();
    let sim = Sim::new(spec, clock.clone());
    let session = shared_session(vec![Box::new(sim)], Output::Count, clock, publisher).0;
    let tap = source.tap(&TapConfig::default()).unwrap();
    let capturing = std::thread::spawn(move || session.run(&mut |_| {}));
    let (summary, packets) = read(tap);
    let captured = capturing.join().unwrap();
    assert_eq!(captured.shared, Some(captured.ledger.counted));
    assert_eq!(summary.ledger.received, captured.ledger.counted);
    assert!(packets.is_sorted());
    assert_eq!(summary.sources[0].interfaces[0].name, "sim");
}
