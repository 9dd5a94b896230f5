//! Bridges of simulated cards that send into queues of the test: without room, with failures, and stopped.

use super::*;
use crate::{
    port::{Frame, Interface, Unfinished},
    sim::Sim,
    transmit::{TxCounts, TxInfo, TxWake},
};
use forebay::packet::{Packet, Pool, PoolConfig};
use forebay_testing::limit::within_a_minute;
use std::io::ErrorKind;

/// What the far side of a bridge does.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    Takes,
    /// Has room only at every third attempt, and then for 5 frames.
    Hesitates,
    /// Answers as an interface that is down.
    IsDown,
    IsGone,
    /// Answers with an error, and leaves frames pending.
    IsDamaged,
}

struct Far {
    interface: Interface,
    pool: Pool,
    pending: Vec<Packet>,
    counts: TxCounts,
    manner: Manner,
    attempts: u64,
    seen: Seen,
}

/// The frames that arrived.
type Seen = Arc<Mutex<Vec<Vec<u8>>>>;

const QUEUE: usize = 100;

impl Far {
    fn opened(name: &str, manner: Manner, slot_bytes: u32) -> (Box<dyn TxPort>, Seen) {
        let seen = Arc::default();
        let far = Far {
            interface: Interface {
                name: name.into(),
                ..Interface::default()
            },
            pool: Pool::new(&PoolConfig {
                slots: 2 * QUEUE as u32,
                slot_bytes,
                headroom: 0,
                ..PoolConfig::default()
            })
            .unwrap(),
            pending: Vec::new(),
            counts: TxCounts::default(),
            manner,
            attempts: 0,
            seen: Arc::clone(&seen),
        };
        (Box::new(far), seen)
    }
}

impl TxPort for Far {
    fn interface(&self) -> &Interface {
        &self.interface
    }

    fn max_frame_bytes(&self) -> u32 {
        1514
    }

    fn reserve(&mut self, n: usize, packets: &mut Vec<Packet>) -> usize {
        self.pool
            .take_burst(n.min(QUEUE - self.pending.len()), packets)
    }

    fn commit(&mut self, packets: &mut Vec<Packet>) -> Result<usize> {
        let taken = packets.len().min(QUEUE - self.pending.len());
        self.counts.sent += taken as u64;
        self.pending.extend(packets.drain(..taken));
        self.advance()?;
        Ok(taken)
    }

    fn advance(&mut self) -> Result<usize> {
        self.attempts += 1;
        let room = match self.manner {
            Manner::Takes => usize::MAX,
            Manner::Hesitates if self.attempts.is_multiple_of(3) => 5,
            Manner::Hesitates => 0,
            Manner::IsDown => {
                let failed = self.pending.drain(..).count() as u64;
                self.counts.failed.link_down += failed;
                return match failed {
                    0 => Ok(0),
                    _ => {
                        Err(Error::new("far", "the interface is down").of_kind(ErrorKind::TimedOut))
                    }
                };
            }
            Manner::IsDamaged if self.pending.is_empty() => 0,
            Manner::IsDamaged => return Err(Error::new("far", "the rings are damaged")),
            Manner::IsGone => {
                self.counts.failed.link_down += self.pending.drain(..).count() as u64;
                let gone = std::io::Error::from_raw_os_error(libc::ENXIO);
                return Err(Error::new("far", "sending: the interface is gone").because(gone));
            }
        };
        for packet in self.pending.drain(..room.min(self.pending.len())) {
            self.counts.accepted += 1;
            self.seen.lock().unwrap().push(packet.to_vec());
        }
        Ok(self.pending.len())
    }

    fn arm(&mut self) -> Result<TxWake<'_>> {
        Ok(TxWake::After(Duration::from_micros(10)))
    }

    fn abandon(&mut self) {
        self.counts.failed.abandoned += self.pending.drain(..).count() as u64;
    }

    fn counts(&self) -> TxCounts {
        self.counts
    }

    fn info(&self) -> TxInfo {
        TxInfo::default()
    }
}

struct Ran {
    summary: Summary,
    directions: [DirectionCounts; 2],
    /// What arrived at the second interface.
    seen: Vec<Vec<u8>>,
}

/// Bridges two simulated cards that send `frames` each, to a far side with this manner, with this filter.
fn run(frames: u64, manner: Manner, slot_bytes: u32, filter: Option<&str>) -> Ran {
    let clock = Clock::virtual_time();
    let spec = format!("rate=1G,size=128,count={frames},clock=virtual,ring=100000");
    let port = |name: &str| -> Box<dyn Port> {
        let mut card = Sim::new(spec.parse().unwrap(), clock.clone());
        card.interfaces[0].name = name.into();
        Box::new(card)
    };
    let (back, _) = Far::opened("a", Manner::Takes, 2048);
    let (forth, seen) = Far::opened("b", manner, slot_bytes);
    let receiving = vec![port("a"), port("b")];
    let bridge = Bridge::of(receiving, [back, forth], clock);
    let config = SessionConfig {
        filter: filter.map(|text| text.parse().unwrap()),
        ..SessionConfig::default()
    };
    let (session, directions) = bridge
        .session(Output::Count, config, Control::new().unwrap())
        .unwrap();
    let summary = within_a_minute(move || session.run(&mut |_| {}));
    let directions = directions.counts(&summary);
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    for direction in &directions {
        assert_eq!(direction.check(), Ok(()), "{direction:?}");
        let ends_early = matches!(manner, Manner::IsGone | Manner::IsDamaged);
        assert_eq!(direction.received == frames, !ends_early, "{direction:?}");
    }
    assert_eq!(summary.ledger.check(), Ok(()));
    Ran {
        summary,
        directions,
        seen,
    }
}

fn numbers(frames: &[Vec<u8>]) -> Vec<u64> {
    let number = |frame: &Vec<u8>| u64::from_be_bytes(frame[42..50].try_into().unwrap());
    frames.iter().map(number).collect()
}

#[test]
fn every_frame_is_forwarded_both_ways_in_order() {
    for manner in [Manner::Takes, Manner::Hesitates] {
        let ran = run(2_000, manner, 2048, None);
        assert!(ran.summary.is_fine());
        let [forth, back] = &ran.directions;
        assert_eq!((forth.forwarded, back.forwarded), (2_000, 2_000));
        assert_eq!(
            [&forth.from, &forth.to, &back.from, &back.to],
            ["a", "b", "b", "a"]
        );
        assert!(numbers(&ran.seen).into_iter().eq(0..2_000));
    }
}

#[test]
fn frames_that_the_filter_rejects_are_counted_and_not_sent() {
    let ran = run(1_000, Manner::Takes, 2048, Some("tcp"));
    for direction in &ran.directions {
        assert_eq!((direction.filtered, direction.forwarded), (1_000, 0));
    }
    assert!(ran.seen.is_empty());
}

#[test]
fn frames_that_fit_into_no_packet_have_failed() {
    let ran = run(100, Manner::Takes, 64, None);
    assert_eq!(ran.directions[0].failed.too_long, 100);
    assert_eq!(
        ran.directions[1].forwarded, 100,
        "the other direction goes on"
    );
}

#[test]
fn an_interface_that_is_down_costs_only_the_frames_for_it() {
    let ran = run(1_000, Manner::IsDown, 2048, None);
    assert!(ran.summary.is_fine());
    let [forth, back] = &ran.directions;
    let failed = forth.failed.link_down + forth.failed.abandoned;
    assert_eq!((failed, forth.forwarded), (1_000, 0), "{forth:?}");
    assert_eq!(back.forwarded, 1_000);
}

#[test]
fn an_interface_that_is_gone_ends_the_bridge_with_exact_counts() {
    let ran = run(1_000_000, Manner::IsGone, 2048, None);
    let error = ran.summary.port_error.unwrap().to_string();
    assert!(error.contains("the interface is gone"), "{error}");
    assert_eq!(ran.directions[0].forwarded, 0);
}

#[test]
fn a_sender_that_fails_with_frames_pending_ends_the_bridge_too() {
    let ran = run(1_000_000, Manner::IsDamaged, 2048, None);
    let error = ran.summary.port_error.unwrap().to_string();
    assert!(error.contains("the rings are damaged"), "{error}");
    assert_eq!(ran.directions[0].forwarded, 0);
    assert!(ran.directions[0].failed.abandoned > 0);
}

#[test]
fn checksums_are_finished_for_a_port_that_cannot_and_merged_frames_have_failed() {
    let (far, seen) = Far::opened("b", Manner::Takes, 2048);
    let mut sender = Sender::new(far);
    let mut header = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    header[6..8].copy_from_slice(&34_u16.to_ne_bytes());
    header[8..].copy_from_slice(&6_u16.to_ne_bytes());
    let frame = Frame {
        unfinished: Unfinished::from_header(header),
        ..Frame::whole(&[0; 60])
    };
    assert!(sender.forward(&frame));
    (header[1], header[4]) = (5, 10); // a datagram of several: UDP segmentation
    let merged = Frame {
        unfinished: Unfinished::from_header(header),
        ..frame
    };
    assert!(sender.forward(&merged) && sender.forward(&frame));
    sender.end();
    let seen = seen.lock().unwrap();
    let finished = |it: &Vec<u8>| it.len() == 60 && it[40..42] == [0xff, 0xff];
    assert!(seen.len() == 2 && seen.iter().all(finished));
    assert_eq!(sender.counts().failed.too_long, 1);
}

#[test]
fn no_frame_waits_for_an_interface_that_is_found_to_be_gone() {
    let (far, _) = Far::opened("b", Manner::IsGone, 2048);
    let mut sender = Sender::new(far);
    let frame = Frame::whole(&[0; 60]);
    // The batch is handed over when it is full.
    assert!((0..100).all(|_| sender.forward(&frame)));
    assert!(sender.serve().is_err());
    assert_eq!(sender.serve().unwrap(), None, "nothing is left to wait for");
    assert_eq!(sender.counts().failed.link_down, 100);
}
