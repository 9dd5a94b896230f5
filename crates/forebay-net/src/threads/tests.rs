//! Merging: order, what is too late, memory, and counts.

use super::{
    Beside, Merged, ThreadsConfig,
    member::{Packet, PacketBatch},
    order::{Lane, Merging},
    run_each,
};
use crate::{
    port::{Direction, Interface, Port},
    session::{Control, Output, Session, SessionConfig, Summary, tests::session},
    sim::{Sim, Spec, sequence_of},
};
use forebay::{
    ring::spsc::{Consumer, Producer, ring},
    time::Clock,
};
use forebay_testing::{dice::Dice, folder::Folder, found};
use std::sync::{Arc, Mutex};

/// A lane, and the thread's ends of its rings.
fn lane() -> (Lane, Producer<PacketBatch>, Consumer<PacketBatch>) {
    let (full, theirs) = ring(64).unwrap();
    let (returned, empty) = ring(64).unwrap();
    (Lane::new(theirs, returned), full, empty)
}

/// A batch of packets with these times, each with a block of four bytes that contain its time.
fn batch(times: &[u64], safe_ns: u64) -> PacketBatch {
    let packet = |(at, &time_ns): (usize, &u64)| Packet {
        time_ns,
        dropped_before: 0,
        at: 4 * at as u32,
        len: 4,
        caplen: 0,
        wire_len: 0,
        direction: Direction::Unknown,
        is_late: false,
    };
    PacketBatch {
        bytes: times
            .iter()
            .flat_map(|&time| (time as u32).to_le_bytes())
            .collect(),
        packets: times.iter().enumerate().map(packet).collect(),
        safe_ns,
        ..PacketBatch::default()
    }
}

/// The times in the next burst, each with whether it is late. Its bytes are in the same order.
fn burst(merging: &mut Merging, lanes: &mut [Lane], budget: usize) -> Vec<(u64, bool)> {
    Merging::collect(lanes);
    merging.fill(lanes, 8, budget);
    let blocks = merging.bytes.chunks(4);
    let times = blocks.map(|block| u32::from_le_bytes(block.try_into().unwrap()));
    let packets = merging.packets.iter();
    assert!(times.eq(packets.clone().map(|packet| packet.time_ns as u32)));
    assert!(
        packets
            .clone()
            .enumerate()
            .all(|(at, it)| it.at == 4 * at as u32)
    );
    packets.map(|it| (it.time_ns, it.is_late)).collect()
}

fn in_time(times: &[u64]) -> Vec<(u64, bool)> {
    times.iter().map(|&time| (time, false)).collect()
}

#[test]
fn packets_wait_until_no_thread_can_have_an_earlier_one() {
    let ((one, mut full_one, _e1), (two, mut full_two, _e2)) = (lane(), lane());
    let (mut lanes, mut merging) = ([one, two], Merging::default());
    full_one.try_push(batch(&[1, 3, 5, 7], 7)).unwrap();
    assert_eq!(burst(&mut merging, &mut lanes, 99), []);
    full_two.try_push(batch(&[2, 4, 6], 5)).unwrap();
    assert_eq!(burst(&mut merging, &mut lanes, 3), in_time(&[1, 2, 3]));
    assert_eq!(burst(&mut merging, &mut lanes, 99), in_time(&[4, 5]));
    assert_eq!(burst(&mut merging, &mut lanes, 99), []);
    // A thread without packets only reports the time.
    full_two.try_push(batch(&[], 9)).unwrap();
    assert_eq!(burst(&mut merging, &mut lanes, 99), in_time(&[6, 7]));
    full_one.try_push(batch(&[8, 10], 8)).unwrap();
    assert_eq!(burst(&mut merging, &mut lanes, 99), in_time(&[8]));
    lanes.iter_mut().for_each(|lane| lane.has_ended = true);
    assert_eq!(burst(&mut merging, &mut lanes, 99), in_time(&[10]));
    assert_eq!((lanes[0].taken, lanes[1].taken), (6, 3));
}

#[test]
fn packets_of_one_ring_are_put_in_order_also_across_batches() {
    let (one, mut full, mut empty) = lane();
    let (mut lanes, mut merging) = ([one], Merging::default());
    full.try_push(batch(&[1, 4, 2, 6], 0)).unwrap();
    full.try_push(batch(&[5, 3, 8, 9], 0)).unwrap();
    full.try_push(batch(&[7, 10], 10)).unwrap();
    let all: Vec<_> = (1..=10).collect();
    assert_eq!(burst(&mut merging, &mut lanes, 99), in_time(&all));
    assert_eq!(empty.try_iter().count(), 3);
}

#[test]
fn a_thread_with_too_much_is_not_waited_for_and_what_comes_later_is_marked() {
    let ((one, mut full_one, _e1), (two, mut full_two, _e2)) = (lane(), lane());
    let (mut lanes, mut merging) = ([one, two], Merging::default());
    for time in 1..=7 {
        full_one.try_push(batch(&[time], time)).unwrap();
    }
    assert_eq!(burst(&mut merging, &mut lanes, 99), []);
    full_one.try_push(batch(&[8], 8)).unwrap();
    let all: Vec<_> = (1..=8).collect();
    assert_eq!(burst(&mut merging, &mut lanes, 99), in_time(&all));
    // Each late packet is a separate burst.
    full_two.try_push(batch(&[5, 6, 9], 9)).unwrap();
    full_one.try_push(batch(&[], 9)).unwrap();
    assert_eq!(burst(&mut merging, &mut lanes, 99), [(5, true)]);
    assert_eq!(burst(&mut merging, &mut lanes, 99), [(6, true)]);
    assert_eq!(burst(&mut merging, &mut lanes, 99), in_time(&[9]));
}

#[test]
fn random_arrivals_are_merged_completely_and_in_order() {
    let mut dice = Dice(1);
    let mut random = |below: u64| dice.below(below);
    for _ in 0..200 {
        let ends: Vec<_> = (0..3).map(|_| lane()).collect();
        let (mut lanes, mut full, mut empty) = (Vec::new(), Vec::new(), Vec::new());
        for (lane, producer, consumer) in ends {
            lanes.push(lane);
            full.push(producer);
            empty.push(consumer);
        }
        let (mut merging, mut got, mut sent) = (Merging::default(), Vec::new(), Vec::new());
        let mut now = [100_u64; 3];
        for _ in 0..40 {
            let at = random(3) as usize;
            // Times go back by less than 8 within a ring.
            let times: Vec<_> = (0..random(6))
                .map(|_| {
                    now[at] += random(5);
                    now[at] - random(8).min(now[at] - 100)
                })
                .collect();
            sent.extend(&times);
            let _ = full[at].try_push(batch(&times, now[at].saturating_sub(8)));
            let budget = 1 + random(9) as usize;
            Merging::collect(&mut lanes);
            merging.fill(&mut lanes, 64, budget);
            got.extend(merging.packets.iter().map(|it| (it.time_ns, it.is_late)));
        }
        lanes.iter_mut().for_each(|lane| lane.has_ended = true);
        loop {
            Merging::collect(&mut lanes);
            merging.fill(&mut lanes, 64, 7);
            if merging.packets.is_empty() {
                break;
            }
            got.extend(merging.packets.iter().map(|it| (it.time_ns, it.is_late)));
        }
        sent.sort_unstable();
        assert_eq!(got, in_time(&sent));
    }
}

fn cards(spec: &str, count: u64, clock: &Clock) -> Vec<Box<dyn Port>> {
    let spec: Spec = spec.parse().unwrap();
    let cards = Sim::members(spec, clock, count).into_iter();
    cards.map(|card| Box::new(card) as Box<dyn Port>).collect()
}

fn merged(spec: &str, config: &ThreadsConfig, clock: &Clock) -> Merged {
    Merged::new(cards(spec, 3, clock), config, clock).unwrap()
}

fn opened(port: Merged, output: Output, set: impl FnOnce(&mut SessionConfig)) -> Session {
    session(vec![Box::new(port)], output, Clock::real(), set).0
}

/// Each thread's row, and that they are the whole.
fn rows_add_up(summary: &Summary) {
    let rows = &summary.sources[0].threads;
    for row in rows {
        let known = row.taken + row.filtered.unwrap_or(0) + row.unread + row.dropped.unwrap_or(0);
        assert_eq!(row.received, known, "{rows:?}");
    }
    let sum: u64 = rows.iter().map(|row| row.received).sum();
    assert_eq!(sum, summary.ledger.received, "{rows:?}");
}

#[test]
fn every_packet_of_three_cards_is_in_the_file_once_and_in_order() {
    let (folder, clock) = (Folder::new(), Clock::real());
    // Long frames: a burst is limited in bytes, too.
    let kinds = [
        ("all.pcapng", None, "rate=1G,count=100000"),
        ("some.pcapng", Some("udp"), "rate=1G,count=100000"),
        ("long.pcapng", None, "rate=max,size=9018,count=5000"),
    ];
    for (name, filter, spec) in kinds {
        let filter = filter.map(|it: &str| it.parse().unwrap());
        let config = ThreadsConfig {
            filter: filter.clone(),
            ..ThreadsConfig::default()
        };
        let count: Spec = spec.parse().unwrap();
        let count = count.count.unwrap();
        let port = merged(spec, &config, &clock);
        let path = folder.path(name);
        let output = Output::File(path.clone().into());
        let summary = opened(port, output, |it| it.filter = filter).run(&mut |_| {});
        assert!(summary.is_fine(), "{summary:?}");
        assert_eq!(summary.ledger.written, count);
        assert_eq!(summary.odd.late, 0);
        rows_add_up(&summary);
        let found = found::open(path);
        assert!(found.packets.is_sorted_by_key(|packet| packet.time_ns));
        let mut sequences = found.sequences();
        sequences.sort_unstable();
        assert!(sequences.into_iter().eq(0..count));
        assert_eq!(found.statistics, [[count, 0, count]]);
        assert_eq!(found.interfaces, 1);
    }
}

#[test]
fn drops_are_marked_and_a_slow_reader_causes_them() {
    let (folder, clock) = (Folder::new(), Clock::real());
    let config = ThreadsConfig {
        hold_bytes: 0,
        ..ThreadsConfig::default()
    };
    let port = merged("rate=1G,count=600000,host=1000,ring=1000", &config, &clock);
    let path = folder.path("a.pcapng");
    let output = Output::File(path.clone().into());
    // Nothing is taken until the memory for waiting packets is full, and the rings are, too.
    let mut refused = 0;
    let session = opened(port, output, |_| ()).each(move |_, _| {
        refused += 1;
        refused > 300
    });
    let summary = session.run(&mut |_| {});
    assert!(summary.is_fine(), "{summary:?}");
    let dropped = summary.ledger.dropped.kernel.unwrap();
    assert!(dropped > 0, "{summary:?}");
    assert_eq!(summary.ledger.received, 600_000);
    rows_add_up(&summary);
    let found = found::open(path);
    let marks = found.packets.iter().map(|it| it.dropped_before);
    assert!(marks.clone().sum::<u64>() <= dropped);
    assert_eq!(marks.filter(|&it| it > 0).count() as u64, summary.gaps);
    let [[accepted, lost, delivered]] = found.statistics[..] else {
        panic!("{:?}", found.statistics);
    };
    assert_eq!((accepted, lost), (600_000, dropped));
    assert_eq!(delivered, found.packets.len() as u64);
}

#[test]
fn a_limit_leaves_the_rest_unread() {
    let clock = Clock::real();
    let port = merged("rate=max,count=100000", &ThreadsConfig::default(), &clock);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let theirs = seen.clone();
    let session = opened(port, Output::Count, |it| it.count = Some(1000));
    let session = session.each(move |frame, interface: &Interface| {
        assert_eq!(interface.name, "sim");
        theirs
            .lock()
            .unwrap()
            .push(sequence_of(frame.data).unwrap());
        true
    });
    let summary = session.run(&mut |_| {});
    assert!(summary.is_fine(), "{summary:?}");
    assert_eq!(summary.ledger.counted, 1000);
    assert_eq!(summary.ledger.received, 1000 + summary.ledger.unread);
    assert_eq!(seen.lock().unwrap().len(), 1000);
}

#[test]
fn a_merged_port_that_is_never_read_ends_its_threads() {
    let clock = Clock::real();
    let endless = || merged("rate=max", &ThreadsConfig::default(), &clock);
    drop(endless());
    let mut port = endless();
    drop(port.receive(1).unwrap());
    drop(port);
}

#[test]
fn odd_settings_are_refused() {
    let clock = Clock::real();
    let config = ThreadsConfig {
        cpus: vec![0],
        ..ThreadsConfig::default()
    };
    let refused = |ports, config: &ThreadsConfig| {
        let error = Merged::new(ports, config, &clock).err().unwrap();
        error.to_string()
    };
    assert!(refused(cards("rate=1G", 2, &clock), &config).contains("1 processors for 2 threads"));
    assert!(refused(Vec::new(), &ThreadsConfig::default()).contains("no interface"));
    let config = ThreadsConfig {
        cpus: vec![1022, 1023],
        ..ThreadsConfig::default()
    };
    let port = Merged::new(cards("rate=1G", 2, &clock), &config, &clock).unwrap();
    let summary = opened(port, Output::Count, |_| ()).run(&mut |_| {});
    let error = summary.port_error.unwrap().to_string();
    assert!(error.contains("to processor 102"), "{error}");
}

#[test]
fn several_sessions_are_one_capture() {
    let (folder, clock) = (Folder::new(), Clock::real());
    let mut beside = Vec::new();
    for (number, port) in cards("rate=1G,count=90001", 3, &clock)
        .into_iter()
        .enumerate()
    {
        let path = folder.path(&format!("{number}.pcapng"));
        let output = Output::File(path.clone().into());
        let (session, control) = session(vec![port], output, clock.clone(), |_| ());
        beside.push(Beside {
            session,
            control,
            cpu: None,
            file: Some(path),
        });
    }
    let mut finished = 0;
    let control = Control::new().unwrap();
    let summary = run_each(beside, &control, &mut |event| {
        finished += u64::from(matches!(event, crate::session::Event::Finished { .. }));
    });
    let summary = summary.unwrap();
    assert!(summary.is_fine(), "{summary:?}");
    rows_add_up(&summary);
    assert_eq!((summary.ledger.written, finished), (90_001, 3));
    let rows = &summary.sources[0].threads;
    let mut all = Vec::new();
    for row in rows {
        let found = found::open(row.file.as_ref().unwrap());
        assert_eq!(found.packets.len() as u64, row.taken);
        assert_eq!(found.statistics, [[row.received, 0, row.taken]]);
        all.extend(found.sequences());
    }
    all.sort_unstable();
    assert!(all.into_iter().eq(0..90_001));
    assert!(run_each(Vec::new(), &control, &mut |_| {}).is_err());
}

#[test]
fn the_end_of_one_session_ends_the_others_but_does_not_abort_them() {
    let (clock, mut beside, mut controls) = (Clock::real(), Vec::new(), Vec::new());
    for (number, port) in cards("rate=1G", 2, &clock).into_iter().enumerate() {
        let (session, control) = session(vec![port], Output::Count, clock.clone(), |it| {
            it.count = (number == 0).then_some(1_000);
        });
        controls.push(control.clone());
        beside.push(Beside {
            session,
            control,
            cpu: None,
            file: None,
        });
    }
    let summary = run_each(beside, &Control::new().unwrap(), &mut |_| {}).unwrap();
    assert!(summary.is_fine() && summary.ledger.counted >= 1_000);
    assert!(controls.iter().all(|it| it.is_stopping() && !it.gives_up()));
}
