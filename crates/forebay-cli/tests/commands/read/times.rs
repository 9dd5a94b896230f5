//! `--from` and `--to`: a part of a capture by time.

use crate::read::{law, packets};
use crate::support::*;

/// A time as the flags take it.
fn at(ns: u64) -> String {
    format!("@{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

#[test]
fn a_part_of_a_capture_has_the_packets_of_that_time_and_they_alone_are_received() {
    let folder = Folder::new();
    let input = recorded(&folder, "all.pcapng", "rate=10M,count=80000");
    let all = packets(&input);
    let (first, end) = (all[30_000].2, all[50_000].2);
    let range = format!("--from {} --to {}", at(first), at(end));
    let part = folder.path("part.pcapng");
    let ran = run!("capture -r {input} {range} -w {part} -q --json");
    assert_eq!(law(ran.succeeds()), [20_000, 20_000, 0]);
    assert!(packets(&part) == all[30_000..50_000]);
    let filter = "'(ether[42] + ether[49]) & 7 = 3'";
    let ran = run!("capture -r {input} {range} -w {part} -q --json {filter}");
    let [received, written, filtered] = law(ran.succeeds());
    assert!(received <= 20_000 && written + filtered == received);
    let ran = run!("capture -r {part} -r {input} {range} --count -q {filter}");
    assert_eq!(ran.succeeds().text(), format!("{} packets\n", 2 * written));
    // A pipe is read to its end.
    let piped = format!("cat {input} | forebay capture -r - {range} --count -q");
    let ran = shell(piped).output().unwrap();
    assert_eq!(ran.succeeds().text(), "20000 packets\n");
    let ran = run!("capture -r {input} --to {} -nt -q -c 90000", at(all[3].2));
    assert_eq!(ran.succeeds().text().lines().count(), 3);
    let ran = run!(
        "capture -r {input} --from {} -w {part} -q --json",
        at(all[79_990].2)
    );
    assert_eq!(law(ran.succeeds()), [10, 10, 0]);
}

#[test]
fn times_without_a_file_or_in_the_wrong_order_are_refused() {
    let folder = Folder::new();
    let input = recorded(&folder, "all.pcapng", "count=10");
    for (line, text) in [
        (
            "-i sim:count=1 --from -2h".into(),
            "select packets of files, and -i sim is none",
        ),
        (
            format!("-r {input} --from 14:00 --to 13:00"),
            "--from is not before --to",
        ),
        (
            format!("-r {input} --to 1960-01-01T00:00:00Z"),
            "no packet is before --to: their times begin in 1970",
        ),
        (format!("-r {input} --from soon"), "'soon' is not a time"),
    ] {
        run!("capture {line} --count").fails(2, text);
    }
}
