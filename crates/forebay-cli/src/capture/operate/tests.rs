//! Sessions in virtual time, watched as a scraper watches them.

use super::{
    About, Publisher, desk::Desk, file::MetricsFile, metrics::MetricsFormat, server::Server,
    snapshot::Latest,
};
use crate::control::place::Bound;
use forebay::{store::StoreConfig, sync::Signal};
use forebay_net::{
    open,
    session::{Control, Event, Output, Progress, Session, SessionConfig, Summary},
};
use forebay_testing::limit::within_a_minute;
use nix::unistd::geteuid;
use rustix::io::ioctl_fionbio;
use serde_json::json;
use std::{
    collections::{HashMap, VecDeque},
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime},
};

/// A capture of simulated packets, and what serves its counts.
struct Watched {
    session: Session,
    publisher: Publisher,
    desk: Desk,
}

fn watched(port: &str, output: Output, config: SessionConfig) -> Watched {
    let names = [port.parse().unwrap()];
    let clock = open::clock(&names).unwrap();
    let ports = open::ports(&names, &open::Options::default(), &clock).unwrap();
    let writes = !matches!(output, Output::Count);
    let control = Control::new().unwrap();
    let session = Session::open(ports, output, config, clock, control.clone()).unwrap();
    let (sources, store) = session.info();
    let about = About {
        capture: "lan".into(),
        started: SystemTime::UNIX_EPOCH,
        output: writes.then(|| "a.pcapng".into()),
        is_series: false,
        share: None,
        sources,
        store,
    };
    let latest = Latest::default();
    let store_bytes = store.map_or(0, |store| store.limit_bytes as u64);
    Watched {
        session,
        publisher: Publisher::new(latest.clone(), store_bytes),
        desk: Desk::new(about, latest, control, Duration::from_secs(30)),
    }
}

type Scrape = HashMap<String, f64>;

/// The samples of a scrape, by name and labels.
fn scrape(desk: &Desk) -> Scrape {
    let (text, _) = desk.scrape(MetricsFormat::Plain);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let parts = lines.map(|line| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        let name = name.replace("capture=\"lan\",", "");
        let name = name.replace("{capture=\"lan\"}", "");
        (name.replace("forebay_", ""), value.parse().unwrap())
    });
    parts.collect()
}

impl Watched {
    /// Runs it, and scrapes it every 15 seconds of its clock, and at the end.
    fn run(mut self) -> (Summary, Vec<Scrape>) {
        let mut scrapes = Vec::new();
        let mut next = 10.0;
        let summary = self.session.run(&mut |event| {
            self.publisher.event(&event);
            if let Event::Progress(progress) = event
                && progress.elapsed.as_secs_f64() >= next
            {
                next += 15.0;
                scrapes.push(scrape(&self.desk));
            }
        });
        self.publisher.end(&summary, json!({}), 0);
        scrapes.push(scrape(&self.desk));
        (summary, scrapes)
    }
}

/// A minute at 1,488 packets per second. The card's ring holds one second, and is not emptied for two of every 30.
const BURSTS: &str = "sim:clock=virtual,rate=1M,host=none,ring=1488,stall=2s@30s,count=89k";

const KERNEL: &str = "packets_dropped_total{cause=\"kernel\"}";

#[test]
fn a_burst_of_loss_is_visible_in_the_maxima_though_the_average_hides_it() {
    let (summary, scrapes) = watched(BURSTS, Output::Count, SessionConfig::default()).run();
    summary.ledger.check().unwrap();
    let (mut lossy, mut before) = (0, 0.0);
    for scrape in &scrapes {
        let lost = scrape[KERNEL] - before;
        before += lost;
        let burst = scrape["drop_burst_max_packets"];
        let fill = scrape["buffer_fill_ratio{buffer=\"ring\"}"];
        let max = scrape["buffer_fill_max_ratio{buffer=\"ring\"}"];
        assert!(fill < 0.1, "no scrape happens during a burst: {fill}");
        if lost > 0.0 {
            lossy += 1;
            // On average few of 22,320 packets are lost; the burst shows that a second lost most of its 1,488.
            assert!(lost / 22_320.0 < 0.1, "{lost} packets in 15 seconds");
            assert!((1000.0..=before).contains(&burst), "{burst} of {lost}");
        }
        assert_eq!(before > 0.0, max > 0.95, "the ring was full: {max}");
    }
    assert!(lossy >= 2, "{lossy} lossy");
    assert_eq!(Some(before as u64), summary.ledger.dropped.kernel);
}

#[test]
fn a_scrape_takes_no_maxima_from_another_one_and_they_last_a_minute() {
    let mut watched = watched(BURSTS, Output::Count, SessionConfig::default());
    let mut at = |seconds, lost| {
        let mut progress = Progress {
            elapsed: Duration::from_secs(seconds),
            ..Progress::default()
        };
        progress.ledger.dropped.kernel = Some(lost);
        progress.ledger.dropped.peer = Some(0);
        watched.publisher.event(&Event::Progress(&progress));
        let [one, other] = [(); 2].map(|()| scrape(&watched.desk)["drop_burst_max_packets"]);
        assert_eq!(one, other);
        one
    };
    assert_eq!(
        [at(1, 0), at(2, 9), at(30, 9), at(62, 9)],
        [0.0, 9.0, 9.0, 9.0]
    );
    assert_eq!(at(66, 9), 0.0);
}

#[test]
fn the_last_scrape_is_the_final_ledger() {
    let folder = forebay_testing::folder::Folder::new();
    let config = SessionConfig {
        filter: Some("udp[0:2] & 1 = 0".parse().unwrap()),
        store: StoreConfig {
            buffers: 2,
            buffer_bytes: 64 << 10,
            ..StoreConfig::default()
        },
        ..SessionConfig::default()
    };
    let output = Output::File(folder.path("a.pcapng").into());
    let (summary, scrapes) = watched(BURSTS, output, config).run();
    let (ledger, last) = (&summary.ledger, scrapes.last().unwrap());
    ledger.check().unwrap();
    let expected = [
        ("packets_received_total", ledger.received),
        ("packets_written_total", ledger.written),
        ("packets_filtered_total", ledger.filtered),
        ("packets_unread_total", ledger.unread),
        ("packets_durable_total", summary.totals.durable),
        ("wire_bytes_total", summary.wire_bytes),
        ("packets_cut_total", summary.cut),
        ("written_bytes_total", summary.bytes),
        ("durable_bytes_total", summary.totals.durable_bytes),
        ("packets_waiting", 0),
        ("running", 0),
    ];
    for (name, count) in expected {
        assert_eq!(last[name] as u64, count, "{name}");
    }
    for (cause, count) in ledger.dropped.by_cause() {
        let found = last.get(&format!("packets_dropped_total{{cause=\"{cause}\"}}"));
        assert_eq!(found.map(|&found| found as u64), count, "{cause}");
    }
    assert!(ledger.written > 0 && ledger.filtered > 0 && last[KERNEL] > 0.0);
    for pair in scrapes.windows(2) {
        for (name, value) in pair[0].iter().filter(|(name, _)| name.contains("_total")) {
            assert!(pair[1][name] >= *value, "{name} decreased");
        }
    }
}

#[test]
fn unknown_counts_are_absent() {
    let mut watched = watched(BURSTS, Output::Count, SessionConfig::default());
    let absent = |scrape: &Scrape, name: &str| {
        let is_there = scrape.keys().any(|key| key.contains(name));
        assert!(!is_there, "{name}: {scrape:?}");
    };
    let first = scrape(&watched.desk);
    // No count was reported yet.
    for name in [
        "cause=\"kernel\"",
        "filtered",
        "interface_dropped",
        "burst",
        "ratio",
    ] {
        absent(&first, name);
    }
    let mut progress = forebay_net::session::Progress {
        filters_uncounted: true,
        ..Default::default()
    };
    progress.ledger.received = 7;
    watched.publisher.event(&Event::Progress(&progress));
    let second = scrape(&watched.desk);
    assert_eq!(second["packets_received_total"], 7.0);
    for name in ["cause=\"kernel\"", "filtered", "burst", "ratio"] {
        absent(&second, name);
    }
    // This capture has no output.
    for name in ["packets_written", "durable", "pending", "files"] {
        absent(&second, name);
    }
}

#[test]
fn counts_have_the_time_of_the_report_and_not_that_of_the_scrape() {
    let mut watched = watched(BURSTS, Output::Count, SessionConfig::default());
    let time = |desk: &Desk| scrape(desk)["snapshot_time_seconds"];
    assert_eq!(time(&watched.desk), 0.0, "that of the start");
    let now = || SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
    let before = now() - 0.001;
    watched
        .publisher
        .event(&Event::Progress(&Progress::default()));
    let first = time(&watched.desk);
    assert!((before..=now()).contains(&first), "{first}");
    assert_eq!(time(&watched.desk), first);
}

/// A server with a control socket at `path`.
fn server(path: &str, desk: Desk) -> Server {
    let bound = Bound::new(path.as_ref()).unwrap();
    ioctl_fionbio(&bound.listener, true).unwrap();
    Server {
        desk,
        control: Some(bound),
        metrics: None,
        file: None,
        ended: Arc::new(Signal::new().unwrap()),
        announces: false,
        owner: geteuid().as_raw(),
    }
}

#[test]
fn an_end_just_before_the_wait_is_not_missed() {
    let folder = forebay_testing::folder::Folder::new();
    let Watched { desk, .. } = watched(BURSTS, Output::Count, SessionConfig::default());
    let mut server = server(&folder.path("lan"), desk);
    server.ended.raise();
    assert!(within_a_minute(move || {
        server.round(&mut Vec::new(), true, true, None)
    }));
}

#[test]
fn a_client_that_is_closed_for_a_new_one_does_not_end_another() {
    let folder = forebay_testing::folder::Folder::new();
    let path = folder.path("lan");
    let Watched {
        session,
        publisher,
        desk,
    } = watched(BURSTS, Output::Count, SessionConfig::default());
    let mut server = server(&path, desk);
    let connect = || UnixStream::connect(&path).unwrap();
    let mut clients = Vec::new();
    let mut round = |clients: &mut Vec<_>| {
        let until = Instant::now() + Duration::from_millis(10);
        assert!(server.round(clients, true, true, Some(until)));
    };
    // The oldest one, one that will leave, one that waits for the end, and as many others as there is room for.
    let mut streams: VecDeque<_> = (0..32)
        .map(|_| {
            let stream = connect();
            round(&mut clients);
            stream
        })
        .collect();
    assert_eq!(clients.len(), 32);
    let mut stopping = streams.remove(2).unwrap();
    stopping.write_all(b"{\"command\":\"stop\"}\n").unwrap();
    round(&mut clients);
    assert!(clients[2].waits);
    // In one round the second leaves, and the oldest is closed for a new one.
    drop(streams.remove(1));
    let _newest = connect();
    round(&mut clients);
    let summary = session.run(&mut |_| {});
    publisher.end(&summary, json!({}), 3);
    round(&mut clients);
    let mut answer = String::new();
    BufReader::new(stopping).read_line(&mut answer).unwrap();
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer, json!({ "ok": true, "summary": {}, "exit_code": 3 }));
}

#[test]
fn a_client_that_sends_without_end_does_not_keep_others_from_being_served() {
    let folder = forebay_testing::folder::Folder::new();
    let path = folder.path("lan");
    let Watched { desk, .. } = watched(BURSTS, Output::Count, SessionConfig::default());
    let mut server = server(&path, desk);
    let mut flooding = UnixStream::connect(&path).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    // Empty lines need no answer.
    let flood = std::thread::spawn(move || {
        while !stopped.load(Relaxed) && flooding.write_all(&[b'\n'; 65536]).is_ok() {}
    });
    let answer = within_a_minute(move || {
        let mut clients = Vec::new();
        let mut round = || {
            let until = Instant::now() + Duration::from_millis(10);
            assert!(server.round(&mut clients, true, true, Some(until)));
        };
        round();
        let mut asking = UnixStream::connect(&path).unwrap();
        asking.write_all(b"{\"command\":\"status\"}\n").unwrap();
        asking.set_nonblocking(true).unwrap();
        let mut answer = [0; 1];
        while asking.read(&mut answer).is_err() {
            round();
        }
        answer
    });
    assert_eq!(answer, *b"{");
    stop.store(true, Relaxed);
    flood.join().unwrap();
}

#[test]
fn the_file_is_replaced_as_a_whole_and_nothing_that_is_there_is_opened() {
    let folder = forebay_testing::folder::Folder::new();
    let watched = watched(BURSTS, Output::Count, SessionConfig::default());
    let path = folder.path("lan.prom");
    let mut file = MetricsFile::new(path.clone().into());
    // A folder cannot be removed, so another name is used.
    std::fs::create_dir_all(format!("{path}.part/full")).unwrap();
    for _ in 0..2 {
        watched.desk.write(&mut file).unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap();
    let types = |name| text.matches(&format!("# TYPE forebay_{name} ")).count();
    assert_eq!([types("packets_received_total"), types("running")], [1, 1]);
    assert!(!text.contains("# EOF"), "{text}");
    // The file and the folder.
    assert_eq!(std::fs::read_dir(folder.path("")).unwrap().count(), 2);
}
