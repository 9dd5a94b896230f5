//! Whole captures in virtual time: the accounting, the file's own counters, and the gaps must agree.

use super::*;
use crate::open;
use forebay_testing::found::{self, Found};
use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

/// A separate path for each test, removed at its end.
pub(crate) struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(suffix: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Relaxed);
        let name = format!("forebay-session-{}-{number}{suffix}", std::process::id());
        // A disk: if /tmp is in memory, nothing there is durable.
        Scratch(std::path::Path::new("/var/tmp").join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A session with the default settings, except for what `set` changes.
pub(crate) fn session(
    ports: Vec<Box<dyn Port>>,
    output: Output,
    clock: Clock,
    set: impl FnOnce(&mut SessionConfig),
) -> (Session, Control) {
    let (mut config, control) = (SessionConfig::default(), Control::new().unwrap());
    set(&mut config);
    let session = Session::open(ports, output, config, clock, control.clone());
    (session.unwrap(), control)
}

/// As [`session`], publishing every packet.
pub(crate) fn shared_session(
    ports: Vec<Box<dyn Port>>,
    output: Output,
    clock: Clock,
    publisher: Publisher,
) -> (Session, Control) {
    let (config, control) = (SessionConfig::default(), Control::new().unwrap());
    let session = Session::open_shared(ports, output, config, clock, control.clone(), publisher);
    (session.unwrap(), control)
}

/// A capture to a file.
fn capture(ports: &[&str], path: &Path, set: impl FnOnce(&mut SessionConfig)) -> Summary {
    let (ports, clock) = opened(ports);
    let output = Output::File(path.to_owned());
    session(ports, output, clock, set).0.run(&mut |_| {})
}

pub(crate) fn opened(names: &[&str]) -> (Vec<Box<dyn Port>>, Clock) {
    let names: Vec<_> = names.iter().map(|name| name.parse().unwrap()).collect();
    let clock = open::clock(&names).unwrap();
    let ports = open::ports(&names, &open::Options::default(), &clock).unwrap();
    (ports, clock)
}

fn small_store() -> store::StoreConfig {
    store::StoreConfig {
        buffers: 2,
        buffer_bytes: 64 << 10,
        ..store::StoreConfig::default()
    }
}

/// Checks the accounting in the summary and in the file, and the gaps in the sequence numbers.
fn check(summary: &Summary, found: &Found) {
    let ledger = &summary.ledger;
    ledger.check().unwrap();
    assert_eq!(ledger.written, found.packets.len() as u64);
    let dropped = ledger.dropped.kernel.unwrap();
    assert_eq!(
        found.statistics,
        [[ledger.received, dropped, ledger.written]]
    );
    assert_eq!(
        found.gaps(ledger.received - ledger.unread),
        (summary.gaps, dropped)
    );
}

#[test]
fn each_report_accounts_for_no_more_than_was_received_and_counts_never_decrease() {
    let scratch = Scratch::new(".pcapng");
    let (ports, clock) = opened(&["sim:clock=virtual,count=2M,ring=64,stall=5ms@100ms"]);
    let output = Output::File(scratch.0.clone());
    let set = |it: &mut SessionConfig| it.filter = Some("udp".parse().unwrap());
    let (session, _) = session(ports, output, clock, set);
    let mut last = Progress::default();
    let summary = session.run(&mut |event| {
        let Event::Progress(progress) = event else {
            return;
        };
        let (ledger, before) = (&progress.ledger, &last.ledger);
        assert!(ledger.accounted() <= ledger.received, "{ledger:?}");
        assert!(
            !progress.filters_uncounted,
            "the card leaves filtering to the session"
        );
        assert!(ledger.received >= before.received && ledger.written >= before.written);
        assert!(ledger.dropped.kernel >= before.dropped.kernel);
        assert!(progress.high_water_bytes >= last.high_water_bytes);
        last = progress.clone();
    });
    assert!(
        last.ledger.dropped.kernel > Some(0) && last.high_water_bytes > 0,
        "{last:?}"
    );
    assert!(summary.ledger.received >= last.ledger.received);
    summary.ledger.check().unwrap();
}

#[test]
fn at_line_rate_every_packet_is_there_once_and_in_order() {
    let scratch = Scratch::new(".pcapng");
    let summary = capture(&["sim:clock=virtual"], &scratch.0, |it| {
        it.count = Some(200_000);
    });
    assert!(summary.is_fine() && summary.durable);
    assert_eq!(
        (summary.ledger.written, summary.ledger.dropped.known()),
        (200_000, 0)
    );
    let found = found::open(&scratch.0);
    check(&summary, &found);
    let epoch = forebay::time::VIRTUAL_EPOCH_NS;
    for (k, packet) in found.packets.iter().enumerate() {
        let time_ns = epoch + 672 * (k as u64 + 1);
        assert_eq!((packet.sequence, packet.time_ns), (k as u64, time_ns));
    }
}

#[test]
fn the_same_seed_writes_the_same_file() {
    let (one, two) = (Scratch::new(".pcapng"), Scratch::new(".pcapng"));
    for scratch in [&one, &two] {
        let port =
            "sim:clock=virtual,rate=10G,size=imix,seed=7,ring=32,host=none,cost=400ns,count=20000";
        let summary = capture(&[port], &scratch.0, |_| ());
        assert!(summary.ledger.dropped.known() > 0);
        check(&summary, &found::open(&scratch.0));
    }
    assert_eq!(
        std::fs::read(&one.0).unwrap(),
        std::fs::read(&two.0).unwrap()
    );
}

#[test]
fn under_overload_the_law_holds_and_the_gaps_are_the_drops() {
    for (trial, port) in [
        "sim:clock=virtual,ring=64,host=none,cost=1us,count=100000",
        "sim:clock=virtual,rate=10G,host=100,ring=1,cost=200ns,count=50000",
        "sim:clock=virtual,stall=2ms@5ms,count=60000",
        "sim:clock=virtual,stall=2ms@5ms,ring=64,host=none,count=60000",
        "sim:clock=virtual,size=imix,rate=40G,host=none,cost=900ns,stall=50us@1ms,count=30000",
    ]
    .into_iter()
    .enumerate()
    {
        for count in [None, Some(5000 + 7 * trial as u64)] {
            let scratch = Scratch::new(".pcapng");
            let summary = capture(&[port], &scratch.0, |it| {
                (it.count, it.budget, it.store) = (count, 48, small_store());
            });
            assert!(summary.is_fine(), "{port}");
            assert!(summary.ledger.dropped.known() > 0, "{port}");
            check(&summary, &found::open(&scratch.0));
        }
    }
}

#[test]
fn several_ports_keep_their_own_numbers_and_statistics() {
    let scratch = Scratch::new(".pcapng");
    let ports = [
        "sim:clock=virtual,count=1000",
        "sim:clock=virtual,count=50,rate=100M,seed=2",
    ];
    let summary = capture(&ports, &scratch.0, |_| ());
    let found = found::open(&scratch.0);
    assert_eq!(
        (summary.ledger.received, summary.ledger.written),
        (1050, 1050)
    );
    assert_eq!((found.interfaces, found.statistics.len()), (2, 2));
    assert_eq!(found.statistics, [[1000, 0, 1000], [50, 0, 50]]);
    for (interface, count) in [(0, 1000), (1, 50)] {
        let of_one = found
            .packets
            .iter()
            .filter(|packet| packet.interface == interface);
        let sequences: Vec<_> = of_one.map(|packet| packet.sequence).collect();
        assert_eq!(sequences, (0..count).collect::<Vec<_>>());
    }
}

#[test]
fn the_snapshot_length_cuts_and_the_length_on_the_wire_stays() {
    for suffix in [".pcapng", ".pcap"] {
        let scratch = Scratch::new(suffix);
        let port = "sim:clock=virtual,size=100,count=10";
        let summary = capture(&[port], &scratch.0, |it| it.snaplen = 58);
        let bytes = std::fs::read(&scratch.0).unwrap();
        assert_eq!(summary.bytes, bytes.len() as u64);
        let each: [u32; 2] = [58, 96];
        let pattern: Vec<u8> = each.iter().flat_map(|n| n.to_le_bytes()).collect();
        assert_eq!(
            bytes.windows(8).filter(|window| *window == pattern).count(),
            10
        );
    }
}

#[test]
fn a_stop_drains_what_was_received_a_second_one_too_and_a_third_one_gives_up() {
    for stops in [1, 2, 3] {
        let (ports, clock) = opened(&["sim:clock=virtual"]);
        let (session, control) = session(ports, Output::Count, clock, |it| {
            it.progress_every = Duration::from_millis(1);
        });
        let summary = session.run(&mut |event| {
            if let Event::Progress(progress) = event
                && progress.taken > 10_000
                && !control.is_stopping()
            {
                (0..stops).for_each(|_| control.stop());
            }
        });
        summary.ledger.check().unwrap();
        assert!(summary.ledger.counted > 10_000);
        assert_eq!(summary.abandoned > 0, stops == 3);
        assert_eq!(summary.ledger.unread > 0, stops == 3);
    }
}

#[test]
fn packets_beyond_the_count_are_unread_and_not_given_up() {
    let (ports, clock) = opened(&["sim:clock=virtual,cost=2us"]);
    let (session, control) = session(ports, Output::Count, clock, |it| it.count = Some(20_000));
    let mut taken = 0;
    let session = session.each(move |_, _| {
        taken += 1;
        (0..if taken == 20_000 { 3 } else { 0 }).for_each(|_| control.stop());
        true
    });
    let summary = session.run(&mut |_| {});
    assert_eq!((summary.ledger.counted, summary.abandoned), (20_000, 0));
    assert!(summary.ledger.unread > 0 && summary.is_fine());
}

#[test]
fn a_count_that_is_met_while_draining_ends_the_drain() {
    let (ports, clock) = opened(&["sim:clock=virtual,cost=2us"]);
    let (session, control) = session(ports, Output::Count, clock, |it| {
        (it.count, it.progress_every) = (Some(20_000), Duration::from_millis(1));
    });
    let summary = session.run(&mut |event| {
        if let Event::Progress(progress) = event
            && progress.taken > 19_000
            && !control.is_stopping()
        {
            control.stop();
        }
    });
    assert!(summary.is_fine());
    assert_eq!(summary.ledger.counted, 20_000);
    assert!(summary.ledger.unread > 5_000, "{:?}", summary.ledger);
}

#[test]
fn a_full_device_ends_the_capture_with_exact_counts() {
    let full = Path::new("/dev/full");
    let summary = capture(&["sim:clock=virtual,count=100000"], full, |it| {
        it.store = small_store();
    });
    summary.ledger.check().unwrap();
    let error = summary.store_error.unwrap();
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    assert!(error.to_string().starts_with("/dev/full: "), "{error}");
    assert_eq!(summary.ledger.written, 0);
    assert!(summary.ledger.dropped.disk > 0 && !summary.durable);
}

#[test]
fn a_request_that_makes_no_sense_is_refused_before_anything_is_made() {
    let scratch = Scratch::new(".pcapng");
    let spoil: [fn(&mut SessionConfig); 3] = [
        |it| it.snaplen = 0,
        |it| it.snaplen = 1_000_001,
        |it| it.count = Some(0),
    ];
    for spoil in spoil {
        let mut config = SessionConfig::default();
        spoil(&mut config);
        let (ports, clock) = opened(&["sim"]);
        let output = Output::File(scratch.0.clone());
        assert!(Session::open(ports, output, config, clock, Control::new().unwrap()).is_err());
        assert!(!scratch.0.exists());
    }
}

/// A simulated card that fails: at a number of frames, or when it is to be stopped.
struct Fragile {
    card: crate::sim::Sim,
    breaks_at: Option<u64>,
    stop_fails: bool,
}

impl Port for Fragile {
    fn interfaces(&self) -> &[crate::port::Interface] {
        self.card.interfaces()
    }
    fn receive(&mut self, budget: usize) -> Result<crate::port::Burst<'_>> {
        if self
            .breaks_at
            .is_some_and(|at| self.card.counts().received >= at)
        {
            self.breaks_at = None;
            return Err(Error::new("fragile", "the interface went down"));
        }
        self.card.receive(budget)
    }
    fn arm(&mut self) -> Result<crate::port::Wake<'_>> {
        self.card.arm()
    }
    fn stop(&mut self) -> Result<()> {
        self.card.stop()?;
        if self.stop_fails {
            return Err(Error::new("fragile", "it cannot be detached"));
        }
        Ok(())
    }
    fn counts(&mut self) -> crate::port::Counts {
        self.card.counts()
    }
    fn info(&self) -> crate::port::PortInfo {
        self.card.info()
    }
}

fn fragile(spec: &str, breaks_at: Option<u64>, stop_fails: bool, output: Output) -> Summary {
    let clock = Clock::virtual_time();
    let port = Fragile {
        card: crate::sim::Sim::new(spec.parse().unwrap(), clock.clone()),
        breaks_at,
        stop_fails,
    };
    let set = |it: &mut SessionConfig| it.store = small_store();
    let (session, _) = session(vec![Box::new(port)], output, clock, set);
    session.run(&mut |_| {})
}

#[test]
fn a_port_that_breaks_is_drained_and_told() {
    let scratch = Scratch::new(".pcapng");
    let output = Output::File(scratch.0.clone());
    let summary = fragile("host=100", Some(10_000), false, output);
    let error = summary.port_error.as_ref().unwrap().to_string();
    assert!(error.contains("went down") && summary.store_error.is_none());
    assert!(!summary.is_fine() && summary.ledger.written >= 10_000);
    check(&summary, &found::open(&scratch.0));
}

#[test]
fn a_port_that_cannot_be_stopped_does_not_hang() {
    let summary = fragile("count=1000", Some(500), true, Output::Count);
    assert!(!summary.is_fine());
}

#[test]
fn what_a_broken_output_refuses_is_the_outputs_fault() {
    // The port fails first, which must not change how the disk's losses are counted.
    let output = Output::File("/dev/full".into());
    let summary = fragile("host=100", Some(100), false, output);
    assert!(summary.port_error.is_some() && summary.store_error.is_some());
    assert_eq!((summary.ledger.written, summary.ledger.unread), (0, 0));
    assert!(summary.ledger.dropped.disk > 0 && summary.ledger.dropped.writer == 0);
    summary.ledger.check().unwrap();
}

#[test]
fn an_error_of_the_very_last_write_is_told() {
    let full = Path::new("/dev/full");
    let summary = capture(&["sim:clock=virtual,count=1000"], full, |_| ());
    assert_eq!(
        summary.store_error.as_ref().unwrap().raw_os_error(),
        Some(libc::ENOSPC)
    );
    assert!(!summary.is_fine());
    assert_eq!(summary.ledger.dropped.disk, 1000);
}

#[test]
fn statistics_fit_however_short_the_packets_are() {
    let scratch = Scratch::new(".pcapng");
    let ports = ["sim:clock=virtual,count=10"; 9];
    let summary = capture(&ports, &scratch.0, |it| it.snaplen = 58);
    assert!(summary.is_fine());
    assert_eq!(found::open(&scratch.0).statistics, [[10, 0, 10]; 9]);
}

#[test]
fn a_port_that_cannot_filter_refuses_the_filter_unless_its_reader_filters() {
    let names = ["sim:clock=virtual,count=1000".parse().unwrap()];
    let clock = open::clock(&names).unwrap();
    let mut options = open::Options {
        filter: Some("greater 100".parse().unwrap()),
        ..open::Options::default()
    };
    let refused = open::ports(&names, &options, &clock).err().unwrap();
    assert!(
        refused
            .to_string()
            .starts_with("sim: the interface cannot filter"),
        "{refused}"
    );
    options.reader_filters = true;
    let ports = open::ports(&names, &options, &clock).unwrap();
    let set = |it: &mut SessionConfig| it.filter = options.filter.clone();
    let summary = session(ports, Output::Count, clock, set).0.run(&mut |_| {});
    assert_eq!((summary.ledger.counted, summary.ledger.filtered), (0, 1000));
}

#[test]
fn a_port_with_another_clock_is_an_error() {
    let virtual_time = || opened(&["sim:clock=virtual,count=10"]);
    let real = || opened(&["sim:rate=1G,count=10"]);
    let own = virtual_time().1;
    for (ports, clock) in [
        (virtual_time().0, Clock::real()),
        (virtual_time().0, own),
        (real().0, Clock::real()),
        (real().0, Clock::virtual_time()),
    ] {
        let config = SessionConfig::default();
        let opened = Session::open(ports, Output::Count, config, clock, Control::new().unwrap());
        let text = opened.err().unwrap().to_string();
        assert!(
            text.starts_with("sim: the interface has another clock"),
            "{text}"
        );
    }
    for (ports, clock) in [virtual_time(), real()] {
        session(ports, Output::Count, clock, |_| {});
    }
}
