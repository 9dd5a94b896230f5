//! Many sensors: `ship --announce` and `index`, with an S3 server and a NATS server as processes.
//!
//! The servers are in the virtual environment `FOREBAY_ARCHIVE_TOOLS`; without it these tests are skipped.

mod common;
#[path = "fleet/restart.rs"]
mod restart;

use common::{
    archive, assert_counts, captured, damage, done, expire_segment, json_lines, json_of, last_json,
    ok, places, python_or_skip, reports, run, segments,
    servers::{Fleet, Running, Server, TO},
};
use forebay_net::{
    file,
    filter::{Filter, Programs},
    open,
    port::{LinkType, Port, Wake},
    session::{Control, Names, Output, Rotation, Session, SessionConfig},
};
use forebay_testing::dice::Dice;
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// A test in which nothing happens for this time has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until the spools of these sensors are empty.
fn wait_for_ships(fleet: &Fleet, sensors: &[&str]) {
    let mut last = (usize::MAX, Instant::now());
    while last.0 > 0 {
        let waiting = sensors
            .iter()
            .map(|it| captures(&fleet.spool(it)).len())
            .sum();
        if waiting != last.0 {
            last = (waiting, Instant::now());
        }
        assert!(
            last.1.elapsed() < PATIENCE,
            "{waiting} files stay in the spools"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The capture files in a folder.
fn captures(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = entries.map(|it| it.unwrap().path()).collect();
    paths.retain(|it| it.extension().is_some_and(|it| it == "pcapng"));
    paths.sort();
    paths
}

/// Ten minutes of the simulated card, in a file for each minute.
fn ten_minutes(spool: &str, seed: u64, rate: u64) {
    let card = format!(
        "sim:clock=virtual,seed={seed},rate={rate}pps,count={}",
        600 * rate
    );
    let names = [card.parse().unwrap()];
    let clock = open::clock(&names).unwrap();
    let ports = open::ports(&names, &Default::default(), &clock).unwrap();
    let series = Rotation {
        every: Some(Duration::from_secs(60)),
        ..Rotation::of(format!("{spool}/eth0.pcapng"), Names::Dumpcap)
    };
    let (config, control) = (SessionConfig::default(), Control::new().unwrap());
    let session = Session::open(ports, Output::Series(series), config, clock, control);
    session.unwrap().run(&mut |_| {});
}

type Packet = (u64, Vec<u8>);

/// The packets of capture files that match, in order.
fn matching(paths: &[PathBuf], expression: &str) -> Vec<Packet> {
    let mut programs = Programs::new(Filter::without_hosts(expression).unwrap());
    let mut packets = Vec::new();
    for path in paths {
        let mut file = file::File::open(path).unwrap();
        loop {
            let mut burst = file.receive(4096).unwrap();
            while let Some(frame) = burst.next_frame() {
                // The simulated card is an Ethernet.
                if programs.of(LinkType(1)).run(frame.data, frame.wire_len) > 0 {
                    packets.push((frame.time_ns, frame.data.to_vec()));
                }
            }
            drop(burst);
            if matches!(file.arm().unwrap(), Wake::End) {
                break;
            }
        }
    }
    packets.sort();
    packets
}

/// An expression about hosts, networks and ports that occur in these packets, and others.
fn expression(dice: &mut Dice, packets: &[Packet]) -> String {
    let term = |dice: &mut Dice| {
        let (_, frame) = dice.one_of(packets);
        let host = frame[26..30]
            .iter()
            .map(u8::to_string)
            .collect::<Vec<_>>()
            .join(".");
        let port = u16::from_be_bytes([frame[34], frame[35]]);
        match dice.below(9) {
            0 => format!("host {host}"),
            1 => format!("src host {host}"),
            2 => format!("net {}.0/24", host.rsplit_once('.').unwrap().0),
            3 => format!("port {port}"),
            4 => format!("src portrange {port}-{}", port.saturating_add(20)),
            5 => "udp".to_owned(),
            6 => ["tcp", "arp", "vlan", "ip6"][dice.below(4)].to_owned(),
            7 => format!("ip[19] & {} != 0", 1 << dice.below(8)),
            _ => format!("less {}", 40 + dice.below(60)),
        }
    };
    let mut text = term(dice);
    for _ in 0..dice.below(3) {
        let (more, join) = (term(dice), ["and", "or", "and not"][dice.below(3)]);
        text = format!("({text}) {join} {more}");
    }
    text
}

/// The status of all sensors, by name.
fn sound(fleet: &Fleet) -> Vec<Value> {
    json_lines(&ok(fleet.run(&["status", TO, "--json"])))
}

/// `FOREBAY_LONG` searches for 1,000 expressions.
#[test]
fn three_sensors_and_two_indexers_bring_ten_minutes_into_the_index_once() {
    let python = python_or_skip!();
    let mut fleet = Fleet::new(&python);
    let sensors = ["north", "south", "west"];
    let mut ships: Vec<_> = sensors
        .iter()
        .map(|it| Running::start(&mut fleet.ship(it, &[])))
        .collect();
    // Neither server runs: ten minutes are captured, and nothing is lost.
    std::thread::scope(|scope| {
        for (seed, sensor) in (1..).zip(sensors) {
            let spool = fleet.spool(sensor);
            scope.spawn(move || ten_minutes(&spool, seed, 40));
        }
    });
    let mut files = Vec::new();
    for sensor in sensors {
        for path in captures(&fleet.spool(sensor)) {
            let name = path.file_name().unwrap().display();
            let kept = fleet.folder.path(&format!("{sensor}-{name}"));
            fs::copy(path, &kept).unwrap();
            files.push(PathBuf::from(kept));
        }
    }
    assert!(files.len() >= 30, "{files:?}");
    let packets = matching(&files, "");
    assert_eq!(packets.len(), 3 * 600 * 40);
    fleet.start();
    let logs = [0, 1].map(|number| fleet.folder.path(&format!("indexer-{number}")));
    let mut indexers = logs.each_ref().map(|log| {
        let mut command = fleet.index(&["--json", "--batch", "3"]);
        let log = fs::File::create(log).unwrap();
        Running(command.stdout(log).spawn().unwrap())
    });
    wait_for_ships(&fleet, &sensors);
    let last = json_of(done(fleet.index(&["--once", "--json"]).output().unwrap()));
    let mut indexed = last["packets"].as_u64().unwrap();
    for (log, indexer) in logs.iter().zip(&mut indexers) {
        assert_eq!(indexer.end("-INT"), Some(0));
        let out = fs::read_to_string(log).unwrap();
        indexed += last_json(&out)["packets"].as_u64().unwrap();
    }
    assert_eq!(indexed, packets.len() as u64, "what all indexers report");
    for ship in &mut ships {
        assert_eq!(ship.end("-TERM"), Some(0));
    }
    let status = sound(&fleet);
    assert_eq!(status.len(), 3);
    for sensor in &status {
        let counts = ["captured", "shipped", "indexed"].map(|it| sensor[it].as_u64());
        assert_eq!(counts, [Some(600 * 40); 3], "{sensor}");
    }
    let mut dice = Dice(27);
    let number = std::env::var_os("FOREBAY_LONG").map_or(12, |_| 1000);
    let found = fleet.folder.path("found.pcapng");
    let mut some = 0;
    for _ in 0..number {
        let expression = expression(&mut dice, &packets);
        let find = ["find", "--in", TO, &expression, "-w", &found, "-q"];
        let (code, _, err) = fleet.run(&find);
        let expected = matching(&files, &expression);
        let is = match err.contains("no packet of link type") {
            true => Vec::new(), // the expression contradicts itself, and is refused
            false => {
                assert_eq!(code, 0, "{expression}: {err}");
                matching(&[found.clone().into()], "")
            }
        };
        assert!(
            expected == is,
            "{expression}: {} of {} packets",
            is.len(),
            expected.len()
        );
        some += usize::from(!is.is_empty());
    }
    assert!(
        some > number / 4,
        "{some} of {number} expressions match something"
    );
}

/// `FOREBAY_ARCHIVE_KILLS` sets how often each of the four is killed.
#[test]
fn ship_indexer_queue_and_store_are_killed_anywhere_and_nothing_is_lost_or_doubled() {
    let python = python_or_skip!();
    let mut fleet = Fleet::new(&python);
    fleet.start();
    let kills: u64 = std::env::var("FOREBAY_ARCHIVE_KILLS").map_or(3, |it| it.parse().unwrap());
    let sensors = ["north", "south", "west"];
    let (mut files, mut packets) = ([0_u64; 3], [0_u64; 3]);
    let start_ship =
        |fleet: &Fleet, which: usize| Running::start(&mut fleet.ship(sensors[which], &[]));
    let start_indexer = |fleet: &Fleet| Running::start(&mut fleet.index(&["--batch", "4"]));
    let mut ships: Vec<_> = (0..3).map(|it| start_ship(&fleet, it)).collect();
    let mut indexers: Vec<_> = (0..2).map(|_| start_indexer(&fleet)).collect();
    let mut dice = Dice(2027);
    let mut left = [kills; 4];
    for round in 0..4 * kills {
        for sensor in 0..3 {
            let (count, seed) = (100 + dice.below(200_u64), 3 * round + sensor as u64);
            // Only whole files appear under a name that is shipped.
            let name = format!("spool-{}/{round}.capture", sensors[sensor]);
            let card = format!("count={count},seed={seed}");
            let path = captured(&fleet.folder, &name, &card);
            fs::rename(&path, path.with_extension("pcapng")).unwrap();
            files[sensor] += 1;
            packets[sensor] += count;
        }
        std::thread::sleep(Duration::from_millis(dice.below(600)));
        let target = loop {
            let target = dice.below(4_usize);
            if left[target] > 0 {
                break target;
            }
        };
        left[target] -= 1;
        match target {
            0 => {
                let which = dice.below(3_usize);
                ships[which].end("-KILL");
                ships[which] = start_ship(&fleet, which);
            }
            1 => {
                let which = dice.below(2_usize);
                indexers[which].end("-KILL");
                indexers[which] = start_indexer(&fleet);
            }
            2 => {
                fleet.nats.kill();
                std::thread::sleep(Duration::from_millis(dice.below(500)));
                fleet.nats.start();
            }
            _ => {
                fleet.store.kill();
                fleet.store.start();
            }
        }
    }
    wait_for_ships(&fleet, &sensors);
    ok(done(fleet.index(&["--once", "--json"]).output().unwrap()));
    for running in indexers.iter_mut().chain(&mut ships) {
        assert_eq!(running.end("-TERM"), Some(0));
    }
    for (number, sensor) in sound(&fleet).iter().enumerate() {
        assert_eq!(sensor["sensor"], sensors[number]);
        let counts = ["captured", "shipped", "indexed"].map(|it| sensor[it].as_u64());
        assert_eq!(counts, [Some(packets[number]); 3], "{sensor}");
        assert_eq!(sensor["segments"], files[number]);
    }
}

/// Sends these lines to a NATS server, and returns its answer to the last one.
fn nats(port: u16, login: &str, lines: &str, until: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let options = format!("CONNECT {{\"verbose\":false,\"auth_token\":\"{login}\"}}\r\n");
    stream
        .write_all(format!("{options}{lines}").as_bytes())
        .unwrap();
    let answers = BufReader::new(stream).lines().map(Result::unwrap);
    answers
        .inspect(|it| assert!(!it.starts_with("-ERR"), "{it}"))
        .find(|it| it.contains(until))
        .unwrap()
}

/// Publishes a message in this stream.
fn publish(port: u16, login: &str, stream: &str, message: &str) {
    let len = message.len();
    let lines = format!("PUB {stream}.segments {len}\r\n{message}\r\nPING\r\n");
    nats(port, login, &lines, "PONG");
}

#[test]
fn messages_that_cannot_be_indexed_are_set_aside_and_the_others_are_indexed() {
    let python = python_or_skip!();
    let (folder, spool, to) = places();
    let mut server = Server::nats(&python, &folder, &["--auth", "secret"]);
    for seed in 1..=3 {
        let card = format!("count={seed}000,seed={seed}");
        captured(&folder, &format!("spool/{seed}.pcapng"), &card);
    }
    let url = format!("nats://secret@127.0.0.1:{}/lab", server.port);
    let ship = |more: &[&str]| {
        let announce = [&["--announce"], more].concat();
        common::ship(&spool, &to, &announce)
    };
    // Without the server, and without the right token: the files stay.
    reports(ship(&[&url]), 1, "/lab: connecting");
    server.start();
    let refused = ship(&[&url.replace("secret", "other")]);
    let err = reports(refused, 1, "authorization");
    assert!(!err.contains("other@"), "{err}");
    assert_eq!(captures(&spool).len(), 3);
    let token = folder.file("token", "secret\n");
    let bare = url.replace("secret@", "");
    let counts = json_of(ship(&[&bare, "--nats-credentials", &token, "--json"]));
    assert_eq!(counts["shipped_packets"], 6000);
    assert!(
        !fs::exists(format!("{to}/index")).unwrap(),
        "ship does not write the index"
    );
    // One segment is damaged, and one is in the wrong place.
    let before = segments(&to);
    let smallest = before
        .iter()
        .min_by_key(|it| fs::metadata(it).unwrap().len());
    let damaged = smallest.unwrap();
    damage(damaged);
    let sound = before.iter().find(|it| *it != damaged).unwrap();
    let sound = sound.display().to_string();
    let other = sound.replace("sensor=hall", "sensor=other");
    fs::create_dir_all(Path::new(&other).parent().unwrap()).unwrap();
    fs::copy(&sound, &other).unwrap();
    let key = |path: &str| path.strip_prefix(&format!("{to}/")).unwrap().to_owned();
    let sound_key = key(&sound);
    let (hour, name) = sound_key.rsplit_once('/').unwrap();
    let missing = format!("{hour}/00000000{}", &name[8..]);
    for message in [
        "no JSON".to_owned(),
        json!({"schema": 99, "segment": key(&sound), "packets": 1}).to_string(),
        json!({"schema": 1, "segment": missing, "packets": 1}).to_string(),
        json!({"schema": 1, "segment": key(&other), "packets": 1}).to_string(),
    ] {
        publish(server.port, "secret", "lab", &message);
    }
    let index = [
        "index", &to, "--from", &url, "--once", "--wait", "1s", "--json", "--tries", "2",
    ];
    let (code, out, err) = run(&index);
    assert_eq!(code, 1, "{out}{err}");
    let counts = last_json(&out);
    assert_counts(&counts, [("segments", 2), ("set_aside", 5)]);
    assert_counts(&counts, [("packets", 5000), ("commits", 1)]);
    assert_counts(&counts, [("failed_tries", 10)]);
    for reason in [
        "is not JSON",
        "install a newer",
        "is missing",
        "of another segment",
        "is damaged",
    ] {
        assert!(
            out.lines()
                .any(|it| it.contains("set_aside") && it.contains(reason)),
            "{reason}: {out}"
        );
    }
    let ask = "SUB answers 1\r\nPUB $JS.API.STREAM.INFO.lab-failed answers 0\r\n\r\n";
    let answer = nats(server.port, "secret", ask, "stream_info_response");
    assert!(answer.contains("\"messages\":5"), "{answer}");
    // Nothing is left, and what was announced before is not added again.
    let again = json!({"schema": 1, "segment": key(&sound), "packets": 3000}).to_string();
    publish(server.port, "secret", "lab", &again);
    let counts = json_of(run(&index));
    assert_counts(&counts, [("segments", 0), ("repeated", 1)]);
    // A segment that expired before it was indexed is no fault of the message.
    fs::remove_dir_all(format!("{to}/segments/sensor=other")).unwrap();
    fs::remove_file(damaged).unwrap();
    // One that vanished before it was indexed is named.
    let (code, out, _) = run(&["status", &to, "--json"]);
    assert_eq!(code, 1, "{out}");
    let names = [("indexed", 5000), ("vanished", 1000), ("captured", 6000)];
    assert_counts(&last_json(&out), names);
    captured(&folder, "spool/4.pcapng", "count=10,seed=4");
    ok(ship(&[&url]));
    let mut new = segments(&to);
    new.retain(|it| !before.contains(it));
    expire_segment(&to, &new[0], 10);
    assert_eq!(json_of(run(&index))["expired"], 1);
    let mut waiting = archive(&["index", &to, "--from", &url]);
    let mut waiting = Running::start(&mut waiting);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(waiting.end("-INT"), Some(0));
}

#[test]
fn a_segment_that_the_store_refuses_is_set_aside_unless_it_refuses_all_of_them() {
    let python = python_or_skip!();
    let mut fleet = Fleet::new(&python);
    // The clock of the sensor is two hours slow.
    fleet.store.set_clock("7200");
    fleet.start();
    fleet.spool("hall");
    let ship = |seeds: std::ops::RangeInclusive<u64>| {
        for seed in seeds {
            let card = format!("count={seed}00,seed={seed}");
            captured(&fleet.folder, &format!("spool-hall/{seed}.pcapng"), &card);
        }
        let done = fleet.ship("hall", &["--once"]).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    let metrics = fleet.folder.path("index.prom");
    let index = || {
        let flags = ["--once", "--json", "--tries", "2"];
        let mut index = fleet.index(&flags);
        index.args(["--metrics-file", &metrics]);
        let (code, out, err) = done(index.output().unwrap());
        (code, last_json(&out), out, err)
    };
    ship(1..=1);
    // No segment can be read: that is not the fault of the message.
    for status in [403, 500] {
        fleet.store.fail(&format!("{status} 1 /segments/"));
        let (code, counts, _, err) = index();
        assert_eq!((code, &counts["set_aside"]), (3, &0.into()), "{err}");
    }
    // Only one of them cannot be read.
    fleet.store.fail("");
    ship(2..=3);
    let keys = fleet.segments();
    let hash = &keys[0].rsplit_once('/').unwrap().1[..64];
    fleet.store.fail(&format!("403 1 {hash}"));
    let (code, counts, out, err) = index();
    let names = ["segments", "failed_tries", "set_aside"];
    assert_eq!(
        (code, names.map(|it| counts[it].as_u64().unwrap())),
        (1, [2, 2, 1]),
        "{out}{err}"
    );
    let aside = out.lines().find(|it| it.contains("set_aside")).unwrap();
    assert!(
        aside.contains(hash) && aside.contains("may not do this"),
        "{aside}"
    );
    let text = fs::read_to_string(&metrics).unwrap();
    for line in [
        "forebay_index_segments_total 2\n",
        "forebay_index_set_aside_total 1\n",
        "forebay_index_waiting_messages 0\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let clock = text
        .split("\nforebay_index_clock_ahead_seconds{sensor=\"hall\"} ")
        .nth(1);
    let ahead_s: i64 = clock.unwrap().trim().parse().unwrap();
    assert!((ahead_s + 7200).abs() < 30, "{text}");
    // A segment of another archive: the message stays.
    fleet.store.fail("");
    let key = keys[0].replace("sensor=hall", "sensor=other");
    let message = json!({"schema": 1, "segment": key, "packets": 1, "archive": "0"}).to_string();
    publish(fleet.nats.port, "", "forebay", &message);
    let (code, counts, _, err) = index();
    assert_eq!(
        (code, &counts["other_archive"], &counts["set_aside"]),
        (1, &1.into(), &0.into()),
        "{err}"
    );
    assert!(err.contains("are about another archive, 0"), "{err}");
}

/// Otherwise the server delivers them to another indexer only after an hour.
#[test]
fn an_indexer_that_the_store_refuses_gives_its_messages_back_before_it_ends() {
    let python = python_or_skip!();
    let mut fleet = Fleet::new(&python);
    fleet.start();
    fleet.spool("hall");
    captured(&fleet.folder, "spool-hall/1.pcapng", "count=100");
    assert!(fleet.ship("hall", &["--once"]).status().unwrap().success());
    let url = fleet.url();
    let times = ["--wait", "1s", "--take-over", "1h"];
    let args = [&["index", TO, "--from", &url, "--once"][..], &times].concat();
    fleet.store.fail("403 1 /segments/");
    let (code, _, err) = fleet.run(&args);
    assert_eq!(code, 3, "{err}");
    fleet.store.fail("");
    let mut next = Running::start(&mut fleet.command(&args));
    let since = Instant::now();
    let ended = loop {
        if let Some(ended) = next.0.try_wait().unwrap() {
            break ended;
        }
        assert!(since.elapsed() < PATIENCE, "it waits for the message");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(ended.success(), "{ended}");
    assert_counts(&sound(&fleet)[0], [("indexed", 100)]);
}

#[test]
fn flags_that_cannot_be_meant_are_refused_before_anything_is_done() {
    for (args, what) in [
        (&["index", "to"][..], "--from"),
        (&["index", "to", "--from", "http://a"], "nats://"),
        (
            &["index", "to", "--from", "nats://a", "--wait", "0s"],
            "1s to 1h",
        ),
        (
            &["ship", "spool", "to", "--nats-credentials", "file"],
            "--announce",
        ),
    ] {
        let (code, _, err) = run(args);
        assert!(code == 2 && err.contains(what), "{args:?}: {err}");
    }
}
