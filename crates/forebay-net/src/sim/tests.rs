//! The card's arithmetic against a card that simulates every frame.

use super::{pace::Pace, *};
use forebay_testing::dice::Dice;
use std::{collections::VecDeque, time::Duration};

/// The slow card: one step for each arrival, stall edge or poll.
struct ByHand {
    pace: Pace,
    spec: Spec,
    next: u64,
    seen: u64,
    card: VecDeque<(u64, u64)>,
    host: VecDeque<(u64, u64)>,
    host_slots: Option<usize>,
    gap: u64,
    dropped: u64,
}

impl ByHand {
    fn new(spec: Spec) -> Self {
        let host_slots = match spec.host {
            Host::Frames(n) => Some(n as usize),
            _ => None,
        };
        ByHand {
            pace: Pace::new(&spec).unwrap(),
            spec,
            next: 0,
            seen: 0,
            card: VecDeque::new(),
            host: VecDeque::new(),
            host_slots,
            gap: 0,
            dropped: 0,
        }
    }

    fn move_to_host(&mut self) {
        let Some(slots) = self.host_slots else { return };
        while self.host.len() < slots && !self.card.is_empty() {
            self.host.extend(self.card.pop_front());
        }
    }

    fn is_stalled(&self, at: u64) -> bool {
        self.spec.stall.is_some_and(|stall| stall.covers(at))
    }

    /// From edge to edge of the stalls, frame by frame.
    fn advance(&mut self, now: u64) {
        while self.seen < now {
            let stall = self.spec.stall;
            let edge = stall.map_or(u64::MAX, |stall| stall.next_edge(self.seen).0);
            let (upto, stalled) = (edge.min(now), self.is_stalled(self.seen));
            loop {
                if !stalled {
                    self.move_to_host();
                }
                let is_over = self.spec.count.is_some_and(|count| self.next >= count);
                if is_over || self.pace.arrival(self.next) > upto {
                    break;
                }
                if self.card.len() < self.spec.ring as usize {
                    let gap = std::mem::take(&mut self.gap);
                    self.card.push_back((self.next, gap));
                } else {
                    self.gap += 1;
                    self.dropped += 1;
                }
                self.next += 1;
            }
            self.seen = upto;
        }
        self.look(now);
    }

    /// The host polls, unless it is stalled.
    fn look(&mut self, now: u64) {
        if !self.is_stalled(now) {
            self.move_to_host();
        }
    }

    fn take(&mut self, now: u64) -> Option<(u64, u64)> {
        match self.host_slots {
            Some(_) => self.host.pop_front(),
            None if self.spec.stall.is_some_and(|stall| stall.covers(now)) => None,
            None => self.card.pop_front(),
        }
    }
}

#[test]
fn losses_are_those_of_a_card_that_does_every_frame_by_hand() {
    for trial in 0..300u64 {
        let mut dice = Dice(trial << 32);
        let spec = Spec {
            rate: Rate::BitsPerSecond(1_000_000_000 + dice.below(9_000_000_000)),
            sizes: dice.one_of(&[Sizes::Fixed(64), Sizes::Imix]),
            flows: 1 << dice.below(7),
            sender: None,
            seed: trial,
            ring: 1 + dice.below(40),
            host: if dice.below(2) == 0 {
                Host::None
            } else {
                Host::Frames(1 + dice.below(60))
            },
            count: Some(1500 + dice.below(500)),
            stall: (dice.below(2) == 0).then(|| Stall {
                length: Duration::from_nanos(1 + dice.below(30_000)),
                period: Duration::from_nanos(40_000 + dice.below(90_000)),
            }),
            virtual_clock: true,
            cost_ns: 0,
        };
        let clock = Clock::virtual_time();
        let mut card = Sim::new(spec, clock.clone());
        card.counts(); // the first poll
        let mut by_hand = ByHand::new(spec);
        let is_over = |it: &ByHand| {
            it.next >= spec.count.unwrap() && it.card.is_empty() && it.host.is_empty()
        };
        while !is_over(&by_hand) {
            clock.sleep(Duration::from_nanos(1 + dice.below(40_000)));
            by_hand.advance(clock.now());
            let wanted = dice.below(80);
            let put_back = dice.below(4) == 0;
            let mut burst = card.receive(wanted).unwrap();
            for nth in 0..=wanted {
                let seen = burst.next_frame();
                let seen = seen.map(|it| (sequence_of(it.data).unwrap(), it.dropped_before));
                if nth + 1 == wanted && put_back && seen.is_some() {
                    burst.put_back();
                    break;
                }
                let is_wanted = nth < wanted;
                let expected = is_wanted.then(|| by_hand.take(clock.now())).flatten();
                assert_eq!(seen, expected, "trial {trial}: {spec:?} at {}", clock.now());
                if seen.is_none() {
                    break;
                }
            }
            drop(burst);
            by_hand.look(clock.now());
            let counts = card.counts();
            assert_eq!(counts.received, by_hand.next, "trial {trial}");
            assert_eq!(
                counts.dropped,
                Some(by_hand.dropped),
                "trial {trial}: {spec:?}"
            );
        }
        assert!(matches!(card.arm().unwrap(), Wake::End));
    }
}

#[test]
fn a_stopped_card_receives_nothing_more_and_gives_what_it_holds() {
    let clock = Clock::virtual_time();
    let mut card = Sim::new("ring=16,host=8".parse().unwrap(), clock.clone());
    clock.sleep(Duration::from_secs(5));
    assert_eq!(card.counts().received, 0, "quiet until the first poll");
    clock.sleep(Duration::from_micros(13)); // 19 frames
    card.stop().unwrap();
    clock.sleep(Duration::from_secs(1));
    let mut seen = 0;
    while !matches!(card.arm().unwrap(), Wake::End) {
        let mut burst = card.receive(5).unwrap();
        while burst.next_frame().is_some() {
            seen += 1;
        }
    }
    assert_eq!((seen, card.counts().received), (19, 19));
}

#[test]
fn at_the_highest_rate_nothing_is_lost_however_long_we_stay_away() {
    let clock = Clock::virtual_time();
    let mut card = Sim::new("rate=max,ring=8".parse().unwrap(), clock.clone());
    let mut expected = 0;
    for _ in 0..100 {
        clock.sleep(Duration::from_secs(1));
        let mut burst = card.receive(64).unwrap();
        while let Some(frame) = burst.next_frame() {
            assert_eq!(sequence_of(frame.data), Some(expected));
            assert_eq!(frame.dropped_before, 0);
            expected += 1;
        }
    }
    assert_eq!((expected, card.counts().dropped), (800, Some(0)));
}

#[test]
fn an_armed_card_wakes_before_its_ring_is_full() {
    for text in [
        "ring=64,host=none",
        "rate=10G,ring=4,host=none",
        "size=1518,host=2,ring=1",
    ] {
        let clock = Clock::virtual_time();
        let mut card = Sim::new(text.parse().unwrap(), clock.clone());
        for _ in 0..1000 {
            let Wake::At(then) = card.arm().unwrap() else {
                panic!("{text}: nothing to see yet");
            };
            clock.sleep_until(then);
            let mut burst = card.receive(256).unwrap();
            assert!(burst.next_frame().is_some(), "{text}");
            while burst.next_frame().is_some() {}
        }
        assert_eq!(card.counts().dropped, Some(0), "{text}");
    }
}

#[test]
fn every_key_is_understood_and_nonsense_is_refused_by_name() {
    let spec: Spec = "rate=2.5G,size=imix,flows=16,sender=7,seed=9,ring=2K,host=none,count=5M,stall=2ms@100ms,clock=virtual,cost=10ns"
        .parse()
        .unwrap();
    let expected = Spec {
        rate: Rate::BitsPerSecond(2_500_000_000),
        sizes: Sizes::Imix,
        flows: 16,
        sender: Some(7),
        seed: 9,
        ring: 2000,
        host: Host::None,
        count: Some(5_000_000),
        stall: Some(Stall {
            length: Duration::from_millis(2),
            period: Duration::from_millis(100),
        }),
        virtual_clock: true,
        cost_ns: 10,
    };
    assert_eq!(spec, expected);
    let nonsense = "rate= rate=0 rate=-1 rate=99T size=63 size=9019 ring=0 host=0 speed=1G rate stall=2ms \
        stall=100ms@2ms stall=1ns@2ns clock=fast cost=5ns flows=3 flows=128 flows=0 sender=70000 seed=x count=1.5 clock=virtual,cost=2min2";
    for nonsense in nonsense.split_whitespace() {
        let error = nonsense.parse::<Spec>().unwrap_err().to_string();
        let (_, last) = nonsense.rsplit_once(',').unwrap_or(("", nonsense));
        let key = last.split('=').next().unwrap();
        let is_named = error.starts_with("sim: ") && error.contains(key);
        assert!(is_named, "{nonsense}: {error}");
    }
}
