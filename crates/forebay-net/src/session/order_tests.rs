//! The order of packets of several ports, and what is too late.

use super::{
    Output, SessionConfig, Summary,
    tests::{Scratch, opened, session},
};
use crate::port::{
    Burst, Counts, Direction, Frame, Frames, Interface, LATE_COMMENT, Port, PortInfo,
    SIMULATED_TIME, Wake,
};
use forebay::{Result, time::Clock};
use std::sync::{Arc, Mutex};

/// Captures until the ports end, and returns the times of the packets in the order in which they were taken.
fn taken(ports: Vec<Box<dyn Port>>, clock: Clock) -> (Vec<u64>, Summary) {
    let times = Arc::new(Mutex::new(Vec::new()));
    let seen = times.clone();
    let (session, _) = session(ports, Output::Count, clock, |_| {});
    let session = session.each(move |frame, _| {
        seen.lock().unwrap().push(frame.time_ns);
        true
    });
    let summary = session.run(&mut |_| {});
    summary.ledger.check().unwrap();
    let times = std::mem::take(&mut *times.lock().unwrap());
    (times, summary)
}

#[test]
fn packets_of_several_cards_are_taken_in_the_order_of_their_times() {
    let names = [
        "sim:clock=virtual,rate=1000pps,count=300",
        "sim:clock=virtual,rate=1777pps,count=500,seed=2",
        "sim:clock=virtual,rate=3pps,count=1",
    ];
    let (ports, clock) = opened(&names);
    let (times, summary) = taken(ports, clock);
    assert!(times.len() == 801 && times.is_sorted());
    assert!(summary.is_fine() && summary.odd.late == 0);
}

#[test]
fn a_ring_that_fills_up_does_not_wait_for_another_interface() {
    // In the 10 ms for which a packet waits, 1000 arrive.
    let busy = "sim:clock=virtual,rate=100000pps,count=20k,ring=800,host=none";
    let (ports, clock) = opened(&[busy, "sim:clock=virtual,rate=1pps,count=1"]);
    let (times, summary) = taken(ports, clock);
    assert_eq!(
        (times.len(), summary.ledger.dropped.kernel),
        (20_001, Some(0))
    );
}

#[test]
fn a_capture_that_has_enough_ends_although_packets_wait() {
    let busy = "sim:clock=virtual,rate=100000pps,ring=800,host=none";
    let (ports, clock) = opened(&[busy, "sim:clock=virtual,rate=1pps"]);
    let set = |it: &mut SessionConfig| it.count = Some(15_000);
    let summary = session(ports, Output::Count, clock, set).0.run(&mut |_| {});
    assert_eq!(summary.ledger.counted, 15_000);
    summary.ledger.check().unwrap();
}

/// A port with one packet, which it has accepted at the beginning and hands out at `ready_at`.
struct Slow {
    interfaces: [Interface; 1],
    clock: Clock,
    ready_at: u64,
    left: usize,
    allowed: usize,
}

impl Frames for Slow {
    fn next_frame(&mut self) -> Option<Frame<'_>> {
        if self.left == 0 || self.allowed == 0 {
            return None;
        }
        (self.left, self.allowed) = (0, 0);
        let (time_ns, direction) = (self.clock.wall(1), Direction::Inbound);
        Some(Frame {
            time_ns,
            direction,
            ..Frame::whole(&[0; 60])
        })
    }
    fn put_back(&mut self) {
        self.left = 1;
    }
    fn release(&mut self) {}
}

impl Port for Slow {
    fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }
    fn receive(&mut self, budget: usize) -> Result<Burst<'_>> {
        self.allowed = if self.clock.now() < self.ready_at {
            0
        } else {
            budget
        };
        Ok(Burst::new(self))
    }
    fn arm(&mut self) -> Result<Wake<'_>> {
        Ok(match self.left {
            0 => Wake::End,
            _ if self.clock.now() < self.ready_at => Wake::At(self.ready_at),
            _ => Wake::Ready,
        })
    }
    fn stop(&mut self) -> Result<()> {
        Ok(())
    }
    fn counts(&mut self) -> Counts {
        Counts {
            received: 1,
            dropped: Some(0),
            interface_dropped: None,
            filtered: Some(0),
        }
    }
    fn info(&self) -> PortInfo {
        PortInfo {
            backend: "slow",
            waits: true,
            timestamps: SIMULATED_TIME,
            ..PortInfo::default()
        }
    }
}

#[test]
fn a_packet_that_its_port_cannot_hand_out_yet_is_waited_for_up_to_a_second_and_is_then_marked() {
    for (ready_at, late) in [(100_000_000, 0), (900_000_000, 0), (1_500_000_000, 1)] {
        let (mut ports, clock) = opened(&["sim:clock=virtual,rate=1000pps,count=3000"]);
        let interfaces = [Interface {
            name: "slow".into(),
            ..Interface::default()
        }];
        let slow = Slow {
            interfaces,
            clock: clock.clone(),
            ready_at,
            left: 1,
            allowed: 0,
        };
        ports.push(Box::new(slow));
        let scratch = Scratch::new(".pcapng");
        let set = |_: &mut SessionConfig| {};
        let (session, _) = session(ports, Output::File(scratch.0.clone()), clock, set);
        let summary = session.run(&mut |_| {});
        assert_eq!(
            (summary.ledger.written, summary.odd.late),
            (3001, late),
            "{ready_at}"
        );
        let file = std::fs::read(&scratch.0).unwrap();
        let has_comment = file
            .windows(LATE_COMMENT.len())
            .any(|it| it == LATE_COMMENT);
        assert_eq!(has_comment, late > 0);
    }
}
