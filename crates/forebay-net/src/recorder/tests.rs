//! Real captures of the simulated card, which numbers its packets, and the files of their triggers.

use super::*;
use crate::{
    port::{Frame, Interface},
    session::{
        Output, SessionConfig, Summary,
        tests::{opened, shared_session},
    },
    share::{End, Publisher},
};
use forebay::time::Clock;
use forebay_testing::{folder::Folder, found, limit::within_a_minute};
use std::{
    fs,
    sync::{
        atomic::AtomicU64,
        mpsc::{self, Receiver},
    },
};

/// About 20,000 packets a second. The card never loses one.
const LOAD: &str = "sim:rate=13M,ring=10000000,host=none";

/// A running capture with a recorder.
struct Lab {
    control: Control,
    capture: JoinHandle<Summary>,
    recorder: Recorder,
    ended: Receiver<Cut>,
    folder: Folder,
}

impl Lab {
    fn new(before: Option<Duration>, after: Duration) -> Lab {
        Lab::with(before, after, None, 16 << 20)
    }

    fn with(
        before: Option<Duration>,
        after: Duration,
        filter: Option<&str>,
        ring_bytes: u64,
    ) -> Lab {
        let folder = Folder::new();
        let publisher = Publisher::new(ring_bytes).unwrap();
        let source = publisher.source();
        let (ports, clock) = opened(&[LOAD]);
        let (mut session, control) = shared_session(ports, Output::Count, clock, publisher);
        let config = RecorderConfig {
            path: folder.join("a.pcapng"),
            before,
            after,
            session: SessionConfig::default(),
        };
        let (sender, ended) = mpsc::channel();
        let report = move |event: RecorderEvent<'_>| {
            if let RecorderEvent::Ended(cut) = event {
                let _ = sender.send(cut.clone());
            }
        };
        let recorder = Recorder::start(&source, config, report).unwrap();
        if let Some(filter) = filter {
            let mut watch = recorder.trigger().on_match(filter.parse().unwrap());
            session = session.each(move |frame, interface| {
                watch(frame, interface);
                true
            });
        }
        Lab {
            control,
            capture: std::thread::spawn(move || session.run(&mut |_| {})),
            recorder,
            ended,
            folder,
        }
    }

    fn finish(self) -> Recorded {
        self.control.stop();
        let summary = self.capture.join().unwrap();
        assert!(summary.is_fine(), "{summary:?}");
        assert_eq!(summary.ledger.dropped.known(), 0);
        self.recorder.finish(&self.control, || {})
    }
}

/// Numbers and times of the packets of a file.
fn packets(path: &Path) -> Vec<(u64, u64)> {
    let found = found::open(path);
    assert_eq!(found.statistics.len(), 1, "the file is whole");
    let packets = found.packets.into_iter();
    packets.map(|it| (it.sequence, it.time_ns)).collect()
}

/// Checks that a file has every packet of its time, and nothing twice.
fn check(cut: &Cut, before: Duration, after: Duration) {
    const STEP: u64 = 100_000; // more than the time between two packets
    assert_eq!(cut.error, None);
    let packets = packets(&cut.path);
    assert_eq!(packets.len() as u64, cut.ledger.written);
    assert_eq!(
        (cut.ledger.dropped.known(), cut.ledger.check()),
        (0, Ok(()))
    );
    for pair in packets.windows(2) {
        assert_eq!(pair[0].0 + 1, pair[1].0, "{cut:?}");
    }
    let (first, last) = (packets[0].1, packets[packets.len() - 1].1);
    assert_eq!(cut.packets_ns, Some((first, last)));
    let (from, until) = (
        cut.trigger_ns.0 - before.as_nanos() as u64,
        cut.trigger_ns.1 + after.as_nanos() as u64,
    );
    assert!(from <= first && first < from + STEP, "{from} {cut:?}");
    assert!(until - STEP < last && last <= until, "{until} {cut:?}");
}

#[test]
fn twenty_triggers_under_load_lose_and_repeat_nothing_between_before_and_after() {
    let (before, after) = (Duration::from_millis(60), Duration::from_millis(30));
    let lab = Lab::new(Some(before), after);
    let trigger = lab.recorder.trigger();
    std::thread::sleep(2 * before);
    for _ in 0..20 {
        trigger.pull_now();
        let cut = lab.ended.recv().unwrap();
        assert_eq!((cut.triggers, cut.is_short), (1, false));
        check(&cut, before, after);
    }
    let recorded = lab.finish();
    assert_eq!((recorded.files, recorded.failed, recorded.lost), (20, 0, 0));
    let mut names: Vec<_> = recorded.cuts.iter().map(|cut| cut.path.clone()).collect();
    names.dedup();
    assert_eq!(names.len(), 20);
    assert!(recorded.is_fine());
}

#[test]
fn a_trigger_during_a_recording_extends_it() {
    let (before, after) = (Duration::from_millis(20), Duration::from_secs(1));
    let lab = Lab::new(Some(before), after);
    let trigger = lab.recorder.trigger();
    std::thread::sleep(2 * before);
    for _ in 0..3 {
        trigger.pull_now();
        std::thread::sleep(after / 8);
    }
    // One file, unless the machine is so busy that a trigger comes after its end.
    let mut triggers = 0;
    while triggers < 3 {
        let cut = lab.ended.recv().unwrap();
        check(&cut, before, after);
        triggers += cut.triggers;
    }
    assert!(lab.finish().is_fine());
}

#[test]
fn packets_that_match_an_expression_trigger() {
    let after = Duration::from_millis(1);
    // The low bytes of the packet's number: every 4096th packet, five times a second.
    let filter = "udp[14:2] & 0xfff = 0";
    let lab = Lab::with(Some(after), after, Some(filter), 16 << 20);
    for _ in 0..2 {
        let cut = lab.ended.recv().unwrap();
        let found = packets(&cut.path);
        let time = cut.trigger_ns.0;
        let at = found.iter().find(|packet| packet.1 == time).unwrap();
        assert_eq!(at.0 % 4096, 0);
    }
    let _ = lab.finish();
}

#[test]
fn the_end_of_the_capture_ends_a_recording_with_all_its_packets() {
    let lab = Lab::new(None, Duration::from_secs(3600));
    std::thread::sleep(Duration::from_millis(50));
    lab.recorder.trigger().pull_now();
    std::thread::sleep(Duration::from_millis(50));
    lab.control.stop();
    while !lab.capture.is_finished() {
        std::thread::yield_now();
    }
    let summary = lab.capture.join().unwrap();
    let recorded = lab.recorder.finish(&lab.control, || {});
    let cut = lab.ended.recv().unwrap();
    let numbers: Vec<_> = packets(&cut.path).iter().map(|packet| packet.0).collect();
    // Everything from the start to the end.
    assert_eq!(
        numbers,
        (numbers[0]..numbers[0] + summary.ledger.counted).collect::<Vec<_>>()
    );
    assert!(recorded.is_fine());
}

#[test]
fn a_file_that_cannot_be_made_fails_and_the_capture_goes_on() {
    let lab = Lab::new(None, Duration::ZERO);
    std::fs::remove_dir_all(&*lab.folder).unwrap();
    let trigger = lab.recorder.trigger();
    trigger.pull_now();
    let cut = lab.ended.recv().unwrap();
    assert!(
        cut.error.as_ref().unwrap().contains("No such file")
            || cut.error.as_ref().unwrap().contains("no such file"),
        "{cut:?}"
    );
    std::fs::create_dir_all(&*lab.folder).unwrap();
    trigger.pull_now();
    assert_eq!(lab.ended.recv().unwrap().error, None);
    let recorded = lab.finish();
    assert_eq!((recorded.files, recorded.failed), (1, 1));
    assert!(!recorded.is_fine());
}

#[test]
fn memory_that_is_too_small_for_the_time_is_reported() {
    let lab = Lab::with(
        Some(Duration::from_secs(3600)),
        Duration::ZERO,
        None,
        2 << 20,
    );
    // The memory has room for 16,384 packets, less than a second.
    std::thread::sleep(Duration::from_secs(2));
    lab.recorder.trigger().pull_now();
    let cut = lab.ended.recv().unwrap();
    assert!(cut.is_short && cut.ledger.written > 0, "{cut:?}");
    let _ = lab.finish();
}

/// A recorder without its thread, of a ring that holds packets at these times.
fn manager(times: &[u64], before: u64, after: u64) -> (Manager, Receiver<Message>, Folder) {
    let folder = Folder::new();
    let mut publisher = Publisher::new(1 << 20).unwrap();
    publisher.introduce(&Interface::default());
    // Only the part of a simulated frame that identifies it, and makes its sum right.
    let mut data = [0; 60];
    data[50..54].copy_from_slice(b"FB\xb9\xbd");
    for &time_ns in times {
        let frame = Frame {
            time_ns,
            ..Frame::whole(&data)
        };
        publisher.publish(0, &frame);
    }
    let config = RecorderConfig {
        path: folder.join("a.pcapng"),
        before: Some(Duration::from_nanos(before)),
        after: Duration::from_nanos(after),
        session: SessionConfig::default(),
    };
    let (trigger, inbox) = Trigger::new();
    let manager = Manager::new(
        &publisher.source(),
        config,
        &trigger,
        &Arc::default(),
        |_| {},
    );
    (manager.unwrap(), inbox, folder)
}

/// Runs it to its end, and returns what it has recorded, and the times in the only file.
fn ended(manager: Manager, inbox: &Receiver<Message>) -> (Recorded, Vec<u64>) {
    manager.trigger.messages.send(Message::Finish).unwrap();
    let recorded = manager.run(inbox);
    let packets = packets(&recorded.cuts[0].path);
    let times = packets.into_iter().map(|(_, time)| time).collect();
    (recorded, times)
}

#[test]
fn triggers_that_arrive_together_are_all_in_the_file() {
    const T: u64 = 1_000_000_000;
    let times: Vec<_> = (0..100).map(|step| T + step * 100).collect();
    let (manager, inbox, _folder) = manager(&times, 200, 100);
    // One burst, not in order: further apart than the times before and after them.
    for at in [T + 5000, T + 2000, T + 7000] {
        manager.trigger.pull(at);
    }
    let (recorded, found) = ended(manager, &inbox);
    assert_eq!(recorded.cuts.len(), 1);
    let cut = &recorded.cuts[0];
    assert_eq!((cut.triggers, cut.is_short), (3, false));
    assert_eq!(cut.trigger_ns, (T + 2000, T + 7000));
    let expected: Vec<_> = (18..=71).map(|step| T + step * 100).collect();
    assert_eq!(found, expected);
}

#[test]
fn triggers_before_the_end_of_a_file_begin_no_other_one() {
    let far = Clock::real().wall_now() + 3_600_000_000_000;
    let (mut manager, inbox, _folder) = manager(&[far], 0, 100);
    for at in [far, far + 50, far - 7] {
        manager.trigger.pull(at);
        manager.triggered();
    }
    let (recorded, _) = ended(manager, &inbox);
    assert_eq!(recorded.cuts.len(), 1);
    let cut = &recorded.cuts[0];
    assert_eq!((cut.triggers, cut.trigger_ns), (3, (far - 7, far + 50)));
}

#[test]
fn a_fifth_file_is_refused_and_reported() {
    let far = Clock::real().wall_now();
    let (mut manager, inbox, _folder) = manager(&[far], 0, 3_600_000_000_000);
    let refused = Arc::new(AtomicU64::new(0));
    let count = refused.clone();
    manager.report = Box::new(move |event| {
        if matches!(event, RecorderEvent::Refused) {
            count.fetch_add(1, Relaxed);
        }
    });
    for _ in 0..MAX_UNFINISHED {
        manager.trigger.pull(far);
        manager.triggered();
        // Its end has passed, and the disk still writes it.
        manager.running.last_mut().unwrap().begun.end = End::passed();
    }
    manager.trigger.pull(far);
    manager.trigger.pull(far);
    manager.triggered();
    assert_eq!(refused.load(Relaxed), 1);
    let (recorded, _) = ended(manager, &inbox);
    assert_eq!(
        (recorded.files, recorded.refused, recorded.is_fine()),
        (4, 2, false)
    );
}

#[test]
fn a_session_that_panics_fails_its_file_and_is_not_waited_for() {
    let far = Clock::real().wall_now();
    let (mut manager, inbox, _folder) = manager(&[far], 0, 3_600_000_000_000);
    manager.trigger.pull(far);
    manager.triggered();
    // As its thread reports a panic. The thread itself still runs.
    let number = manager.running[0].begun.number;
    let control = manager.running[0].begun.control.clone();
    let messages = manager.trigger.messages.clone();
    messages.send(Message::Written(number, None)).unwrap();
    messages.send(Message::Finish).unwrap();
    let recorded = within_a_minute(move || manager.run(&inbox));
    control.finish();
    assert_eq!((recorded.files, recorded.failed), (0, 1));
    let error = recorded.cuts[0].error.clone().unwrap();
    assert!(error.contains("panicked"), "{error}");
}

#[test]
fn a_name_that_another_program_takes_is_left_to_it() {
    let (mut manager, inbox, folder) = manager(&[1_000], 0, 0);
    let (theirs, ours) = (folder.join("theirs.pcapng"), folder.join("ours.pcapng"));
    fs::write(&theirs, "theirs").unwrap();
    let mut names = [theirs.clone(), ours.clone()].into_iter();
    manager.names = Box::new(move |_| Ok(names.next().unwrap()));
    manager.trigger.pull(1_000);
    manager.triggered();
    assert_eq!(fs::read(&theirs).unwrap(), b"theirs");
    let (recorded, found) = ended(manager, &inbox);
    assert_eq!((&recorded.cuts[0].path, found), (&ours, vec![1_000]));
}

#[test]
fn files_that_are_written_at_the_same_time_share_the_memory_for_them() {
    let divided = |mut limit| {
        divide(&mut limit);
        limit
    };
    assert_eq!(divided(Limit::Percent(25)), Limit::Percent(6));
    assert_eq!(divided(Limit::Percent(2)), Limit::Percent(1));
    assert_eq!(divided(Limit::Bytes(4 << 30)), Limit::Bytes(1 << 30));
    assert_eq!(divided(Limit::Fixed), Limit::Fixed);
}
