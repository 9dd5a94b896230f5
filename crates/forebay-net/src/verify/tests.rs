//! The verifier against a model that remembers every number.

use super::{window::Window, *};
use crate::{
    label::Kind,
    session::{
        Output,
        tests::{opened, session},
    },
};
use forebay_testing::dice::{Dice, rounds};
use proptest::prelude::*;
use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

const WINDOW: u64 = 64;

fn labelled(sequence: u64, kind: Kind, log_flows: u8, sender: u16) -> Label {
    Label {
        sequence,
        kind,
        log_flows,
        sender,
        time: None,
    }
}

/// The smallest frame with this label.
fn frame_of(label: &Label) -> Vec<u8> {
    let mut frame = vec![0; 42];
    frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17]);
    let check = !crate::label::sum(&frame[14..34]);
    frame[24..26].copy_from_slice(&check.to_be_bytes());
    frame[36..40].copy_from_slice(&[0, 9, 0, 26]);
    frame.extend(label.bytes());
    frame
}

fn see(verifier: &mut Verifier, label: &Label, interface: &str) {
    let data = frame_of(label);
    let interface = Interface {
        name: interface.into(),
        ..Interface::default()
    };
    verifier.see(&Frame::whole(&data), &interface);
}

/// What a verifier should report, by sets of numbers.
fn expected(numbers: &[u64], log_flows: u8, has_begun: bool, sent: Option<u64>) -> SenderReport {
    let mut seen = BTreeSet::new();
    let mut flows = vec![(BTreeSet::new(), 0); 1 << log_flows];
    let (mut duplicates, mut reordered, mut longest_distance, mut late) = (0, 0, 0, 0);
    for &number in numbers {
        let highest = seen.last().copied().unwrap_or(number);
        if number + WINDOW <= highest {
            late += 1;
        } else if seen.insert(number) {
            let (flow, of_flow) = &mut flows[crate::label::flow_of(number, log_flows)];
            *of_flow += u64::from(flow.last().is_some_and(|&last| last > number));
            flow.insert(number);
            reordered += u64::from(number < highest);
            longest_distance = longest_distance.max(highest.saturating_sub(number));
        } else {
            duplicates += 1;
        }
    }
    let first = match has_begun {
        true => 0,
        false => seen.first().copied().unwrap_or(0),
    };
    let end = seen.last().map_or(0, |last| last + 1);
    let end = end.max(sent.unwrap_or(0)).max(first);
    let missing: Vec<_> = (first..end).filter(|it| !seen.contains(it)).collect();
    let gaps: Vec<_> = missing.chunk_by(|a, b| a + 1 == *b).collect();
    let flows = flows.iter().enumerate().map(|(number, (flow, reordered))| {
        let is_its = |it: &&u64| crate::label::flow_of(**it, log_flows) == number;
        FlowReport {
            received: flow.len() as u64,
            lost: missing.iter().filter(is_its).count() as u64,
            reordered: *reordered,
        }
    });
    let flows: Vec<_> = flows.collect();
    SenderReport {
        interface: "eth0".into(),
        sender: 9,
        first,
        sent,
        expected: end - first,
        received: seen.len() as u64,
        lost: missing.len() as u64,
        gaps: gaps.len() as u64,
        longest_gap: gaps.iter().map(|gap| gap.len()).max().unwrap_or(0) as u64,
        duplicates,
        reordered,
        longest_distance,
        reordered_in_flow: flows.iter().map(|flow| flow.reordered).sum(),
        late,
        markers: u64::from(has_begun) + u64::from(sent.is_some()),
        flows,
    }
}

/// `count` numbers from `from` on, some of them lost, repeated or moved. Per mille each.
fn path(dice: &mut Dice, (from, count): (u64, u64), rates: [u64; 4], farthest: u64) -> Vec<u64> {
    let [lost, bursts, repeated, moved] = rates;
    let mut arrivals = Vec::new();
    let mut dead_until = 0;
    for number in from..from + count {
        if dice.below(1000) < bursts {
            dead_until = number + dice.below(3 * WINDOW);
        }
        if number < dead_until || dice.below(1000) < lost {
            continue;
        }
        let mut time = number;
        if dice.below(1000) < moved {
            time += dice.below(farthest);
        }
        arrivals.push((time, number));
        if dice.below(1000) < repeated {
            arrivals.push((time + dice.below(farthest), number));
        }
    }
    arrivals.sort_by_key(|&(time, _)| time);
    arrivals.into_iter().map(|(_, number)| number).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(rounds(256)))]

    #[test]
    fn counts_are_those_of_a_model_that_remembers_everything(
        seed in any::<u64>(),
        log_flows in 0..=6_u8,
        from in prop_oneof![Just(0), 0..1000_u64],
        count in 0..600_u64,
        rates in prop::array::uniform4(prop_oneof![Just(0), 0..20_u64, 0..500_u64]),
        farthest in prop_oneof![1..=WINDOW, 1..4 * WINDOW],
        has_begun in any::<bool>(),
        tail in prop::option::of(0..300_u64),
    ) {
        let numbers = path(&mut Dice(seed), (from, count), rates, farthest);
        let sent = tail.map(|tail| from + count + tail);
        let config = VerifyConfig { window: WINDOW, ..VerifyConfig::default() };
        let mut verifier = Verifier::new(config);
        let mut see = |sequence, kind| {
            see(&mut verifier, &labelled(sequence, kind, log_flows, 9), "eth0");
        };
        if has_begun {
            see(0, Kind::Begin);
        }
        numbers.iter().for_each(|&number| see(number, Kind::Numbered));
        if let Some(sent) = sent {
            see(sent, Kind::End);
        }
        let report = verifier.report();
        prop_assert_eq!(report.check(), Ok(()));
        let expected = expected(&numbers, log_flows, has_begun, sent);
        if expected.received + expected.markers > 0 {
            // A late number may split a gap that is already counted.
            let found = &report.senders[0];
            let (gaps, longest_gap) = match expected.late {
                0 => (found.gaps, found.longest_gap),
                _ => (expected.gaps, expected.longest_gap),
            };
            prop_assert_eq!(found, &SenderReport { gaps, longest_gap, ..expected.clone() });
            prop_assert_eq!(verifier.is_complete(), sent.is_some() && found.lost == 0);
        } else {
            prop_assert!(report.senders.is_empty());
        }
    }

    #[test]
    fn any_numbers_cost_one_walk_over_the_window_and_add_up(
        numbers in prop::collection::vec(
            prop_oneof![any::<u64>(), 0..200_u64, (u64::MAX - 200)..u64::MAX],
            0..200,
        ),
        ends in prop::collection::vec(any::<u64>(), 0..3),
        starts in any::<bool>(),
    ) {
        let mut verifier = Verifier::new(VerifyConfig::default());
        if starts {
            see(&mut verifier, &labelled(0, Kind::Begin, 6, 1), "");
        }
        for &number in &numbers {
            see(&mut verifier, &labelled(number.min(u64::MAX - 1), Kind::Numbered, 6, 1), "");
        }
        for &end in &ends {
            see(&mut verifier, &labelled(end.min(u64::MAX - 1), Kind::End, 6, 1), "");
        }
        let report = verifier.report();
        prop_assert_eq!(report.check(), Ok(()));
        for sender in &report.senders {
            prop_assert_eq!(sender.expected, sender.received + sender.lost);
            let of_flows = |of: fn(&FlowReport) -> u64| sender.flows.iter().map(of).sum::<u64>();
            prop_assert_eq!(of_flows(|it| it.received), sender.received);
            prop_assert_eq!(of_flows(|it| it.lost), sender.lost);
            prop_assert!(sender.longest_gap <= sender.lost);
        }
    }
}

#[test]
fn gaps_longer_than_the_window_are_one_gap() {
    let mut window = Window::new(64);
    for number in [0, 1, 1000, 1001, 1003, 5000] {
        window.see(number);
    }
    let gaps = window.gaps(6000);
    assert_eq!((gaps.count, gaps.longest), (4, 3996));
    assert_eq!(window.gaps(5001).count, 3);
}

#[test]
fn large_windows_have_fewer_senders_so_that_their_memory_is_limited() {
    let config = VerifyConfig {
        window: 1 << 30,
        ..VerifyConfig::default()
    };
    let mut verifier = Verifier::new(config);
    for sender in 0..6 {
        let label = labelled(0, Kind::Numbered, 0, sender);
        see(&mut verifier, &label, "a");
    }
    let report = verifier.report();
    assert_eq!((report.senders.len(), report.untracked), (4, 2));
}

#[test]
fn senders_are_told_apart_by_number_and_interface_and_their_number_is_limited() {
    let config = VerifyConfig {
        senders: 3,
        ..VerifyConfig::default()
    };
    let mut verifier = Verifier::new(config);
    for number in 0..10 {
        for (sender, interface) in [(2, "b"), (1, "b"), (2, "a"), (3, "a"), (4, "c")] {
            let label = labelled(number, Kind::Numbered, 0, sender);
            see(&mut verifier, &label, interface);
        }
    }
    let report = verifier.report();
    let senders = report.senders.iter();
    let senders: Vec<_> = senders
        .map(|it| (&*it.interface, it.sender, it.received, it.lost))
        .collect();
    assert_eq!(senders, [("a", 2, 10, 0), ("b", 1, 10, 0), ("b", 2, 10, 0)]);
    assert_eq!((report.untracked, report.check()), (20, Ok(())));
    assert!(!verifier.has_ended());
}

#[test]
fn a_number_that_no_rate_allows_is_corrupted_and_the_sums_stay_exact() {
    let mut verifier = Verifier::new(VerifyConfig::default());
    let interface = Interface::default();
    let mut see = |number, kind, sender, time_ns| {
        let data = frame_of(&labelled(number, kind, 0, sender));
        let frame = Frame {
            time_ns,
            ..Frame::whole(&data)
        };
        verifier.see(&frame, &interface);
    };
    const SECOND: u64 = 1_000_000_000;
    for sender in [1, 2] {
        see(7, Kind::Numbered, sender, SECOND);
        // Anybody on the path can send these.
        see(u64::MAX - 1, Kind::Numbered, sender, SECOND);
        see(1 << 50, Kind::Numbered, sender, SECOND);
        see(1 << 50, Kind::End, sender, 2 * SECOND);
        // 100 million a second, after a pause.
        see(1_000_000_007, Kind::Numbered, sender, 11 * SECOND);
        see(1_000_000_008, Kind::End, sender, 11 * SECOND);
    }
    // The numbers before a beginning that comes late were those of another run.
    see(1 << 50, Kind::Numbered, 3, SECOND);
    see(0, Kind::Begin, 3, SECOND);
    let report = verifier.report();
    assert_eq!((report.corrupted, report.received()), (6, 5));
    assert_eq!(report.lost(), 2 * 999_999_999);
    assert_eq!(report.check(), Ok(()));
    // Sums without room, from either side.
    for (senders, received) in [(2, 1), (1, u64::MAX)] {
        let one = SenderReport {
            expected: u64::MAX,
            received,
            lost: u64::MAX,
            ..report.senders[0].clone()
        };
        let doubtful = VerifyReport {
            senders: vec![one; senders],
            ..VerifyReport::default()
        };
        assert!(doubtful.check().is_err());
    }
}

#[test]
fn frames_without_a_trusted_label_are_counted_by_what_they_are() {
    let mut verifier = Verifier::new(VerifyConfig::default());
    let whole = frame_of(&labelled(5, Kind::Numbered, 0, 1));
    let mut broken = whole.clone();
    broken[45] ^= 1;
    let mut see = |data: &[u8], wire_len, direction| {
        let frame = Frame {
            wire_len,
            direction,
            ..Frame::whole(data)
        };
        verifier.see(&frame, &Interface::default());
    };
    see(&whole, 60, Direction::Inbound);
    see(&whole, 60, Direction::Outbound);
    see(&broken, 60, Direction::Unknown);
    see(&whole[..50], 60, Direction::Unknown);
    see(&[0; 60], 60, Direction::Unknown);
    let report = verifier.report();
    let counts = (
        report.foreign,
        report.corrupted,
        report.cut,
        report.outbound,
    );
    assert_eq!(
        (report.frames, report.received(), counts),
        (5, 1, (1, 1, 1, 1))
    );
    assert_eq!(report.check(), Ok(()));
    assert!(!report.is_lossless());
}

#[test]
fn what_a_simulated_card_drops_is_what_the_verifier_misses() {
    let name = "sim:clock=virtual,rate=10G,size=imix,count=100000,ring=64,host=none,stall=70us@100us,flows=8";
    let (ports, clock) = opened(&[name]);
    let (session, _) = session(ports, Output::Count, clock, |_| ());
    let verifier = Arc::new(Mutex::new(Verifier::new(VerifyConfig::default())));
    let marks = Arc::new(AtomicU64::new(0));
    let (seeing, marking) = (verifier.clone(), marks.clone());
    let session = session.each(move |frame, interface| {
        seeing.lock().unwrap().see(frame, interface);
        marking.fetch_add(u64::from(frame.dropped_before > 0), Relaxed);
        true
    });
    let summary = session.run(&mut |_| {});
    assert!(summary.is_fine());
    let report = verifier.lock().unwrap().report();
    assert_eq!(report.received(), summary.ledger.counted);
    assert_eq!(report.senders[0].gaps, marks.load(Relaxed));
    // The verifier cannot know what the card drops after the last frame.
    let tail = summary.ledger.dropped.kernel.unwrap() - report.lost();
    assert!(
        report.lost() > 10_000 && tail < 1000,
        "{tail} of {report:?}"
    );
}
