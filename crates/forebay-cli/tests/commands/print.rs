//! Packets printed by `forebay capture`: on files, pipes and terminals, fast and slow.

use crate::support::{terminal::Terminal, *};
use serde_json::Value;
use std::{
    io::Read,
    process::{Child, Stdio},
    time::Duration,
};

#[test]
fn without_w_packets_are_printed_and_with_count_they_are_not() {
    let (_folder, file) = Folder::with("a.pcapng");
    let virtually = "-i sim:clock=virtual -c 50k";
    let printed = run!("capture {virtually} -t --json");
    assert_eq!(printed.succeeds().text().lines().count(), 50_000);
    contains(
        printed.text(),
        "IP 198.18.3.47.51495 > 198.19.0.1.9: UDP, length 18\n",
    );
    assert_eq!(printed.json()["counted"], 50_000);
    let counted = run!("capture {virtually} --count");
    assert_eq!(counted.succeeds().text(), "50000 packets\n");
    let quietly = run!("capture {virtually} --count -q");
    assert_eq!(quietly.succeeds().text(), counted.text());
    assert_eq!(quietly.log(), "");
    let object = run!("capture {virtually} --count --json");
    assert_eq!(object.objects().len(), 1);
    let written = run!("capture {virtually} -w {file}");
    assert_eq!(written.succeeds().text(), "");
    let both = run!("capture {virtually} -w {file} --print -t");
    assert_eq!(both.succeeds().text(), printed.text());
    let read = run!("capture -r {file} -t");
    assert_eq!(read.succeeds().text(), printed.text());
    let few = run!("capture -r {file} -t -c 3 -# --time-stamp-precision nano");
    assert_eq!(few.succeeds().text().lines().count(), 3);
    let objects = run!("capture -r {file} --json-lines -c 9");
    for packet in objects.succeeds().objects() {
        assert_eq!(packet["length"], 60);
        assert_eq!(packet["destination_port"], 9);
        contains(packet["info"].as_str().unwrap(), "UDP, length 18");
    }
}

#[test]
fn files_and_pipes_have_the_same_lines() {
    let folder = Folder::new();
    let (many, large) = (folder.path("many.pcapng"), folder.path("large.pcap"));
    run!("capture -i sim:clock=virtual,size=imix -c 2k -w {many}").succeeds();
    // Its bytes are more text than is written at once, and than waits for a slow reader.
    let len = 250_000u32.to_le_bytes();
    let header = [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 262_144, 1].map(u32::to_le_bytes);
    let packet = [&[0; 8][..], &len, &len, &[1; 250_000]].concat();
    std::fs::write(&large, [&header.concat()[..], &packet, &packet].concat()).unwrap();
    for flags in ["-l", "-e -v -XX", "--json-lines", "--csv"] {
        for file in [&many, &large] {
            let named = run!("capture -r {file} {flags}");
            let piped = shell(format!("cat {file} | forebay capture -r - {flags}")).output();
            let lines = named.succeeds().text().lines().count();
            assert!(lines >= 2, "{lines}");
            assert!(named.stdout == piped.unwrap().stdout, "{file} {flags}");
        }
    }
}

#[test]
fn a_reader_that_has_seen_enough_ends_the_capture_without_a_word() {
    let (_folder, file) = Folder::with("a.pcapng");
    run!("capture -i sim:clock=virtual -c 100k -w {file}").succeeds();
    for input in [format!("-r {file}"), "-i sim:rate=1M".to_owned()] {
        let script = format!("forebay capture {input} -q | head -2; echo ${{PIPESTATUS[0]}}");
        let output = shell(format!("bash -c '{script}'")).output().unwrap();
        assert_eq!(output.text().lines().count(), 3, "{}", output.text());
        assert!(output.text().ends_with("\n0\n"), "{}", output.text());
        assert_eq!(output.log(), "", "{input}");
        let output = shell(format!("forebay capture {input} -q --json | head -2")).output();
        let output = output.unwrap();
        output.keeps_the_law();
        assert_eq!(output.log().lines().count(), 1, "{}", output.log());
    }
}

#[test]
fn losses_are_reported_even_if_the_reader_of_the_lines_has_left() {
    let card = "sim:rate=10G,ring=64,host=none,stall=1ms@20ms";
    let mut child = start!("capture -i {card} -q --fail-on-drop --json --stats-interval 0.01");
    // Nobody reads standard output, so that the capture goes on until packets are lost.
    wait_until(|| {
        let line = heard(&mut child, "\n");
        let object = serde_json::from_str(&line).unwrap_or(Value::Null);
        object["dropped"]["kernel"].as_u64() > Some(0)
    });
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    output.fails(3, "lost");
    lacks(output.log(), "received by filter");
    let json = output.json();
    assert_eq!(json["running"], false);
    assert_eq!(json["law_holds"], true);
}

#[test]
fn packets_that_a_reader_left_unread_are_counted() {
    let (_folder, file) = Folder::with("a.pcapng");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let line = format!("capture -i sim:clock=virtual -c 100k -w {file} --print --json");
    let output = command(&line).stdout(writer).stderr(Stdio::piped()).spawn();
    let output = output.unwrap().wait_with_output().unwrap();
    assert_eq!(output.keeps_the_law()["written"], 100_000);
    contains(
        output.log(),
        "100,000 packets not shown: the reader of standard output has left",
    );
}

#[test]
fn flags_that_would_do_nothing_are_refused() {
    for (flags, advice) in [
        ("-r - --json-lines -t", "-t changes printed lines"),
        ("-r - --json-lines -X", "-X changes printed lines"),
        ("-r - --csv -t", "-t changes printed lines"),
        (
            "-r - --fields no",
            "there is no field 'no'. Fields are time,",
        ),
        ("-r - --csv --json-lines", "cannot be used with"),
        ("-r - --names -w -", "--names is about printed packets"),
        ("-r - -V -", "standard input (-) can be read only once"),
        ("-V - -F -", "standard input (-) can be read only once"),
    ] {
        run!("capture {flags}").fails(2, advice);
    }
}

#[test]
fn packets_are_printed_as_rows_of_chosen_fields() {
    let (_folder, file) = Folder::with("a.pcapng");
    run!("capture -i sim:clock=virtual -c 3 -w {file}").succeeds();
    let rows = run!("capture -r {file} --fields destination,destination_port,length");
    assert_eq!(rows.succeeds().text(), "198.19.0.1\t9\t60\n".repeat(3));
    let table = run!("capture -r {file} --csv --names");
    let lines: Vec<_> = table.succeeds().text().lines().collect();
    let head = "time,source,source_port,destination,destination_port,length,info";
    assert_eq!((lines.len(), lines[0]), (4, head));
    contains(lines[3], ",198.19.0.1,9,60,");
    contains(lines[3], "198.19.0.1.discard: UDP, length 18");
    let none = run!("capture -r {file} --csv tcp");
    assert_eq!(none.succeeds().text(), format!("{head}\n"));
}

#[test]
fn a_long_list_of_files_is_read_to_its_end() {
    let folder = Folder::new();
    let (file, list) = (folder.path("a.pcapng"), folder.path("list"));
    run!("capture -i sim:clock=virtual -c 1 -w {file}").succeeds();
    let names = format!("{file}\n").repeat((300 << 10) / file.len());
    std::fs::write(&list, &names).unwrap();
    let output = run!("capture -V {list} --count --json");
    output.succeeds();
    assert_eq!(output.json()["received"], names.lines().count());
}

#[test]
fn a_full_disk_for_the_lines_is_an_error() {
    let output = shell("forebay capture -i sim:clock=virtual -c 10 > /dev/full").output();
    output
        .unwrap()
        .fails(1, "standard output: No space left on device");
}

/// Starts a command whose standard output is this terminal.
fn printing_on(terminal: &Terminal, line: &str) -> Child {
    let mut command = command(line);
    command.stdout(terminal.theirs.try_clone().unwrap());
    command.stderr(Stdio::piped()).spawn().unwrap()
}

/// Reads about a kilobyte a second.
fn read_slowly(mut terminal: impl Read + Send + 'static) {
    std::thread::spawn(move || {
        while terminal.read(&mut [0; 100]).is_ok_and(|len| len > 0) {
            std::thread::sleep(Duration::from_millis(100));
        }
    });
}

#[test]
fn a_slow_terminal_loses_no_packet_of_the_file() {
    let (_folder, file) = Folder::with("a.pcapng");
    let terminal = Terminal::new(80);
    let line = format!("capture -i sim:rate=200M -a duration:1 -w {file} --print --json");
    let child = printing_on(&terminal, &line);
    read_slowly(terminal.screen());
    // The end waits for the lines until it is interrupted.
    wait_until(|| {
        std::fs::metadata(&file).is_ok_and(|it| it.len() > 4096)
            && !found::open(&file).statistics.is_empty()
    });
    interrupt(&child, "-INT");
    let output = child.wait_with_output().unwrap();
    let json = output.keeps_the_law();
    assert_eq!(json["dropped"]["kernel"], 0, "{json}");
    let found = found::open(&file);
    assert_eq!(json["written"], found.packets.len());
    contains(
        output.log(),
        "packets not shown: standard output took them too slowly",
    );
}

#[test]
fn an_interrupt_abandons_the_lines_for_a_slow_terminal_and_they_are_counted() {
    let (_folder, file) = Folder::with("a.pcapng");
    run!("capture -i sim:clock=virtual -c 500k -w {file}").succeeds();
    let terminal = Terminal::new(200);
    let mut child = printing_on(&terminal, &format!("capture -r {file} --json"));
    // It never stands still for long, and would take minutes to show everything.
    let mut screen = terminal.screen();
    drop(terminal);
    let (begun, has_begun) = std::sync::mpsc::channel();
    let lines = std::thread::spawn(move || {
        let (mut lines, mut bytes) = (0, [0; 1000]);
        while let Ok(len @ 1..) = screen.read(&mut bytes) {
            let _ = begun.send(());
            lines += bytes[..len].iter().filter(|&&byte| byte == b'\n').count();
            std::thread::sleep(Duration::from_millis(20));
        }
        lines
    });
    // Until far more lines wait than the terminal holds.
    assert!(has_begun.iter().nth(25).is_some());
    while child.try_wait().unwrap().is_none() {
        interrupt(&child, "-INT");
        std::thread::sleep(Duration::from_millis(500));
    }
    let output = child.wait_with_output().unwrap();
    let counted = output.keeps_the_law()["counted"].as_u64().unwrap() as usize;
    let note = output.log().lines().rfind(|it| it.contains(" not shown: "));
    let count = note.unwrap().split(' ').nth(1).unwrap().replace(',', "");
    let printed = counted - count.parse::<usize>().unwrap();
    let shown = lines.join().unwrap();
    // The write that was abandoned may have shown some lines.
    assert!(
        (printed..printed + 100).contains(&shown),
        "{shown} {}",
        output.log()
    );
}

#[test]
fn lines_have_colours_on_a_terminal_only_and_no_color_turns_them_off() {
    let line = format!("{FOREBAY} capture -i sim:clock=virtual -c 3 -t -q");
    let coloured = "\u{1b}[36mIP 198.18.3.47.51495 > 198.19.0.1.9: UDP, length 18\u{1b}[0m";
    for (script, has_colours) in [
        (format!("TERM=xterm {line}"), true),
        (format!("TERM=xterm NO_COLOR=1 {line}"), false),
        (format!("NO_COLOR=1 {line} --color=always"), true),
        (format!("TERM=xterm {line} --colour never"), false),
        (format!("{line} --color=always | cat"), true),
        (format!("TERM=dumb {line}"), false),
        (format!("TERM=xterm {line} | cat"), false),
        (
            format!("TERM=xterm {line} --json-lines").replace(" -t ", " "),
            false,
        ),
    ] {
        let terminal = Terminal::new(200);
        let mut child = Mortal(terminal.shell(&script));
        let shown = terminal.read();
        child.ends_well();
        let shown = shown.join().unwrap();
        assert_eq!(shown.contains(coloured), has_colours, "{script}: {shown:?}");
        assert!(
            has_colours || !shown.contains('\u{1b}'),
            "{script}: {shown:?}"
        );
        contains(shown, "UDP, length 18");
    }
}
