//! The screen at two sizes, and what keys do.
//!
//! `FOREBAY_WRITE_SCREENS=1 cargo test -p forebay-cli top` writes the screens anew.

use super::{
    attached,
    latest::Latest,
    once, screen,
    state::{Action, Mode, Sort, State, Status},
    tables::{Kind, Tables},
    terminal::is_writable,
};
use etherparse::PacketBuilder;
use forebay_net::{
    port::{Direction, Frame, LinkType},
    session::Progress,
};
use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
};
use std::{
    io::{self, Read, Write},
    path::Path,
    time::Duration,
};

/// A screen after three seconds: a download, a name server, a scan of ports over IPv6, and losses in the last second.
fn sample() -> State {
    let mut state = State {
        sources: "eth0".into(),
        ..State::default()
    };
    let mut tables = Tables::new(false);
    let mut progress = Progress::default();
    for second in 1..=3_u64 {
        let mut count = |bytes: Vec<u8>, packets: u64, len: u32| {
            for _ in 0..packets {
                let frame = Frame {
                    wire_len: len,
                    time_ns: second * 1_000_000_000,
                    ..Frame::whole(&bytes)
                };
                tables.count(LinkType::ETHERNET, &frame);
            }
            progress.taken += packets;
            progress.wire_bytes += packets * u64::from(len);
        };
        let tcp = |from: [u8; 16], to: [u8; 16], port| {
            let builder = PacketBuilder::ethernet2([1; 6], [2; 6]).ipv6(from, to, 64);
            let mut bytes = Vec::new();
            builder
                .tcp(44_000, port, 0, 100)
                .write(&mut bytes, &[])
                .unwrap();
            bytes
        };
        let [mut one, mut two] = [[0_u8; 16]; 2];
        (one[0], one[1], one[15]) = (0xfd, 0x12, 1);
        (two[0], two[1], two[15]) = (0xfd, 0x12, 0xff);
        count(tcp(one, two, 443), 100 * second, 1514);
        for port in 1..=30 {
            count(tcp(two, one, port), 1, 74);
        }
        let dns = PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4([10, 0, 0, 7], [10, 0, 0, 1], 64);
        let mut bytes = Vec::new();
        dns.udp(53_000, 53).write(&mut bytes, b"name").unwrap();
        count(bytes, 20, 90);
        progress.elapsed = Duration::from_secs(second);
        progress.modes.busy = Duration::from_millis(60 * second);
        progress.modes.asleep = Duration::from_millis(940 * second);
        progress.ledger.dropped.kernel = Some(if second == 3 { 1234 } else { 0 });
        progress.ledger.dropped.peer = Some(0);
        progress.ledger.interface_dropped = Some(0);
        progress.ring_fill = Some(0.03);
        state.update(Status::of(progress.clone(), 0.41), &tables.snapshot());
    }
    state
}

fn drawn(state: &State, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen::draw(frame, state)).unwrap();
    let buffer = terminal.backend().buffer();
    let rows = buffer.content().chunks(usize::from(width));
    let rows = rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>());
    rows.map(|row| row.trim_end().to_owned() + "\n").collect()
}

fn press(state: &mut State, keys: &str) {
    for key in keys.chars() {
        let code = match key {
            '\t' => KeyCode::Tab,
            '\n' => KeyCode::Enter,
            '\u{1b}' => KeyCode::Esc,
            key => KeyCode::Char(key),
        };
        assert_eq!(
            state.key(KeyEvent::new(code, KeyModifiers::NONE)),
            Action::None
        );
    }
}

#[test]
fn the_screen_fits_both_usual_sizes() {
    let mut by_packets = sample();
    press(&mut by_packets, "2p");
    let mut help = sample();
    press(&mut help, "?");
    for (name, state, width, height) in [
        ("80x24", sample(), 80, 24),
        ("60x20", sample(), 60, 20),
        ("60x20-hosts-by-packets", by_packets, 60, 20),
        ("60x20-help", help, 60, 20),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"));
        let path = path.join(format!("src/top/screens/{name}.txt"));
        let drawn = drawn(&state, width, height);
        if std::env::var_os("FOREBAY_WRITE_SCREENS").is_some() {
            std::fs::write(&path, &drawn).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap();
        assert_eq!(drawn, expected, "{name}:\n{drawn}");
    }
}

#[test]
fn every_size_can_be_drawn() {
    for state in [State::default(), sample()] {
        for width in [1, 2, 9, 13, 14, 27, 40, 71, 72, 300] {
            for height in [1, 2, 4, 5, 6, 7, 15, 16, 22, 80] {
                drawn(&state, width, height);
            }
        }
    }
}

#[test]
fn keys_choose_table_order_and_rows() {
    let mut state = sample();
    let first = |state: &State| state.shown()[0].name.clone();
    assert_eq!(first(&state), "tcp  [fd12::1]:44000 - [fd12::ff]:443");
    press(&mut state, "\t");
    assert_eq!((state.kind, state.shown().len()), (Kind::Hosts, 4));
    press(&mut state, "4");
    assert_eq!(
        state
            .shown()
            .iter()
            .map(|row| &*row.name)
            .collect::<Vec<_>>(),
        ["tcp", "udp"]
    );
    press(&mut state, "3/udp\n");
    assert_eq!((state.shown().len(), first(&state)), (1, "53/udp".into()));
    assert_eq!((state.mode, state.sort), (Mode::Table, Sort::Rate));
    press(&mut state, "\u{1b}p");
    assert_eq!((state.shown().len(), state.sort), (32, Sort::Packets));
    press(&mut state, "?b"); // any key leaves the help
    assert_eq!((state.mode, state.sort), (Mode::Table, Sort::Packets));
    press(&mut state, "/q");
    assert_eq!(state.filter, "q");
    press(&mut state, "\u{1b}");
    let mut key = |letter, modifiers| state.key(KeyEvent::new(KeyCode::Char(letter), modifiers));
    assert_eq!(key('q', KeyModifiers::NONE), Action::Quit);
    for (letter, action) in [('c', Action::Quit), ('l', Action::Repaint)] {
        assert_eq!(key(letter, KeyModifiers::CONTROL), action);
    }
}

#[test]
fn keys_of_less_and_vi_select_rows_and_the_selection_stays_in_view() {
    let mut state = sample();
    state.fit(10);
    let at = |state: &State| (state.position(&state.shown()), state.first);
    for (key, expected) in [
        ('j', (1, 0)),
        ('k', (0, 0)),
        ('G', (31, 22)),
        ('j', (31, 22)),
        ('k', (30, 22)),
        ('g', (0, 0)),
    ] {
        press(&mut state, &key.to_string());
        state.fit(10);
        assert_eq!(at(&state), expected, "{key}");
    }
    for (code, expected) in [
        (KeyCode::PageDown, (10, 1)),
        (KeyCode::End, (31, 22)),
        (KeyCode::PageUp, (21, 21)),
        (KeyCode::Home, (0, 0)),
    ] {
        state.key(KeyEvent::new(code, KeyModifiers::NONE));
        state.fit(10);
        assert_eq!(at(&state), expected, "{code:?}");
    }
    // The selected row keeps its selection at its new place.
    press(&mut state, "j");
    let name = state.selected.clone();
    press(&mut state, "R");
    assert_eq!((state.selected.clone(), at(&state).0), (name, 30));
}

#[test]
fn rates_of_rows_are_averages_over_ten_seconds_and_nearly_equal_rows_keep_their_places() {
    let mut state = State::default();
    let mut tables = Tables::new(false);
    let mut orders = Vec::new();
    let flow = |port| {
        let builder =
            PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4([10, 0, 0, 7], [10, 0, 0, 1], 64);
        let mut bytes = Vec::new();
        builder
            .udp(50_000, port)
            .write(&mut bytes, b"name")
            .unwrap();
        bytes
    };
    for second in 1..=30_u64 {
        for port in 0..8_u64 {
            let mut packets = 100 + (second * 7 + port * 13) % 5;
            if second == 30 && port == 3 {
                packets += 1000;
            }
            for _ in 0..packets {
                let bytes = flow(100 + port as u16);
                let frame = Frame {
                    wire_len: 125,
                    ..Frame::whole(&bytes)
                };
                tables.count(LinkType::ETHERNET, &frame);
            }
        }
        let elapsed = Duration::from_secs(second);
        let progress = Progress {
            elapsed,
            ..Progress::default()
        };
        state.update(Status::of(progress, 0.0), &tables.snapshot());
        orders.push(
            state
                .shown()
                .iter()
                .map(|row| row.name.clone())
                .collect::<Vec<_>>(),
        );
    }
    assert!(
        orders[2..29].windows(2).all(|two| two[0] == two[1]),
        "{orders:?}"
    );
    let first = state.shown()[0];
    assert!(first.name.ends_with(":103"), "{first:?}");
    // A tenth of the burst of the last second, and what flows all the time.
    let expected = 8.0 * 125.0 * (102.0 + 100.0);
    assert!(
        (first.bits_per_second - expected).abs() < expected * 0.01,
        "{first:?}"
    );
}

#[test]
fn rates_are_those_of_the_last_interval_and_of_rows_those_of_several() {
    let state = sample();
    assert_eq!(
        (state.rates.0, state.losses),
        (350.0, [Some(1234.0), Some(0.0)])
    );
    let download = state.shown()[0];
    assert_eq!(download.bits_per_second, 200.0 * 1514.0 * 8.0);
    assert_eq!((download.packets, download.bytes), (600, 600 * 1514));
    assert!((state.asleep - 0.94).abs() < 1e-9 && state.fill == Some((0.03, 0.41)));
}

#[test]
fn packets_that_nobody_counted_are_null_in_json_and_not_0() {
    let filtered = |state: &mut State| {
        let json: serde_json::Value = serde_json::from_str(&once::json(state)).unwrap();
        json["filtered"].clone()
    };
    let mut state = sample();
    assert_eq!(filtered(&mut state), 0);
    // The kernel filters.
    state.progress.filters_uncounted = true;
    assert!(filtered(&mut state).is_null());
    let answer = |filtered: &str| {
        let object = serde_json::from_str(&format!("{{\"filtered\": {filtered}}}"));
        attached::status(&object.unwrap())
            .progress
            .filters_uncounted
    };
    assert_eq!(
        [answer("null"), answer("0"), answer("7")],
        [true, false, false]
    );
}

#[test]
fn both_directions_are_counted_for_flows_hosts_ports_and_interfaces() {
    let mut state = State::default();
    let mut tables = Tables::new(false);
    let mut see = |from: [u8; 4], to: [u8; 4], ports: [u16; 2], direction, millis: u64| {
        let builder = PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4(from, to, 64);
        let mut bytes = Vec::new();
        let builder = builder.tcp(ports[0], ports[1], 1, 100);
        let builder = if ports[0] == 80 {
            builder.ack(2).syn()
        } else {
            builder.syn()
        };
        builder.write(&mut bytes, &[]).unwrap();
        let frame = Frame {
            direction,
            time_ns: millis * 1_000_000,
            ..Frame::whole(&bytes)
        };
        tables.count(LinkType::ETHERNET, &frame);
    };
    let (us, server) = ([10, 0, 0, 7], [10, 0, 0, 1]);
    see(us, server, [50_000, 80], Direction::Outbound, 0);
    see(us, server, [50_000, 80], Direction::Outbound, 500);
    see(server, us, [80, 50_000], Direction::Inbound, 530);
    let elapsed = Duration::from_secs(1);
    let progress = Progress {
        elapsed,
        ..Progress::default()
    };
    state.update(Status::of(progress, 0.0), &tables.snapshot());
    let json: serde_json::Value = serde_json::from_str(&once::json(&mut state)).unwrap();
    let flow = &json["flows"][0];
    for (key, value) in [
        ("protocol", "tcp".into()),
        ("address_a", "10.0.0.7".into()),
        ("port_b", 80.into()),
        ("packets_a_to_b", 2.into()),
        ("bytes_b_to_a", 54.into()),
        ("first", 0.0.into()),
        ("last", 0.53.into()),
    ] {
        let value: serde_json::Value = value;
        assert_eq!(flow[key], value, "{key}: {flow}");
    }
    assert_eq!(flow["tcp"]["retransmissions_a"], 1, "{flow}");
    assert_eq!(flow["tcp"]["flags_b"], "S.", "{flow}");
    let host = json["hosts"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["address"] == "10.0.0.1");
    assert_eq!(host.unwrap()["packets_received"], 2);
    assert_eq!(
        (&json["ports"][0]["port"], &json["ports"][0]["packets_sent"]),
        (&80.into(), &1.into())
    );
    assert_eq!(state.history[0][1..], [54 * 8, 108 * 8]);
    state.kind = Kind::Flows;
    let screen = drawn(&state, 80, 24);
    assert!(
        screen.contains("received") && screen.contains("→ bit/s"),
        "{screen}"
    );
    press(&mut state, "\n");
    let screen = drawn(&state, 80, 24);
    for part in [
        "from 10.0.0.7",
        "retransmitted  1 ",
        "first packet   ",
        "0.530000 s later",
    ] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    press(&mut state, "\n");
    assert_eq!(state.mode, Mode::Table);
}

#[test]
fn only_the_latest_update_is_kept() {
    let updates = Latest::new();
    assert_eq!(updates.take(), None);
    for update in 1..=3 {
        updates.set(update);
    }
    assert_eq!((updates.take(), updates.take()), (Some(3), None));
}

#[test]
fn a_full_pipe_is_not_writable() {
    let (mut reader, mut writer) = io::pipe().unwrap();
    assert!(is_writable(&writer, Duration::ZERO));
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    let mut len = 0;
    while let Ok(written) = writer.write(&[0; 4096]) {
        len += written;
    }
    assert!(!is_writable(&writer, Duration::ZERO));
    reader.read_exact(&mut vec![0; len]).unwrap();
    assert!(is_writable(&writer, Duration::ZERO));
}

#[test]
fn details_have_a_graph_of_the_last_intervals_where_there_is_room() {
    let mut state = sample();
    press(&mut state, "\n");
    assert_eq!(state.shown()[0].recent, [1_211_200, 2_422_400, 3_633_600]);
    let graph = |width, height| {
        let drawn = drawn(&state, width, height);
        let rows = drawn
            .lines()
            .skip_while(|row| !row.starts_with("3.634 Mbit/s"));
        rows.take(3).map(String::from).collect::<Vec<_>>()
    };
    let expected = ["3.634 Mbit/s   █", "last 3 s      ██", "             ███"];
    assert_eq!(graph(80, 24), expected);
    assert_eq!(graph(40, 10), [""; 0]);
}
