//! What a port gets is what a verifier expects, whatever the port does.

use super::*;
use crate::{
    label::{Found, find},
    port::{Frame, Interface},
    transmit::{TxFailed, TxInfo, TxWake},
    verify::{Verifier, VerifyConfig},
};
use forebay::packet::{Pool, PoolConfig};
use forebay_testing::dice::Dice;

/// A port that takes frames when its dice say so, and refuses some.
struct Moody {
    interface: Interface,
    pool: Pool,
    pending: Vec<Packet>,
    counts: TxCounts,
    dice: Dice,
    /// Frames of a thousand that are refused.
    refused: u64,
    /// Fails when this many were accepted.
    breaks_at: u64,
    taken: Vec<Vec<u8>>,
}

impl Moody {
    fn new(seed: u64) -> Moody {
        Moody {
            interface: Interface {
                name: "moody".into(),
                ..Interface::default()
            },
            pool: Pool::new(&PoolConfig {
                slots: 64,
                ..PoolConfig::default()
            })
            .unwrap(),
            pending: Vec::new(),
            counts: TxCounts::default(),
            dice: Dice(seed),
            refused: 0,
            breaks_at: u64::MAX,
            taken: Vec::new(),
        }
    }

    /// What a verifier makes of the accepted frames.
    fn verified(&self) -> crate::verify::VerifyReport {
        let mut verifier = Verifier::new(VerifyConfig::default());
        for data in &self.taken {
            let frame = Frame::whole(data);
            let Found::Whole(label) = find(&frame, self.interface.link) else {
                panic!("{data:?}");
            };
            assert!(label.time.is_some());
            verifier.see(&frame, &self.interface);
        }
        let report = verifier.report();
        assert_eq!(report.check(), Ok(()));
        report
    }
}

impl TxPort for Moody {
    fn interface(&self) -> &Interface {
        &self.interface
    }

    fn max_frame_bytes(&self) -> u32 {
        1514
    }

    fn reserve(&mut self, n: usize, packets: &mut Vec<Packet>) -> usize {
        let n = n.min(self.dice.below(70));
        self.pool.take_burst(n, packets)
    }

    fn commit(&mut self, packets: &mut Vec<Packet>) -> Result<usize> {
        let taken = packets.len().min(self.dice.below(70));
        self.counts.sent += taken as u64;
        self.pending.extend(packets.drain(..taken));
        self.advance()?;
        Ok(taken)
    }

    fn advance(&mut self) -> Result<usize> {
        let some = self.dice.below(self.pending.len() + 1);
        for packet in self.pending.drain(..some) {
            if self.dice.below(1000) < self.refused {
                self.counts.failed.refused += 1;
            } else {
                self.counts.accepted += 1;
                self.taken.push(packet.to_vec());
            }
        }
        if self.counts.accepted >= self.breaks_at {
            self.abandon();
            return Err(Error::new("moody", "broken"));
        }
        Ok(self.pending.len())
    }

    fn arm(&mut self) -> Result<TxWake<'_>> {
        Ok(match self.pending.is_empty() {
            true => TxWake::Ready,
            false => TxWake::After(Duration::ZERO),
        })
    }

    fn abandon(&mut self) {
        self.counts.failed.abandoned += self.pending.len() as u64;
        self.pending.clear();
    }

    fn counts(&self) -> TxCounts {
        self.counts
    }

    fn info(&self) -> TxInfo {
        TxInfo::default()
    }
}

fn config(settings: &str) -> GenerateConfig {
    GenerateConfig {
        spec: settings.parse().unwrap(),
        ..GenerateConfig::default()
    }
}

fn send(port: &mut Moody, config: &GenerateConfig) -> Generated {
    let control = Control::new().unwrap();
    let sent = run(port, config, Clock::virtual_time(), &control, &mut |_| {}).unwrap();
    assert!(sent.law_holds(), "{sent:?}");
    sent
}

#[test]
fn every_frame_of_every_rate_and_size_is_verified() {
    for (seed, rate) in ["1M", "10G", "100kpps", "max"].into_iter().enumerate() {
        for (size, flows) in [("64", 1), ("imix", 64), ("1518", 8)] {
            let mut port = Moody::new(seed as u64);
            let settings = format!("rate={rate},size={size},flows={flows},count=5000,sender=3");
            let sent = send(&mut port, &config(&settings));
            assert!(sent.error.is_none() && sent.is_ended, "{sent:?}");
            assert_eq!((sent.frames, sent.markers), (5000, 10));
            let report = port.verified();
            let [sender] = &report.senders[..] else {
                panic!("{report:?}");
            };
            assert_eq!((sender.sender, sender.sent), (3, Some(5000)));
            assert_eq!((sender.received, sender.markers), (5000, 10));
            assert_eq!(sender.flows.len(), flows);
            assert!(report.is_lossless() && report.reordered() + report.duplicates() == 0);
        }
    }
}

#[test]
fn frames_that_a_port_refuses_are_lost_by_number() {
    let mut port = Moody::new(1);
    port.refused = 100;
    let sent = send(&mut port, &config("rate=max,count=20000"));
    let refused = sent.counts.failed.refused;
    assert!(refused > 1000);
    let report = port.verified();
    let lost = report.lost() + (10 - report.markers());
    assert_eq!((lost, sent.counts.failed.total()), (refused, refused));
}

#[test]
fn frames_leave_when_they_are_due_and_a_time_ends_them_exactly() {
    let mut port = Moody::new(2);
    let config = GenerateConfig {
        stop_after: Some(Duration::from_millis(10)),
        ..config("rate=1kpps")
    };
    let sent = send(&mut port, &config);
    // Frames 0 to 9 are due within 10 ms.
    assert_eq!((sent.frames, sent.elapsed), (10, Duration::from_millis(9)));
    assert_eq!(
        (sent.pace.worst_lag_ns, sent.pace.gap_error_ns(1.0)),
        (0, 0)
    );
    assert!((sent.frames_per_second() - 1000.0).abs() < 1e-6);
}

#[test]
fn a_stop_ends_with_markers_and_a_second_one_without() {
    for stops in [1, 2] {
        let mut port = Moody::new(3);
        let control = Control::new().unwrap();
        let asked = control.clone();
        let sent = run(
            &mut port,
            &config("rate=10kpps"),
            Clock::virtual_time(),
            &control,
            &mut |progress| {
                if progress.frames > 10_000 && !asked.is_stopping() {
                    (0..stops).for_each(|_| asked.stop());
                }
            },
        )
        .unwrap();
        assert!(sent.law_holds() && sent.frames > 10_000, "{sent:?}");
        assert_eq!(sent.is_ended, stops == 1);
        let abandoned = sent.counts.failed.abandoned;
        let report = port.verified();
        let expected = (stops == 1).then_some(sent.frames);
        assert_eq!(report.senders[0].sent, expected);
        assert_eq!(
            report.received() + report.markers() + abandoned,
            sent.counts.sent
        );
    }
}

#[test]
fn a_port_that_breaks_ends_the_run_with_exact_counts() {
    let mut port = Moody::new(4);
    port.breaks_at = 700;
    let sent = send(&mut port, &config("rate=max"));
    assert!(sent.error.is_some() && !sent.is_ended);
    assert_eq!(sent.counts.failed.total(), sent.counts.failed.abandoned);
    assert_eq!(port.taken.len() as u64, sent.counts.accepted);
    assert_eq!(port.verified().lost(), 0);
}

#[test]
fn frames_that_do_not_fit_are_refused_before_any_is_sent() {
    let mut port = Moody::new(5);
    let control = Control::new().unwrap();
    let config = config("size=1519");
    let tried = run(
        &mut port,
        &config,
        Clock::virtual_time(),
        &control,
        &mut |_| {},
    );
    let error = tried.unwrap_err().to_string();
    assert!(error.contains("frames of 1519 bytes"), "{error}");
    assert!(error.contains("mtu 1501"), "{error}");
    assert_eq!(port.counts, TxCounts::default());
    assert_eq!(port.counts.failed, TxFailed::default());
}

#[test]
fn addresses_are_those_that_were_asked_for() {
    let mut port = Moody::new(6);
    let config = GenerateConfig {
        from_mac: Some([2, 1, 1, 1, 1, 1]),
        to_mac: Some([2, 2, 2, 2, 2, 2]),
        from: Some([192, 0, 2, 1].into()),
        to: Some([192, 0, 2, 2].into()),
        ..config("count=100,size=imix")
    };
    send(&mut port, &config);
    assert!(port.verified().is_lossless());
    for frame in &port.taken {
        assert_eq!(frame[..12], [2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1]);
        assert_eq!(frame[26..34], [192, 0, 2, 1, 192, 0, 2, 2]);
    }
}
