//! What the texts say, word by figure.

use super::{
    Claim, Figure, Text,
    Unit::{Less, More},
    over,
};
use crate::report::Run;

/// All of them.
pub const TEXTS: [Text; 5] = [
    Text {
        number: "000",
        title: "a circular buffer that is mapped twice",
        machine: "an i5-6400, gcc; a write of 32 bytes to a buffer of 1024",
        figures: &[
            Figure {
                what: "byte by byte",
                text: "104.943",
                unit: Less("ns a write"),
                here: |run| micro(run, "the text's, byte by byte"),
                ours: our_micro,
            },
            Figure {
                what: "two copies, as with one view",
                text: "12.196",
                unit: Less("ns a write"),
                here: |run| micro(run, "the text's slow one"),
                ours: our_micro,
            },
            Figure {
                what: "one copy, as with a mirror",
                text: "4.024",
                unit: Less("ns a write"),
                here: |run| micro(run, "the text's fast one"),
                ours: our_micro,
            },
        ],
        claims: &[
            Claim {
                says: "one copy beside two",
                times: 12.196 / 4.024,
                here: |run| {
                    over(
                        micro(run, "the text's slow one"),
                        micro(run, "the text's fast one"),
                    )
                },
                why: "Two short copies, one of them of nothing, are two calls whose branches are foreseen: a newer processor \
                      runs them side by side. And it is a write only: put in and got out, with the length known at run time, \
                      a ring that branches comes close to a mirror, see the room mirror.",
            },
            Claim {
                says: "one copy beside bytes",
                times: 104.943 / 4.024,
                here: |run| {
                    over(
                        micro(run, "the text's, byte by byte"),
                        micro(run, "the text's fast one"),
                    )
                },
                why: "What slows the bytes down is a division each, and newer processors divide in a few cycles.",
            },
        ],
    },
    Text {
        number: "001",
        title: "a stream of bytes",
        machine: "an M1 Pro and the course's machines, C++; capacity 32768, writes of 1500, reads of 128",
        figures: &[
            Figure {
                what: "a deque, copied out at each look",
                text: "0.09",
                unit: More("Gbit/s"),
                here: |run| course(run, "deque"),
                ours: our_course,
            },
            Figure {
                what: "a string, erased at its front",
                text: "2.3",
                unit: More("Gbit/s"),
                here: |run| course(run, "string"),
                ours: our_course,
            },
            Figure {
                what: "a sliding vector, by loops",
                text: "10",
                unit: More("Gbit/s"),
                here: |run| course(run, "sliding vector, loops"),
                ours: our_course,
            },
            Figure {
                what: "a sliding vector, by block copies",
                text: "30.30; 23.50 on another",
                unit: More("Gbit/s"),
                here: |run| course(run, "sliding vector, block copies, 2×"),
                ours: our_course,
            },
            Figure {
                what: "of the test's time, what its output takes",
                text: "more than 70",
                unit: Less("%"),
                here: |run| outputs_share(run, "sliding vector, block copies, 2×"),
                ours: |run| outputs_share(run, "forebay"),
            },
        ],
        claims: &[
            Claim {
                says: "a string beside a deque",
                times: 2.3 / 0.09,
                here: |run| over(course(run, "string"), course(run, "deque")),
                why: "Copying a deque out here is done by the compiler's vectors, not byte by byte; what is left of it is the copy.",
            },
            Claim {
                says: "a sliding vector beside a string",
                times: 10.0 / 2.3,
                here: |run| over(course(run, "sliding vector, loops"), course(run, "string")),
                why: "By loops, that is: they are kept from becoming block copies here, and cost a byte a cycle or so, where \
                      erasing a string's front moves its content by blocks.",
            },
            Claim {
                says: "block copies beside loops",
                times: 30.0 / 10.0,
                here: |run| {
                    over(
                        course(run, "sliding vector, block copies, 2×"),
                        course(run, "sliding vector, loops"),
                    )
                },
                why: "The output's pages, touched for the first time, take most of the test's time here, whatever the stream.",
            },
            Claim {
                says: "the last beside the first (\"more than 300×\")",
                times: 300.0,
                here: |run| {
                    over(
                        course(run, "sliding vector, block copies, 2×"),
                        course(run, "deque"),
                    )
                },
                why: "The first is not as slow here, and the last is held up by the output's pages.",
            },
        ],
    },
    Text {
        number: "002",
        title: "a tale of two copies",
        machine: "an Intel laptop, Go; 100,000 entries appended to 16 KiB and flushed to a file",
        figures: &[
            Figure {
                what: "28 bytes, made before the loop",
                text: "7.343",
                unit: Less("ns an entry"),
                here: |run| append(run, "28", HOISTED, "ns"),
                ours: |run| append(run, "28", "ours, entry hoisted", "ns"),
            },
            Figure {
                what: "32 bytes, made before the loop",
                text: "4.362",
                unit: Less("ns an entry"),
                here: |run| append(run, "32", HOISTED, "ns"),
                ours: |run| append(run, "32", "ours, entry hoisted", "ns"),
            },
            Figure {
                what: "28 bytes at a stride of 32 (ours and here to /dev/null)",
                text: "8.135",
                unit: Less("ns an entry"),
                here: |run| run.at("append", "append/28 at a stride of 32", HOISTED, "ns"),
                ours: |run| {
                    run.at(
                        "append",
                        "append/28 at a stride of 32",
                        "ours, entry hoisted",
                        "ns",
                    )
                },
            },
            Figure {
                what: "28 bytes, made in the loop",
                text: "4.075",
                unit: Less("ns an entry"),
                here: |run| append(run, "28", INLINED, "ns"),
                ours: |run| append(run, "28", IN_PLACE, "ns"),
            },
            Figure {
                what: "32 bytes, made in the loop",
                text: "4.462",
                unit: Less("ns an entry"),
                here: |run| append(run, "32", INLINED, "ns"),
                ours: |run| append(run, "32", IN_PLACE, "ns"),
            },
            Figure {
                what: "28 bytes: flushes",
                text: "171",
                unit: Less("in 100,000 entries"),
                here: |run| append(run, "28", HOISTED, "flushes in 100,000"),
                ours: |run| append(run, "28", IN_PLACE, "flushes in 100,000"),
            },
            Figure {
                what: "32 bytes: flushes",
                text: "196",
                unit: Less("in 100,000 entries"),
                here: |run| append(run, "32", HOISTED, "flushes in 100,000"),
                ours: |run| append(run, "32", IN_PLACE, "flushes in 100,000"),
            },
            Figure {
                what: "28 bytes, made before the loop: store-forwards blocked",
                text: "1,006,025,599 in a run (7.292 ns)",
                unit: Less("an entry"),
                here: |run| append(run, "28", HOISTED, "blocked"),
                ours: |run| append(run, "28", "ours, entry hoisted", "blocked"),
            },
            Figure {
                what: "32 bytes, made before the loop: the same",
                text: "1,973,930 in a run (4.394 ns)",
                unit: Less("an entry"),
                here: |run| append(run, "32", HOISTED, "blocked"),
                ours: |run| append(run, "32", "ours, entry hoisted", "blocked"),
            },
            Figure {
                what: "28 bytes, made in the loop: the same",
                text: "4,433,624 in a run (4.078 ns)",
                unit: Less("an entry"),
                here: |run| append(run, "28", INLINED, "blocked"),
                ours: |run| append(run, "28", IN_PLACE, "blocked"),
            },
            Figure {
                what: "32 bytes, made in the loop: the same",
                text: "1,974,915 in a run (4.369 ns)",
                unit: Less("an entry"),
                here: |run| append(run, "32", INLINED, "blocked"),
                ours: |run| append(run, "32", IN_PLACE, "blocked"),
            },
        ],
        claims: &[
            Claim {
                says: "32 bytes beside 28, made before the loop",
                times: 7.343 / 4.362,
                here: |run| {
                    over(
                        append(run, "28", HOISTED, "ns"),
                        append(run, "32", HOISTED, "ns"),
                    )
                },
                why: "Where the compiler passes the entry in two overlapping halves, what is read back too early waits with 28 \
                      bytes; rustc's copies are of other widths than Go's, and both sizes may wait, see the column blocked.",
            },
            Claim {
                says: "28 bytes made in the loop beside 28 made before it",
                times: 7.343 / 4.075,
                here: |run| {
                    over(
                        append(run, "28", HOISTED, "ns"),
                        append(run, "28", INLINED, "ns"),
                    )
                },
                why: "The flush to the file is a larger part of it here.",
            },
            Claim {
                says: "28 bytes beside 32, made in the loop",
                times: 4.462 / 4.075,
                here: |run| {
                    over(
                        append(run, "32", INLINED, "ns"),
                        append(run, "28", INLINED, "ns"),
                    )
                },
                why: "Entries of 28 bytes cross cache lines that those of 32 do not, and this machine's file takes the few bytes \
                      more for little.",
            },
        ],
    },
    Text {
        number: "003",
        title: "device driver queues",
        machine: "a RISC-V system at 1.2 GHz, C; 64-byte frames at 1 Gb/s",
        figures: &[
            Figure {
                what: "first driver: packets lost",
                text: "31.1",
                unit: Less("%"),
                here: |run| driver(run, "textbook", "lost %"),
                ours: |run| driver(run, POLLING, "lost %"),
            },
            Figure {
                what: "last driver: packets lost",
                text: "0.12",
                unit: Less("%"),
                here: |run| driver(run, POLLING, "lost %"),
                ours: |run| driver(run, POLLING, "lost %"),
            },
            Figure {
                what: "interrupts, the rest as in the last driver: packets lost",
                text: "31",
                unit: Less("%"),
                here: |run| driver(run, "+ batches", "lost %"),
                ours: |run| driver(run, POLLING, "lost %"),
            },
            Figure {
                what: "first driver: throughput",
                text: "599 Mbit/s",
                unit: More("million packets a second"),
                here: |run| driver(run, "textbook", "million/s"),
                ours: |run| driver(run, POLLING, "million/s"),
            },
            Figure {
                what: "interrupts, the rest as in the last driver: throughput",
                text: "690 Mbit/s",
                unit: More("million packets a second"),
                here: |run| driver(run, "+ batches", "million/s"),
                ours: |run| driver(run, POLLING, "million/s"),
            },
            Figure {
                what: "last driver: throughput",
                text: "1020 Mbit/s",
                unit: More("million packets a second"),
                here: |run| driver(run, POLLING, "million/s"),
                ours: |run| driver(run, POLLING, "million/s"),
            },
            Figure {
                what: "first driver, and with interrupts: processor time",
                text: "95",
                unit: Less("% of one"),
                here: |run| driver(run, "textbook", "CPU %"),
                ours: |run| driver(run, POLLING, "CPU %"),
            },
            Figure {
                what: "last driver: processor time",
                text: "68",
                unit: Less("% of one"),
                here: |run| driver(run, POLLING, "CPU %"),
                ours: |run| driver(run, POLLING, "CPU %"),
            },
            Figure {
                what: "interrupts alone at line rate, 1000 cycles each: processor time",
                text: "124",
                unit: Less("% of one"),
                here: |_| Some(INTERRUPTS_AT_LINE_RATE),
                ours: |_| None,
            },
            Figure {
                what: "first driver: cache misses",
                text: "18.5 million a second",
                unit: Less("a packet"),
                here: |run| driver(run, "textbook", "cache misses"),
                ours: |run| driver(run, POLLING, "cache misses"),
            },
            Figure {
                what: "last driver: cache misses",
                text: "2.8 million a second",
                unit: Less("a packet"),
                here: |run| driver(run, POLLING, "cache misses"),
                ours: |run| driver(run, POLLING, "cache misses"),
            },
            Figure {
                what: "a list behind a spinlock: in and out",
                text: "450 (375 ns)",
                unit: Less("cycles"),
                here: |run| ring(run, "a list"),
                ours: |run| ring(run, "forebay"),
            },
            Figure {
                what: "the text's ring: in and out",
                text: "85 (71 ns)",
                unit: Less("cycles"),
                here: |run| ring(run, "a ring"),
                ours: |run| ring(run, "forebay"),
            },
            Figure {
                what: "list and ring: cache misses",
                text: "18.5 and 2.8",
                unit: Less("an operation"),
                here: |_| None,
                ours: |_| None,
            },
            Figure {
                what: "malloc and free",
                text: "200 (167 ns)",
                unit: Less("cycles"),
                here: |run| pool(run, "malloc"),
                ours: |run| pool(run, "forebay"),
            },
            Figure {
                what: "the text's pool",
                text: "5 (4.2 ns)",
                unit: Less("cycles"),
                here: |run| pool(run, "a ring of free"),
                ours: |run| pool(run, "forebay"),
            },
            Figure {
                what: "malloc and pool: cache misses",
                text: "12 and 1",
                unit: Less("an operation"),
                here: |_| None,
                ours: |_| None,
            },
            Figure {
                what: "packets processed one at a time",
                text: "850 (708 ns)",
                unit: Less("cycles a packet"),
                here: |run| driver(run, "+ a pool", "interrupts aside"),
                ours: |run| driver(run, POLLING, "interrupts aside"),
            },
            Figure {
                what: "packets processed 32 at a time",
                text: "520 (433 ns)",
                unit: Less("cycles a packet"),
                here: |run| driver(run, "+ batches", "interrupts aside"),
                ours: |run| driver(run, POLLING, "interrupts aside"),
            },
            Figure {
                what: "one at a time and 32: cache misses",
                text: "45 and 28",
                unit: Less("a packet"),
                here: |_| None,
                ours: |_| None,
            },
            Figure {
                what: "a header in front by memcpy (here: 4000 bytes)",
                text: "450 (375 ns)",
                unit: Less("cycles"),
                here: |run| header(run, "memmove"),
                ours: |run| header(run, "forebay, with the header"),
            },
            Figure {
                what: "a header in front by moving a pointer",
                text: "12 (10 ns)",
                unit: Less("cycles"),
                here: |run| header(run, "forebay, push"),
                ours: |run| header(run, "forebay, push"),
            },
        ],
        claims: &[
            Claim {
                says: "a ring beside a list and a spinlock",
                times: 450.0 / 85.0,
                here: |run| over(ring(run, "a list"), ring(run, "a ring")),
                why: "In one thread nobody contends for the lock, and a lock that is free costs this processor some 20 cycles.",
            },
            Claim {
                says: "a pool beside malloc",
                times: 200.0 / 5.0,
                here: |run| over(pool(run, "malloc"), pool(run, "a ring of free")),
                why: "glibc keeps freed memory of this size close at hand, and never sleeps for it in a program.",
            },
            Claim {
                says: "batches of 32",
                times: 850.0 / 520.0,
                here: |run| {
                    over(
                        driver(run, "+ a pool", "interrupts aside"),
                        driver(run, "+ batches", "interrupts aside"),
                    )
                },
                why: "While each packet interrupts, packets come to the other thread one by one: there is no batch to take.",
            },
            Claim {
                says: "polling's throughput beside interrupts",
                times: 1020.0 / 690.0,
                here: |run| {
                    over(
                        driver(run, POLLING, "million/s"),
                        driver(run, "+ batches", "million/s"),
                    )
                },
                why: "It cannot be more than the line rate over what interrupts leave of it.",
            },
            Claim {
                says: "a processor's time for interrupts beside polling's",
                times: 95.0 / 68.0,
                here: |run| {
                    over(
                        driver(run, "+ batches", "CPU %"),
                        driver(run, POLLING, "CPU %"),
                    )
                },
                why: "The rest of the packet's way takes more than its interrupt on this machine.",
            },
            Claim {
                says: "the last driver's throughput beside the first's",
                times: 1020.0 / 599.0,
                here: |run| {
                    over(
                        driver(run, POLLING, "million/s"),
                        driver(run, "textbook", "million/s"),
                    )
                },
                why: "The text's last driver passes more than the wire carries (1020 Mbit/s of 1000). Here it ends at the line rate, \
                      1.488 million a second, and what is lost before that is what interrupts of 833 ns take.",
            },
            Claim {
                says: "a header by pointer beside memcpy",
                times: 450.0 / 12.0,
                here: |run| over(header(run, "memmove"), header(run, "forebay, push")),
                why: "That needs packets near 4 KB: a small one is moved in some 25 cycles.",
            },
        ],
    },
    Text {
        number: "004",
        title: "the one with the shrinking structure",
        machine: "a desktop, C++, millions of descriptors a second; those of 48, 32 and 28 bytes stand in its first part",
        figures: &[
            Figure {
                what: "with assumptions, 25 bytes: RX",
                text: "310",
                unit: More("million a second"),
                here: |run| descriptor(run, "read", "with assumptions"),
                ours: |run| descriptor(run, "read", "forebay"),
            },
            Figure {
                what: "the same: TX",
                text: "228",
                unit: More("million a second"),
                here: |run| descriptor(run, "write", "with assumptions"),
                ours: |run| descriptor(run, "write", "forebay"),
            },
            Figure {
                what: "tagged, 24 bytes: RX",
                text: "321",
                unit: More("million a second"),
                here: |run| descriptor(run, "read", "tagged"),
                ours: |run| descriptor(run, "read", "forebay"),
            },
            Figure {
                what: "the same: TX",
                text: "222",
                unit: More("million a second"),
                here: |run| descriptor(run, "write", "tagged"),
                ours: |run| descriptor(run, "write", "forebay"),
            },
            Figure {
                what: "stamped, 22 bytes: RX",
                text: "347",
                unit: More("million a second"),
                here: |run| descriptor(run, "read", "stamped"),
                ours: |run| descriptor(run, "read", "forebay"),
            },
            Figure {
                what: "the same: TX",
                text: "228",
                unit: More("million a second"),
                here: |run| descriptor(run, "write", "stamped"),
                ours: |run| descriptor(run, "write", "forebay"),
            },
        ],
        claims: &[
            Claim {
                says: "RX, stamped beside with assumptions",
                times: 347.0 / 310.0,
                here: |run| {
                    over(
                        descriptor(run, "read", "stamped"),
                        descriptor(run, "read", "with assumptions"),
                    )
                },
                why: "Three bytes less are an eighth less to read, and taking the bits apart takes as long as the reading saves.",
            },
            Claim {
                says: "RX, tagged beside with assumptions",
                times: 321.0 / 310.0,
                here: |run| {
                    over(
                        descriptor(run, "read", "tagged"),
                        descriptor(run, "read", "with assumptions"),
                    )
                },
                why: "One byte less is little to read, and the port has to be taken out of the pointer.",
            },
            Claim {
                says: "TX, stamped beside tagged",
                times: 228.0 / 222.0,
                here: |run| {
                    over(
                        descriptor(run, "write", "stamped"),
                        descriptor(run, "write", "tagged"),
                    )
                },
                why: "Writing bits means reading what stands around them first, twice with stamps; memory is not what it waits for.",
            },
        ],
    },
];

const HOISTED: &str = "the text's, entry hoisted";
const INLINED: &str = "the text's, built in the loop, inlined";
const IN_PLACE: &str = "ours, built in place";
const POLLING: &str = "+ polling";

/// Percent of one processor: 1.488 million interrupts of 833 ns a second.
const INTERRUPTS_AT_LINE_RATE: f64 = 1.488 * 83.3;

fn micro(run: &Run<'_>, row: &str) -> Option<f64> {
    run.at("mirror", "mirror/micro", row, "ns")
}

fn our_micro(run: &Run<'_>) -> Option<f64> {
    micro(run, "forebay")
}

fn course(run: &Run<'_>, row: &str) -> Option<f64> {
    run.at("stream", "stream/test", row, "Gbit/s")
}

fn our_course(run: &Run<'_>) -> Option<f64> {
    course(run, "forebay")
}

/// Percent of the course's test that it would not take if what is read were only looked at.
fn outputs_share(run: &Run<'_>, row: &str) -> Option<f64> {
    let looked_at = run.at("stream", "stream/view", row, "Gbit/s");
    over(course(run, row), looked_at).map(|part| 100.0 * (1.0 - part))
}

fn append(run: &Run<'_>, size: &str, row: &str, column: &str) -> Option<f64> {
    let table = format!("append/{size}/{size} bytes, a buffer of 16 KiB, to a file");
    run.at("append", &table, row, column)
}

fn driver(run: &Run<'_>, row: &str, column: &str) -> Option<f64> {
    run.at("driver", "driver/", row, column)
}

fn ring(run: &Run<'_>, row: &str) -> Option<f64> {
    run.at("ring", "ring/alone", row, "cycles")
}

fn pool(run: &Run<'_>, row: &str) -> Option<f64> {
    run.at("pool", "pool/one by one, not touched", row, "cycles")
}

fn header(run: &Run<'_>, row: &str) -> Option<f64> {
    run.at(
        "header",
        "header/add and remove 14 bytes/4000",
        row,
        "cycles",
    )
}

fn descriptor(run: &Run<'_>, which: &str, row: &str) -> Option<f64> {
    run.at(
        "descriptor",
        &format!("descriptor/{which}"),
        row,
        "million a second",
    )
}
