//! The beginning and the end of a tap whose memory is full, or whose packets are not in order.

use super::*;
use crate::share::{MIN_RING_BYTES, Publisher};
use forebay::ring::broadcast::Reader;

fn publisher(interfaces: u32) -> Publisher {
    let mut publisher = Publisher::new(MIN_RING_BYTES).unwrap();
    for number in 0..interfaces {
        assert_eq!(publisher.introduce(&Interface::default()), number);
    }
    publisher
}

fn publish(publisher: &mut Publisher, interface: u32, times: impl IntoIterator<Item = u64>) {
    for time_ns in times {
        let frame = Frame {
            time_ns,
            ..Frame::whole(&[0; 500])
        };
        publisher.publish(interface, &frame);
    }
}

fn tap(publisher: &Publisher, begin: Begin, end: Option<&End>) -> Tap {
    let config = TapConfig {
        begin,
        end: end.cloned(),
        ..TapConfig::default()
    };
    publisher.source().tap(&config).unwrap()
}

/// Times of the packets that are there now; and whether the tap has ended.
fn read(tap: &mut Tap) -> (Vec<u64>, bool) {
    let mut times = Vec::new();
    loop {
        let mut burst = tap.receive(256).unwrap();
        while let Some(frame) = burst.next_frame() {
            assert_eq!(frame.dropped_before, 0);
            times.push(frame.time_ns);
        }
        drop(burst);
        match tap.arm().unwrap() {
            Wake::Ready => {}
            Wake::End => return (times, true),
            _ => return (times, false),
        }
    }
}

/// The rest of its packets, until it ends.
fn rest(tap: &mut Tap) -> Vec<u64> {
    let mut times = Vec::new();
    loop {
        let (more, has_ended) = read(tap);
        times.extend(more);
        if has_ended {
            return times;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// The times of packets that are in memory.
fn intact(publisher: &Publisher) -> std::ops::Range<u64> {
    let memory = publisher.source().0.descriptors()[0].try_clone_to_owned();
    Reader::attach(memory.unwrap()).unwrap().intact()
}

#[test]
fn packets_that_are_overwritten_while_the_session_opens_cost_no_others() {
    let mut publisher = publisher(1);
    publish(&mut publisher, 0, 0..10_000);
    let mut tap = tap(&publisher, Begin::Oldest, None);
    let is_short = tap.is_short();
    // The session takes long to open: half of the memory is overwritten.
    publish(&mut publisher, 0, 10_000..10_700);
    let intact = intact(&publisher);
    let held = intact.end - intact.start;
    let (times, _) = read(&mut tap);
    assert!(
        times[0] <= intact.start + held / 50,
        "{} {intact:?}",
        times[0]
    );
    assert!(times.iter().copied().eq(times[0]..10_700));
    assert_eq!(tap.counts().dropped, Some(0));
    assert!(is_short.load(Relaxed));
}

#[test]
fn an_overrun_before_the_first_packet_skips_only_a_small_part() {
    let mut publisher = publisher(1);
    publish(&mut publisher, 0, 0..10_000);
    // All packets of the memory are too early, so that the tap is still before its first packet when it is overtaken.
    let mut tap = tap(&publisher, Begin::At(10_001), None);
    let is_short = tap.is_short();
    assert_eq!(read(&mut tap), (vec![], false));
    publish(&mut publisher, 0, 10_000..20_000);
    let intact = intact(&publisher);
    let (times, _) = read(&mut tap);
    assert!(times[0] <= intact.start + (intact.end - intact.start) / 50);
    assert!(times.iter().copied().eq(times[0]..20_000));
    assert!(is_short.load(Relaxed), "10,001 is not there");
}

#[test]
fn memory_that_reaches_back_beyond_the_beginning_is_not_short() {
    let mut publisher = publisher(1);
    publish(&mut publisher, 0, 0..10_000);
    let mut tap = tap(&publisher, Begin::At(9_500), None);
    let is_short = tap.is_short();
    assert!(read(&mut tap).0.into_iter().eq(9_500..10_000));
    assert!(!is_short.load(Relaxed));
}

#[test]
fn packets_of_another_interface_from_before_the_end_are_delivered_after_one_beyond_it() {
    let now = Clock::real().wall_now();
    let mut publisher = publisher(2);
    let end = End::at(now);
    let mut tap = tap(&publisher, Begin::At(now - 50), Some(&end));
    publish(&mut publisher, 0, [now - 10, now + 1]);
    publish(&mut publisher, 1, [now - 60, now - 20, now, now + 2]);
    // From the first packet on, none is left out for being too early.
    assert_eq!(
        read(&mut tap),
        (vec![now - 10, now - 60, now - 20, now], false)
    );
    assert!(!end.extend(now + 100), "a later packet was left out");
    // The kernel has held back a block of the quiet interface.
    publish(&mut publisher, 1, [now - 5, now + 50]);
    assert_eq!(rest(&mut tap), [now - 5]);
}

#[test]
fn a_memory_in_which_everything_from_before_the_end_was_overwritten_is_short() {
    let mut publisher = publisher(1);
    publish(&mut publisher, 0, 0..10_000);
    let mut tap = tap(&publisher, Begin::At(9_000), Some(&End::at(9_500)));
    let is_short = tap.is_short();
    publish(&mut publisher, 0, 10_000..20_000);
    assert_eq!(rest(&mut tap), []);
    assert!(is_short.load(Relaxed));
}

#[test]
fn a_single_interface_ends_soon_and_tolerates_packets_of_several_processors() {
    let now = Clock::real().wall_now();
    let mut publisher = publisher(1);
    let mut tap = tap(&publisher, Begin::Oldest, Some(&End::at(now)));
    publish(&mut publisher, 0, [now - 1, now + 1, now, now + 2]);
    assert_eq!(rest(&mut tap), [now - 1, now]);
}

#[test]
fn a_clock_that_was_set_back_does_not_end_a_tap_at_once() {
    const HOUR: u64 = 3_600_000_000_000;
    let now = Clock::real().wall_now();
    let mut publisher = publisher(1);
    publish(
        &mut publisher,
        0,
        [now + HOUR, now + HOUR + 1, now - 1, now],
    );
    let mut tap = tap(
        &publisher,
        Begin::At(now - 1),
        Some(&End::at(now + HOUR / 2)),
    );
    publish(
        &mut publisher,
        0,
        [now + 5, now + HOUR / 2 + 1, now + HOUR / 2],
    );
    let expected = [
        now + HOUR,
        now + HOUR + 1,
        now - 1,
        now,
        now + 5,
        now + HOUR / 2,
    ];
    assert_eq!(rest(&mut tap), expected);
}

#[test]
fn a_publisher_that_overtakes_all_the_time_cannot_keep_a_stopped_tap_from_ending() {
    let mut publisher = Publisher::new(1 << 20).unwrap();
    publisher.introduce(&Interface::default());
    let mut tap = publisher.source().tap(&TapConfig::default()).unwrap();
    tap.stop().unwrap();
    for _ in 0..=MAX_LATE_OVERRUNS {
        assert!(tap.fault.is_none());
        tap.count_overrun(1);
    }
    let error = tap.arm().unwrap_err().to_string();
    assert!(error.contains("it does not end"), "{error}");
    assert!(matches!(tap.arm(), Ok(Wake::End)));
}

#[test]
fn impossible_overruns_are_an_error_and_not_counted() {
    let mut publisher = Publisher::new(1 << 20).unwrap();
    publisher.introduce(&Interface::default());
    for (before, jump) in [(0, u64::MAX), (5, MAX_LOST - 4)] {
        let mut tap = publisher.source().tap(&TapConfig::default()).unwrap();
        tap.count_overrun(before);
        tap.count_overrun(jump);
        let counts = tap.counts();
        assert_eq!((counts.received, counts.dropped), (before, Some(before)));
        let error = tap.arm().unwrap_err().to_string();
        assert!(error.contains("impossible"), "{error}");
    }
}
