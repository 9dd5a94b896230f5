//! The claims of the text on the driver of a network card.

use super::{super::results::At, Bound, Claim, Figure, because, ratio};

pub fn all() -> Vec<Claim> {
    const CARD: &str = "driver/1 Gb/s of 64-byte frames, 1.488 million a second";
    const LIST: &str = "textbook: list, spinlock, malloc, an interrupt a packet";
    const POOLED: &str = "+ a pool";
    const BATCHES: &str = "+ batches of 32";
    const POLLED: &str = "+ polling with a budget of 64";
    const BATCHED: &str = "+ packets sent in batches";
    const LAST: &str = "the same by forebay's receive driver";
    const fn card(row: &'static str, column: &'static str) -> At {
        At(CARD, row, column)
    }
    const fn alone(row: &'static str, column: &'static str) -> At {
        At("ring/alone", row, column)
    }
    const fn pass(row: &'static str) -> At {
        At("ring/pass/1024 slots, one by one", row, "NEAR|FAR")
    }
    const fn split(row: &'static str) -> At {
        At("driver/split", row, "ns")
    }
    const fn batch(row: &'static str, column: &'static str) -> At {
        At("driver/batches", row, column)
    }
    const fn pool(row: &'static str, column: &'static str) -> At {
        At("pool/one by one, not touched", row, column)
    }
    const fn header(row: &'static str, column: &'static str) -> At {
        At("header/add and remove 14 bytes/4000", row, column)
    }
    const A_LIST: &str = "a list and a spinlock (Device Driver Queues)";
    const A_RING: &str = "a ring (Device Driver Queues)";
    const MALLOC: &str = "malloc and free (glibc)";
    const FREE: &str = "a ring of free buffers (Device Driver Queues)";
    const OURS: &str = "forebay, put_back";
    const ONE: &str = "the source text's ring and pool, one at a time";
    const MANY: &str = "the source text's ring and pool, 32 at a time";
    const OUR_ONE: &str = "forebay, one at a time";
    const OUR_MANY: &str = "forebay, 32 at a time";
    const FETCHED: &str = "forebay, 32 at a time, the next one prefetched";
    const ALL: At = split("list, spinlock, malloc, copy, processing");
    const NO_MALLOC: At = split("without malloc and free");
    const NO_COPY: At = split("without the copy, too");
    const NO_LOCK: At = split("without the lock, too");
    const BARE: At = split("without processing, too: the list");
    let mbit = |row| Figure::Computed(vec![card(row, "million/s")], |v| 672.0 * v[0]);
    let interrupts = || {
        because(
            &[
                card(LIST, "cycles a packet"),
                card(LIST, "interrupts aside"),
                card(POOLED, "lost %"),
                card(POLLED, "lost %"),
            ],
            |v| {
                format!(
                    "Of {:.0} cycles a packet {:.0} are interrupts. With the ring and the pool, but an interrupt a packet, {:.1} % \
                     are lost; with polling {:.2} %",
                    v[0],
                    v[0] - v[1],
                    v[2],
                    v[3]
                )
            },
        )
    };
    let misses = |says, published, printed, one: At, other: At, ours| {
        ratio(
            3,
            says,
            (published, printed),
            Figure::Ratio(one, other),
            Some(ours),
            because(&[one, other], |v| {
                format!("By the processor's counter: {:.2} and {:.2}", v[0], v[1])
            }),
        )
    };
    vec![
        Claim {
            text: 3,
            says: "The first driver loses packets at the line rate",
            published: 31.1,
            printed: "31.1 %",
            unit: " %",
            here: Some(Figure::One(card(LIST, "lost %"))),
            ours: Some(Figure::One(card(LAST, "lost %"))),
            bound: Bound::AtLeast(15.0, 2.0),
            reason: interrupts(),
        },
        Claim {
            text: 3,
            says: "The last driver loses almost none",
            published: 0.12,
            printed: "0.12 %",
            unit: " %",
            here: Some(Figure::One(card(POLLED, "lost %"))),
            ours: Some(Figure::One(card(LAST, "lost %"))),
            bound: Bound::AtMost(0.12, 2.0),
            reason: interrupts(),
        },
        Claim {
            text: 3,
            says: "The first driver's throughput",
            published: 599.0,
            printed: "599 Mbit/s",
            unit: " Mbit/s",
            here: Some(mbit(LIST)),
            ours: Some(mbit(LAST)),
            bound: Bound::AtMost(800.0, 900.0),
            reason: interrupts(),
        },
        ratio(
            3,
            "The last driver's throughput is 1.7 times the first's",
            (1.70, "1.70× (599 and 1020 Mbit/s)"),
            Figure::Ratio(card(POLLED, "million/s"), card(LIST, "million/s")),
            Some(Figure::Ratio(
                card(LAST, "million/s"),
                card(LIST, "million/s"),
            )),
            interrupts(),
        ),
        ratio(
            3,
            "… with less of the processor",
            (1.40, "1.40× (95 and 68 %)"),
            Figure::Ratio(card(LIST, "CPU %"), card(POLLED, "CPU %")),
            Some(Figure::Ratio(card(LIST, "CPU %"), card(LAST, "CPU %"))),
            because(
                &[
                    card(POLLED, "cycles a packet"),
                    card(BATCHED, "cycles a packet"),
                    card(LAST, "cycles a packet"),
                ],
                |v| {
                    format!(
                        "Polling alone takes {:.0} cycles a packet, and {:.0} if the sender hands over what one poll found at once; \
                         the library's driver takes {:.0}",
                        v[0], v[1], v[2]
                    )
                },
            ),
        ),
        misses(
            "The last driver has 6.6 times fewer cache misses",
            6.6,
            "6.6× (18.5 and 2.8 million a second)",
            card(LIST, "cache misses"),
            card(POLLED, "cache misses"),
            Figure::Ratio(card(LIST, "cache misses"), card(LAST, "cache misses")),
        ),
        ratio(
            3,
            "A ring is 5.3 times as fast as a list under a spinlock: one thread",
            (5.3, "5.3× (450 and 85 cycles)"),
            Figure::Ratio(alone(A_LIST, "ns"), alone(A_RING, "ns")),
            Some(Figure::Ratio(alone(A_LIST, "ns"), alone("forebay", "ns"))),
            because(&[NO_COPY, NO_LOCK, BARE], |v| {
                format!(
                    "An uncontended lock costs {:.1} ns of {:.1}, the bare list {:.1}",
                    v[0] - v[1],
                    v[0],
                    v[2]
                )
            }),
        ),
        ratio(
            3,
            "… two threads",
            (5.3, "5.3× (450 and 85 cycles)"),
            Figure::Ratio(pass(A_RING), pass(A_LIST)),
            Some(Figure::Ratio(pass("forebay"), pass(A_LIST))),
            because(
                &[
                    pass(A_LIST),
                    alone(A_LIST, "ns"),
                    pass(A_RING),
                    alone(A_RING, "ns"),
                ],
                |v| {
                    format!(
                        "Two threads instead of one: the list takes {:.0} ns instead of {:.1} for a number, the ring {:.0} instead of {:.1}",
                        1e3 / v[0],
                        v[1],
                        1e3 / v[2],
                        v[3]
                    )
                },
            ),
        ),
        misses(
            "… with 6.6 times fewer cache misses",
            6.6,
            "6.6× (18.5 and 2.8 million)",
            alone(A_LIST, "cache misses"),
            alone(A_RING, "cache misses"),
            Figure::Ratio(
                alone(A_LIST, "cache misses"),
                alone("forebay", "cache misses"),
            ),
        ),
        Claim {
            text: 3,
            says: "The list and its lock take 70.8 % of the first driver's time",
            published: 70.8,
            printed: "70.8 % (42.3 enqueue and dequeue, 28.5 contention; 18.7 processing, 10.5 other)",
            unit: " %",
            here: Some(Figure::Computed(vec![ALL, NO_COPY, NO_LOCK, BARE], |v| {
                100.0 * (v[1] - v[2] + v[3]) / v[0]
            })),
            ours: None,
            bound: Bound::AtLeast(55.0, 30.0),
            reason: because(&[ALL, NO_MALLOC, NO_COPY, NO_LOCK, BARE], |v| {
                let share = |part: f64| 100.0 * part / v[0];
                format!(
                    "One thread, each part left out, of {:.1} ns: malloc and free {:.0} %, copy {:.0} %, lock {:.0} %, \
                     processing {:.0} %, list {:.0} %",
                    v[0],
                    share(v[0] - v[1]),
                    share(v[1] - v[2]),
                    share(v[2] - v[3]),
                    share(v[3] - v[4]),
                    share(v[4])
                )
            }),
        },
        Claim {
            text: 3,
            says: "Contention for the lock takes 28.5 %, and none with a ring",
            published: 28.5,
            printed: "28.5 %",
            unit: " %",
            here: Some(Figure::Computed(
                vec![pass(A_LIST), alone(A_LIST, "ns")],
                |v| 100.0 * (1.0 - v[1] / (1e3 / v[0])),
            )),
            ours: Some(Figure::Computed(
                vec![pass("forebay"), alone("forebay", "ns")],
                |v| 100.0 * (1.0 - v[1] / (1e3 / v[0])).max(0.0),
            )),
            bound: Bound::AtLeast(20.0, 5.0),
            reason: because(&[pass(A_LIST), alone(A_LIST, "ns")], |v| {
                format!(
                    "A number through the list takes {:.1} ns with two threads, {:.1} with one",
                    1e3 / v[0],
                    v[1]
                )
            }),
        },
        ratio(
            3,
            "A pool is 40 times as fast as malloc",
            (40.0, "40× (200 and 5 cycles)"),
            Figure::Ratio(pool(MALLOC, "ns"), pool(FREE, "ns")),
            Some(Figure::Ratio(pool(MALLOC, "ns"), pool(OURS, "ns"))),
            because(
                &[
                    pool(MALLOC, "cycles"),
                    pool(FREE, "cycles"),
                    pool(OURS, "cycles"),
                ],
                |v| {
                    format!(
                        "malloc and free take {:.0} cycles where the text has 200; the text's ring of free buffers {:.1}, ours {:.1}",
                        v[0], v[1], v[2]
                    )
                },
            ),
        ),
        Claim {
            text: 3,
            says: "A buffer from the text's pool takes 5 cycles",
            published: 5.0,
            printed: "5 cycles",
            unit: " cycles",
            here: Some(Figure::One(pool(FREE, "cycles"))),
            ours: Some(Figure::One(pool(OURS, "cycles"))),
            bound: Bound::AtMost(6.0, 12.0),
            reason: because(&[pool(FREE, "ns"), pool(OURS, "ns")], |v| {
                format!(
                    "Not touched, the text's pool takes {:.2} ns and ours, which also checks and counts, {:.2}",
                    v[0], v[1]
                )
            }),
        },
        misses(
            "… with 12 times fewer cache misses",
            12.0,
            "12× (12 and 1 million)",
            pool(MALLOC, "cache misses"),
            pool(FREE, "cache misses"),
            Figure::Ratio(pool(MALLOC, "cache misses"), pool(OURS, "cache misses")),
        ),
        ratio(
            3,
            "32 packets at a time are 1.6 times as fast as one: no card, no interrupts",
            (1.6, "1.6× (850 and 520 cycles)"),
            Figure::Ratio(batch(ONE, "ns"), batch(MANY, "ns")),
            Some(Figure::Ratio(batch(OUR_ONE, "ns"), batch(OUR_MANY, "ns"))),
            because(
                &[
                    batch(ONE, "cycles"),
                    batch(MANY, "cycles"),
                    batch(OUR_ONE, "cycles"),
                    batch(OUR_MANY, "cycles"),
                ],
                |v| {
                    format!(
                        "Drained by one thread: {:.0} and {:.0} cycles a packet; ours {:.0} and {:.0}",
                        v[0], v[1], v[2], v[3]
                    )
                },
            ),
        ),
        ratio(
            3,
            "… in the driver, with an interrupt a packet",
            (1.6, "1.6× (850 and 520 cycles)"),
            Figure::Ratio(
                card(POOLED, "interrupts aside"),
                card(BATCHES, "interrupts aside"),
            ),
            None,
            because(
                &[
                    card(POOLED, "interrupts aside"),
                    card(BATCHES, "interrupts aside"),
                ],
                |v| {
                    format!(
                        "Interrupts aside, {:.0} and {:.0} cycles a packet",
                        v[0], v[1]
                    )
                },
            ),
        ),
        misses(
            "… with 1.6 times fewer cache misses",
            1.6,
            "1.6× (45 and 28 million)",
            batch(ONE, "cache misses"),
            batch(MANY, "cache misses"),
            Figure::Ratio(
                batch(OUR_ONE, "cache misses"),
                batch(OUR_MANY, "cache misses"),
            ),
        ),
        ratio(
            3,
            "The next packet of a batch can be prefetched",
            (1.1, "named, not measured"),
            Figure::Ratio(batch(OUR_MANY, "ns"), batch(FETCHED, "ns")),
            Some(Figure::Ratio(batch(OUR_MANY, "ns"), batch(FETCHED, "ns"))),
            because(&[batch(OUR_MANY, "ns"), batch(FETCHED, "ns")], |v| {
                format!(
                    "{:.2} ns a packet without and {:.2} with: {}",
                    v[0],
                    v[1],
                    match v[0] > 1.05 * v[1] {
                        true => "it helps",
                        false => "it does not help, and forebay does not do it",
                    }
                )
            }),
        ),
        Claim {
            text: 3,
            says: "Interrupts at the line rate take more than a whole processor",
            published: 124.0,
            printed: "124 % (1000 cycles each at 1.2 GHz)",
            unit: " %",
            here: Some(Figure::Computed(
                vec![
                    card(LIST, "cycles a packet"),
                    card(LIST, "interrupts aside"),
                    card(LIST, "CPU %"),
                    card(LIST, "million/s"),
                ],
                |v| (v[0] - v[1]) / v[0] * v[2] * 1.488 / v[3],
            )),
            ours: None,
            bound: Bound::AtLeast(100.0, 60.0),
            reason: because(&[card(LIST, "CPU %"), card(LIST, "million/s")], |v| {
                format!(
                    "Modelled: each interrupt spins for the text's 1000 cycles at 1.2 GHz. The driver takes {:.0} % of a processor at \
                     {:.2} million packets a second",
                    v[0], v[1]
                )
            }),
        },
        ratio(
            3,
            "Polling instead of interrupts: throughput",
            (1.48, "1.48× (690 and 1020 Mbit/s)"),
            Figure::Ratio(card(POLLED, "million/s"), card(BATCHES, "million/s")),
            Some(Figure::Ratio(
                card(LAST, "million/s"),
                card(BATCHES, "million/s"),
            )),
            interrupts(),
        ),
        ratio(
            3,
            "A header is added by moving a pointer 37.5 times as fast as by copying",
            (37.5, "37.5× (450 and 12 cycles)"),
            Figure::Ratio(
                header("memmove, with the header written", "ns"),
                header("forebay, with the header written", "ns"),
            ),
            Some(Figure::Ratio(
                header("memmove, with the header written", "ns"),
                header("forebay, push and pull", "ns"),
            )),
            because(
                &[
                    header("memmove, with the header written", "cycles"),
                    header("forebay, with the header written", "cycles"),
                    At(
                        "header/add and remove 14 bytes/64",
                        "memmove, with the header written",
                        "cycles",
                    ),
                ],
                |v| {
                    format!(
                        "4000 bytes moved take {:.0} cycles, the pointer {:.0}; 64 bytes moved take {:.0}",
                        v[0], v[1], v[2]
                    )
                },
            ),
        ),
    ]
}
