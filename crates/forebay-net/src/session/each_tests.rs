//! A closure that sees every packet, with a file beside it and without, and closures that have no room.

use super::{
    tests::{Scratch, opened, session},
    *,
};
use std::sync::{Arc, Mutex};

/// Sequence number, time and lengths of the packets that a closure took.
type Took = Arc<Mutex<Vec<(u64, u64, usize, u32)>>>;

/// Runs a session whose closure `takes` decides, by the number of the question, whether to take a packet.
fn shown(
    port: &str,
    output: Output,
    set: impl FnOnce(&mut SessionConfig),
    mut takes: impl FnMut(u64, &Control) -> bool + Send + 'static,
) -> (Summary, Vec<(u64, u64, usize, u32)>) {
    let (ports, clock) = opened(&[port]);
    let (session, control) = session(ports, output, clock, set);
    let took = Took::default();
    let ours = took.clone();
    let mut asked = 0;
    let session = session.each(move |frame, interface| {
        assert_eq!(interface.name, "sim");
        asked += 1;
        let takes = takes(asked, &control);
        if takes {
            let sequence = forebay_testing::found::sequence(frame.data);
            let seen = (sequence, frame.time_ns, frame.data.len(), frame.wire_len);
            ours.lock().unwrap().push(seen);
        }
        takes
    });
    let summary = session.run(&mut |_| {});
    let took = std::mem::take(&mut *took.lock().unwrap());
    (summary, took)
}

#[test]
fn a_closure_takes_each_packet_once_and_in_order_whatever_it_refuses() {
    let port = "sim:clock=virtual,rate=10G,size=imix,ring=64,host=none,cost=400ns,count=20000";
    for filter in [None, Some("less 100")] {
        for path in [None, Some(".pcapng"), Some(".pcap")] {
            let scratch = Scratch::new(path.unwrap_or_default());
            let output = match path {
                Some(_) => Output::File(scratch.0.clone()),
                None => Output::Count,
            };
            let set = |it: &mut SessionConfig| {
                (it.snaplen, it.filter) = (60, filter.map(|it| it.parse().unwrap()));
            };
            let (summary, took) = shown(port, output, set, |asked, _| {
                asked % 1000 != 0 && asked % 1001 != 0
            });
            assert!(summary.is_fine(), "{summary:?}");
            let ledger = &summary.ledger;
            assert!(ledger.dropped.known() > 0);
            assert_eq!(filter.is_some(), ledger.filtered > 0);
            assert!(took.is_sorted() && took.iter().all(|it| it.2 <= 60));
            let expected = match path {
                Some(_) => (0, took.len() as u64),
                None => (took.len() as u64, 0),
            };
            assert_eq!((ledger.counted, ledger.written), expected);
            if path == Some(".pcapng") {
                let found = forebay_testing::found::open(&scratch.0).packets;
                let found = found.iter().map(|it| (it.sequence, it.time_ns));
                assert!(found.eq(took.iter().map(|it| (it.0, it.1))));
            }
        }
    }
}

#[test]
fn packets_that_a_closure_never_takes_stay_in_the_source_until_the_second_stop() {
    let scratch = Scratch::new(".pcapng");
    for output in [Output::Count, Output::File(scratch.0.clone())] {
        let port = "sim:clock=virtual,ring=64,host=none,count=10000";
        let (summary, took) = shown(
            port,
            output,
            |_| (),
            |asked, control| {
                // The second stop lets the store write for a second, the third does not.
                (0..if asked == 100 { 3 } else { 0 }).for_each(|_| control.stop());
                asked <= 10
            },
        );
        let ledger = &summary.ledger;
        ledger.check().unwrap();
        let accounted = ledger.counted + ledger.written + ledger.dropped.writer;
        assert_eq!((took.len(), accounted), (10, 10));
        assert_eq!(summary.abandoned, ledger.unread + ledger.dropped.writer);
        assert!(ledger.unread > 0 && ledger.dropped.kernel > Some(0));
    }
}

#[test]
fn a_capture_in_steps_comes_back_in_time_and_has_the_counts_of_one_call() {
    let open = |spec: &str| {
        let names = [spec.parse().unwrap()];
        let clock = crate::open::clock(&names).unwrap();
        let ports = crate::open::ports(&names, &Default::default(), &clock).unwrap();
        let config = SessionConfig::default();
        let control = Control::new().unwrap();
        let session = Session::open(ports, Output::Count, config, clock.clone(), control.clone());
        (session.unwrap(), clock, control)
    };
    let spec = "sim:rate=10pps,count=100,clock=virtual";
    let (session, clock, _) = open(spec);
    let mut running = session.start();
    let (mut steps, second) = (0, Duration::from_secs(1));
    while running.step(second, &mut |_| {}) {
        steps += 1;
        assert!(clock.now() <= steps * 1_000_000_000, "each ends in time");
    }
    assert!(!running.step(second, &mut |_| {}), "and stays ended");
    let summary = running.finish(&mut |_| {});
    assert!(steps >= 9 && summary.sources_ended, "{steps} steps");
    assert_eq!(summary.ledger, open(spec).0.run(&mut |_| {}).ledger);
    // Without waiting, and stopped by another part of the program.
    let (session, clock, control) = open("sim:rate=10pps,clock=virtual");
    let mut running = session.start();
    for _ in 0..10 {
        assert!(running.step(Duration::ZERO, &mut |_| {}));
    }
    assert_eq!(clock.now(), 0);
    clock.sleep(second); // other work
    control.stop();
    assert!(!running.step(second, &mut |_| {}));
    let summary = running.finish(&mut |_| {});
    assert_eq!(summary.ledger.check(), Ok(()));
    assert!(summary.modes.busy.is_zero(), "{:?}", summary.modes);
}
